"""Runs whose clients keep samples by lot or class train on exactly what the plain rules
name.
"""

import runpy
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from headgate.learning.server import draw_cohort

from .digits import DATA, TWO, batches, played, simulate

PLAIN = runpy.run_path(
    str(Path(__file__).parents[1] / "control" / "retention" / "plain_replacement.py")
)
RULES = {"reservoir": PLAIN["reservoir"], "class-balanced": PLAIN["class_balanced"]}
POLICIES = [f"{kind}_{rule}" for kind in ("headgate", "constant") for rule in RULES]
SETTINGS = [
    f"run.policies={['acdpp', 'oracle', *POLICIES]}",
    *TWO,
    "run.first_seed=3",
    "system.budget=55.0",
    "training.steps=1",
]
SETTINGS += [
    f"policies.headgate_{rule}={{kind='headgate', rule='{rule}'}}" for rule in RULES
]
SETTINGS += [
    f"policies.constant_{rule}={{kind='constant', rule='{rule}', capacity='buffer',"
    " rate=25}"
    for rule in RULES
]


class Followed:
    """What the clients of one run hold, by the plain rules; without a rule, a window of
    their stream.
    """

    def __init__(self, rule, stream, room):
        self.rule, self.stream, self.room = rule, stream, room
        self.held, self.ends = [[] for _ in room], [0 for _ in room]

    def admit(self, first, last):
        for m, room in enumerate(self.room):
            if self.rule is None:
                self.held[m] = list(range(first[m], last[m]))
                continue
            arriving = list(range(self.ends[m], last[m]))
            could = np.array([*self.held[m], *arriving], dtype=np.int64)
            rows = self.stream.at(np.full_like(could, m), could).rows
            labels = dict(
                zip(could.tolist(), DATA.train_labels[rows].tolist(), strict=True)
            )
            self.held[m] = self.rule(
                self.held[m], arriving, room, self.stream.seed, m, labels
            )
            self.ends[m] = last[m]

    def samples(self, m):
        positions = np.array(self.held[m], dtype=np.int64)
        return self.stream.at(np.full_like(positions, m), positions)


FEW = [
    "data.partition.per_class=12",
    "run.rounds=12",
]  # streams of 24 images, which the oracle passes over several times


@pytest.mark.parametrize(
    ("cohort", "more"),
    [(None, []), (4, []), (4, FEW), (4, [*FEW, "data.stream=replacement"])],
)
def test_the_engine_trains_on_what_the_plain_rules_name(cohort, more, monkeypatch):
    """Images, classes and clients as they reach the executor; N and N_eff are Kish's of
    those uses. Windows are as they are.
    """
    drawn = [f"training.cohort={cohort}"] if cohort else []
    simulation = simulate(
        *SETTINGS, "run.rounds=9", *drawn, *more, executor="reference"
    )
    e, seen = simulation.experiment, batches(simulation, monkeypatch)
    clients, width = e.system.clients, cohort or e.system.clients
    runs = [(name, s) for name in e.policies for s in range(2)]
    followed = {
        (name, s): Followed(
            RULES.get(name.partition("_")[2]), simulation.streams[s], e.system.buffer
        )
        for name, s in runs
    }
    uses = {run: Counter() for run in runs}
    for _ in range(e.rounds):
        done = simulation.step()
        packed = seen.pop()
        for r, (name, s) in enumerate(runs):
            plain, ledger = followed[name, s], simulation.ledgers[name]
            plain.admit(ledger.dropped[s], ledger.admitted[s])
            who = (
                range(clients)
                if cohort is None
                else draw_cohort(int(e.seeds[s]), done.t, clients, cohort)
            )
            for nth, m in enumerate(who):
                served = plain.samples(m)
                own = slice(*packed.offsets[r * width + nth : r * width + nth + 2])
                assert np.array_equal(
                    packed.images[own].numpy(), DATA.train_images[served.rows]
                )
                assert np.array_equal(
                    packed.labels[own].numpy(), DATA.train_labels[served.rows]
                )
                uses[name, s].update(served.samples.tolist())
            row, counts = done.metrics[r], np.array(list(uses[name, s].values()))
            assert (row["policy"], row["seed"], row["N"]) == (
                name,
                e.seeds[s],
                counts.size,
            )
            assert row["n_eff"] == (
                pytest.approx(counts.sum() ** 2 / (counts**2).sum())
                if counts.size
                else 0
            )
            assert row["n"] == sum(map(len, plain.held)) == sum(done.clients[r]["held"])
    assert max(uses["oracle", 0].values()) > 3 or "run.rounds=12" not in more
    for kind in ("headgate", "constant"):  # the rules differ, the purchases do not
        ledgers = [
            simulation.ledgers[name] for name in POLICIES if name.startswith(kind)
        ]
        assert len({ledger.places.tobytes() for ledger in ledgers}) == len(RULES)
        assert len({ledger.admitted.tobytes() for ledger in ledgers}) == 1
    assert np.all(simulation.ledgers["headgate_reservoir"].unused > 0)


def test_the_accounts_of_control_and_of_learning_agree_where_no_image_comes_twice():
    """A stream without repetition: N and N_eff of the ledger, by position, are those of
    the run, by image.
    """
    simulation, rounds = played(*SETTINGS, "run.rounds=8", "data.stream=stop")
    for r, row in enumerate(rounds[-1].metrics):
        ledger, s = simulation.ledgers[row["policy"]], r % 2
        assert row["N"] == ledger.distinct[s]
        assert row["n_eff"] == ledger.uses[s] ** 2 / ledger.squared_uses[s]
