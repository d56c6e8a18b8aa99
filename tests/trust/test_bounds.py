"""What a folder may make a reader do is bounded, and a bad one is listed as such beside
the others.
"""

import json
import os
import shutil

import numpy as np
import polars as pl
import pytest

from headgate.errors import DataError
from headgate.limits import JSON
from headgate.reading import read_object, read_toml
from headgate.records.reader import RunFolder
from headgate.records.tables import SEAL, sealed
from headgate.web.answers import clients, run_list
from headgate.web.runs import Library

from .folders import copied, made, unvouched


def in_state(folder, **more):
    """As one who changes it on purpose would: with its checksum."""
    path = folder / "state.json"
    facts = json.loads(path.read_text()) | more
    path.write_text(
        json.dumps(sealed({key: value for key, value in facts.items() if key != SEAL}))
    )


def in_config(folder, old, new):
    path = folder / "config.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def rows(folder, table="metrics", **columns):
    unvouched(folder)
    frame = pl.read_parquet(folder / f"{table}.parquet")
    frame.with_columns(**columns).write_parquet(folder / f"{table}.parquet")


BAD = {
    "not a number": lambda folder: in_state(folder, elapsed_s=float("nan")),
    "infinity": (
        lambda folder: (folder / "state.json").write_text(
            '{"state": "finished", "elapsed_s": 1e999}'
        )
    ),
    "400 digits": lambda folder: in_state(folder, elapsed_s=10**400),
    "5,000 digits": (
        lambda folder: (folder / "state.json").write_text(
            '{"round": ' + "9" * 5000 + "}"
        )
    ),
    "deep JSON": (
        lambda folder: (folder / "environment.json").write_text(
            '{"a":' * 100000 + "1" + "}" * 100000
        )
    ),
    "deep arrays": lambda folder: in_config(
        folder, "[system]", "x = " + "[" * 5000 + "]" * 5000 + "\n[system]"
    ),
    "many runs": lambda folder: in_state(
        folder, policies=[str(i) for i in range(3000)], seeds=list(range(3000))
    ),
    "no policies": lambda folder: in_state(folder, policies=[]),
    "no seeds": lambda folder: in_state(folder, seeds=[]),
    "many clients": lambda folder: in_config(
        folder, "clients = 4", "clients = 1000000000000"
    ),
    "a year": (
        lambda folder: (folder / "environment.json").write_text(
            '{"started": "0001-01-01T00:00:00+23:59"}'
        )
    ),
    "structures": lambda folder: rows(folder, spend=pl.struct(a=pl.lit(1))),
    "lists": lambda folder: rows(folder, spend=pl.lit([1.0])),
    "1e308": lambda folder: rows(folder, spend=pl.lit(1e308)),
    "names": lambda folder: rows(folder, spend=pl.lit("x")),
    "a link": lambda folder: (
        (folder / "state.json").unlink(),
        (folder / "state.json").symlink_to("/etc/passwd"),
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_folder_hides_no_other(tmp_path, headgate, what):
    """It is listed as damaged, in one line, where it cannot be read."""
    bad = copied("finished", tmp_path)
    shutil.copytree(made("finished"), tmp_path / "good")
    BAD[what](bad)
    listed = {
        row["name"]: row["problem"]
        for row in json.loads(headgate("runs", tmp_path, "--format", "json")[0])
    }
    page = run_list(Library(tmp_path), "", "started", "desc", 10, 0)
    shown = {row["name"]: row["problem"] for row in page.rows} | page.unreadable
    assert listed["good"] is None
    assert shown["good"] is None
    if what not in ("1e308", "a year", "a link"):
        assert listed["finished"].startswith(str(bad))
        assert shown["finished"]
        assert "\n" not in listed["finished"] + shown["finished"]


def test_why_a_run_is_unreadable_is_said_in_one_line_beside_the_table(
    tmp_path, headgate
):
    for name in ("one", "two"):
        shutil.copytree(made("finished"), tmp_path / name)
    rows(tmp_path / "one", spend=pl.lit("x"))
    in_state(tmp_path / "two", policies=[])
    said = sorted(headgate("runs", tmp_path)[1].splitlines())
    assert [line.partition(str(tmp_path))[0] for line in said] == [
        "one: unreadable: ",
        "two: damaged: ",
    ]
    assert "metrics.parquet: is damaged (" in said[0]
    assert "state.json: policies = [] is not what a state says" in said[1]


def test_millions_of_rows_in_some_kilobytes_are_refused_before_they_are_unpacked(
    tmp_path,
):
    folder = copied("finished", tmp_path)
    unvouched(folder)
    frame = pl.read_parquet(folder / "metrics.parquet")
    frame[np.zeros(2_000_000, dtype=np.int64)].write_parquet(folder / "metrics.parquet")
    assert (folder / "metrics.parquet").stat().st_size < 200_000
    for read in (
        RunFolder.open(folder).metrics,
        lambda: RunFolder.open(folder).follower("metrics", "spend").read_new(),
    ):
        with pytest.raises(
            DataError, match=r"metrics.parquet: 2,000,000 rows; at most 12$"
        ):
            read()


def test_only_plain_files_of_a_stated_size_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "file").write_text("{}" + " " * JSON)
    (tmp_path / "folder").mkdir()
    said = {
        "pipe": "no plain file",
        "link": "it is a link",
        "file": "larger than 8 MiB",
        "folder": "cannot",
    }
    for name, why in said.items():
        with pytest.raises(DataError, match=why):
            read_object(tmp_path / name)
    (tmp_path / "settings").write_text("x = inf\ny = [1, 'a', true]\n")
    assert read_toml(tmp_path / "settings") == {"x": float("inf"), "y": [1, "a", True]}


def test_counts_below_nothing_are_refused_before_a_page_draws_them(tmp_path):
    rows(
        copied("finished", tmp_path),
        "clients",
        held=pl.lit([-(2**31)] * 4, pl.List(pl.Int32())),
    )
    with pytest.raises(DataError, match=r"clients\.parquet: held is less than nothing"):
        clients(Library(tmp_path), "finished", None, None)
