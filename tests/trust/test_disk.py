"""A disk that is full or read-only ends a run in one line, and the folder goes on
afterwards.
"""

import os
import sys
import time
from pathlib import Path

import pytest

import headgate
from headgate.errors import DataError
from headgate.records.reader import RunFolder, newest_checkpoints, scan_runs
from headgate.simulation.schedule import perform

from .folders import copied, truth

LIMITED = """
import resource, sys
from pathlib import Path
from headgate.errors import DataError
from headgate.simulation.schedule import perform
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
for folder in sys.argv[1:]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(Path(folder).parent.name), hard))
    try:
        perform(None, Path(folder), processes=1)
    except DataError as error:
        said = str(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    print(said)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits are Unix's")
def test_a_full_disk_ends_a_run_in_one_line_and_it_goes_on_to_the_same_tables(
    tmp_path, python
):
    """Files may have so many bytes: rows, a ledger, the tensors or a table are cut
    off.
    """
    folders = [
        copied("interrupted", tmp_path / str(most))
        for most in (100, 900, 3_000, 4_100, 9_000, 13_000)
    ]
    out, _ = python("-c", LIMITED, *folders)
    for folder, said in zip(folders, out.splitlines(), strict=True):
        assert f"{folder}: cannot be written (" in said
        assert said.endswith(
            f"make room and continue with: headgate run --resume {folder}"
        )
        perform(None, folder, processes=1)
        assert RunFolder.open(folder).metrics().equals(truth())
        assert [path.name for path in folder.rglob(".*")] == []


@pytest.mark.parametrize("way", ["report", "resume"])
def test_a_read_only_folder_is_refused_in_one_line(tmp_path, monkeypatch, way):
    folder = copied("finished" if way == "report" else "interrupted", tmp_path)
    opens = os.open

    def read_only(path, flags, *more, **others):
        if flags & (os.O_WRONLY | os.O_RDWR) and str(path).startswith(str(folder)):
            raise OSError(30, "Read-only file system")
        return opens(path, flags, *more, **others)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", read_only)
        with pytest.raises(
            DataError, match=r"cannot be written \(Read-only file system\)"
        ):
            (
                headgate.open(folder).report()
                if way == "report"
                else perform(None, folder, processes=1)
            )
    if way == "resume":
        perform(None, folder, processes=1)
        assert RunFolder.open(folder).metrics().equals(truth())


def test_a_clock_that_jumps_changes_nothing(tmp_path, monkeypatch):
    folder = copied("interrupted", tmp_path)
    for path in folder.rglob("*"):
        os.utime(path, (0, 0))
    jumps = iter(range(10**9, 0, -(10**6)))
    monkeypatch.setattr(time, "time", lambda: float(next(jumps)))
    perform(None, folder, processes=1)
    assert RunFolder.open(folder).metrics().equals(truth())
    assert [run.name for run in scan_runs(tmp_path)[0]] == ["interrupted"]
    assert newest_checkpoints(folder)[0].name == "00000006"
    assert Path(headgate.open(folder).report()).is_file()
