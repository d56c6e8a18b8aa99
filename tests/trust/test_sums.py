"""Records prove themselves: what was changed is noticed and named."""

import json

import polars as pl
import pytest

import headgate
from headgate.errors import DataError
from headgate.experiment import load
from headgate.records.reader import RunFolder, look_for_runs
from headgate.simulation.schedule import perform
from headgate.web.runs import Library

from .folders import SMALL, copied


@pytest.mark.parametrize("table", ["metrics", "clients"])
def test_a_changed_part_is_named_on_resume_and_on_a_report(tmp_path, table):
    folder = copied("interrupted", tmp_path)
    (part,) = (folder / table).iterdir()
    part.write_text(part.read_text() + " ")
    for way in (lambda: perform(None, folder, processes=1), lambda: headgate.open(folder).report()):
        with pytest.raises(DataError, match=rf"{table}/part-00003\.json: is not what was written, its checksum differs"):
            way()


@pytest.mark.parametrize("name", ["checkpoint.json", "environment.json"])
def test_a_changed_value_beside_the_rows_is_noticed(tmp_path, name):
    folder = copied("interrupted", tmp_path)
    (path,) = folder.rglob(name)
    path.write_text(path.read_text().replace('"t": 3', '"t": 2').replace('"threads": 1', '"threads": 2'))
    with pytest.raises(DataError, match=f"{name}: is not what was written, its checksum differs"):
        perform(None, folder, processes=1)


@pytest.mark.parametrize("kind", ["finished", "interrupted", "shards"])
def test_a_changed_value_of_a_state_is_noticed_by_whoever_reads_it(tmp_path, kind):
    folder = copied(kind, tmp_path)
    path = folder / "state.json"
    text = path.read_text()
    for old, new in (('"round": ', '"round": 1'), ('"seeds": [', '"seeds": [7,'), (f'"{kind}', '"running')):
        path.write_text(text.replace(old, new))
        if path.read_text() == text:
            continue  # a run in shards calls itself interrupted
        said = r"state\.json: is not what was written, its checksum differs"
        for way in (lambda: headgate.open(folder), lambda: perform(None, folder, processes=1)):
            with pytest.raises(DataError, match=said):
                way()
        assert "checksum differs" in look_for_runs(tmp_path)[1][kind]
        library = Library(tmp_path)
        assert library.heads() == {}
        assert library.unreadable() == {kind: f"{kind}/state.json: is not what was written, its checksum differs"}
    path.write_text(text)
    RunFolder.open(folder)


def test_a_changed_value_in_the_state_of_a_shard_is_noticed(tmp_path):
    folder = copied("shards", tmp_path)
    path = sorted(folder.glob("shards/*/state.json"))[0]
    path.write_text(path.read_text().replace('"round": ', '"round": 1'))
    with pytest.raises(DataError, match=r"state\.json: is not what was written, its checksum differs"):
        perform(None, folder, processes=1)


@pytest.mark.parametrize("table", ["metrics", "clients"])
def test_a_changed_table_of_a_finished_run_is_noticed(tmp_path, table):
    folder = copied("finished", tmp_path)
    path = folder / f"{table}.parquet"
    frame = pl.read_parquet(path)
    frame.with_columns(pl.lit(0).cast(frame.schema["t"]).alias("t") + pl.col("t")).write_parquet(path, compression="snappy")
    with pytest.raises(DataError, match=rf"{table}\.parquet: is not what was written, its checksum differs"):
        headgate.open(folder).report()


def test_killed_or_not_the_checksums_are_the_same(tmp_path):
    whole = tmp_path / "whole"
    perform(load("digits", [*SMALL, 'run.policies=["constant", "headgate"]']), whole, processes=1)
    taken_up = copied("interrupted", tmp_path)
    perform(None, taken_up, processes=1)
    told = [json.loads((folder / "state.json").read_text())["tables"] for folder in (whole, taken_up)]
    assert told[0] == told[1]
