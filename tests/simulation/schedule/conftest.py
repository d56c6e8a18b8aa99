"""Experiments of these tests are cut into chunks."""

import pytest

from headgate.simulation import cut


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Two runs to a chunk, however little there is to do."""
    monkeypatch.setattr(cut, "LIGHT", 0.0)
    monkeypatch.setitem(cut.TOGETHER, "gram", 2)
