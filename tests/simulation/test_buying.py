"""Clients that choose what they buy: what lies where, what is trained on, what is paid,
and runs that go on later.
"""

import json

import numpy as np
import pytest

import headgate
from headgate.control.policies import Headgate
from headgate.control.scores import scores_of
from headgate.control.selection import ByEntropy
from headgate.experiment import load
from headgate.records.tables import LOOKS, METRICS

from .digits import DATA, TWO, simulate

SMALL = [*TWO, "run.rounds=10", "training.steps=2", "system.clients=6"]
RULES = {name: name for name in ("random", "entropy", "margin")}
RULES |= {
    "vessal": "studies.zoo.vessal:VeSSAL",
    "coreset": "studies.zoo.kcentre:KCentre",
}
CHOOSERS = [
    f"run.policies={['plain', *RULES, 'balanced', 'old']}",
    "policies.plain={kind='headgate'}",
    *(
        f"policies.{name}={{kind='headgate', selection='{where}'}}"
        for name, where in RULES.items()
    ),
    "policies.balanced={kind='studies.zoo.plain:Pacing', rule='class-balanced',"
    " selection='entropy'}",
    (
        "policies.old={kind='constant', K=2,"
        " selection={kind='studies.zoo.vessal:VeSSAL', ridge=0.1}}"
    ),
]

LISTENING = "policies.listening.kind=studies.zoo.listening:Listening"
FOLDER = [
    "run.seeds=2",
    "run.rounds=6",
    "run.policies=['plain', 'unsure', 'spread']",
    "training.steps=2",
    "data.window=3",
]
FOLDER += [
    "data.look=0.25",
    "data.keep=4",
    "data.late=1",
    "policies.plain={kind='headgate'}",
]
FOLDER += ["policies.unsure={kind='headgate', selection='margin'}"]
FOLDER += [
    "policies.spread={kind='headgate', rule='reservoir',"
    " selection='studies.zoo.kcentre:KCentre'}"
]


def simulation_of(*settings, more=CHOOSERS):
    return simulate(*SMALL, *more, *settings)


def held_by(ledger, s, m):
    held = (
        np.arange(ledger.dropped[s, m], ledger.admitted[s, m])
        if ledger.places is None
        else ledger.places[s, m]
    )
    return held[held >= 0]


def test_clients_buy_what_the_model_is_least_sure_of():
    """By hand: the entropies of all samples before a client, under the model that the
    round begins with.
    """
    simulation = simulation_of(
        "data.window=4",
        more=[
            "run.policies=['one']",
            "policies.one={kind='headgate', selection='entropy'}",
        ],
    )
    chose = 0
    for _ in range(10):
        theta, before, known = (
            simulation.theta,
            simulation.ledgers["one"],
            simulation.purchases["one"],
        )
        simulation.step()
        after = simulation.ledgers["one"]
        for s, m in np.ndindex(2, 6):
            each = np.arange(before.admitted[s, m], after.admitted[s, m])
            if not each.size:
                continue
            positions = known.looked[s, m] + np.arange(4 * each.size)
            rows = simulation.streams[s].at(np.full_like(positions, m), positions).rows
            images = DATA.train_images[rows]
            x = (images.reshape(len(images), -1) / 255 - DATA.mean[0]) / DATA.std[0]
            logits = x @ theta[s][:640].reshape(10, 64).T + theta[s][640:]
            entropy = scores_of(("entropy",), logits, None, None).entropy
            held = np.intersect1d(each, held_by(after, s, m))
            if (
                held.size < each.size
            ):  # some have left, as more came than there is room for
                continue
            taken = (
                simulation.sources["one"]
                .find(simulation.purchases["one"], each * 0 + s, each * 0 + m, each)
                .rows
            )
            least = entropy[np.isin(rows, taken)].min()
            assert least >= entropy[~np.isin(rows, taken)].max() - 1e-9
            chose += 1
    assert chose > 20


@pytest.mark.parametrize("rule", RULES)
def test_without_a_choice_everything_is_as_without_a_rule(rule):
    """A window of one: the same rows, the same state, to the byte; and the tables say
    nothing more.
    """
    plain = simulation_of(
        more=[
            "run.policies=['a', 'b']",
            "policies.a={kind='headgate'}",
            "policies.b={kind='acdpp', K=2}",
        ]
    )
    policies = [
        f"policies.a={{kind='headgate', selection='{RULES[rule]}'}}",
        f"policies.b={{kind='acdpp', K=2, selection='{RULES[rule]}'}}",
    ]
    same = simulation_of("data.look=0.5", more=["run.policies=['a', 'b']", *policies])
    for _ in range(10):
        assert repr(same.step()) == repr(plain.step())
    assert {name: array.tobytes() for name, array in same.tensors().items()} == {
        name: array.tobytes() for name, array in plain.tensors().items()
    }
    assert not any(source.looks for source in same.sources.values())


def test_looks_are_paid_for_and_told_apart():
    """The whole price of a label is c(t) + w·look for who looks; nobody goes over the
    budget; the sums add up.
    """
    settings = ["data.window=4", "data.look=0.5", "system.budget=40"]
    simulation = simulation_of(*settings)
    rows = [row for _ in range(10) for row in simulation.step().metrics]
    assert [list(row) for row in rows] == [[*METRICS, *LOOKS]] * len(rows)
    prices = {
        (row["seed"], row["t"]): row["price"]
        for row in rows
        if row["policy"] == "plain"
    }
    for row in rows:
        looks = row["policy"] not in ("plain", "random")
        assert row["price"] == prices[row["seed"], row["t"]] + (2.0 if looks else 0.0)
        assert row["spend"] == pytest.approx(row["price"] * row["admitted"], rel=1e-12)
        assert row["looked"] == (4 * row["admitted"] if looks else None)
        assert row["looks"] == (0.5 * row["looked"] if looks else None)
    for name, ledger in simulation.ledgers.items():
        if name != "old":  # constant spends what its rate costs, on average
            assert (ledger.spent <= 40 * 10).all(), name
        told = [
            sum(
                row["looks"] or 0
                for row in rows
                if (row["policy"], row["seed"]) == (name, s)
            )
            for s in (0, 1)
        ]
        assert (ledger.looks is None) == (name in ("plain", "random"))
        assert (ledger.looks is None and told == [0, 0]) or np.allclose(
            ledger.looks, told
        )
    bought = {
        name: simulation.ledgers[name].admitted.sum() for name in ("random", "entropy")
    }
    assert bought["entropy"] < bought["random"]  # the same money buys fewer labels
    assert [
        list(row)
        for row in (
            simulation_of(
                "data.window=4",
                more=[*CHOOSERS[1:3], "run.policies=['plain', 'random']"],
            )
            .step()
            .metrics
        )
    ] == [list(METRICS)] * 4


def test_a_stream_that_stops_is_bought_empty_but_never_beyond():
    settings = [
        "data.stream=stop",
        "data.partition.per_class=12",
        "run.rounds=30",
        "data.window=3",
        "data.keep=40",
        "system.budget=400",
    ]
    simulation = simulation_of(*settings)
    for _ in range(30):
        simulation.step()
    ends = np.stack([stream.lengths for stream in simulation.streams])
    chosen_from = {
        name: known for name, known in simulation.purchases.items() if known is not None
    }
    assert len(chosen_from) == len(simulation.names) - 1
    for name, known in chosen_from.items():
        admitted = simulation.ledgers[name].admitted
        assert (known.looked <= ends).all()
        assert np.array_equal(
            admitted + (known.spare[..., 0] >= 0).sum(axis=-1), known.looked
        )  # what was not bought was kept
        assert (known.looked == ends).any()


def test_labels_that_come_late_are_paid_and_held_at_once_and_trained_on_later():
    settings = [
        "data.late=3",
        "data.window=2",
        "run.policies=['plain', 'lots', 'pool', 'listening']",
        LISTENING,
    ]
    policies = [
        "policies.plain={kind='headgate'}",
        "policies.lots={kind='constant', K=4, selection='random'}",
        "policies.pool={kind='studies.zoo.plain:Pacing', rule='reservoir',"
        " selection='margin'}",
    ]
    late, at_once = (
        simulation_of(*settings, more=policies),
        simulation_of(*settings, "data.late=0", more=policies),
    )
    admitted = [{name: np.zeros((2, 6), int) for name in late.names}]
    for t in range(1, 11):
        rows, others = late.step(), at_once.step()
        for mine, other in zip(rows.metrics, others.metrics, strict=True):
            if mine["policy"] != "listening":  # which hears other losses
                for name in ("n", "admitted", "spend", "debt", "price", "excess"):
                    assert mine[name] == other[name]
        admitted.append(
            {name: ledger.admitted for name, ledger in late.ledgers.items()}
        )
        ripe = admitted[max(t - 3, 0)]
        if t < 10:
            now = late._prepare(t + 1, late.ledgers, late.purchases)
            labelled = admitted[max(t - 2, 0)]
            expected = [
                (held_by(now.after[name], s, m) < labelled[name][s, m]).sum()
                for name in late.names
                for s, m in np.ndindex(2, 6)
            ]
            assert np.diff(now.batch.offsets).tolist() == expected
        assert (rows.metrics[0]["N"] == 0) == (t <= 3)
        assert all(
            (ripe[name] <= late.ledgers[name].admitted).all() for name in late.names
        )
    new, held = (
        np.array([row[key] for row in rows.clients if row["policy"] == "listening"])
        for key in ("new_loss", "held_loss")
    )
    assert np.isfinite(new).any()
    assert np.isfinite(held).any()


def test_a_rule_that_finds_out_pays_for_its_looks_and_is_resumed():
    """Lots in round 1, some clients look in the trial, and then all: as the ledger says
    before each round.
    """
    more = [
        "run.policies=['one']",
        "policies.one={kind='headgate', selection={kind='adaptive', level=0.3}}",
    ]
    settings = ["data.window=4", "data.look=0.5", "system.budget=60", "run.rounds=16"]
    simulation, again = (simulation_of(*settings, more=more) for _ in range(2))
    rule, seen = simulation.experiment.policies["one"].selection, set()
    for t in range(16):
        if t == 5:
            again.restore(simulation.t, simulation.tensors(), simulation.ledgers)
        before = simulation.ledgers["one"]
        row = simulation.step()
        bought = simulation.ledgers["one"].admitted - before.admitted
        looking = rule.looking(before)
        for s in (0, 1):
            seen.add(tuple(looking[s].tolist()))
            assert row.metrics[s]["looked"] == 4 * bought[s, looking[s]].sum()
            assert row.metrics[s]["looks"] == pytest.approx(
                0.5 * row.metrics[s]["looked"]
            )
        if t >= 5:
            assert repr(again.step()) == repr(row)
    assert seen == {(False,) * 6, (False, True, True, True, False, True), (True,) * 6}
    assert (simulation.ledgers["one"].spent <= 60 * 16).all()


def test_a_folder_tells_what_was_paid_for_looks_and_nothing_of_it_where_nobody_looks(
    tmp_path,
):
    for name, more in (
        ("whole", []),
        ("plain", ["run.policies=['plain']", "run.rounds=2"]),
    ):
        folder = tmp_path / name
        rows = headgate.run(load("digits", [*FOLDER, *more]), folder, quiet=True).frame
        paid = {
            each["policy"]: each["paid_for_looks"]
            for each in json.loads((folder / "summary.json").read_text())
        }
        assert paid.pop("plain") is None
        assert len(paid) == (2 if name == "whole" else 0)
        assert (
            ("For looks" in (folder / "report.html").read_text("utf-8"))
            is ("looks" in rows.columns)
            is (name == "whole")
        )
        for policy, looks in paid.items():
            own = rows.filter(rows["policy"] == policy)
            assert looks == pytest.approx(own["looks"].sum() / 2)
            assert 0 < looks < own["spend"].sum() / 2


def test_plan_and_rehearsal_pay_for_looks():
    free = headgate.load("digits", "run.rounds=20", "run.seeds=2", "data.window=4")
    dear = headgate.load(
        "digits", "run.rounds=20", "run.seeds=2", "data.window=4", "data.look=1.0"
    )
    policy = Headgate(selection=ByEntropy())
    made = [headgate.rehearse(e.with_policy("own", policy)).frame for e in (free, dear)]
    own, others = (
        [frame.filter((frame["policy"] == "own") == is_own) for frame in made]
        for is_own in (True, False)
    )
    assert others[0].equals(others[1])
    assert (own[1]["price"] - own[0]["price"]).to_numpy() == pytest.approx(4.0)
    assert own[1]["admitted"].sum() < own[0]["admitted"].sum()
    assert own[1]["spend"].sum() <= 2 * 20 * dear.system.budget
    plans = [headgate.plan(e.with_policy("own", policy), "own") for e in (free, dear)]
    assert (
        plans[1].plan.rehearsal.admitted.sum() < plans[0].plan.rehearsal.admitted.sum()
    )
