"""A command or a child of it is stopped or killed amid its rounds: resumed, it ends in
the same bytes.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import pytest

from headgate.errors import Interrupted
from headgate.experiment import load
from headgate.records.chunks import open_chunks
from headgate.records.reader import RunFolder, newest_checkpoints, scan_runs
from headgate.records.tables import parts_of
from headgate.simulation import cut, pools
from headgate.simulation.schedule import perform
from headgate.simulation.slices import Slices

from .played import OWN, SETTINGS, Stopping, linux, models, odd, tables

SCRIPT = """
import sys
from headgate.simulation import cut, pools
cut.LIGHT = 0.0
cut.TOGETHER["gram"] = 2
from headgate.cli import main
main()
"""
ROUNDS = 80
SLOW = [*SETTINGS, *OWN, f"run.rounds={ROUNDS}"]


@pytest.fixture(scope="module")
def long_run(tmp_path_factory):
    """What the runs that are disturbed must end in; the working folder has their
    policy.
    """
    here = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        odd(here, patch, None, "time.sleep(0.05)")
        (here / "armed").unlink()
        patch.setattr(cut, "LIGHT", 0.0)
        patch.setitem(cut.TOGETHER, "gram", 2)
        folder = perform(load("digits", SLOW), here / "run", processes=1)[0].path
        yield tables(folder), models(folder)


@pytest.fixture
def begun(tmp_path, long_run):
    """A command that plays slowly, once two chunks of it have some rounds behind them,
    and its folder.
    """
    folder = tmp_path / "run"
    words = [word for each in SLOW for word in ("--set", each)]
    command = [
        sys.executable,
        "-c",
        SCRIPT,
        "run",
        "digits",
        *words,
        "--processes",
        "2",
    ]
    command += ["--out", str(folder)]
    Path("armed").touch()
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            until(
                lambda: len({part.chunk for part in parts_of(folder, "clients")}) >= 2,
                process,
            )
            yield process, folder
        finally:
            process.kill()


def resumed(folder, processes):
    Path("armed").unlink()
    perform(None, folder, processes=processes, trust=["odd"])
    return tables(folder), models(folder)


def until(condition, process=None):
    end = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < end, "waited too long"
        assert process is None or process.poll() is None, process.stderr.read()
        time.sleep(0.02)


def pids(process):
    """Of the children of a process."""
    told = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(pid) for pid in told.split()]


def gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@linux
def test_a_live_run_in_parts_reads_as_one_and_goes_on_after_ctrl_c(
    tmp_path, begun, long_run
):
    process, folder = begun
    (run,) = scan_runs(tmp_path)[0]
    assert run.status == "running"
    assert run.state["policies"] == ["hybrid", "acdpp"]
    until(lambda: min(run.metrics().height, run.clients().height) > 20, process)
    assert run.metrics()["t"].is_sorted()
    children = pids(process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=240)
    assert process.returncode == 130
    assert "rounds in 4 chunks; continue with: headgate run --resume " in err
    assert err.strip().endswith(f"{folder} --trust odd:Odd")
    assert len(err.strip().splitlines()) == 2  # what is played, and that it stopped
    assert all(gone(pid) for pid in children)
    stopped = RunFolder.open(folder)
    assert stopped.status == "interrupted"
    assert 0 < stopped.state["round"] < ROUNDS
    assert newest_checkpoints(folder)
    assert resumed(folder, 2) == long_run
    assert RunFolder.open(folder).state["round"] == ROUNDS


@linux
def test_what_a_killed_child_played_is_played_again_and_that_is_said(begun, long_run):
    process, folder = begun
    os.kill(pids(process)[0], signal.SIGKILL)
    Path("armed").unlink()
    _, err = process.communicate(timeout=240)
    assert process.returncode == 0
    said = " ".join(err.split())
    assert "its process was ended by SIGKILL, perhaps for want of memory; it" in said
    assert (tables(folder), models(folder)) == long_run
    assert not list(folder.rglob("*.partial"))


@linux
def test_children_of_a_killed_command_end_by_themselves(begun, long_run):
    process, folder = begun
    children = pids(process)
    assert len(children) == 2
    process.kill()
    process.communicate()
    until(lambda: all(gone(pid) for pid in children))
    assert RunFolder.open(folder).status == "interrupted"
    assert newest_checkpoints(folder)
    assert resumed(folder, 2) == long_run


# Ctrl-C at awkward moments is heard and loses nothing


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=linux)])
def test_ctrl_c_in_a_last_round_is_heard_and_loses_nothing(
    tmp_path, monkeypatch, processes
):
    who = (
        "os.getpid()" if processes == 1 else "os.getppid()"
    )  # the worker pool, as if the command had told it
    experiment = odd(
        tmp_path, monkeypatch, 6, f"os.kill({who}, signal.SIGINT), time.sleep(1)"
    )
    folder = tmp_path / "run"
    with pytest.raises(
        Interrupted,
        match=r"interrupted after \d+ of 24 rounds in 4 chunks; continue with",
    ):
        perform(experiment, folder, processes=processes)
    assert RunFolder.open(folder).status == "interrupted"
    assert 1 <= len(list(folder.glob("checkpoints/c*-00000006"))) < 4
    (tmp_path / "armed").unlink()
    perform(None, folder, processes=processes, trust=["odd"])
    whole = perform(experiment, tmp_path / "whole", processes=1)[0].path
    assert tables(folder) == tables(whole)


@linux
@pytest.mark.parametrize(
    "inherited", [signal.SIG_DFL, signal.SIG_IGN], ids=["foreground", "background"]
)
def test_ctrl_c_while_the_others_are_still_starting(tmp_path, capfd, inherited):
    """Also where SIGINT is ignored, as in what a script starts with `&`: who plays
    tells the others all the same.
    """
    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        perform(load("digits", SETTINGS), folder, processes=1, watch=Stopping())
    before = signal.signal(signal.SIGINT, inherited)
    try:
        player = Slices(pools.Processes(2), print)
    finally:
        signal.signal(signal.SIGINT, before)
    with closing(player), pytest.raises(Interrupted):
        player.execute(
            open_chunks(folder)[1:],
            "cpu",
            Mock(),
            lambda: True,
        )
    assert capfd.readouterr().err == ""
