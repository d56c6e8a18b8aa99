"""Rows of a live part arrive round by round, and a run in parts reads as one."""

import shutil

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import DataError
from headgate.experiment import load
from headgate.records.reader import RunFolder
from headgate.records.tables import shard_folders
from headgate.records.writer import (
    RunWriter,
    create,
    finish,
    left_by_a_killed_start,
    played,
    rounds_after,
    write_state,
)
from headgate.simulation.cut import cut

from ..analysis.run_folders import row

SETTINGS = ["run.seeds=2", "run.rounds=3", 'run.policies=["hybrid", "constant"]']


def in_parts(folder, settings=SETTINGS):
    """The parts of a run that was created and not played."""
    whole = load("digits", settings)
    create(
        folder,
        whole.tables(),
        {"executor": "gram"},
        [part.tables() for part in cut(whole, 1)],
    )
    return shard_folders(folder)


def write(part, policy, seed, rounds):
    writer, each = (
        RunWriter(part),
        {"admitted": [1] * 10, "held": [1] * 10, "paid": None},
    )
    for t in range(1, rounds + 1):
        writer.append("metrics", [row(policy, seed, t)])
        writer.append("clients", [{"policy": policy, "seed": seed, "t": t, **each}])
    return writer


RUNS = [("hybrid", 0), ("hybrid", 1), ("constant", 0), ("constant", 1)]


def test_parts_read_as_one_run_while_they_are_written(tmp_path):
    parts = in_parts(tmp_path / "run")
    assert [part.name for part in parts] == ["000", "001", "002", "003"]
    assert RunFolder.open(tmp_path / "run").metrics().height == 0
    for part, run, rounds in zip(parts, RUNS, (3, 1, 2, 0), strict=True):
        write(part, *run, rounds)
    for part, policy, t in ((parts[2], "constant", 2), (parts[0], "hybrid", 3)):
        lost = [{"policy": policy, "seed": 0, "t": 1}]
        RunWriter(part).state(
            "running", t, 3, policies=[policy], seeds=[0], diverged=lost, guessing=[]
        )
    write_state(RunFolder.open(tmp_path / "run"), "running", 1, 2.5)
    live = RunFolder.open(tmp_path / "run")
    assert live.metrics().select("t", "policy", "seed").rows() == [
        (1, "hybrid", 0), (1, "hybrid", 1), (1, "constant", 0), (2, "hybrid", 0),
        (2, "constant", 0), (3, "hybrid", 0)
    ]  # fmt: skip
    assert live.clients().height == 6
    assert [one["policy"] for one in live.state["diverged"]] == ["hybrid", "constant"]
    assert (live.state["round"], live.state["seeds"], live.status) == (
        1,
        [0, 1],
        "running",
    )


def test_tables_are_put_together_once_and_again(tmp_path):
    folder = tmp_path / "run"
    parts = in_parts(folder)
    for part, run in zip(parts, RUNS, strict=True):
        writer = write(part, *run, 3)
        writer.checkpoint(3, {}, {}, {"guessing": [{"policy": run[0], "seed": run[1]}]})
        writer.state(
            "running", 2, 3, policies=[run[0]], seeds=[run[1]], diverged=[], guessing=[]
        )
        assert played(part) == 3
    rows = {path: path.read_bytes() for path in folder.rglob("part-*.parquet")}
    begun = RunFolder.open(folder)
    done = finish(begun, 1.0)
    assert done.status == "finished"
    assert [
        (one["policy"], one["seed"]) for one in done.state["guessing"]
    ] == RUNS  # as the checkpoints have it
    assert all(RunFolder.open(part).status == "finished" for part in parts)
    assert RunFolder.open(folder).metrics().equals(done.metrics())
    before = (folder / "metrics.parquet").read_bytes()
    for kept in (
        len(rows),
        3,
        0,
    ):  # killed before the first part went, in between, and after the last
        for path, content in list(rows.items())[:kept]:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        finish(begun, 1.0)
        assert (folder / "metrics.parquet").read_bytes() == before
        assert not list(folder.rglob("part-*.parquet"))
    assert pl.read_parquet(folder / "clients.parquet").height == 12


def test_nothing_is_finished_before_all_has_been_played(tmp_path):
    folder = tmp_path / "run"
    parts = in_parts(folder)
    for part, run, rounds in zip(parts, RUNS, (3, 2, 3, 3), strict=True):
        writer = write(part, *run, rounds)
        writer.checkpoint(rounds, {}, {}, {})
        writer.state("running", rounds, 3, policies=[run[0]], seeds=[run[1]])
    before, begun = (
        {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()},
        RunFolder.open(folder),
    )
    with pytest.raises(DataError, match="001: round 2 of 3; cannot be finished yet"):
        finish(begun)
    shutil.rmtree(parts[1])
    with pytest.raises(
        DataError, match="metrics: 9 of 12 rows are there; the run cannot be finished"
    ):
        finish(begun)
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert after == {
        path: content
        for path, content in before.items()
        if parts[1] not in path.parents
    }


def test_only_what_a_start_writes_is_taken_for_its_remains(tmp_path):
    in_parts(tmp_path / "run")
    assert not left_by_a_killed_start(tmp_path / "run")  # it has a state
    (tmp_path / "run" / "state.json").unlink()
    assert left_by_a_killed_start(tmp_path / "run")
    (tmp_path / "run" / "notes.txt").write_text("mine")
    assert not left_by_a_killed_start(tmp_path / "run")


@settings(max_examples=20)  # of at most six parts of at most four rounds
@given(st.lists(st.integers(1, 4), max_size=6))
def test_every_round_of_another_process_is_seen_once(tmp_path_factory, pieces):
    part, seen, t = tmp_path_factory.mktemp("progress"), [], 0
    for rounds in pieces:
        new = range(t + 1, t + rounds + 1)
        RunWriter(part).append(
            "metrics", [row("hybrid", seed, each) for each in new for seed in (0, 1)]
        )
        seen, t = seen + rounds_after(part, t), t + rounds
        assert t == len(seen)
        assert rounds_after(part, t) == []
    assert [[(each["t"], each["seed"]) for each in rows] for rows in seen] == [
        [(t, 0), (t, 1)] for t in range(1, t + 1)
    ]
