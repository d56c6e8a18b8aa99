"""Flower: every message of small federations, the fields of messages, and the tables of the stores."""

from importlib.util import find_spec

import pytest

from . import make

pytestmark = pytest.mark.skipif(find_spec("flwr") is None, reason="needs flwr: pip install 'headgate[flower]'")
WIRE = make.kept("wire")


@pytest.mark.parametrize("policy", make.FEDERATIONS)
def test_messages_are_as_they_were(policy):
    assert make.differing(make.wire(policy), WIRE[policy]) == {}


def test_tables_and_fields_are_as_they_were():
    assert make.differing(make.formats(), make.kept("formats")) == {}


def test_all_that_is_kept_is_compared():
    assert list(WIRE) == list(make.FEDERATIONS)
