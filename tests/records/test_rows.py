"""Tables are read once and then followed, and hold what the reader of run folders reads."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import DataError
from headgate.records import rows
from headgate.records import tables as module
from headgate.records.reader import RunFolder
from headgate.records.rows import Follower, Rows
from headgate.records.tables import MEASURED, table_files

from ..web.folders import MadeUp


def same_as_the_reader(follower, folder):
    """Every number of the table, run by run."""
    frame = RunFolder.open(folder).metrics()
    for (policy, seed), own in frame.partition_by(["policy", "seed"], as_dict=True).items():
        reached = int(follower.rows.reached([(policy, seed)])[0])
        assert reached == own.height
        read = own.sort("t").select(pl.col(name).cast(pl.Float64).fill_null(np.nan) for name in MEASURED).to_numpy()
        assert np.array_equal(follower.rows.of([(policy, seed)], reached)[0], read, equal_nan=True)


@pytest.mark.parametrize("parts", [False, True])
def test_a_run_is_followed_from_its_first_line_to_its_table(tmp_path, parts):
    run = MadeUp(tmp_path / "run", parts=parts)
    follower = Follower(run.folder, "metrics", run.rounds, columns=MEASURED)
    follower.look()
    assert follower.rows.reached([("acdpp", 0)]).tolist() == [0]
    for _ in range(4):
        run.play(3)
        follower.look()
        same_as_the_reader(follower, run.folder)
    run.finish()
    follower.look()
    assert [path.suffix for path in follower.files] == [".parquet"]
    same_as_the_reader(follower, run.folder)


def test_parts_that_are_ahead_of_others(tmp_path):
    run = MadeUp(tmp_path / "run", parts=True).play(5, ["constant"]).play(2, ["acdpp"])
    follower = Follower(run.folder, "metrics", run.rounds, columns=MEASURED)
    follower.look()
    runs = [("acdpp", 0), ("constant", 0), ("constant", 1), ("nobody", 0)]
    assert follower.rows.reached(runs).tolist() == [2, 5, 5, 0]


def test_what_clients_do_is_what_the_ledger_says(tmp_path):
    run, keys = MadeUp(tmp_path / "run").play(6), [("constant", 0), ("constant", 1)]
    held, admitted, paid = (
        Follower(run.folder, "clients", run.rounds, (name,), clients=3).look() for name in ("held", "admitted", "paid")
    )
    assert np.array_equal(held.of(keys, 6)[:, -1], run.ledgers["constant"].occupancy)
    assert np.array_equal(admitted.of(keys, 6).sum(axis=1), run.ledgers["constant"].admitted)
    assert paid.reached(keys).tolist() == [0, 0]  # all clients have one price


def test_only_what_is_new_is_read(tmp_path, monkeypatch):
    run = MadeUp(tmp_path / "run").play(6)
    read = []

    def counting(path, start=0, most=-1, original=module.read_bytes):
        content = original(path, start, most)
        read.append(len(content))
        return content

    monkeypatch.setattr(module, "read_bytes", counting)
    follower = Follower(run.folder, "metrics", run.rounds, columns=MEASURED)
    follower.look()
    size = (run.folder / "metrics.jsonl").stat().st_size
    assert sum(read) == size
    follower.look()
    assert sum(read) == size
    run.play(1)
    follower.look()
    assert sum(read) == (run.folder / "metrics.jsonl").stat().st_size


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A folder whose lines are written anew, and what they are in the end."""
    run = MadeUp(tmp_path_factory.mktemp("cut") / "run", rounds=6).play(6)
    return run.folder, (run.folder / "metrics.jsonl").read_bytes()


@settings(max_examples=50)
@given(cuts=st.lists(st.integers(0, 8000), max_size=6), block=st.integers(800, 4000))
def test_wherever_the_writer_stands_when_one_looks(played, cuts, block):
    folder, whole = played
    path = folder / "metrics.jsonl"
    path.write_bytes(b"")
    follower = Follower(folder, "metrics", 6, columns=MEASURED)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rows, "BLOCK", block)
        for cut in sorted({min(cut, len(whole)) for cut in cuts}):
            path.write_bytes(whole[:cut])
            follower.look()
            lines = [json.loads(line) for line in whole[:cut].split(b"\n")[:-1]]
            expected = max((line["t"] for line in lines if (line["policy"], line["seed"]) == ("acdpp", 0)), default=0)
            assert follower.rows.reached([("acdpp", 0)]).tolist() == [expected]
        path.write_bytes(whole)
        follower.look()
    same_as_the_reader(follower, folder)


def test_a_run_that_is_cut_back_to_its_checkpoint_and_goes_on(tmp_path):
    run = MadeUp(tmp_path / "run").play(8)
    follower = Follower(run.folder, "metrics", run.rounds, columns=MEASURED)
    follower.look()
    path = run.folder / "metrics.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:12]))
    follower.look()
    assert follower.rows.reached([("acdpp", 1)]).tolist() == [3]
    path.write_bytes(b"".join(lines))
    follower.look()
    same_as_the_reader(follower, run.folder)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"no json\n", "metrics.jsonl: line 9 is damaged"),
        (b'{"policy": "acdpp", "seed": 0, "t": 99}\n', "t = 99: the run has rounds 1 to 12"),
        (b'{"policy": "acdpp", "seed": 0, "t": 0}\n', "t = 0: the run has rounds 1 to 12"),
        (b'{"policy": null, "seed": 0, "t": 1}\n', "policy, seed or t is empty"),
    ],
)
def test_damaged_lines_are_refused(tmp_path, line, says):
    run = MadeUp(tmp_path / "run").play(2)
    with (run.folder / "metrics.jsonl").open("ab") as file:
        file.write(line)
    follower = Follower(run.folder, "metrics", run.rounds, columns=MEASURED)
    with pytest.raises(DataError, match=says):
        follower.look()


def test_a_client_that_is_missing_is_refused(tmp_path):
    run = MadeUp(tmp_path / "run").play(2)
    follower = Follower(run.folder, "clients", run.rounds, ("held",), clients=4)
    with pytest.raises(DataError, match="each of the 4 clients"):
        follower.look()


def test_links_are_not_followed(tmp_path):
    run = MadeUp(tmp_path / "run").play(2)
    secret = tmp_path / "secret.jsonl"
    (run.folder / "metrics.jsonl").rename(secret)
    (run.folder / "metrics.jsonl").symlink_to(secret)
    assert table_files(run.folder, "metrics") == {}
    with pytest.raises(DataError, match="cannot be read"):
        module.read_bytes(run.folder / "metrics.jsonl")


def test_no_run_is_held_that_is_too_large():
    rows = Rows(10**6, 2, np.float64, most_bytes=10_000)
    with pytest.raises(DataError, match="more than the page can hold"):
        rows.put([("a", 0)], np.array([0]), np.array([10**5]), np.zeros((1, 2)))


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.integers(1, 90)), max_size=60))
def test_rows_are_remembered_whatever_their_order(written):
    rows, expected = Rows(90, 1, np.float64), {}
    for number, (policy, seed, t) in enumerate(written):
        rows.put([(policy, seed)], np.array([0]), np.array([t]), np.array([[float(number)]]))
        expected[policy, seed, t] = float(number)
    for policy in "ab":
        for seed in range(3):
            there = {t for p, s, t in expected if (p, s) == (policy, seed)}
            gap = next(t for t in range(1, 92) if t not in there)
            reached = int(rows.reached([(policy, seed)])[0])
            assert reached == gap - 1
            if reached:
                assert rows.of([(policy, seed)], reached)[0, :, 0].tolist() == [
                    expected[policy, seed, t] for t in range(1, gap)
                ]
