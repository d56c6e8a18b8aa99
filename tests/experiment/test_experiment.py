import numpy as np
import pytest

from headgate.control import ClassBalanced, Fifo, KStep, Reservoir
from headgate.control.prices import Fixed, Trace
from headgate.errors import DataError, SettingError
from headgate.experiment import load

MINE = """
[system]
buffers = [4, 6]
budget = 20.0

[prices]
kind = "trace"
file = "prices.csv"

[run]
rounds = 3
seeds = 2
policies = ["eager", "calm", "oracle"]

[policies.eager]
kind = "acdpp"
V = 100.0

[policies.calm]
kind = "acdpp"
V = 1.0
capacity = "buffer"
bound = { pdim = 7.0 }
"""


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "prices.csv").write_text("cost\n2\n3\n4\n")
    path = tmp_path / "mine.toml"
    path.write_text(MINE)
    return path


def test_the_recipes_of_the_paper():
    for name, scale in (("mnist", 1), ("cifar10", 2), ("imagenette", 4)):
        e = load(name)
        assert e.system.buffer.tolist() == [scale * b for b in (8, 9, 10, 11, 12) * 2]
        assert e.system.budget == 55.0 * scale
        assert (e.prices.low, e.prices.high) == (1.0, 10.0)
        assert (e.policies["constant"].K, e.policies["constant"].rate) == (
            10,
            10.0 * scale,
        )
        assert (e.policies["hybrid"].K, e.policies["hybrid"].stale) == (
            5,
            (5, 6, 7, 8, 9),
        )
    assert load("million").system.clients == 10**6


def test_a_file_of_ones_own(mine):
    e = load(str(mine))
    assert e.name == "mine"
    assert isinstance(e.prices, Trace)
    assert list(e.policies) == ["eager", "calm", "oracle"]
    assert (e.policies["eager"].V, e.policies["calm"].V) == (100.0, 1.0)
    rules = [e.policies[name].retention(e.system) for name in ("eager", "calm")]
    assert [type(rule) for rule in rules] == [KStep, KStep]
    assert [rule.capacity for rule in rules] == [None, "buffer"]
    assert e.policies["calm"].bound.pdim == 7.0
    assert e.policies["calm"].bound.D == e.bound.D == 1000.0


def test_overrides_reach_every_key():
    e = load(
        "mnist",
        [
            "run.first_seed=7000", "run.seeds=3", "system.budget=70",
            "prices.high=12",
            'run.policies=["acdpp", "dpp", "mine"]', "policies.mine.kind=constant",
            "policies.mine.K=4", "policies.acdpp.burst=buffer",
            "policies.acdpp.rho=0.5", "policies.acdpp.bound.D=3", "bound.pdim=50",
            "run.horizon=open", "policies.dpp.burst=none",
        ],
    )  # fmt: skip
    assert e.seeds.tolist() == [7000, 7001, 7002]
    assert (e.system.budget, e.system.horizon, e.prices.high) == (70.0, None, 12)
    assert (
        e.policies["acdpp"].burst,
        e.policies["acdpp"].rho,
        e.policies["acdpp"].V,
    ) == ("buffer", 0.5, None)
    assert (e.policies["acdpp"].bound.D, e.policies["acdpp"].bound.pdim) == (3.0, 50.0)
    assert e.policies["mine"].K == 4
    assert e.policies["dpp"].burst == "none"


def test_another_kind_drops_the_keys_that_only_the_old_one_had():
    assert load("mnist", ["prices.kind=constant", "prices.value=3"]).prices == Fixed(3)
    assert (
        load(
            "mnist",
            [
                "policies.acdpp.V=3",
                "policies.acdpp.kind=constant",
                "policies.acdpp.K=2",
            ],
        )
        .policies["acdpp"]
        .K
        == 2
    )
    with pytest.raises(SettingError, match=r"prices.low: unknown key"):
        load("mnist", ["prices.kind=constant", "prices.value=3", "prices.low=1"])
    with pytest.raises(SettingError, match=r"prices.hihg: unknown key"):
        load("mnist", ["prices.hihg=3", "prices.kind=constant", "prices.value=3"])


def test_a_budget_is_needed():
    with pytest.raises(SettingError, match=r"system.budget: is missing"):
        load(
            {
                "system": {"buffers": [4]},
                "prices": {"kind": "constant", "value": 3},
                "run": {"rounds": 9},
            }
        )


def test_a_trace_that_is_too_short_is_named(mine):
    with pytest.raises(DataError, match="ends after 3 rounds, round 9 was asked for"):
        load(str(mine), ["run.rounds=9"])
    assert load(str(mine), ["run.rounds=9", "prices.at_end=repeat"]).rounds == 9


def test_buffers_are_repeated_until_every_client_has_one():
    e = load("mnist", ["system.clients=12"])
    assert e.system.buffer.tolist() == [8, 9, 10, 11, 12, 8, 9, 10, 11, 12, 8, 9]
    assert np.all(e.system.weight == 1 / 12)


# a recipe on top of another one


def on(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return load(str(path))


def test_what_is_not_said_is_that_of_the_base(tmp_path):
    e, below = (
        on(
            tmp_path,
            'base = "mnist"\n'
            "[run]\n"
            "rounds = 7\n"
            "[policies.mine]\n"
            'kind = "acdpp"\n'
            "V ="
            " 3.0\n",
        ),
        load("mnist"),
    )
    assert (e.name, e.rounds, len(e.seeds)) == ("mine", 7, len(below.seeds))
    assert e.system.buffer.tolist() == below.system.buffer.tolist()
    assert list(e.policies) == list(below.policies)
    assert e.training == below.training


def test_a_table_of_another_kind_is_not_mixed_with_the_one_below(tmp_path):
    e = on(tmp_path, 'base = "mnist"\n[prices]\nkind = "constant"\nvalue = 2.0\n')
    assert e.prices.mean(10) == 2.0


def test_a_base_may_be_a_file_beside_it_with_a_base_of_its_own(tmp_path):
    (tmp_path / "below.toml").write_text(
        'base = "mnist"\n[policies.acdpp]\nkind = "acdpp"\nK = 7\n'
    )
    (tmp_path / "between.toml").write_text('base = "below.toml"\n[run]\nrounds = 9\n')
    e = on(tmp_path, 'base = "between.toml"\n[run]\nseeds = 2\n')
    assert (e.policies["acdpp"].K, e.rounds, len(e.seeds)) == (7, 9, 2)


@pytest.mark.parametrize(
    ("base", "says"),
    [
        *(
            (base, "a file in the same folder")
            for base in ("../below.toml", "/below.toml", "in/below.toml")
        ),
        ("mine.toml", "more than 8 recipes on top of each other"),
        *(
            (base, "no such recipe")
            for base in (
                "nothing",
                "../recipes/mnist",
                "paper/../mnist",
                "/mnist",
                "paper",
                "",
            )
        ),
    ],
)
def test_a_base_is_a_shipped_recipe_or_another_file_in_the_same_folder(
    tmp_path, base, says
):
    with pytest.raises(SettingError, match=says):
        on(tmp_path, f'base = "{base}"')


# what clients drop


BUYERS = ["headgate", "threshold", "below", "clairvoyant"]
RULES = {"fifo": Fifo, "reservoir": Reservoir, "class-balanced": ClassBalanced}


def playing(kind, *settings):
    return load(
        "mnist",
        [
            f'run.policies=["{kind}"]',
            "run.seeds=2",
            *(f"policies.{kind}.{each}" for each in settings),
        ],
    )


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", [*BUYERS, "constant"])
def test_every_buyer_and_constant_take_every_rule(kind, rule):
    experiment = playing(kind, f'rule={{kind="{rule}", capacity="buffer"}}')
    retention = experiment.policies[kind].retention(experiment.system)
    assert type(retention) is RULES[rule]
    assert np.array_equal(retention.limit(experiment.system), experiment.system.buffer)
    for same in (f'rule={{kind="{rule}"}}', f"rule={rule}"):
        assert playing(kind, same).tables() == experiment.tables()


def test_a_rule_that_is_named_alone_takes_settings():
    lots = playing("headgate", "rule=reservoir", "rule.capacity=3")
    assert lots.policies["headgate"].rule.limit(lots.system).tolist() == [3] * 10
