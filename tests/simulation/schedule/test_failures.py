"""What goes wrong in a child, on the disk or in an executor reaches the user in
words.
"""

from contextlib import closing

import pytest

from headgate.errors import DataError, HeadgateError, SettingError
from headgate.experiment import load
from headgate.records.owner import check_executor
from headgate.records.reader import RunFolder
from headgate.registry import Untrusted
from headgate.simulation import pools, schedule
from headgate.simulation.schedule import perform
from headgate.simulation.slices import Slices
from headgate.simulation.workers import InProcess

from .played import SETTINGS, linux, odd


@linux
def test_what_a_child_refuses_reaches_the_user(tmp_path):
    with pytest.raises(SettingError, match="--executor fast"):
        perform(
            load("digits", SETTINGS), tmp_path / "run", processes=2, executor="fast"
        )
    assert not list(tmp_path.iterdir())


@linux
@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("raise ZeroDivisionError('at last')", "ZeroDivisionError: at last"),
        ("os._exit(1)", "its process ended with 1 and did not say why"),
    ],
)
def test_a_child_that_fails_is_named_with_its_error(tmp_path, monkeypatch, does, said):
    experiment = odd(tmp_path, monkeypatch, 3, does)
    with pytest.raises(
        HeadgateError,
        match=rf"\((hybrid|acdpp), seeds \d to \d\): {said}.*; continue with",
    ):
        perform(experiment, tmp_path / "run", processes=2)
    assert list((tmp_path / "run").rglob("state.json"))


@linux
def test_a_process_that_is_lost_before_it_plays_is_started_again(tmp_path):
    pool, said = pools.Processes(2), []
    for child in pool._children:
        child.process.kill()
    with closing(Slices(pool, said.append)) as worker:
        asked = (tmp_path, load("digits", SETTINGS), "auto")
        (facts,) = worker.examine_all([asked], "cpu")
    assert facts["environment"]["executor"] == "gram"
    assert {"ended by SIGKILL" in line for line in said} <= {True}


@linux
def test_a_process_whose_parent_was_killed_ends_without_a_word(capfd):
    child = pools._Child()
    child.connection.close()
    assert child.process.wait() == 0
    assert capfd.readouterr().err == ""


def test_a_full_disk_is_reported_also_by_the_process_that_looks_after_the_others(
    tmp_path, monkeypatch
):
    def full(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("headgate.records.owner.OwnedRun.write_state", full)
    folder = tmp_path / "run"
    with pytest.raises(DataError) as error:
        perform(load("digits", SETTINGS), folder, processes=1)
    hint = f"make room and continue with: headgate run --resume {folder}"
    assert str(error.value).endswith(
        f"{folder}: cannot be written (No space left on device); {hint}"
    )


def test_what_cannot_be_continued_is_not_said_to_go_on(tmp_path, monkeypatch):
    folder, execute = tmp_path / "run", InProcess.execute

    def damaged(self, chunks, *given):
        (chunks[0].folder / "checkpoints" / "c000-00000001").mkdir(parents=True)
        execute(self, chunks, *given)

    monkeypatch.setattr(InProcess, "execute", damaged)
    with pytest.raises(
        DataError,
        match=(
            r"000 \(hybrid, seeds 0 to 1\): .*checkpoint.json: cannot be read"
            r" \([^)]*\)$"
        ),
    ):
        perform(load("digits", SETTINGS), folder, processes=1)


def test_what_an_executor_gave_up_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "headgate.simulation.executors.gram.Gram.note",
        "given up, slower",
        raising=False,
    )
    said = []
    folder = perform(
        load("digits", SETTINGS), tmp_path / "run", processes=1, say=said.append
    )[0].path
    assert said == ["8 runs (2 policies × 4 seeds)", "given up, slower"]
    assert RunFolder.open(folder).state["note"] == "given up, slower"


def test_what_keeps_one_waiting_before_the_first_round_is_said_first(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(
        "headgate.simulation.executors.gram.Gram.at_first", "something is compiled"
    )
    said = []
    points = [
        (
            f"system.budget={budget}",
            load("digits", [*SETTINGS, f"system.budget={budget}"]),
        )
        for budget in (20.0, 55.0)
    ]
    perform(points, tmp_path / "runs", processes=1, say=said.append)
    assert said == ["something is compiled", "16 runs (2 points of a sweep)"]


@pytest.mark.parametrize("trust", [(), ("other",), ("os:path",), ("os",)])
def test_an_executor_that_a_folder_names_is_imported_only_if_it_is_trusted(
    tmp_path, trust
):
    if trust in ((), ("other",)):
        with pytest.raises(
            Untrusted, match=r"executor = os:path: is code from outside headgate"
        ):
            check_executor(tmp_path, "os:path", "auto", trust)
    else:
        check_executor(tmp_path, "os:path", "auto", trust)


# which worker plays by default


@pytest.mark.parametrize(
    ("device", "kind", "processes"),
    [("cpu", Slices, None), ("cuda", InProcess, None), ("cuda", InProcess, 2)],
)
def test_many_processes_play_on_the_cpu_and_one_on_a_gpu(
    tmp_path, monkeypatch, device, kind, processes
):
    monkeypatch.setattr(schedule, "LIGHT", 0)
    monkeypatch.setattr(schedule, "cores", lambda: 2)
    monkeypatch.setattr(schedule, "choose_device", lambda name: name)
    tasks = [schedule._Task(tmp_path, load("digits"))]
    with closing(schedule._worker(tasks, device, processes, None, print)) as worker:
        assert type(worker) is kind
