"""Ledgers of format 3, as files that the code of that time wrote, become ledgers of
format 4 and go on.
"""

import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from shutil import copy

import pytest

from headgate import Books, System
from headgate.books.database import LEDGER
from headgate.books.format3 import OldLedger
from headgate.books.statement import opened, statement
from headgate.books.upgrade import KEPT, upgrade
from headgate.control.policies import Headgate
from headgate.errors import DataError, HeadgateError

FILES = Path(__file__).parent / "format3"
HORIZONS = {"closed": 40, "open": None}


def older(folder, name):
    folder.mkdir(exist_ok=True)
    copy(FILES / f"{name}.sqlite", folder / LEDGER)
    return folder


def facts(old):
    """The orders, with what was told of them later."""
    later = Counter()
    for row in old.corrections():
        later[row.round, row.client] += row.admitted
    return [
        (
            row.round,
            row.client,
            row.price,
            row.ordered,
            (row.admitted or 0) + later[row.round, row.client],
        )
        for row in old.orders()
    ]


def shown(folder):
    with opened(folder) as accounts:
        return statement(accounts)


@pytest.mark.parametrize("name", HORIZONS)
def test_a_ledger_of_format_3_is_upgraded_and_goes_on(tmp_path, headgate, name):
    folder = older(tmp_path / "accounts", name)
    with closing(OldLedger(folder / LEDGER)) as old:
        before = facts(old)
        spent, made = old.spent(), [each[:4] for each in old.amendments()]
        keys = sorted(key for own in old.keys().values() for key in set(own))
        rounds = sum(row.settled for row in old.rounds())
    with pytest.raises(DataError, match="is of format 3; `headgate ledger upgrade"):
        shown(folder)
    out, _ = headgate("ledger", "upgrade", folder)
    assert f"round {rounds}, {len(before)} orders, spent" in out
    assert sorted(path.name for path in folder.iterdir()) == [KEPT, LEDGER]
    after = shown(folder)
    assert before == [
        (line.round, line.client, float(line.price), line.asked, line.delivered)
        for line in after.lines
    ]
    assert after.spent == spent
    assert sorted(key for line in after.lines for key in line.keys) == keys
    assert [each[1:5] for each in after.amendments] == made
    system = System([4, 3, 5], budget=12.0, horizon=HORIZONS[name], currency="EUR")
    with Books(folder, system, Headgate(fill=8.0), offences=2) as own:
        assert own.quarantined == ({2} if name == "closed" else set())
        orders = own.begin(1.0)
        if name == "open":
            assert orders[0].round == 12, "the round that was open, as it was ordered"
        own.settle()
        assert own.audit().rounds == rounds + 1
    with Books(folder, system, Headgate(fill=8.0)) as again:
        again.audit()
    out, _ = headgate("ledger", "upgrade", folder)
    assert "is in today's format already" in out


def test_the_copy_is_the_ledger_as_it_was(tmp_path):
    folder = older(tmp_path / "accounts", "closed")
    with closing(OldLedger(folder / LEDGER)) as old:
        before = facts(old), old.amendments(), old.events()
    upgrade(folder)
    with closing(OldLedger(folder / KEPT)) as kept:
        assert (facts(kept), kept.amendments(), kept.events()) == before


def test_samples_that_were_told_of_later_are_charged_as_they_were(tmp_path):
    assert upgrade(older(tmp_path / "accounts", "late")).spent == 21
    system = System([8, 9, 10], budget=20.0, horizon=100)
    with Books(tmp_path / "accounts", system, Headgate(fill=8.0)) as own:
        assert own.audit().lines[0].delivered == 7


def test_what_cannot_be_upgraded_stays_as_it_is(tmp_path):
    folder = older(tmp_path / "accounts", "closed")
    content = (folder / LEDGER).read_bytes()
    for damaged, said in ((content[:5000], "is damaged|cannot be"), (b"x" * 99, "is")):
        (folder / LEDGER).write_bytes(damaged)
        with pytest.raises(HeadgateError, match=said):
            upgrade(folder)
        assert (folder / LEDGER).read_bytes() == damaged
    with pytest.raises(DataError, match=r"holds no ledger\.sqlite"):
        upgrade(tmp_path)


KILLED = """
import os, sys
from unittest.mock import patch
from pathlib import Path
from headgate.books.upgrade import upgrade
steps = int(sys.argv[2])
def dies(usual):
    def step(*given, **named):
        global steps
        steps -= 1
        if steps < 0:
            os.kill(os.getpid(), 9)
        return usual(*given, **named)
    return step
with patch.object(Path, "replace", dies(Path.replace)), \\
     patch.object(Path, "unlink", dies(Path.unlink)), patch("os.fsync", dies(os.fsync)):
    upgrade(sys.argv[1])
"""


def test_a_kill_at_any_step_leaves_a_ledger_that_is_old_or_new(tmp_path):
    before, step, ended = None, 0, -9
    while ended == -9:
        folder = older(tmp_path / f"{step}", "open")
        with closing(OldLedger(folder / LEDGER)) as old:
            before = before or old.spent()
        command = [sys.executable, "-c", KILLED, folder, str(step)]
        ended = subprocess.run(command, check=False).returncode
        if upgrade(folder) is None:
            assert ended in (0, -9)
        assert shown(folder).spent == before
        step += 1
    assert ended == 0
    assert step > 5
