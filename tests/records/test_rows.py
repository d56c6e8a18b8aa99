"""Tables are read once and then followed, and hold what the reader of run folders
reads.
"""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import DataError
from headgate.records import tables as module
from headgate.records.reader import RunFolder
from headgate.records.tables import MEASURED, Follower, Rows, table_files
from headgate.records.writer import RunWriter

from ..web.folders import MadeUp


def same_as_the_reader(follower, folder):
    """Every number of the table, run by run."""
    frame = RunFolder.open(folder).metrics()
    for (policy, seed), own in frame.partition_by(
        ["policy", "seed"], as_dict=True
    ).items():
        reached = int(follower.rows.reached([(policy, seed)])[0])
        assert reached == own.height
        read = (
            own.sort("t")
            .select(
                pl.col(name).cast(pl.Float64).fill_null(np.nan) for name in MEASURED
            )
            .to_numpy()
        )
        assert np.array_equal(
            follower.rows.of([(policy, seed)], reached)[0], read, equal_nan=True
        )


@pytest.mark.parametrize("parts", [False, True])
def test_a_run_is_followed_from_its_first_part_to_its_table(tmp_path, parts):
    run = MadeUp(tmp_path / "run", parts=parts)
    follower = Follower(run.folder, "metrics", run.rounds, columns=MEASURED)
    follower.read_new()
    assert follower.rows.reached([("acdpp", 0)]).tolist() == [0]
    for _ in range(4):
        run.play(3)
        follower.read_new()
        same_as_the_reader(follower, run.folder)
    run.finish()
    follower.read_new()
    assert [path.name for path in follower.files] == ["metrics.parquet"]
    same_as_the_reader(follower, run.folder)


@settings(max_examples=15)  # of at most six parts of at most five rounds
@given(
    splits=st.lists(st.integers(1, 5), min_size=1, max_size=6), cut=st.integers(0, 5)
)
def test_however_rows_are_split_and_cut_back_they_are_the_same(
    tmp_path_factory, splits, cut
):
    """A run is played in parts of any sizes, goes back to a checkpoint and on in other
    parts.
    """
    folder = tmp_path_factory.mktemp("split")
    run = MadeUp(folder / "run", rounds=sum(splits))
    rows = [run._round("acdpp")[0] for _ in range(sum(splits))]
    follower = Follower(run.folder, "metrics", run.rounds, columns=MEASURED)

    def write(start, sizes):
        for size in sizes:
            RunWriter(run.folder).append(
                "metrics", [row for own in rows[start : start + size] for row in own]
            )
            start += size
            follower.read_new()
            assert follower.rows.reached([("acdpp", 0)]).tolist() == [start]

    write(0, splits)
    kept = sum(splits[:cut])
    for part in module.parts_of(run.folder, "metrics"):
        if part.t > kept:
            part.path.unlink()
    follower.read_new()
    assert follower.rows.reached([("acdpp", 1)]).tolist() == [kept]
    write(kept, [1] * (sum(splits) - kept))
    same_as_the_reader(follower, run.folder)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"t": 99}, "t = 99: the run has rounds 1 to 12"),
        ({"t": 0}, "t = 0: the run has rounds 1 to 12"),
        ({"policy": None}, "policy, seed or t is empty"),
        ({"spend": 1e101}, "holds a number beyond"),
    ],
)
def test_damaged_rows_are_refused(tmp_path, more, says):
    run = MadeUp(tmp_path / "run").play(2)
    path = run.folder / "metrics" / "part-00002.parquet"
    pl.read_parquet(path).with_columns(
        pl.lit(value).alias(name) for name, value in more.items()
    ).write_parquet(path)
    with pytest.raises(DataError, match=f"part-00002.parquet: .*{says}"):
        Follower(run.folder, "metrics", run.rounds, columns=MEASURED).read_new()


def test_links_are_not_followed(tmp_path):
    run = MadeUp(tmp_path / "run").play(2)
    (run.folder / "metrics").rename(tmp_path / "secret")
    (run.folder / "metrics").symlink_to(tmp_path / "secret")
    assert table_files(run.folder, "metrics") == {}
    part = run.folder / "clients" / "part-00001.parquet"
    part.rename(tmp_path / part.name)
    part.symlink_to(tmp_path / part.name)
    assert [path.name for path in table_files(run.folder, "clients")] == [
        "part-00002.parquet"
    ]
    with pytest.raises(DataError, match="cannot be read"):
        module.read_table(part, "clients")
    folder = MadeUp(tmp_path / "parts", parts=True).play(3).folder
    for part in (folder / "metrics").glob("c000-*"):
        part.rename(tmp_path / part.name)
        part.symlink_to(tmp_path / part.name)
    assert set(RunFolder.open(folder).metrics()["policy"]) == {"constant"}


@pytest.mark.parametrize("file", ["config.toml", "environment.json", "state.json"])
def test_a_folder_with_links_for_files_is_no_run(tmp_path, file):
    run = MadeUp(tmp_path / "run").finish()
    (run.folder / file).rename(tmp_path / file)
    (run.folder / file).symlink_to(tmp_path / file)
    with pytest.raises(DataError, match=f"{file} is missing or is no plain file"):
        RunFolder.open(run.folder)


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.integers(1, 90)),
        max_size=60,
    )
)
def test_rows_are_remembered_whatever_their_order(written):
    rows, expected = Rows(90, 1, np.float64), {}
    for number, (policy, seed, t) in enumerate(written):
        rows.put(
            [(policy, seed)], np.array([0]), np.array([t]), np.array([[float(number)]])
        )
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
