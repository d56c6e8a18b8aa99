"""The same recipe and seed in the simulator and on Flower: the same admissions, prices,
debts and buffers, the same model.
"""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from grids import FakeGrid, Node
from simulated import OWN
from worlds import World, accounts_of

from headgate.books.database import LEDGER
from headgate.flower.buffer_store import BufferStore
from headgate.flower.parameters import read_parameters
from headgate.flower.recipe import recipe_client, task_of
from headgate.flower.rounds import Discipline
from headgate.flower.run_folder import PARAMETERS
from headgate.flower.strategy import AdmissionStrategy
from headgate.records.reader import RunFolder
from headgate.records.tables import LOSSES
from headgate.simulation.engine import Simulation

ROUNDS = 4
CUSTOMERS = str(Path(__file__).parents[2] / "examples" / "customers.toml")
MINE = str(Path(__file__).parents[2] / "examples" / "mine.toml")
SMALL = [
    "run.seeds=1",
    f"run.rounds={ROUNDS}",
    "training.dtype=float64",
    "training.steps=3",
    "system.buffers=[2, 3, 4]",
]
SMALL += [
    "system.clients=10",
    "system.budget=60.0",
    "policies.acdpp.kind=acdpp",
    "policies.acdpp.K=2",
]


def simulated(task):
    """(rows, what is held after each round, the simulation after the last one)"""
    simulation = Simulation(
        task.experiment, task.experiment.data.load(), "cpu", "reference"
    )  # which holds out itself
    rounds = [simulation.step() for _ in range(task.experiment.rounds)]
    return (
        [done.metrics[0] for done in rounds],
        [done.clients[0] for done in rounds],
        simulation,
    )


def numbers_of(simulation, m, positions):
    """Of the samples that client m holds, in the concepts in which they were
    admitted.
    """
    ((name, source),) = simulation.sources.items()
    return source.find(
        simulation.purchases[name],
        np.zeros_like(positions),
        np.full_like(positions, m),
        positions,
    ).samples


def assert_same(task, folder, stores):
    metrics, occupancy, simulation = simulated(task)
    (ledger,), theta = simulation.ledgers.values(), simulation.theta[0]
    run = RunFolder.open(folder)
    for mine, theirs in zip(run.metrics().to_dicts(), metrics, strict=True):
        for name, value in theirs.items():
            exact = not name.endswith("_loss") and "accuracy" not in name
            same = (
                mine[name] == value
                if exact or value is None
                else mine[name] == pytest.approx(value, rel=1e-9, nan_ok=True)
            )
            assert same or (mine[name] is None and not np.isfinite(value)), (
                name,
                mine,
                theirs,
            )
    for mine, theirs in zip(run.clients().to_dicts(), occupancy, strict=True):
        for name in LOSSES.keys() & theirs.keys():
            told = [np.array(row.pop(name), dtype=np.float64) for row in (mine, theirs)]
            np.testing.assert_allclose(*told, rtol=1e-9)
        assert mine == theirs
    accounts = accounts_of(task.experiment, folder / LEDGER)
    with closing(accounts.journal) as journal:
        (policy,) = task.experiment.policies.values()
        knows = policy.retention(
            task.experiment.system
        )  # the server knows no labels and looks at no sample
        counts = () if knows.by_class or knows.scores else ("uses", "squared_uses")
        for name in (
            "debt",
            "spent",
            "admitted",
            "dropped",
            "carry",
            "credit",
            *counts,
        ):
            assert np.array_equal(
                getattr(accounts.ledger, name), getattr(ledger, name)
            ), name
        delivered = [order.delivered for order in journal.tables.orders()]
        assert sum(delivered) == ledger.admitted.sum()
        for m in range(task.experiment.system.clients):
            with closing(BufferStore(stores / f"client-{m:05d}.sqlite", m)) as buffer:
                held = buffer.held(accounts.name)
            positions = World.held(ledger, m)
            numbers = numbers_of(simulation, m, np.array(positions, np.int64))
            assert [sample.position for sample in held] == positions
            assert [int(sample.key) for sample in held] == numbers.tolist()
        last = accounts.rounds()[-1]
    model = read_parameters(folder / PARAMETERS, last.parameters, last.sha256)[0]
    flat = np.concatenate(
        [model[name].ravel() for name, _ in task.model().named_parameters()]
    )
    np.testing.assert_allclose(flat, theta, rtol=1e-10, atol=1e-12)


def play(policy, *more):
    """Overrides for one policy with these settings."""
    return ["run.policies=['one']", f"policies.one={{{policy}}}", *more]


HEADGATE, LISTENING = "kind='headgate'", "kind='studies.zoo.listening:Listening'"
ENDING = ("data.stream=stop", "data.partition=iid", "data.partition.per_client=4")
PER_CLIENT = (
    "prices={kind='per-client', common={kind='uniform', low=1, high=10}, factors=[1, 2,"
    " 1, 2, 1, 2, 1, 2, 1, 2]}"
)
BATCHES = (
    "training.batch_size=2",
    "training.momentum=0.5",
    "training.weight_decay=0.01",
)
CASES = {
    "class-balanced": play(f"{HEADGATE}, rule='class-balanced'"),
    "a cohort that looks": play(
        f"{HEADGATE}, rule='worlds:Unsure'", "training.cohort=4"
    ),
    "buying by entropy": play(
        f"{HEADGATE}, selection='entropy'",
        "data.window=3",
        "data.keep=2",
        "data.look=0.5",
    ),
    "buying late, with a pool": play(
        f"{HEADGATE}, rule='reservoir', selection='margin'",
        "data.window=2",
        "data.keep=5",
        "data.late=2",
    ),
    "who looks is found out during the run": play(
        f"{HEADGATE}, selection={{kind='adaptive', level=0.3}}",
        "data.window=3",
        "data.look=0.2",
    ),
    "a stream that ends and is chosen from": play(
        f"{HEADGATE}, selection='random'", "data.window=2", "data.keep=3", *ENDING
    ),
    "a dependent stream": play(
        HEADGATE, "data.stream={kind='markov', mixing=4}", "data.partition=iid"
    ),
    "a cohort in mini-batches": play(
        "kind='acdpp', K=2", "training.cohort=4", *BATCHES
    ),
    "a price for each client": play(HEADGATE, PER_CLIENT),
    "momentum on the server": play(
        HEADGATE, "server.kind=momentum", "server.momentum=0.5"
    ),
    "the adaptive server, held-out images and the mean of models": play(
        HEADGATE, "server.kind=yogi", "data.validation=0.2", "training.average=3"
    ),
    "a policy on the alert": play("kind='alert', false_alarms=9, probe=0.2"),
    "RCCDA's rule": play("kind='studies.zoo.rccda:Rccda', probe=0.2"),
    "a cohort that is listened to": play(
        f"{LISTENING}, most=4, rule='reservoir'", "training.cohort=4"
    ),
    "labels late": ['run.policies=["constant"]', "data.late=1"],
    "mini-batches": play(HEADGATE, "training.batch_size=2"),
    "free samples": ['run.policies=["hybrid"]', "training.aggregation=alpha"],
}


@pytest.mark.parametrize("case", [*sorted(CASES), "own", "a table of features"])
def test_the_simulator_and_flower_do_the_same(case, tmp_path):
    others = {
        "own": (MINE, [*SMALL, OWN]),
        "a table of features": (CUSTOMERS, [*SMALL, 'run.policies=["headgate"]']),
    }
    recipe, overrides = (
        others[case] if case in others else ("digits", [*SMALL, *CASES[case]])
    )
    task = task_of(recipe, tuple(overrides))
    app = recipe_client(recipe, overrides, store=tmp_path / "stores")
    grid = FakeGrid(
        {100 + m: Node(app, m) for m in range(task.experiment.system.clients)}
    )
    for until in (
        2,
        None,
        # the server begins again after round 2, and so do clients: they know what their
        # stores hold
    ):
        with closing(
            AdmissionStrategy(
                task.experiment, tmp_path / "run", discipline=Discipline(gather=0.0)
            )
        ) as strategy:
            strategy.start(
                grid, task.start(), num_rounds=until, evaluate_fn=task.evaluate
            )
        task_of.cache_clear()
    assert_same(task, tmp_path / "run", tmp_path / "stores")
