"""Means over seeds are logged once, when all seeds of a policy have done a round, whichever part they are played in."""

import json
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import Interrupted
from headgate.experiment import load
from headgate.records.reader import RunFolder
from headgate.records.tables import METRICS, shard_folders
from headgate.records.trackers import Watching
from headgate.records.writer import RunWriter, create
from headgate.simulation.cut import TOGETHER, cut
from headgate.simulation.schedule import perform
from headgate.simulation.workers import InProcess

SETTINGS = ["run.seeds=3", "run.rounds=4", 'run.policies=["hybrid", "constant"]']


class Notes:
    def __init__(self):
        self.told = []

    def start(self, name, config, folder):
        self.told.append((name, folder))

    def log(self, policy, t, values):
        self.told.append((policy, t, values))

    def close(self):
        self.told.append("closed")


@contextmanager
def watching(notes):
    with patch("headgate.records.trackers.make_trackers", lambda names: [notes]), Watching(["notes"]) as watch:
        yield watch


def row(policy, seed, t):
    measured = {"test_accuracy": None if t == 1 else 0.1 * seed, "spend": float(seed + t)}
    return {**dict.fromkeys(METRICS), **measured, "policy": policy, "seed": seed, "t": t}


def a_run(folder):
    whole = load("digits", SETTINGS)
    create(folder, whole.tables(), {"executor": "gram"}, [part.tables() for part in cut(whole, 1)])
    return RunFolder.open(folder)


@given(st.permutations([(policy, seed) for policy in ("hybrid", "constant") for seed in range(3)]))
def test_a_mean_waits_for_all_seeds(tmp_path_factory, order):
    notes, folder = Notes(), a_run(tmp_path_factory.mktemp("watch") / "run").path
    with watching(notes) as watch:
        for policy, seed in order:  # part after part
            for t in range(1, 5):
                watch(folder, [row(policy, seed, t)])
    told = notes.told[1:-1]
    assert [(policy, t) for policy, t, _ in told if policy == "hybrid"] == [("hybrid", t) for t in range(1, 5)]
    assert len(told) == 8
    for _, t, values in told:
        assert values["spend"] == pytest.approx(1 + t)
        assert ("test_accuracy" in values) == (t > 1)


def test_taken_up_again_it_knows_what_the_parts_that_are_ahead_have_done(tmp_path):
    run = a_run(tmp_path / "run")
    for seed, part in enumerate(shard_folders(run.path)[:2]):
        RunWriter(part).append("metrics", [row("hybrid", seed, t) for t in (1, 2)])
    RunWriter(shard_folders(run.path)[2]).append("metrics", [row("hybrid", 2, 1)])
    notes = Notes()
    with watching(notes) as watch:
        watch(run.path, [row("hybrid", 2, 2)])
    assert [each[:2] for each in notes.told[1:-1]] == [("hybrid", 2)]
    assert notes.told[-1] == "closed"


def test_after_a_resume_every_round_that_was_still_to_come_is_logged(tmp_path, monkeypatch):
    monkeypatch.setattr("headgate.simulation.cut.LIGHT", 0.0)
    monkeypatch.setitem(TOGETHER, "gram", 1)
    execute = InProcess.execute

    def some(self, chunks, *given):
        execute(self, dict(list(chunks.items())[::4]), *given)  # a seed of each policy, and then comes Ctrl-C

    folder, notes = tmp_path / "run", Notes()
    monkeypatch.setattr(InProcess, "execute", some)
    with pytest.raises(Interrupted):
        perform(load("digits", SETTINGS), folder, processes=1)
    monkeypatch.setattr(InProcess, "execute", execute)
    with watching(notes) as watch:
        perform(None, folder, processes=1, watch=watch)
    assert sorted(each[:2] for each in notes.told[1:-1]) == [
        (policy, t) for policy in ("constant", "hybrid") for t in range(1, 5)
    ]
    assert not watch._runs[folder][-1]


def test_lines_name_the_run_its_policies_and_the_round(tmp_path):
    run, said = a_run(tmp_path / "run"), []
    with Watching([], said.append) as watch:
        watch(run.path, [row("hybrid", 0, 2), row("hybrid", 1, 2)])
        watch(run.path, [row("hybrid", 0, 1), row("hybrid", 1, 1)])
    first, second = map(json.loads, said)
    assert first == {
        "run": "run", "policies": ["hybrid"], "seeds": [0, 1], "round": 2, "rounds": 4, "mean_test_accuracy": 0.05
    }  # fmt: skip
    assert second["mean_test_accuracy"] is None
