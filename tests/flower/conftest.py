"""Helpers of these tests are modules beside them; Flower reports nothing to anybody."""

import logging
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from headgate.flower import ENVIRONMENT

sys.path.insert(0, str(Path(__file__).parent))
os.environ |= dict(ENVIRONMENT)


@pytest.fixture(autouse=True)
def quick_and_quiet(monkeypatch):
    """No machine loses its power here. Flower's log, a line a round, would drown what a
    failing test says, and its search for garbage at every array, among all that tests
    import, takes longer than a round."""
    monkeypatch.setattr("headgate.books.durable.SYNCHRONOUS", "OFF")
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    monkeypatch.setattr(
        "flwr.app.message.arrayrecord.gc", SimpleNamespace(collect=lambda: 0)
    )
    monkeypatch.setattr(logging.getLogger("flwr"), "disabled", True)
