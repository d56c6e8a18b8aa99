"""Ctrl-C at awkward moments is heard and loses nothing."""

import signal
from contextlib import closing
from types import SimpleNamespace

import pytest

from headgate.errors import Interrupted
from headgate.experiment import load
from headgate.records.reader import RunFolder
from headgate.records.tables import shard_folders
from headgate.simulation.schedule import perform
from headgate.simulation.workers import Processes

from .played import SETTINGS, Stopping, linux, odd, tables


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=linux)])
def test_ctrl_c_in_a_last_round_is_heard_and_loses_nothing(tmp_path, monkeypatch, processes):
    who = "os.getpid()" if processes == 1 else "os.getppid()"  # the worker pool, as if the command had told it
    experiment = odd(tmp_path, monkeypatch, 6, f"os.kill({who}, signal.SIGINT), time.sleep(1)")
    folder = tmp_path / "run"
    with pytest.raises(Interrupted, match=r"interrupted after \d+ of 24 rounds in 4 chunks; continue with"):
        perform(experiment, folder, processes=processes)
    assert RunFolder.open(folder).status == "interrupted"
    assert 1 <= len(list(folder.glob("shards/*/checkpoints/00000006"))) < 4
    (tmp_path / "armed").unlink()
    perform(None, folder, processes=processes, trust=["odd"])
    whole = perform(experiment, tmp_path / "whole", processes=1)[0].path
    assert tables(folder) == tables(whole)


@linux
@pytest.mark.parametrize("inherited", [signal.SIG_DFL, signal.SIG_IGN], ids=["foreground", "background"])
def test_ctrl_c_while_the_others_are_still_starting(tmp_path, capfd, inherited):
    """Also where SIGINT is ignored, as in what a script starts with `&`: who plays tells the others all the same."""
    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        perform(load("digits", SETTINGS), folder, processes=1, watch=Stopping())
    before = signal.signal(signal.SIGINT, inherited)
    try:
        player = Processes(2)
    finally:
        signal.signal(signal.SIGINT, before)
    with closing(player), pytest.raises(Interrupted):
        player.execute(dict.fromkeys(shard_folders(folder)[1:]), "cpu", SimpleNamespace(look=lambda: None), lambda: True)
    assert capfd.readouterr().err == ""
