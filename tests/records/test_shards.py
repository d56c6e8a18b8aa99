"""Rows of a live part arrive round by round, and a run in parts reads as one."""

import json
import shutil

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import DataError
from headgate.experiment import load
from headgate.records.reader import RunFolder
from headgate.records.shards import Tail, conclude, create, left_by_a_killed_start, played, tell
from headgate.records.tables import METRICS, part_folders
from headgate.records.writer import RunWriter
from headgate.simulation.cut import cut

SETTINGS = ["run.seeds=2", "run.rounds=3", 'run.policies=["hybrid", "constant"]']


def in_parts(folder):
    whole = load("digits", SETTINGS)
    create(folder, whole.tables(), {"executor": "gram"}, [part.tables() for part in cut(whole, 1)])
    return part_folders(folder)


def row(policy, seed, t):
    return {**dict.fromkeys(METRICS), "policy": policy, "seed": seed, "t": t, "n": 7}


def write(part, policy, seed, rounds):
    for t in range(1, rounds + 1):
        RunWriter(part).append("metrics", [row(policy, seed, t)])
        RunWriter(part).append(
            "clients", [{"policy": policy, "seed": seed, "t": t, "admitted": [1] * 10, "held": [1] * 10, "paid": None}]
        )


RUNS = [("hybrid", 0), ("hybrid", 1), ("constant", 0), ("constant", 1)]


def test_parts_read_as_one_run_while_they_are_written(tmp_path):
    parts = in_parts(tmp_path / "run")
    assert [part.name for part in parts] == ["000", "001", "002", "003"]
    assert RunFolder.open(tmp_path / "run").metrics().height == 0
    for part, run, rounds in zip(parts, RUNS, (3, 1, 2, 0), strict=True):
        write(part, *run, rounds)
    RunWriter(parts[2]).state("running", 2, 3, diverged=[{"policy": "constant", "seed": 0, "t": 2}], guessing=[])
    RunWriter(parts[0]).state("running", 3, 3, diverged=[{"policy": "hybrid", "seed": 0, "t": 1}], guessing=[])
    tell(tmp_path / "run", "running", 1, 2.5)
    live = RunFolder.open(tmp_path / "run")
    assert live.metrics().select("t", "policy", "seed").rows() == [
        (1, "hybrid", 0), (1, "hybrid", 1), (1, "constant", 0), (2, "hybrid", 0), (2, "constant", 0), (3, "hybrid", 0)
    ]  # fmt: skip
    assert live.clients().height == 6
    assert [one["policy"] for one in live.state["diverged"]] == ["hybrid", "constant"]
    assert (live.state["round"], live.state["seeds"], live.status) == (1, [0, 1], "running")


def test_tables_are_put_together_once_and_again(tmp_path):
    folder = tmp_path / "run"
    parts = in_parts(folder)
    for part, run in zip(parts, RUNS, strict=True):
        write(part, *run, 3)
        facts = {"guessing": [{"policy": run[0], "seed": run[1]}]}
        RunWriter(part).checkpoint(3, {}, {}, facts)
        RunWriter(part).state("running", 2, 3, policies=[run[0]], seeds=[run[1]], diverged=[], guessing=[])
        assert played(part) == 3
    rows = {path: path.read_bytes() for path in folder.rglob("*.jsonl")}
    conclude(folder, 1.0)
    done = RunFolder.open(folder)
    assert done.status == "finished"
    assert [(one["policy"], one["seed"]) for one in done.state["guessing"]] == RUNS  # as the checkpoints have it
    assert all(RunFolder.open(part).status == "finished" for part in parts)
    before = (folder / "metrics.parquet").read_bytes()
    for kept in (len(rows), 3, 0):  # killed before the first row file went, in between, and after the last
        for path, content in list(rows.items())[:kept]:
            path.write_bytes(content)
        conclude(folder, 1.0)
        assert (folder / "metrics.parquet").read_bytes() == before
        assert not list(folder.rglob("*.jsonl"))
    assert pl.read_parquet(folder / "clients.parquet").height == 12


def test_nothing_is_concluded_before_all_has_been_played(tmp_path):
    folder = tmp_path / "run"
    parts = in_parts(folder)
    for part, run, rounds in zip(parts, RUNS, (3, 2, 3, 3), strict=True):
        write(part, *run, rounds)
        RunWriter(part).checkpoint(rounds, {}, {}, {})
        RunWriter(part).state("running", rounds, 3)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(DataError, match="001: round 2 of 3; cannot be finished yet"):
        conclude(folder)
    shutil.rmtree(parts[1])
    with pytest.raises(DataError, match="its parts do not hold each of its 4 runs once"):
        conclude(folder)
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert after == {path: content for path, content in before.items() if parts[1] not in path.parents}


def test_only_what_a_start_writes_is_taken_for_its_remains(tmp_path):
    in_parts(tmp_path / "run")
    assert not left_by_a_killed_start(tmp_path / "run")  # it has a state
    (tmp_path / "run" / "state.json").unlink()
    assert left_by_a_killed_start(tmp_path / "run")
    (tmp_path / "run" / "notes.txt").write_text("mine")
    assert not left_by_a_killed_start(tmp_path / "run")


@given(st.lists(st.integers(1, 400), max_size=30), st.integers(1, 12))
def test_a_tail_sees_every_round_once_however_the_bytes_come(tmp_path_factory, pieces, rounds):
    folder = tmp_path_factory.mktemp("tail")
    (part, *_) = in_parts_of_two(folder / "run")
    tail = Tail(part)
    content = "".join(json.dumps(row("hybrid", seed, t)) + "\n" for t in range(1, rounds + 1) for seed in (0, 1)).encode()
    seen, place = [], 0
    for piece in [*pieces, len(content)]:
        with (part / "metrics.jsonl").open("ab") as file:
            file.write(content[place : place + piece])
        place += piece
        seen += tail.rounds()
        assert tail.t == len(seen)
    assert [[json.loads(line)["t"] for line in lines] for lines in seen] == [[t, t] for t in range(1, rounds + 1)]


def in_parts_of_two(folder):
    whole = load("digits", SETTINGS)
    create(folder, whole.tables(), {"executor": "gram"}, [part.tables() for part in cut(whole, 2)])
    return part_folders(folder)
