"""Hypothesis without a database and with the same examples everywhere; a failing one is printed to be pinned."""

from hypothesis import settings

settings.register_profile("headgate", derandomize=True, deadline=None, database=None, print_blob=True)
settings.load_profile("headgate")
