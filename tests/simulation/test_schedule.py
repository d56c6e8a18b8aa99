"""The same bytes from one process, from several, and after any of them was killed; live runs read as one."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import polars as pl
import pytest

from headgate.errors import DataError, HeadgateError, Interrupted, SettingError
from headgate.experiment import load, sweep_points
from headgate.experiment.policies import PolicySettings
from headgate.records.held import Held
from headgate.records.reader import RunFolder, list_runs, part_folders
from headgate.simulation import cut
from headgate.simulation.players import LONGEST, Here, Processes, told
from headgate.simulation.schedule import perform, points_of

SETTINGS = ["run.seeds=4", "run.rounds=6", 'run.policies=["hybrid", "acdpp"]', "training.steps=2"]
TABLES = ("metrics.parquet", "occupancy.parquet")
linux = pytest.mark.skipif(sys.platform != "linux", reason="several processes need Linux")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Two runs to a chunk, however little there is to do."""
    monkeypatch.setattr(cut, "LIGHT", 0.0)
    monkeypatch.setitem(cut.TOGETHER, "gram", 2)


def tables(folder):
    return [(folder / name).read_bytes() for name in TABLES]


def models(folder):
    return [path.read_bytes() for part in part_folders(folder) for path in sorted(part.rglob("*.safetensors"))]


@linux
def test_one_process_and_two_write_the_same_bytes(tmp_path):
    ticks, rows, said = [], [], []
    (one,) = perform(load("digits", SETTINGS), tmp_path / "one", processes=1)
    (two,) = perform(
        load("digits", SETTINGS),
        tmp_path / "two",
        processes=2,
        tick=lambda done, total: ticks.append((done, total)),
        watch=lambda folder, new: rows.append((folder, new)),
        say=said.append,
    )
    assert rows.pop(0) == (two, [])  # before the first row
    assert tables(one) == tables(two)
    assert models(one) == models(two)
    assert len(models(one)) == 4
    assert ticks[-1] == (24, 24)
    assert ticks == sorted(ticks)
    assert len(rows) == 24
    assert {folder for folder, _ in rows} == {two}
    assert sorted((row["policy"], row["seed"], row["t"]) for _, new in rows for row in new) == sorted(
        pl.read_parquet(two / "metrics.parquet").select("policy", "seed", "t").rows()
    )
    assert said == ["8 runs by gram, 4 chunks on 2 processes"]
    assert not list(two.rglob("*.jsonl"))
    assert RunFolder.open(two).status == "finished"


def test_cut_or_whole_the_rows_are_the_same(tmp_path, monkeypatch):
    (parts,) = perform(load("digits", SETTINGS), tmp_path / "parts", processes=1)
    monkeypatch.setattr(cut, "LIGHT", 1e9)
    (whole,) = perform(load("digits", SETTINGS), tmp_path / "whole", processes=1)
    assert not (whole / "parts").exists()
    assert tables(parts) == tables(whole)
    rows = pl.read_parquet(parts / "metrics.parquet")
    assert rows["policy"].to_list()[:8] == ["hybrid"] * 4 + ["acdpp"] * 4
    assert rows["t"].is_sorted()


def test_no_policy_sees_the_runs_beside_its_own(tmp_path, monkeypatch):
    """Prices of few levels, so that the runs of several seeds look alike for a while."""
    kinds = [*PolicySettings.kinds]
    listed = ", ".join(f'"{kind}"' for kind in kinds)
    prices = ["prices.kind=integer", "prices.low=1", "prices.high=2"]
    experiment = load("digits", ["run.seeds=3", "run.rounds=5", f"run.policies=[{listed}]", *prices])
    monkeypatch.setitem(cut.TOGETHER, "gram", 1)
    (parts,) = perform(experiment, tmp_path / "parts", processes=1)
    assert len(part_folders(parts)) == 3 * len(kinds)
    monkeypatch.setattr(cut, "LIGHT", 1e9)
    (whole,) = perform(experiment, tmp_path / "whole", processes=1)
    assert tables(parts) == tables(whole)


@linux
def test_points_of_a_sweep_are_played_together(tmp_path):
    points = sweep_points("digits", [*SETTINGS, "sweep.training.lr=[0.1, 0.5]"])
    said = []
    folders = perform(points, tmp_path / "sweep", processes=2, say=said.append)
    assert [folder.name for folder in folders] == ["lr=0.1", "lr=0.5"]
    assert said == ["16 runs by gram, 8 chunks on 2 processes"]
    for (_, experiment), folder in zip(points, folders, strict=True):
        (alone,) = perform(experiment, tmp_path / "alone" / folder.name, processes=1)
        assert tables(alone) == tables(folder)
    assert perform(points, tmp_path / "sweep", resume=True) == folders
    assert perform(None, tmp_path / "sweep", resume=True) == folders


SCRIPT = """
import sys
from headgate.simulation import cut
cut.LIGHT = 0.0
cut.TOGETHER["gram"] = 2
from headgate.cli import main
main()
"""
LONG = ["--rounds", "250", "--seeds", "4", "--policies", "acdpp,constant", "--processes", "2", "--progress", "none"]


@pytest.fixture(scope="module")
def long_run(tmp_path_factory):
    """What the runs that are disturbed must end in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cut, "LIGHT", 0.0)
        patch.setitem(cut.TOGETHER, "gram", 2)
        experiment = load("digits", ["run.rounds=250", "run.seeds=4", 'run.policies=["acdpp", "constant"]'])
        (folder,) = perform(experiment, tmp_path_factory.mktemp("whole") / "run", processes=1)
    return tables(folder), models(folder)


def begun(folder):
    """A command that plays, once two chunks of it have some rounds behind them."""
    command = [sys.executable, "-c", SCRIPT, "run", "digits", *LONG, "--out", str(folder)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, start_new_session=True)
    until(lambda: sum((part / "metrics.jsonl").stat().st_size > 5_000 for part in parts_of(folder)) >= 2, process)
    return process


def parts_of(folder):
    return part_folders(folder) if (folder / "state.json").exists() else []


def until(condition, process=None):
    end = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < end, "waited too long"
        assert process is None or process.poll() is None, process.stderr.read()
        time.sleep(0.02)


def pids(folder):
    """Of the children at work."""
    told = [json.loads((part / "state.json").read_text()) for part in parts_of(folder) if (part / "state.json").exists()]
    return [each["pid"] for each in told if each["round"] < each["rounds"]]


def gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@linux
def test_a_live_run_in_parts_reads_as_one_and_goes_on_after_ctrl_c(tmp_path, long_run):
    folder = tmp_path / "run"
    process = begun(folder)
    (run,) = list_runs(tmp_path)
    assert run.status == "running"
    assert run.state["policies"] == ["acdpp", "constant"]
    assert run.metrics().height > 20
    assert run.metrics()["t"].is_sorted()
    assert run.occupancy().height > 20
    children = pids(folder)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=240)
    assert process.returncode == 130
    assert "rounds in 4 chunks; go on with: headgate run --resume " in err
    assert err.strip().endswith(str(folder))
    assert len(err.strip().splitlines()) == 1
    assert all(gone(pid) for pid in children)
    stopped = RunFolder.open(folder)
    assert stopped.status == "interrupted"
    assert 0 < stopped.state["round"] < 250
    assert any(list((part / "checkpoints").glob("0*")) for part in part_folders(folder))
    perform(None, folder, processes=2, resume=True)
    assert (tables(folder), models(folder)) == long_run
    assert RunFolder.open(folder).state["round"] == 250


@linux
def test_a_killed_child_is_named_and_the_others_stop_cleanly(tmp_path, long_run):
    folder = tmp_path / "run"
    process = begun(folder)
    victim = pids(folder)[0]
    os.kill(victim, signal.SIGKILL)
    _, err = process.communicate(timeout=240)
    assert process.returncode == 1
    said = " ".join(err.split())
    assert "(acdpp, seeds 0 to 1): its process was ended by SIGKILL" in said
    assert f"go on with: headgate run --resume {folder}" in said
    assert RunFolder.open(folder).status == "interrupted"
    perform(None, folder, processes=1, resume=True)
    assert (tables(folder), models(folder)) == long_run


@linux
def test_children_of_a_killed_command_end_by_themselves(tmp_path, long_run):
    folder = tmp_path / "run"
    process = begun(folder)
    children = pids(folder)
    assert len(children) == 2
    process.kill()
    process.communicate()
    until(lambda: all(gone(pid) for pid in children))
    assert RunFolder.open(folder).status == "interrupted"
    assert any(list((part / "checkpoints").glob("0*")) for part in part_folders(folder))
    perform(None, folder, processes=2, resume=True)
    assert (tables(folder), models(folder)) == long_run


@linux
def test_what_a_child_refuses_reaches_the_user(tmp_path, monkeypatch):
    experiment = load("digits", SETTINGS)
    with pytest.raises(SettingError, match="--executor fast"):
        perform(experiment, tmp_path / "run", processes=2, executor="fast")
    assert not list(tmp_path.iterdir())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "late.py").write_text(
        "from dataclasses import dataclass\n"
        "from headgate.control.policies import Constant\n"
        "@dataclass(frozen=True, eq=False)\n"
        "class Late(Constant):\n"
        "    def admit(self, view, memory):\n"
        "        if view.t > 3: raise ZeroDivisionError('at last')\n"
        "        return super().admit(view, memory)\n"
    )
    own = load("digits", [*SETTINGS, "policies.acdpp.kind=late:Late", "policies.acdpp.rate=4.0", "policies.acdpp.K=4"])
    with pytest.raises(HeadgateError, match=r"\(acdpp, seeds \d to \d\): ZeroDivisionError: at last; go on with"):
        perform(own, tmp_path / "run", processes=2)


def test_a_run_whose_rounds_are_done_is_finished_on_any_device(tmp_path, monkeypatch):
    """As GPU runs are that were made on another machine and brought here."""
    (whole,) = perform(load("digits", SETTINGS), tmp_path / "whole", processes=1)
    monkeypatch.setattr("headgate.simulation.schedule.conclude", lambda *_: None)
    (folder,) = perform(load("digits", SETTINGS), tmp_path / "run", processes=1)
    monkeypatch.undo()
    for path in folder.rglob("environment.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"device": "NVIDIA H200"}))
    assert RunFolder.open(folder).metrics().height == 48
    perform(None, folder, device="cpu", resume=True)
    assert tables(folder) == tables(whole)
    assert RunFolder.open(folder).status == "finished"


def test_rounds_that_are_left_are_not_played_on_another_device(tmp_path, monkeypatch):
    monkeypatch.setattr("headgate.simulation.players.Here.play", lambda *_: None)
    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        perform(load("digits", SETTINGS), folder, processes=1)
    monkeypatch.undo()
    for path in folder.rglob("environment.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"device": "NVIDIA H200"}))
    with pytest.raises(SettingError, match="began on NVIDIA H200, --device is cpu"):
        perform(None, folder, device="cpu", processes=1, resume=True)


def test_folders_that_do_not_fit_are_refused(tmp_path):
    (folder,) = perform(load("digits", SETTINGS), tmp_path / "run", processes=1)
    with pytest.raises(DataError, match="exists already"):
        perform(load("digits", SETTINGS), folder)
    with pytest.raises(DataError, match="was begun with other settings"):
        perform(load("digits", [*SETTINGS, "run.rounds=7"]), folder, resume=True)
    with pytest.raises(DataError, match="there is no such run folder"):
        perform(None, tmp_path / "nowhere", resume=True)
    with pytest.raises(SettingError, match="--processes 0"):
        perform(load("digits", SETTINGS), tmp_path / "zero", processes=0)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.toml").write_text("")
    (tmp_path / "mine" / "thesis.txt").write_text("dear")
    with pytest.raises(DataError):
        perform(load("digits", SETTINGS), tmp_path / "mine", resume=True)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "dear"


def test_a_start_that_was_killed_is_made_again(tmp_path):
    (whole,) = perform(load("digits", SETTINGS), tmp_path / "whole", processes=1, resume=True)
    half = tmp_path / "half"
    (half / "parts" / "000").mkdir(parents=True)
    (half / "config.toml").write_text("")
    (half / ".environment.json.partial").write_text("{")
    perform(load("digits", SETTINGS), half, processes=1, resume=True)
    assert tables(half) == tables(whole)


def test_a_start_that_was_killed_is_made_again_from_what_its_folder_says(tmp_path):
    (whole,) = perform(load("digits", SETTINGS), tmp_path / "whole", processes=1, executor="flat")
    half = tmp_path / "half"
    with pytest.raises(Interrupted):
        perform(load("digits", SETTINGS), half, processes=1, executor="flat", watch=Stopping())
    (half / "state.json").unlink()
    shutil.rmtree(half / "parts" / "003")
    shutil.rmtree(half / "parts" / "000" / "checkpoints", ignore_errors=True)
    perform(None, half, processes=1, resume=True)
    assert tables(half) == tables(whole)
    assert RunFolder.open(half).environment["executor"] == "flat"
    for name in ("environment.json", "config.toml"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f".{name}.partial").write_text("{")
        if name != "config.toml":
            shutil.copy(whole / "config.toml", tmp_path / name)
        with pytest.raises(DataError, match="was stopped before anything was played"):
            perform(None, tmp_path / name, resume=True)


def test_a_sweep_says_what_it_has_before_it_has_it(tmp_path, monkeypatch):
    points = sweep_points("digits", [*SETTINGS, "sweep.training.lr=[0.1, 0.5, 0.7]"])
    folder, made = tmp_path / "sweep", []

    def fail(*given):
        made.append(given)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("headgate.simulation.schedule.create", fail)
    with pytest.raises(DataError, match="make room"):
        perform(points, folder, processes=1)
    monkeypatch.undo()
    assert [point.name for point in points_of(folder)] == ["lr=0.1", "lr=0.5", "lr=0.7"]
    with pytest.raises(DataError, match=r"lr=0.1: was stopped before anything was played"):
        perform(None, folder, resume=True)
    perform(points[1:], folder, processes=1, resume=True)
    assert len(points_of(folder)) == 3  # some points at a time


def test_parts_that_are_missing_are_noticed(tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        perform(load("digits", SETTINGS), folder, processes=1, watch=Stopping())
    shutil.rmtree(folder / "parts" / "002")
    with pytest.raises(DataError, match="its parts do not hold each of its 8 runs once") as refusal:
        perform(None, folder, processes=1, resume=True)
    assert "go on with" not in str(refusal.value)


class Stopping:
    """Watches a run, and presses Ctrl-C when it sees the first row."""

    def __call__(self, folder, rows):
        if rows:
            os.kill(os.getpid(), signal.SIGINT)


POLICY = """
import os, signal, time
from dataclasses import dataclass
from pathlib import Path
from headgate.control.policies import Constant

@dataclass(frozen=True, eq=False)
class Odd(Constant):
    def admit(self, view, memory):
        if view.t == {t} and Path("armed").exists():
            {do}
        return super().admit(view, memory)
"""


def odd(folder, monkeypatch, t, do):
    """An experiment whose policies do something odd in round `t` while there is a file named armed."""
    monkeypatch.chdir(folder)
    monkeypatch.delitem(sys.modules, "odd", raising=False)
    (folder / "odd.py").write_text(POLICY.format(t=t, do=do))
    (folder / "armed").touch()
    each = ["kind=odd:Odd", "rate=4.0", "K=4"]
    return load("digits", [*SETTINGS, *(f"policies.{name}.{one}" for name in ("hybrid", "acdpp") for one in each)])


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=linux)])
def test_ctrl_c_in_a_last_round_is_heard_and_loses_nothing(tmp_path, monkeypatch, processes):
    who = "os.getpid()" if processes == 1 else "os.getppid()"  # the nursery, as if the command had told it
    experiment = odd(tmp_path, monkeypatch, 6, f"os.kill({who}, signal.SIGINT), time.sleep(1)")
    folder = tmp_path / "run"
    with pytest.raises(Interrupted, match=r"interrupted after \d+ of 24 rounds in 4 chunks; go on with"):
        perform(experiment, folder, processes=processes)
    assert RunFolder.open(folder).status == "interrupted"
    assert 1 <= len(list(folder.glob("parts/*/checkpoints/00000006"))) < 4
    (tmp_path / "armed").unlink()
    perform(None, folder, processes=processes, resume=True)
    (whole,) = perform(experiment, tmp_path / "whole", processes=1)
    assert tables(folder) == tables(whole)


@linux
def test_a_child_that_ends_without_a_word_is_an_error(tmp_path, monkeypatch):
    experiment = odd(tmp_path, monkeypatch, 3, "os._exit(1)")
    with pytest.raises(HeadgateError, match=r"\): its process ended with 1 and did not say why; go on with"):
        perform(experiment, tmp_path / "run", processes=2)
    assert list((tmp_path / "run").rglob("*.jsonl"))


@linux
def test_ctrl_c_while_the_others_are_still_starting(tmp_path, capfd):
    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        perform(load("digits", SETTINGS), folder, processes=1, watch=Stopping())
    player = Processes(2)
    with pytest.raises(Interrupted):
        player.play(part_folders(folder)[1:], "cpu", lambda: None, lambda: True)
    player.close()
    assert capfd.readouterr().err == ""


def test_a_run_is_played_by_one_process_at_a_time(tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        perform(load("digits", SETTINGS), folder, processes=1, watch=Stopping())
    part = part_folders(folder)[1]
    for path in (folder, part / "config.toml"):  # a command, or a child that was left behind
        with (part / "metrics.jsonl").open("a") as file:
            file.write("{}\n")
        before = (part / "metrics.jsonl").read_bytes()
        with Held() as other:
            other.take(path, folder)
            with pytest.raises(DataError, match="run: is being played by another process; wait for it to end"):
                perform(None, folder, processes=1, resume=True)
            with pytest.raises(DataError, match="is being played by another process"):
                perform(load("digits", SETTINGS), folder, processes=1, resume=True)
        assert (part / "metrics.jsonl").read_bytes() == before
    perform(None, folder, processes=1, resume=True)
    assert RunFolder.open(folder).metrics().height == 48


def test_a_full_disk_is_told_whoever_notices(tmp_path, monkeypatch):
    def full(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("headgate.simulation.schedule.tell", full)
    folder = tmp_path / "run"
    with pytest.raises(DataError) as error:
        perform(load("digits", SETTINGS), folder, processes=1)
    hint = f"make room and go on with: headgate run --resume {folder}"
    assert str(error.value).endswith(f"{folder}: cannot be written (No space left on device); {hint}")


def test_what_cannot_be_continued_is_not_said_to_go_on(tmp_path, monkeypatch):
    folder, play = tmp_path / "run", Here.play

    def damaged(self, folders, *given):
        (folders[0] / "occupancy.jsonl").unlink()
        play(self, folders, *given)

    monkeypatch.setattr(Here, "play", damaged)
    with pytest.raises(DataError, match=r"000 \(hybrid, seeds 0 to 1\): .*the run cannot be continued$"):
        perform(load("digits", SETTINGS), folder, processes=1)


def test_what_an_executor_gave_up_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr("headgate.simulation.executors.gram.Gram.note", "given up, slower", raising=False)
    said = []
    (folder,) = perform(load("digits", SETTINGS), tmp_path / "run", processes=1, say=said.append)
    assert said == ["8 runs by gram, 4 chunks in this process", "given up, slower"]
    assert RunFolder.open(folder).state["note"] == "given up, slower"


@pytest.mark.parametrize("message", ["short", "x" * 5000, "ü" * 5000, '"\\' * 3000, "\udc80" * 5000])
def test_an_error_goes_over_a_pipe_in_one_piece(message):
    kind, said = told(HeadgateError(message))
    assert kind == "HeadgateError"
    assert len(json.dumps(said)) <= LONGEST
    assert message.startswith(said)
    assert said == message or len(json.dumps(said)) > LONGEST // 2


@linux
def test_a_nursery_that_is_lost_is_an_error(tmp_path):
    player = Processes(2)
    player._nursery.kill()
    player._nursery.wait()
    with pytest.raises(HeadgateError, match="ended with -9"):
        player.examine(load("digits", SETTINGS), "cpu", "auto")
    player.close()
