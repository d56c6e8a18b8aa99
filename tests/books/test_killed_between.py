"""Killed right before any SQL statement of a call: it is done whole or not at all, and
the accounts go on as if nothing was.
"""

import json
import re
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.books.database import LEDGER
from headgate.books.statement import opened, statement
from headgate.errors import HeadgateError

from . import killed
from .failpoints import dump
from .kept import InPostgres

ROOT = Path(__file__).parents[2]
FEWEST = {
    "open": 10,
    "begin": 6,
    "settle": 8,
    "arrive": 6,
    "amend": 4,
    "adjust": 4,
    "request": 6,
    "command": 10,
}
"""the fewest statements of each call: with fewer, the failpoints were not where they
belong
"""
SHORT = "amend"
"""the call that is killed in PostgreSQL by `make test`, too"""
NAME = re.compile(r"\b[0-9a-f]{16}\b")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00")


def left(root, *names):
    """Return the places that killed processes left, and how many for each call."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.books.killed", root, *names],
        check=True,
        timeout=300,
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    return root, json.loads(done.stdout)


@pytest.fixture(scope="module")
def in_folders(tmp_path_factory):
    return left(tmp_path_factory.mktemp("killed"), *killed.CALLS)


@pytest.fixture
def in_schemas(database, name):
    root = InPostgres(f"{database}/killed_{secrets.token_hex(6)}")
    return left(root, name)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("headgate.books.durable.SYNCHRONOUS", "OFF")


def tables(folder):
    """Return all tables without random names and times of now."""
    there = isinstance(folder, InPostgres) or (folder / LEDGER).exists()
    found = dump(folder) if there else {}
    found.pop("meta", None)
    if "entries" in found:  # in the order of the log, without the hashes
        entries = sorted(found["entries"], key=lambda row: row[1])
        found["entries"] = [row[:-1] for row in entries]
    return {
        name: [tuple(map(timeless, row)) for row in rows]
        for name, rows in found.items()
        if rows
    }


def timeless(value):
    """A value without times of now and random names."""
    if not isinstance(value, str):
        return value
    return NAME.sub("name", MOMENT.sub("now", value))


def said(found):
    """Return what a statement says, without times of now."""
    amendments = [each._replace(made="") for each in found.amendments]
    system = found.system.buffer.tolist(), found.system.horizon, found.system.amended
    return (
        [line._replace(time="") for line in found.lines],
        amendments,
        system,
        found[3:],
    )


def play_on(call, folder, done):
    """Make the call unless it was done, play on, and return what the statement says."""
    if not done:
        killed.made(call, folder)
    return said(killed.play_on(folder))


@pytest.mark.parametrize(
    ("places", "name"),
    [
        *(("in_folders", name) for name in killed.CALLS),
        ("in_schemas", SHORT),
        *(
            pytest.param("in_schemas", name, marks=pytest.mark.long)
            for name in killed.CALLS
            if name != SHORT
        ),
    ],
)
def test_a_call_is_done_whole_or_not_at_all_wherever_it_is_killed(
    request, places, name
):
    (folders, counted), call = request.getfixturevalue(places), killed.CALLS[name]
    before, after = tables(folders / name / "before"), tables(folders / name / "after")
    assert before != after
    wanted = play_on(call, folders / name / "after", done=True)
    cases = range(counted[name])
    assert len(cases) > FEWEST[name]
    outcomes = []
    for case in cases:
        folder = folders / name / str(case)
        found = tables(folder)
        assert len(why_not_shown(folder).splitlines()) <= 1
        assert found in (
            before,
            after,
        ), f"killed before statement {case} of {cases[-1]}: half of {name} was done"
        outcomes.append(found == after)
        assert play_on(call, folder, done=found == after) == wanted, (
            f"killed before statement {case} of {cases[-1]}"
        )
    assert outcomes == sorted(outcomes)  # nothing is undone by a later kill
    assert outcomes[-1]
    assert not outcomes[0]


def why_not_shown(folder):
    """Return why the accounts cannot be shown; no text: they can."""
    try:
        with opened(folder) as store:
            statement(store)
    except HeadgateError as error:
        return str(error)
    return ""


def test_a_commit_is_on_disk_when_it_returns(tmp_path, python):
    """In a process of its own, because other tests switch this off."""
    code = (
        "import sys; from tests.books.killed import opening, connection_of\n"
        "with opening(sys.argv[1]) as books:\n"
        "    books.begin(3.0)\n"
        "    for name in ('synchronous', 'journal_mode'):"
        " print(*connection_of(books).execute(f'PRAGMA {name}').fetchone())"
    )
    found, _ = python("-c", code, tmp_path, cwd=ROOT)
    assert found.split() == ["2", "wal"]
