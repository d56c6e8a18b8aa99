"""The same bytes from one process, from several, in parts or whole."""

import polars as pl

from headgate.experiment import load, sweep_points
from headgate.records.reader import RunFolder
from headgate.registry import POLICY
from headgate.simulation import cut
from headgate.simulation.schedule import perform

from .played import SETTINGS, linux, models, tables


@linux
def test_one_process_and_two_write_the_same_bytes(tmp_path):
    ticks, rows, said = [], [], []
    one = perform(load("digits", SETTINGS), tmp_path / "one", processes=1)[0].path
    (run,) = perform(
        load("digits", SETTINGS),
        tmp_path / "two",
        processes=2,
        tick=lambda done, total: ticks.append((done, total)),
        watch=lambda folder, new: rows.append((folder, new)),
        say=said.append,
    )
    two = run.path
    assert rows.pop(0) == (two, [])  # before the first row
    assert tables(one) == tables(two)
    assert models(one) == models(two)
    assert len(models(one)) == 4
    assert ticks[-1] == (24, 24)
    assert ticks == sorted(ticks)
    assert len(rows) == 24
    assert {folder for folder, _ in rows} == {two}
    assert sorted(
        (row["policy"], row["seed"], row["t"]) for _, new in rows for row in new
    ) == sorted(
        pl.read_parquet(two / "metrics.parquet").select("policy", "seed", "t").rows()
    )
    assert said == ["8 runs (2 policies × 4 seeds) on 2 processes"]
    assert not list(two.rglob("part-*.parquet"))
    assert RunFolder.open(two).status == "finished"


def test_cut_or_whole_the_rows_are_the_same(tmp_path, monkeypatch):
    """Prices of few levels, so that the runs of several seeds look alike for a
    while.
    """
    kinds = [*POLICY.kinds]
    listed = ", ".join(f'"{kind}"' for kind in kinds)
    halves = "[[0.5, 0.5], [0.5, 0.5]]"
    prices = [f'prices={{kind="markov", levels=[1.0, 2.0], transition={halves}}}']
    experiment = load(
        "digits", ["run.seeds=3", "run.rounds=5", f"run.policies=[{listed}]", *prices]
    )
    monkeypatch.setitem(cut.TOGETHER, "gram", 1)
    parts = perform(experiment, tmp_path / "chunks", processes=1)[0].path
    assert len(models(parts)) == 3 * len(kinds)
    monkeypatch.setattr(cut, "LIGHT", 1e9)
    whole = perform(experiment, tmp_path / "whole", processes=1)[0].path
    assert len(models(whole)) == 1
    assert tables(parts) == tables(whole)
    rows = pl.read_parquet(parts / "metrics.parquet")
    assert rows["policy"].to_list()[:6] == [kinds[0]] * 3 + [kinds[1]] * 3
    assert rows["t"].is_sorted()


@linux
def test_points_of_a_sweep_are_played_together(tmp_path):
    points = sweep_points("digits", [*SETTINGS, "sweep.training.lr=[0.1, 0.5]"])
    said = []
    folders = [
        run.path
        for run in perform(points, tmp_path / "sweep", processes=2, say=said.append)
    ]
    assert [folder.name for folder in folders] == ["training.lr=0.1", "training.lr=0.5"]
    assert said == ["16 runs (2 points of a sweep) on 2 processes"]
    for (_, experiment), folder in zip(points, folders, strict=True):
        alone = perform(experiment, tmp_path / "alone" / folder.name, processes=1)[
            0
        ].path
        assert tables(alone) == tables(folder)
    assert [run.path for run in perform(points, tmp_path / "sweep")] == folders
    assert [run.path for run in perform(None, tmp_path / "sweep")] == folders
