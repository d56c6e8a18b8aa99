"""Who plays, where nobody says how many processes."""

from contextlib import closing

import pytest

from headgate.experiment import load
from headgate.simulation import schedule
from headgate.simulation.players import Here, Processes


@pytest.mark.parametrize(("device", "kind"), [("cpu", Processes), ("cuda", Here)])
def test_many_processes_play_on_the_cpu_and_one_on_a_gpu(tmp_path, monkeypatch, device, kind):
    monkeypatch.setattr(schedule, "LIGHT", 0)
    monkeypatch.setattr(schedule, "cores", lambda: 2)
    monkeypatch.setattr(schedule, "choose_device", lambda name: name)
    runs = [schedule._Run(load("digits"), tmp_path)]
    with closing(schedule._player(runs, device, None, None)) as player:
        assert type(player) is kind
    with closing(schedule._player(runs, device, 2, None)) as player:
        assert type(player) is Processes
