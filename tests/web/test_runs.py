"""The library of runs: names lead only to folders that were found, and unchanged
folders are not read again.
"""

import pytest

from headgate import reading
from headgate.errors import DataError
from headgate.records import tables as tables_module
from headgate.web import runs as runs_module
from headgate.web.answers import run_list
from headgate.web.runs import Library, UnknownRun

from .folders import MadeUp, change_state, nobody


@pytest.fixture
def reads(monkeypatch):
    """The names of all files of run folders whose content is read."""
    seen = []

    def noted(path, *most, original=reading.read_bytes):
        seen.append(path.name)
        return original(path, *most)

    for module in (tables_module, reading):
        monkeypatch.setattr(module, "read_bytes", noted)
    return seen


def whole_list(library):
    return run_list(library, "", "started", "desc", 1000, 0)


def test_unchanged_folders_are_not_read_again(tmp_path, reads):
    for i in range(5):
        MadeUp(tmp_path / f"run-{i}", rounds=4).finish()
    live = MadeUp(tmp_path / "live", rounds=9).play(2)
    library = Library(tmp_path)
    reads.clear()
    first = whole_list(library)
    tables = [
        "metrics.parquet",
        "part-00001.parquet",
        "part-00002.parquet",
    ]  # a line of the list needs no table of the clients
    assert sorted(set(reads)) == sorted(
        ["config.toml", "environment.json", "state.json", *tables]
    )
    reads.clear()
    assert whole_list(library) == first
    assert reads == []
    live.play(1)
    reads.clear()
    second = whole_list(library)
    assert {row["name"]: row["round"] for row in second.rows}["live"] == 3
    of_the_live_one = [
        "config.toml",
        "environment.json",
        "part-00003.parquet",
        "state.json",
    ]
    assert sorted(set(reads)) == of_the_live_one
    assert len(reads) <= 7


def test_only_what_is_shown_or_sorted_by_is_read(tmp_path, reads):
    for i in range(6):
        MadeUp(tmp_path / f"run-{i}", rounds=2).finish()
    library = Library(tmp_path)
    reads.clear()
    run_list(library, "", "name", "asc", 2, 0)
    assert reads.count("metrics.parquet") == 2
    run_list(library, "", "accuracy", "asc", 2, 0)
    assert reads.count("metrics.parquet") == 6


def test_states_change_and_runs_come_and_go(tmp_path):
    library = Library(tmp_path)
    assert whole_list(library).rows == []
    run = MadeUp(tmp_path / "run").play(3)
    assert library.head("run").status == "running"
    assert library.round("run") == 3
    change_state(run.folder, pid=nobody())
    assert library.head("run").status == "interrupted"
    run.say("running").finish()
    assert (library.round("run"), library.head("run").status) == (12, "finished")
    run.folder.rename(tmp_path / "renamed")
    with pytest.raises(UnknownRun, match="run 'run': there is no such run"):
        library.head("run")
    assert list(library.heads()) == ["renamed"]
    assert {name for name, _ in library._followers} <= {"renamed"}


def test_a_damaged_table_is_said_in_its_row(tmp_path):
    run = MadeUp(tmp_path / "run").finish()
    (run.folder / "metrics.parquet").write_bytes(b"no parquet")
    library = Library(tmp_path)
    assert "metrics.parquet: is damaged" in library.rows(["run"])[0]["problem"]
    with pytest.raises(DataError, match=r"run: run/metrics.parquet: is damaged"):
        library.metrics("run")


def test_a_table_that_becomes_whole_between_two_looks(tmp_path, monkeypatch):
    """Parts vanish when a run finishes: a reader that was about to read them reads the
    table.
    """
    run = MadeUp(tmp_path / "run").play(11)
    library = Library(tmp_path)
    library.metrics("run")
    run.play(1)
    original = tables_module.read_bytes

    def finishing(path, most):
        if path.name.startswith("part-"):
            monkeypatch.setattr(tables_module, "read_bytes", original)
            run.finish()
        return original(path, most)

    monkeypatch.setattr(tables_module, "read_bytes", finishing)
    assert library.metrics("run").reached([("acdpp", 0), ("constant", 1)]).tolist() == [
        12,
        12,
    ]


def test_what_is_held_is_limited(tmp_path, monkeypatch):
    for i in range(6):
        MadeUp(tmp_path / f"run-{i}", rounds=4).play(2)
    library = Library(tmp_path)
    whole_list(library)
    assert len(library._followers) == 6  # of each three columns of the metrics
    one = library.metrics("run-0").nbytes
    monkeypatch.setattr(runs_module, "HELD_BYTES", int(3.5 * one))
    for i in range(6):
        library.metrics(f"run-{i}")
    assert [name for name, _ in library._followers] == ["run-3", "run-4", "run-5"]


def test_tables_of_clients_that_are_too_large_are_left_out(
    tmp_path, monkeypatch, reads
):
    MadeUp(tmp_path / "run").finish()
    library = Library(tmp_path)
    monkeypatch.setattr(runs_module, "MOST_BYTES", 12 * 4 * 3 * 4 - 1)
    reads.clear()
    assert library.clients("run") is None
    assert (
        "more than the page can hold in memory" in library.rows(["run"])[0]["problem"]
    )  # so are its metrics
    assert "clients.parquet" not in reads
    monkeypatch.undo()
    assert len(library.clients("run").index) == 4
