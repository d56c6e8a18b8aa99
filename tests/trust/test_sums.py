"""Records prove themselves: what was changed is noticed and named."""

import json

import polars as pl
import pytest

import headgate
from headgate.errors import DataError
from headgate.experiment import load
from headgate.records import sums
from headgate.records.reader import RunFolder, look_for_runs
from headgate.simulation.schedule import perform
from headgate.web.runs import Library

from .folders import SMALL, copied
from .fuzz_folders import truth, unvouched


def test_a_changed_row_is_named_on_resume_and_on_a_report(tmp_path):
    folder = copied("interrupted", tmp_path)
    rows = folder / "metrics.jsonl"
    lines = rows.read_text().splitlines(keepends=True)
    lines[4] = lines[4].replace('"t": 2', '"t": 1')
    rows.write_text("".join(lines))
    for way in (lambda: perform(None, folder, processes=1), lambda: headgate.open(folder).report()):
        with pytest.raises(DataError, match=r"metrics\.jsonl: rows 1 to 12 are not what was written, their checksum differs"):
            way()


def test_rows_are_named_as_closely_as_a_block(tmp_path, monkeypatch):
    monkeypatch.setattr(sums, "BLOCK", 100)
    path, content = tmp_path / "rows.jsonl", b"".join(b'{"row": %05d}\n' % number for number in range(100))
    told = sums.RowSums()
    for start in range(0, len(content), 7):
        told.add(content[start : start + 7])
    path.write_bytes(content)
    assert sums.check_rows(path, len(content), told.told()).told() == told.told()
    half = sums.RowSums()
    half.add(content[:777])
    assert sums.check_rows(path, 777, half.told()).told() == half.told()  # what came later is not its business
    path.write_bytes(content.replace(b"00050", b"00051"))
    with pytest.raises(DataError, match=r"rows 47 to 54 are not what was written"):
        sums.check_rows(path, len(content), told.told())


@pytest.mark.parametrize("name", ["checkpoint.json", "environment.json"])
def test_a_changed_value_beside_the_rows_is_noticed(tmp_path, name):
    folder = copied("interrupted", tmp_path)
    (path,) = folder.rglob(name)
    path.write_text(path.read_text().replace('"t": 3', '"t": 2').replace('"threads": 1', '"threads": 2'))
    with pytest.raises(DataError, match=f"{name}: is not what was written, its checksum differs"):
        perform(None, folder, processes=1)


@pytest.mark.parametrize("kind", ["finished", "interrupted", "parts"])
def test_a_changed_value_of_a_state_is_noticed_by_whoever_reads_it(tmp_path, kind):
    folder = copied(kind, tmp_path)
    path = folder / "state.json"
    text = path.read_text()
    for old, new in (('"round": ', '"round": 1'), ('"seeds": [', '"seeds": [7,'), (f'"{kind}', '"running')):
        path.write_text(text.replace(old, new))
        if path.read_text() == text:
            continue  # a run in parts calls itself interrupted
        said = r"state\.json: is not what was written, its checksum differs"
        for way in (
            lambda: headgate.open(folder),
            lambda: perform(None, folder, processes=1),
            lambda: RunFolder.open(folder, listed=True),
        ):
            with pytest.raises(DataError, match=said):
                way()
        assert "checksum differs" in look_for_runs(tmp_path)[1][kind]
        library = Library(tmp_path)
        assert library.heads() == {}
        assert library.unreadable() == {kind: f"{kind}/state.json: is not what was written, its checksum differs"}
    path.write_text(text)
    RunFolder.open(folder)


def test_a_changed_value_in_the_state_of_a_part_is_noticed(tmp_path):
    folder = copied("parts", tmp_path)
    path = sorted(folder.glob("parts/*/state.json"))[0]
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


def test_folders_without_checksums_are_read_and_resumed(tmp_path):
    finished, interrupted = copied("finished", tmp_path), copied("interrupted", tmp_path)
    for folder in (finished, interrupted):
        unvouched(folder)
    assert headgate.open(finished).summary.height == 1
    perform(None, interrupted, processes=1)
    assert RunFolder.open(interrupted).metrics().equals(truth())
    assert set(json.loads((interrupted / "state.json").read_text())["tables"]) == {"metrics.parquet", "clients.parquet"}


def test_killed_or_not_the_checksums_are_the_same(tmp_path):
    whole = tmp_path / "whole"
    perform(load("digits", [*SMALL, 'run.policies=["constant", "headgate"]']), whole, processes=1)
    taken_up = copied("interrupted", tmp_path)
    perform(None, taken_up, processes=1)
    told = [json.loads((folder / "state.json").read_text())["tables"] for folder in (whole, taken_up)]
    assert told[0] == told[1]
