"""Rows of a chunk arrive round by round, and a run in chunks reads as one."""

import shutil

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import DataError
from headgate.experiment import load
from headgate.records.owner import ChunkProgress, OwnedRun
from headgate.records.reader import RunFolder
from headgate.records.tables import parts_of
from headgate.records.writer import never_begun
from headgate.simulation.cut import cut

from ..analysis.run_folders import row

SETTINGS = ["run.seeds=2", "run.rounds=3", 'run.policies=["hybrid", "constant"]']


def in_chunks(folder, settings=SETTINGS):
    """A run that was begun in chunks of one run each and not played."""
    whole = load("digits", settings)
    return OwnedRun.begin(folder, whole, {"executor": "gram"}, cut(whole, 1))


def write(chunk, rounds):
    """Play some rounds of a chunk of one run."""
    writer, ((policy, seed),) = chunk.writer({}), chunk.table.runs
    each = {"admitted": [1] * 10, "held": [1] * 10, "paid": None}
    for t in range(1, rounds + 1):
        writer.append("metrics", [row(policy, seed, t)])
        writer.append("clients", [{"policy": policy, "seed": seed, "t": t, **each}])
    return writer


RUNS = [("hybrid", 0), ("hybrid", 1), ("constant", 0), ("constant", 1)]


def test_a_run_knows_its_chunks_when_it_is_taken_up(tmp_path):
    begun = in_chunks(tmp_path / "run")
    taken = OwnedRun.take_up(tmp_path / "run", None, "auto", ())
    for run in (begun, taken):
        assert [chunk.number for chunk in run.chunks] == [0, 1, 2, 3]
        assert [chunk.table.runs for chunk in run.chunks] == [[each] for each in RUNS]
        assert [str(chunk) for chunk in run.chunks][1] == "001 (hybrid, seeds 1 to 1)"
        assert run.left() == run.chunks
    for one, other in zip(begun.chunks, taken.chunks, strict=True):
        assert one.experiment.tables() == other.experiment.tables()
    whole = OwnedRun.begin(tmp_path / "whole", load("digits", SETTINGS), {}, [])
    assert [chunk.number for chunk in whole.chunks] == [None]


def test_chunks_read_as_one_run_while_they_are_written(tmp_path):
    begun = in_chunks(tmp_path / "run")
    assert RunFolder.open(tmp_path / "run").metrics().height == 0
    for chunk, rounds in zip(begun.chunks, (3, 1, 2, 0), strict=True):
        write(chunk, rounds)
    for number, policy, t in ((2, "constant", 2), (0, "hybrid", 3)):
        lost = [{"policy": policy, "seed": 0, "t": 1}]
        begun.chunks[number].writer({}).checkpoint(t, {}, {}, {"diverged": lost})
    begun.write_state("running", 1)
    live = RunFolder.open(tmp_path / "run")
    assert live.metrics().select("t", "policy", "seed").rows() == [
        (1, "hybrid", 0),
        (1, "hybrid", 1),
        (1, "constant", 0),
        (2, "hybrid", 0),
        (2, "constant", 0),
        (3, "hybrid", 0),
    ]
    assert live.clients().height == 6
    assert [one["policy"] for one in live.state["diverged"]] == ["hybrid", "constant"]
    assert live.state["diverged"][0]["t"] == 1
    assert (live.state["round"], live.state["seeds"], live.status) == (
        1,
        [0, 1],
        "running",
    )


def test_tables_are_put_together_once_and_again(tmp_path):
    folder = tmp_path / "run"
    begun = in_chunks(folder)
    for chunk, run in zip(begun.chunks, RUNS, strict=True):
        guessing = {"guessing": [{"policy": run[0], "seed": run[1]}]}
        write(chunk, 3).checkpoint(3, {}, {}, guessing)
    assert begun.left() == []
    rows = {path: path.read_bytes() for path in folder.rglob("*part-*.parquet")}
    assert len(rows) == 24
    done = begun.finish()
    assert done.status == "finished"
    assert [
        (one["policy"], one["seed"]) for one in done.state["guessing"]
    ] == RUNS  # as the checkpoints have it
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
        begun.write_state("running", 3)
        taken = OwnedRun.take_up(folder, None, "auto", ())
        taken.finish()
        assert (folder / "metrics.parquet").read_bytes() == before
        assert not list(folder.rglob("*part-*.parquet"))
    assert pl.read_parquet(folder / "clients.parquet").height == 12


def test_nothing_is_finished_before_all_has_been_played(tmp_path):
    folder = tmp_path / "run"
    begun = in_chunks(folder)
    for chunk, rounds in zip(begun.chunks, (3, 2, 3, 3), strict=True):
        write(chunk, rounds).checkpoint(rounds, {}, {})
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(DataError, match=r"001 .*: round 2 of 3; cannot be finished"):
        begun.finish()
    begun.chunks[1].writer({}).checkpoint(3, {}, {})
    with pytest.raises(
        DataError, match="metrics: 11 of 12 rows are there; the run cannot be finished"
    ):
        begun.finish()
    shutil.rmtree(folder / "checkpoints" / "c001-00000003")
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert after == {
        path: content
        for path, content in before.items()
        if path.parent.name != "c001-00000002"
    }


def test_only_what_a_start_writes_is_taken_for_its_remains(tmp_path):
    folder = tmp_path / "run"
    in_chunks(folder)
    assert not never_begun(folder)  # it has a state
    (folder / "state.json").unlink()
    assert never_begun(folder)
    (folder / ".state.json.1234abcd.partial").write_text("{")
    in_chunks(folder)
    assert not list(folder.glob(".*"))
    (folder / "state.json").unlink()
    (folder / "notes.txt").write_text("mine")
    assert not never_begun(folder)


@settings(max_examples=20)  # of at most six parts of at most four rounds
@given(st.lists(st.integers(1, 4), min_size=1, max_size=6))
def test_every_round_of_another_process_is_seen_once(tmp_path_factory, pieces):
    rounds = sum(pieces)
    experiment = load("digits", [*SETTINGS[::2], "run.seeds=2", f"run.rounds={rounds}"])
    folder = tmp_path_factory.mktemp("progress") / "run"
    run, seen, t = OwnedRun.begin(folder, experiment, {}, []), [], 0
    progress = ChunkProgress([run], folder, None, lambda path, rows: seen.append(rows))
    assert seen.pop() == []
    for piece in pieces:
        new = range(t + 1, t + piece + 1)
        run.chunks[0].writer({}).append(
            "metrics", [row("hybrid", seed, each) for each in new for seed in (0, 1)]
        )
        t += piece
        for _ in range(2):
            progress.update()
            assert len(seen) == progress.done == t
    assert [[(each["t"], each["seed"]) for each in rows] for rows in seen] == [
        [(t, 0), (t, 1)] for t in range(1, t + 1)
    ]
    assert [part.t for part in parts_of(folder, "metrics")][-1] == rounds
