"""Which worker plays by default."""

from contextlib import closing

import pytest

from headgate.experiment import load
from headgate.simulation import schedule
from headgate.simulation.workers import InProcess, Processes


@pytest.mark.parametrize("processes", [None, 2])
@pytest.mark.parametrize(("device", "kind"), [("cpu", Processes), ("cuda", InProcess)])
def test_many_processes_play_on_the_cpu_and_one_on_a_gpu(tmp_path, monkeypatch, device, kind, processes):
    monkeypatch.setattr(schedule, "LIGHT", 0)
    monkeypatch.setattr(schedule, "cores", lambda: 2)
    monkeypatch.setattr(schedule, "choose_device", lambda name: name)
    tasks = [schedule._Task(load("digits"), tmp_path)]
    with closing(schedule._worker(tasks, device, processes)) as worker:
        assert type(worker) is kind
