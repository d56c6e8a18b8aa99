"""Hypothesis without a database and with the same examples everywhere, a failing one printed; Ctrl-C as in the foreground."""

import signal

import pytest
from hypothesis import settings

settings.register_profile("headgate", derandomize=True, deadline=None, database=None, print_blob=True)
settings.load_profile("headgate")


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_is_heard():
    """What a script starts with `&` ignores SIGINT, and so do its children: tests that press Ctrl-C would wait for ever."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
