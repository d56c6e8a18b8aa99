"""Control: every array of every policy's ledger after 40 rounds."""

import pytest

from . import make

POLICIES, LEDGERS = make.policies(), make.kept("ledgers")


@pytest.mark.parametrize("name", POLICIES)
def test_ledgers_are_as_they_were(name):
    assert make.differing(make.ledger(POLICIES[name]), LEDGERS[name]) == {}


def test_all_that_is_kept_is_compared():
    assert set(LEDGERS) == set(POLICIES)
