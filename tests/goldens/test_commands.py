"""The command line: all help texts, some answers, and refusals with their exit codes."""

import pytest

from . import make

REFUSALS, ANSWERS = make.kept("refusals"), make.kept_answers()


@pytest.mark.parametrize("command", make.REFUSED)
def test_refusals_are_as_they_were(command):
    assert make.refusal(command.split()) == REFUSALS[command]


def test_commands_print_what_they_printed():
    assert make.differing(make.answers(), ANSWERS) == {}


def test_all_that_is_kept_is_compared():
    assert list(REFUSALS) == make.REFUSED
    assert len(REFUSALS) >= 40
    assert {each["code"] for each in REFUSALS.values()} == {2, 3, 4}
