"""Helpers of these tests are modules beside them; Flower reports nothing to anybody."""

import os
import sys
from pathlib import Path

import pytest

from headgate.flower.quiet import ENVIRONMENT

sys.path.insert(0, str(Path(__file__).parent))
os.environ |= dict(ENVIRONMENT)


@pytest.fixture
def no_fsync(monkeypatch):
    """For tests with many small files, in which no machine loses its power."""
    monkeypatch.setattr("headgate.books.durable.SYNCHRONOUS", "OFF")
    monkeypatch.setattr("os.fsync", lambda descriptor: None)


@pytest.fixture(autouse=True)
def quiet_flower(monkeypatch):
    """Flower's log, a line a round, would drown what a failing test says."""
    import logging

    monkeypatch.setattr(logging.getLogger("flwr"), "disabled", True)
