"""Hypothesis without a database and with the same examples everywhere, a failing one printed; Ctrl-C as in the foreground."""

import signal

import pytest
from hypothesis import Phase, settings

settings.register_profile("headgate", derandomize=True, deadline=None, database=None, print_blob=True)
settings.register_profile(
    "mutants", settings.get_profile("headgate"), max_examples=20, phases=(Phase.explicit, Phase.generate)
)  # tools/mutants.py: many runs, of which only the outcome counts
settings.load_profile("headgate")


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_is_heard():
    """What a script starts with `&` ignores SIGINT, and so do its children: tests that press Ctrl-C would wait for ever."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
