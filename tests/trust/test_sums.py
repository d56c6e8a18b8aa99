"""Records prove themselves: what was changed is noticed and named."""

import polars as pl
import pytest

import headgate
from headgate.errors import DataError
from headgate.records.reader import scan_runs
from headgate.simulation.schedule import perform
from headgate.web.runs import Library

from .folders import copied


def resume(folder):
    perform(None, folder, processes=1)


def report(folder):
    headgate.open(folder).report()


@pytest.mark.parametrize(
    ("kind", "name", "old", "new", "ways"),
    [
        ("interrupted", "metrics/part-00003.parquet", None, None, (resume, report)),
        ("interrupted", "clients/part-00003.parquet", None, None, (resume, report)),
        ("interrupted", "checkpoint.json", '"t": 3', '"t": 2', (resume,)),
        ("interrupted", "environment.json", '"threads": 1', '"threads": 2', (resume,)),
        ("chunks", "c000-*/checkpoint.json", '"t": 3', '"t": 2', (resume, report)),
        *(
            (kind, "./state.json", '"round": ', '"round": 1', (resume, report))
            for kind in ("finished", "interrupted", "chunks")
        ),
        ("finished", "./state.json", '"seeds": [', '"seeds": [7,', (resume, report)),
        ("interrupted", "./state.json", '"interrupted', '"running', (resume, report)),
        ("finished", "metrics.parquet", None, None, (report,)),
        ("finished", "clients.parquet", None, None, (report,)),
    ],
)
def test_a_changed_file_is_named(tmp_path, kind, name, old, new, ways):
    folder = copied(kind, tmp_path)
    path = (
        folder / "state.json"
        if name == "./state.json"
        else sorted(folder.rglob(name))[0]
    )
    if old is None:
        pl.read_parquet(path).write_parquet(path, compression="snappy")
    else:
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))
    for way in ways:
        with pytest.raises(
            DataError,
            match=rf"{path.name}: is not what was written, its checksum differs",
        ):
            way(folder)
    if name == "./state.json":
        assert "checksum differs" in scan_runs(tmp_path)[1][kind]
        library = Library(tmp_path)
        assert library.heads() == {}
        assert library.unreadable() == {
            kind: f"{kind}/state.json: is not what was written, its checksum differs"
        }
