"""Samples that take rounds to arrive: which ones clients train on, in every executor,
and runs that stop while some are under way.
"""

from collections import defaultdict, deque

import numpy as np
import pytest

import headgate
from headgate.control.files import load_ledger, save_ledger
from headgate.errors import SettingError
from headgate.experiment import load
from headgate.records.tables import DELAYED, METRICS

from .digits import TWO, played, simulate

SMALL = [*TWO, "run.rounds=14", "training.steps=2", "system.clients=6"]
QUEUES = {
    "always 3": "data.delay=3",
    "two delays": "data.delay={1=2, 4=1}",
    "some at once": "data.delay={0=1, 2=1}",
    "geometric": "data.delay={geometric=2}",
}
PLAIN = [
    "run.policies=['headgate', 'constant']",
    "policies.constant={kind='constant', K=4, capacity='buffer'}",
]
OWN_PRICES = (
    "prices={kind='per-client', common={kind='uniform', low=1.0, high=10.0},"
    " factors=[1.0, 1.5, 2.0, 1.0, 1.5, 2.0]}"
)
MANY = [
    "run.policies=['headgate', 'lots', 'unsure', 'pool']",
    "policies.lots={kind='constant', K=4, selection='random'}",
    "policies.unsure={kind='headgate', selection='margin'}",
    "policies.pool={kind='studies.zoo.plain:Pacing', rule='reservoir'}",
    "data.window=2",
    "data.keep=3",
]


def held_by_hand(experiment, sources, rounds, name):
    """Which samples the clients of a policy hold after each round: of every order each
    sample is followed by itself, through its queue into its buffer.
    """
    delays, places = experiment.data.delays, experiment.system.buffer
    waiting, numbers = defaultdict(list), defaultdict(int)
    buffers = defaultdict(deque)
    for t, orders in enumerate(rounds, 1):
        for s, m in np.ndindex(orders.shape):
            for _ in range(orders[s, m]):
                number = np.array([numbers[s, m]])
                numbers[s, m] += 1
                seed = experiment.seeds[s : s + 1]
                place = delays.drawn(seed, np.array([m]), number)[0]
                sample = sources[name].streams[s].at(np.array([m]), number).samples[0]
                waiting[t + delays.rounds[place]].append((s, m, sample))
        for s, m, sample in sorted(waiting.pop(t, []), key=lambda each: each[:2]):
            buffers[s, m].append(sample)
            if len(buffers[s, m]) > places[m]:
                buffers[s, m].popleft()
        yield {own: sorted(held) for own, held in buffers.items()}


@pytest.mark.parametrize("queue", QUEUES)
def test_clients_hold_the_samples_that_a_queue_by_hand_delivers(queue):
    simulation = simulate(*SMALL, *PLAIN, QUEUES[queue], "run.policies=['headgate']")
    orders, held = [], []
    for t in range(1, 15):
        now = simulation._prepare(t, simulation.ledgers, simulation.purchases)
        orders.append(now.played[0].orders.admitted)
        found = defaultdict(list)
        whose = np.repeat(np.arange(12), np.diff(now.batch.offsets))
        for own, sample in zip(whose, now.samples, strict=True):
            found[divmod(int(own), 6)].append(sample)
        held.append({own: sorted(samples) for own, samples in found.items()})
        simulation.step()
    by_hand = held_by_hand(
        simulation.experiment, simulation.sources, orders, "headgate"
    )
    assert held == list(by_hand)
    assert len(held[-1]) == 12


@pytest.mark.parametrize("executor", ["reference", "flat", "batched"])
@pytest.mark.parametrize("queue", ["always 3", "two delays"])
def test_every_executor_trains_on_the_same_samples(executor, queue):
    settings = [*SMALL, *PLAIN, QUEUES[queue]]
    _, ours = played(*settings, executor="gram")
    _, theirs = played(*settings, executor=executor)
    for mine, other in zip(ours, theirs, strict=True):
        for row, same in zip(mine.metrics, other.metrics, strict=True):
            for name in ("n", "N", "n_eff", "admitted", "spend", "under_way"):
                assert row[name] == same[name]
            assert row["train_loss"] == pytest.approx(
                same["train_loss"], rel=1e-6, nan_ok=True
            )
    assert ours[-1].metrics[0]["N"] > 0


@pytest.mark.parametrize("queue", QUEUES)
def test_a_run_that_stops_with_samples_under_way_goes_on_as_if_it_had_not(
    tmp_path, queue
):
    settings = [*SMALL, *MANY, QUEUES[queue]]
    whole, rows = played(*settings)
    half = simulate(*settings)
    for _ in range(6):
        half.step()
    again = simulate(*settings)
    ledgers = {}
    for name, ledger in half.ledgers.items():
        assert ledger.pipeline.under_way.any()
        save_ledger(ledger, tmp_path / name)
        ledgers[name] = load_ledger(tmp_path / name, again.controllers[name])
    again.restore(6, half.tensors(), ledgers)
    assert [repr(again.step()) for _ in range(8)] == [repr(each) for each in rows[6:]]
    assert {name: array.tobytes() for name, array in again.tensors().items()} == {
        name: array.tobytes() for name, array in whole.tensors().items()
    }


@pytest.mark.parametrize("stated", ["data.delay=0", "data.delay={0=1}"])
def test_without_a_delay_everything_is_as_it_was(stated):
    settings = [*SMALL, *MANY]
    (plain, rows), (same, others) = played(*settings), played(*settings, stated)
    assert [repr(each) for each in others] == [repr(each) for each in rows]
    assert {name: array.tobytes() for name, array in same.tensors().items()} == {
        name: array.tobytes() for name, array in plain.tensors().items()
    }
    assert not {*DELAYED} & {*rows[0].metrics[0]}


def test_money_is_reserved_from_the_order_on_and_paid_on_arrival():
    simulation, rows = played(*SMALL, *PLAIN, QUEUES["always 3"])
    budget = simulation.experiment.system.budget
    of_one = [
        row
        for each in rows
        for row in each.metrics
        if (row["policy"], row["seed"]) == ("headgate", 0)
    ]
    assert [row["admitted"] for row in of_one[:3]] == [0, 0, 0]
    assert [row["spend"] for row in of_one[:3]] == [0, 0, 0]
    assert of_one[0]["reserved"] == pytest.approx(
        of_one[0]["under_way"] * of_one[0]["price"]
    )
    assert of_one[3]["admitted"] == of_one[0]["under_way"] > 0
    assert of_one[3]["spend"] == pytest.approx(of_one[0]["reserved"])
    spent = np.cumsum([row["spend"] for row in of_one])
    reserved = np.array([row["reserved"] for row in of_one])
    assert (spent + reserved <= 14 * budget * (1 + 1e-12)).all()
    assert of_one[-1]["under_way"] == 0


def test_clients_with_prices_of_their_own_are_paid_what_was_agreed():
    settings = [*SMALL, *PLAIN, QUEUES["two delays"], "run.policies=['headgate']"]
    simulation, rows = played(*settings, OWN_PRICES)
    for each in rows:
        for metrics, clients in zip(each.metrics, each.clients, strict=True):
            assert sum(clients["paid"]) == pytest.approx(metrics["spend"])
    assert simulation.ledgers["headgate"].spent.min() > 0


def test_a_run_folder_has_columns_of_what_is_under_way(tmp_path):
    settings = ["run.rounds=5", "run.seeds=1", "run.policies=['headgate']"]
    folder = tmp_path / "run"
    run = headgate.run(
        load("digits", [*settings, "data.delay={1=1, 2=1}"]), folder, quiet=True
    )
    assert list(run.frame.columns) == [*METRICS, *DELAYED]
    assert run.frame["under_way"][0] > 0
    assert load(folder / "config.toml").data.delay == {"1": 1.0, "2": 1.0}
    assert run.status == "finished"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("data.delay=-1", "data.delay: '-1': is no number of rounds"),
        ("data.delay=1001", "data.delay = 1001: at most 1,000 rounds"),
        ("data.delay=1.5", "data.delay = 1.5: must be a whole number"),
        ("data.delay={soon=1}", "data.delay: 'soon': is no number of rounds"),
        ("data.delay={1=0}", "data.delay = .*weights must be finite"),
        (["data.delay=1", "data.late=1"], "data.delay = 1: not with late = 1"),
        (
            ["data.delay=1", "data.look=0.5"],
            "data.delay = 1: not with look = 0.5",
        ),
    ],
)
def test_a_delay_that_cannot_be_is_refused_by_its_name(settings, said):
    settings = [settings] if isinstance(settings, str) else settings
    with pytest.raises(SettingError, match=said):
        load("digits", settings)
