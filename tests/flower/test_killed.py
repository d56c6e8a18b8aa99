"""Killed between any two statements, on either side, and come back: exactly once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.flower import ENVIRONMENT


def killed(out, *words):
    """The rows of a script that kills, none of which went wrong."""
    done = subprocess.run(
        [
            sys.executable,
            str(Path(__file__).with_name("killed.py")),
            "--out",
            str(out),
            "--policies",
            "fifo",
            *words,
        ],
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        check=False,
    )
    rows = json.loads(out.read_text("utf-8")) if out.exists() else []
    wrong = [row for row in rows if row["outcome"] != row["expected"]]
    assert done.returncode == 0, (wrong[:3], done.stderr[-2000:])
    return rows


def test_no_moment_is_a_wrong_one_to_be_killed(tmp_path):
    rows = killed(
        tmp_path / "rows.json", "--part", "random", "--kills", "8", "--seed", "3"
    )
    assert [row["component"] for row in rows] == ["server and clients"] * 8


@pytest.mark.parametrize(
    "which",
    [["--kinds"], pytest.param([], marks=pytest.mark.long)],
    ids=["once of each kind", "each"],
)
def test_no_statement_and_no_file_is_a_wrong_moment_to_be_killed(tmp_path, which):
    rows = killed(tmp_path / "rows.json", *which)
    points = " ".join(row["kill_point"] for row in rows)
    assert {row["component"] for row in rows} == {"client", "server"}
    of_client = [
        "INSERT INTO admissions",
        "INSERT INTO samples",
        "DELETE FROM samples",
        "UPDATE admissions SET",
        "COMMIT",
    ]
    of_server = [
        "INSERT INTO entries",
        "INSERT INTO orders",
        "00000001.safetensors",
    ]
    assert [point for point in of_client + of_server if point not in points] == []
