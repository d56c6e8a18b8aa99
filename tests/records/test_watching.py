"""Means over seeds are logged once, when all seeds of a policy have done a round,
whichever part they are played in.
"""

import json
from contextlib import contextmanager
from unittest.mock import Mock, patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import Interrupted
from headgate.experiment import load
from headgate.records.trackers import Watching
from headgate.simulation.cut import TOGETHER
from headgate.simulation.schedule import perform
from headgate.simulation.workers import InProcess

from ..analysis import run_folders
from .test_chunks import in_chunks

SETTINGS = ["run.seeds=3", "run.rounds=4", 'run.policies=["hybrid", "constant"]']


@contextmanager
def watching(told):
    """With a tracker that puts there what it is told to log: policy, round, values."""
    tracker = Mock(["start", "log", "close"])
    with (
        patch("headgate.records.trackers.make_trackers", lambda names: [tracker]),
        Watching(["notes"]) as watch,
    ):
        yield watch
    told += [call.args for call in tracker.log.call_args_list]
    assert [name for name, *_ in tracker.mock_calls] == [
        "start",
        *["log"] * len(told),
        "close",
    ]


def row(policy, seed, t):
    return run_folders.row(
        policy,
        seed,
        t,
        test_accuracy=None if t == 1 else 0.1 * seed,
        spend=float(seed + t),
    )


@given(
    st.permutations(
        [(policy, seed) for policy in ("hybrid", "constant") for seed in range(3)]
    )
)
def test_a_mean_waits_for_all_seeds(tmp_path_factory, order):
    told, folder = [], tmp_path_factory.mktemp("watch") / "run"
    in_chunks(folder, SETTINGS)
    with watching(told) as watch:
        for policy, seed in order:  # part after part
            for t in range(1, 5):
                watch(folder, [row(policy, seed, t)])
    assert [(policy, t) for policy, t, _ in told if policy == "hybrid"] == [
        ("hybrid", t) for t in range(1, 5)
    ]
    assert len(told) == 8
    for _, t, values in told:
        assert values["spend"] == pytest.approx(1 + t)
        assert (values["test_accuracy"] is not None) == (t > 1)


def test_taken_up_again_it_knows_what_the_parts_that_are_ahead_have_done(tmp_path):
    told = []
    for seed, chunk in enumerate(in_chunks(tmp_path / "run", SETTINGS).chunks[:3]):
        chunk.writer({}).append(
            "metrics", [row("hybrid", seed, t) for t in (1, 2) if t + seed < 4]
        )
    with watching(told) as watch:
        watch(tmp_path / "run", [row("hybrid", 2, 2)])
    assert [each[:2] for each in told] == [("hybrid", 2)]


def test_after_a_resume_every_round_that_was_still_to_come_is_logged(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("headgate.simulation.cut.LIGHT", 0.0)
    monkeypatch.setitem(TOGETHER, "gram", 1)
    execute = InProcess.execute

    def some(self, chunks, *given):
        execute(self, chunks[::4], *given)  # a seed of each policy, then comes Ctrl-C

    folder, told = tmp_path / "run", []
    monkeypatch.setattr(InProcess, "execute", some)
    with pytest.raises(Interrupted):
        perform(load("digits", SETTINGS), folder, processes=1)
    monkeypatch.setattr(InProcess, "execute", execute)
    with watching(told) as watch:
        perform(None, folder, processes=1, watch=watch)
    assert sorted(each[:2] for each in told) == [
        (policy, t) for policy in ("constant", "hybrid") for t in range(1, 5)
    ]
    assert not watch._runs[folder].waiting


def test_lines_name_the_run_its_policies_and_the_round(tmp_path):
    said = []
    in_chunks(tmp_path / "run", SETTINGS)
    with Watching([], said.append) as watch:
        for t in (2, 1):
            watch(tmp_path / "run", [row("hybrid", seed, t) for seed in (0, 1)])
    first, second = map(json.loads, said)
    assert first == {
        "run": "run", "policies": ["hybrid"], "seeds": [0, 1], "round": 2, "rounds": 4,
        "mean_test_accuracy": 0.05
    }  # fmt: skip
    assert second["mean_test_accuracy"] is None
