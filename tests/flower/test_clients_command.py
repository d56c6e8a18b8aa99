"""`headgate flower clients` shows how clients stand, and lifts a quarantine that a running server then takes up."""

import json

import pytest
from hostile import with_receipt
from typer.testing import CliRunner
from worlds import World, an_experiment

from headgate.cli.commands import app
from headgate.errors import DataError, SettingError
from headgate.flower.rounds import Discipline


def headgate(*words):
    done = CliRunner().invoke(app, ["flower", "clients", *map(str, words)], catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


@pytest.fixture
def world(tmp_path):
    """Client 1 has offended twice, with an escape sequence in its words, and is in quarantine."""
    made = World(tmp_path, an_experiment("both", 4), Discipline(gather=0.0, offences=2))
    made.grid.faults = {(1, 1): "reply changed", (2, 1): "reply changed"}
    made.grid.tamper = with_receipt(position="\x1b[2J[red]")
    made.play(2)
    return made


def test_clients_offences_and_money_are_shown(world):
    said = json.loads(headgate(world.folder / "run", "--format", "json"))
    assert [row["node"] for row in said["clients"]] == [100, 101, 102]
    assert [row["quarantined"] for row in said["clients"]] == [False, True, False]
    assert [row["offences"] for row in said["clients"]] == [0, 2, 0]
    assert all(row["ordered"] == row["paid"] + row["reserved"] + row["released"] for row in said["clients"])
    assert said["clients"][1]["money"] == 0
    assert {event["kind"] for event in said["offences"]} >= {"rejected", "quarantined"}
    table = headgate(world.folder / "run")
    assert "yes" in table
    assert "round 2, client 1: quarantined: after 2 offences" in table
    assert "\x1b" not in table
    assert "[red]" in table, "what a client said is shown as it is, not as markup"


def test_what_cannot_be_is_refused_in_a_line(world, tmp_path):
    with pytest.raises(SettingError, match="client 0: is not in quarantine"):
        headgate(world.folder / "run", "--lift", 0)
    with pytest.raises(DataError, match=r"holds no ledger\.sqlite"):
        headgate(tmp_path)
