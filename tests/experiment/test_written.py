"""What an experiment writes is itself: read back, it has the same tables and gives the
same orders in every round.
"""

import tomllib
from pathlib import Path

import numpy as np
import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.control.policies import KINDS as POLICIES
from headgate.control.prices import KINDS as PRICES
from headgate.control.retention import KINDS as RULES
from headgate.experiment import build, load, recipe_names, recipe_text
from headgate.learning.partition import PARTITION
from headgate.learning.server import SERVER
from headgate.learning.streams import STREAM

from ..control.playing import by_client

ROOT = Path(__file__).parents[2]

CLIENTS, ROUNDS = 4, 12
SOME = st.sampled_from([0.3, 0.5, 0.75])
CAPACITY = st.one_of(
    st.just("buffer"),
    st.integers(1, 6),
    st.lists(st.integers(1, 6), min_size=CLIENTS, max_size=CLIENTS),
)
K = st.integers(1, 5)
BURST = st.sampled_from(["buffer", "none", 3.5])
FEW = {"capacity": CAPACITY, "purse": st.booleans()}
BUDGET = {
    "gamma": SOME,
    "V": st.floats(0.5, 50),
    "K": K,
    "bound": st.fixed_dictionaries({}, optional={"pdim": st.floats(1, 50)}),
}
"""the settings of drift plus penalty"""
RULE = st.one_of(
    st.sampled_from(["fifo", "reservoir"]),
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from(["fifo", "reservoir", "class-balanced"]),
            "capacity": CAPACITY,
        }
    ),
    st.fixed_dictionaries(
        {"kind": st.just("kstep"), "K": K},
        optional={"capacity": CAPACITY, "forever": st.just([1, 3])},
    ),
)
BUYING = {"rule": RULE, "fill": st.floats(0, 20), "overdraft": st.floats(0, 20)}
ONE_PRICE = {
    "acdpp": {
        "rho": SOME,
        "phi": SOME,
        "rate": st.floats(0.5, 9),
        "burst": BURST,
        **BUDGET,
        **FEW,
    },
    "dpp": {
        "burst": BURST,
        "N0": st.floats(0, 9),
        "n0": st.floats(0, 9),
        **BUDGET,
        **FEW,
    },
    "constant": {"rate": st.floats(0.5, 9), "K": K, "rule": RULE, **FEW},
    "clairvoyant": BUYING,
}
ANY_PRICE = {
    "below": {"quantile": SOME, **BUYING},
    "held": {
        "policy": st.sampled_from(
            [{"kind": "hybrid", "K": 2}, {"kind": "constant", "rate": 2.5}]
        )
    },
    "headgate": {"smooth": SOME, "fairness": SOME, **BUYING},
    "alert": {"false_alarms": SOME, "probe": SOME, "smooth": SOME, **BUYING},
    "threshold": {
        "limit": st.one_of(st.floats(0, 9), st.just(float("inf"))),
        "share": SOME,
        **BUYING,
    },
    "constant": {"rate": st.floats(0.5, 9), "K": K, "rule": RULE, "capacity": CAPACITY},
    "hybrid": {
        "rate": st.floats(0.5, 9),
        "K": K,
        "stale": st.just([1, 2]),
        "fill": st.sampled_from(["first", "gradual", "none"]),
        "paid": st.booleans(),
    },
    "oracle": {},
}


def table(kind, needed, **optional):
    return st.fixed_dictionaries({"kind": st.just(kind), **needed}, optional=optional)


PRICE = st.floats(0.5, 9)
COMMON = {
    "uniform": table("uniform", {"low": st.floats(0, 4), "high": st.floats(5, 9)}),
    "constant": table("constant", {"value": PRICE}),
    "markov": table(
        "markov",
        {
            "levels": st.just([1.5, 9]),
            "transition": st.just([[0.75, 0.25], [0.5, 0.5]]),
        },
    ),
    "trace": st.one_of(
        table(
            "trace",
            {
                "prices": st.lists(PRICE, min_size=5, max_size=9),
                "at_end": st.just("repeat"),
            },
        ),
        table(
            "trace",
            {"file": st.just("prices.csv")},
            column=st.sampled_from(["price", "other"]),
        ),
    ),
    "switches": table(
        "switches",
        {
            "levels": st.just([1.0, 8.0]),
            "lengths": st.lists(st.integers(1, 5), min_size=2, max_size=2),
        },
        repeat=st.booleans(),
    ),
    "ercot": table("ercot", {}, scale=SOME),
    "brent": table("brent", {}, scale=SOME),
}
PER_CLIENT = st.one_of(
    table(
        "per-client",
        {
            "common": st.one_of(*COMMON.values()),
            "factors": st.lists(SOME, min_size=CLIENTS, max_size=CLIENTS),
        },
        noise=SOME,
    ),
    table(
        "ercot",
        {"points": st.permutations(["HB_PAN", "LZ_WEST", "LZ_CPS", "HB_HUBAVG"])},
    ),
)
PARTITIONS = {
    "pairs": table("pairs", {}, per_class=st.integers(1, 9)),
    "iid": table("iid", {}, per_client=st.integers(1, 9)),
    "dirichlet": table("dirichlet", {"alpha": st.floats(0.1, 9)}),
    "column": table("column", {"column": st.just("writer")}),
}
STREAMS = {
    **{kind: st.just(kind) for kind in ("reshuffle", "replacement", "stop")},
    "markov": table("markov", {"mixing": st.floats(1, 99)}, passing=st.integers(0, 9)),
}
SERVERS = {
    "average": table("average", {}),
    "momentum": table("momentum", {}, momentum=SOME, lr=SOME),
    "adam": table("adam", {}, lr=SOME, beta1=SOME),
    "yogi": table("yogi", {}, beta2=SOME, tau=SOME),
}


def settings_of(name, some):
    """A policy that is held must be stated; all else may be left out."""
    return (
        st.fixed_dictionaries(some)
        if name == "held"
        else st.fixed_dictionaries({}, optional=some)
    )


@st.composite
def recipes(draw):
    per_client = draw(st.integers(0, 3)) == 0
    prices = draw(PER_CLIENT if per_client else st.one_of(*COMMON.values()))
    known = ANY_PRICE if per_client else {**ANY_PRICE, **ONE_PRICE}
    names = draw(
        st.lists(st.sampled_from(sorted(known)), min_size=1, max_size=3, unique=True)
    )
    run = {
        "rounds": ROUNDS,
        "seeds": 2,
        "first_seed": draw(st.integers(0, 9)),
        "policies": [f"my {name}" for name in names],
    }
    system = {
        "buffers": draw(st.lists(st.integers(1, 6), min_size=1, max_size=CLIENTS)),
        "clients": CLIENTS,
        "budget": draw(st.floats(9, 60)),
    }
    if draw(st.booleans()):
        system["weights"] = draw(
            st.lists(st.floats(0.1, 5), min_size=CLIENTS, max_size=CLIENTS)
        )
    horizon = draw(st.sampled_from([None, "open", ROUNDS, 5, 40]))
    at_end = prices.get("common", prices)
    if horizon is not None and not (
        at_end.get("file") and horizon == 40
    ):  # the file has no more than 12 prices
        run["horizon"] = horizon
    return {
        "system": system,
        "prices": prices,
        "run": run,
        "bound": draw(
            st.fixed_dictionaries(
                {}, optional={"pdim": st.floats(1, 200), "D": st.floats(1, 900)}
            )
        ),
        "policies": {
            f"my {name}": {"kind": name, **draw(settings_of(name, known[name]))}
            for name in names
        },
        "data": {
            "partition": draw(st.one_of(*PARTITIONS.values())),
            "stream": draw(st.one_of(*STREAMS.values())),
        },
        "server": draw(st.one_of(*SERVERS.values())),
        "training": draw(
            st.fixed_dictionaries(
                {}, optional={"lr": SOME, "average": SOME, "cohort": st.just(3)}
            )
        ),
    }


def test_the_recipes_below_have_every_kind_there_is():
    assert {**ONE_PRICE, **ANY_PRICE}.keys() == POLICIES.keys()
    assert {*COMMON, "per-client"} == set(PRICES)
    assert {"fifo", "kstep", "reservoir", "class-balanced"} == set(RULES)
    assert PARTITIONS.keys() == PARTITION.kinds.keys()
    assert STREAMS.keys() == STREAM.kinds.keys()
    assert SERVERS.keys() == SERVER.kinds.keys()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("beside")
    rows = "".join(f"{1 + t % 5},{9 - t % 7}\n" for t in range(ROUNDS))
    (made / "prices.csv").write_text(f"price,other\n{rows}")
    return made


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(recipe=recipes())
def test_read_back_it_is_the_same_experiment(folder: Path, recipe):
    one = build("one", recipe, folder)
    text = tomli_w.dumps(one.tables())
    other = build("other", tomllib.loads(text))
    assert not one.unnamed
    assert other.tables() == one.tables()
    assert tomli_w.dumps(other.tables()) == text
    for name in one.policies:
        for mine, its in zip(by_client(one, name), by_client(other, name), strict=True):
            assert np.array_equal(mine, its), name


@pytest.mark.parametrize(
    "recipe",
    [*recipe_names(), ROOT / "studies/recipes/paper/mnist/open-values.toml"],
    ids=str,
)
def test_shipped_recipes_are_read_back(recipe):
    assert recipe not in recipe_names() or "[system]" in recipe_text(recipe)
    experiment = load(recipe, ["run.rounds=9"])
    assert experiment.rounds == 9
    assert (
        build("again", tomllib.loads(tomli_w.dumps(experiment.tables()))).tables()
        == experiment.tables()
    )


def test_what_was_worked_out_is_written_under_its_name():
    policies = '["acdpp", "dpp", "constant", "hybrid", "threshold"]'
    written = load("mnist", [f"run.policies={policies}", "run.rounds=25"]).tables()[
        "policies"
    ]
    assert (written["acdpp"]["K"], written["acdpp"]["rate"]) == (10, 10.0)
    assert (written["acdpp"]["V"], written["acdpp"]["rho"]) == (5.0, 0.8)
    assert (written["dpp"]["K"], written["dpp"]["V"]) == (10, 5.0)
    assert (written["constant"]["K"], written["constant"]["rate"]) == (10, 10.0)
    assert (
        written["hybrid"]["K"],
        written["hybrid"]["rate"],
        written["hybrid"]["stale"],
    ) == (5, 10.0, [5, 6, 7, 8, 9])
    assert 1 < written["threshold"]["limit"] < 10


def test_another_horizon_than_the_rounds_is_what_is_written_and_used():
    """V = T^gamma and ρ = 1 − T^−phi of the horizon that the policies know, not of the
    rounds that are played.
    """
    other = load(
        "mnist",
        ["run.rounds=16", "run.horizon=400", 'run.policies=["acdpp"]', "run.seeds=2"],
    )
    written = other.tables()
    assert (other.policies["acdpp"].V, other.policies["acdpp"].rho) == (20.0, 0.95)
    assert written["run"]["horizon"] == 400
    assert (written["policies"]["acdpp"]["V"], written["policies"]["acdpp"]["rho"]) == (
        20.0,
        0.95,
    )
    written = load("mnist", ["run.horizon=open", 'run.policies=["acdpp"]']).tables()
    assert written["run"]["horizon"] == "open"
    assert (
        not {"V", "rho"} & written["policies"]["acdpp"].keys()
    )  # they follow their schedule
    assert {"gamma", "phi", "K", "rate"} <= written["policies"]["acdpp"].keys()
