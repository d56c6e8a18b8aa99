"""Chunks on a GPU: its memory goes back between them, each goes on by itself, and want
of memory loses nothing.
"""

from functools import partial
from importlib.util import find_spec

import pytest
import torch

from headgate.errors import Interrupted
from headgate.experiment import load
from headgate.simulation import cut, run, schedule, workers
from headgate.simulation.schedule import perform

from .played import SETTINGS, Stopping, models, odd, tables

play = partial(perform, device="cuda", processes=1)
pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"),
    pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed"),
]
SMALL = """
from dataclasses import dataclass
from headgate.learning.models import Model

@dataclass(frozen=True)
class Small(Model):
    def build(self, shape, classes):
        from torch import nn
        convolution = nn.Conv2d(1, 4, 3, padding=1)
        inner = convolution, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
        return nn.Sequential(*inner, nn.Linear(64, classes))
"""


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A net for the packed kernels, in chunks of two runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.py").write_text(SMALL)
    monkeypatch.setattr(schedule, "most_runs", lambda *_: 2)
    return load("digits", [*SETTINGS, "model.kind=small:Small"])


def test_memory_goes_back_between_chunks(tmp_path, monkeypatch, small):
    plain, held = cut.give_back, []

    def watched(device):
        plain(device)
        held.append((torch.cuda.memory_allocated(), torch.cuda.memory_reserved()))

    for module in (run, workers):
        monkeypatch.setattr(module, "give_back", watched)
    play(small, tmp_path / "run")
    assert len(held) == 5  # after the look before all chunks, and after each
    first, *later = held
    assert all(allocated <= first[0] + 2**20 for allocated, _ in later)
    assert all(reserved <= first[1] + 2**25 for _, reserved in later)


def test_chunks_come_to_the_numbers_of_one_also_if_interrupted(
    tmp_path, monkeypatch, small
):
    cut_up = play(small, tmp_path / "cut")[0].path
    assert len(models(cut_up)) == 4
    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        play(small, folder, watch=Stopping())
    play(small, folder)
    assert models(folder) == models(cut_up)
    monkeypatch.setattr(schedule, "most_runs", lambda *_: 8)
    whole = play(small, tmp_path / "whole")[0].path
    assert "triton" in (whole / "environment.json").read_text()
    assert tables(folder) == tables(cut_up) == tables(whole)


def test_want_of_memory_in_the_midst_loses_nothing(tmp_path, monkeypatch):
    asked = (
        "__import__('torch').empty(1 << 50, dtype=__import__('torch').uint8,"
        " device='cuda')"
    )
    experiment, folder = odd(tmp_path, monkeypatch, 4, asked), tmp_path / "run"
    monkeypatch.setattr(schedule, "most_runs", lambda *_: 2)
    with pytest.raises(torch.OutOfMemoryError):
        play(experiment, folder)
    (tmp_path / "armed").unlink()
    play(None, folder, trust=["odd"])
    whole = play(experiment, tmp_path / "whole")[0].path
    assert tables(folder) == tables(whole)
