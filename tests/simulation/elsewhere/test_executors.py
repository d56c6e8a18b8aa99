"""Learning by the workers of any executor: processes of Python's own pool, or a thread
of this process.
"""

import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress

import pytest

import headgate
from headgate.errors import DataError, HeadgateError, Interrupted, SettingError
from headgate.experiment import load
from headgate.records.parcels import pack, unpack
from headgate.records.reader import RunFolder
from headgate.simulation.schedule import perform

from ..schedule.played import SETTINGS, Stopping, models, tables
from .cluster import Here, small


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Slices of one round."""
    small(monkeypatch, 0.0)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What one process writes."""
    with pytest.MonkeyPatch.context() as patch:
        small(patch)
        folder = tmp_path_factory.mktemp("whole") / "run"
        return bytes_of(perform(load("digits", SETTINGS), folder, processes=1)[0].path)


def bytes_of(folder):
    return tables(folder), models(folder)


@contextmanager
def two_processes():
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, spawn) as pool:
        yield pool


def test_a_pool_of_processes_writes_the_bytes_of_one_process(tmp_path, whole):
    """Also where the run is interrupted, and another pool goes on with it."""
    with two_processes() as pool:
        found = headgate.run(load("digits", SETTINGS), tmp_path / "all", pool=pool)
        with pytest.raises(Interrupted):
            perform(
                load("digits", SETTINGS), tmp_path / "run", pool=pool, watch=Stopping()
            )
        assert RunFolder.open(tmp_path / "run").status == "interrupted"
    assert bytes_of(found.path) == whole
    perform(None, tmp_path / "run", pool=Here())
    assert bytes_of(tmp_path / "run") == whole


def test_a_pool_that_breaks_is_an_error_and_nothing_is_lost(tmp_path, whole):
    folder = tmp_path / "run"
    with two_processes() as pool:

        def kill(own, rows):
            for pid in list(pool._processes) if rows else ():
                with suppress(ProcessLookupError):  # killed the round before
                    os.kill(pid, signal.SIGKILL)

        with pytest.raises(HeadgateError, match=r"ProcessPoolExecutor.*continue with"):
            perform(load("digits", SETTINGS), folder, pool=pool, watch=kill)
        assert pool._broken
    perform(None, folder, processes=1)
    assert bytes_of(folder) == whole


def test_slices_of_a_round_and_whole_chunks_are_the_same(tmp_path, whole):
    pool = Here()
    folder = perform(load("digits", SETTINGS), tmp_path / "run", pool=pool)[0].path
    assert pool.tasks >= 1 + 4 * 2  # the examination, and slices of four chunks
    assert bytes_of(folder) == whole


def test_a_comparison_is_played_by_a_pool(tmp_path):
    pool = Here()
    experiment = load("digits", [*SETTINGS, "run.policies=['headgate', 'constant']"])
    by_pool = headgate.compare(experiment, [20, 55], tmp_path / "two", pool=pool)
    alone = headgate.compare(experiment, [20, 55], tmp_path / "one", processes=1)
    assert pool.tasks > 2
    assert by_pool.rows == alone.rows


def lost(times):
    """What loses so many answers, from the third on."""
    left = [None, None, *["the wire broke"] * times]

    def change(answer):
        if left and left.pop(0):
            raise RuntimeError("the wire broke")
        return answer

    return change


def test_a_lost_answer_is_asked_for_again_and_that_is_said(tmp_path, whole):
    said, pool = [], Here(lost(2))
    folder = perform(
        load("digits", SETTINGS), tmp_path / "run", pool=pool, say=said.append
    )[0].path
    assert bytes_of(folder) == whole
    again = "its worker was lost (RuntimeError: the wire broke); it is played again"
    assert sum(line.endswith(again) for line in said) == 2


def test_who_loses_all_answers_is_not_asked_for_ever(tmp_path):
    with pytest.raises(HeadgateError, match=r"the wire broke\) \(3 times\); continue"):
        perform(load("digits", SETTINGS), tmp_path / "run", pool=Here(lost(99)))


@pytest.mark.parametrize(
    ("name", "change", "why"),
    [
        ("checkpoint.json", lambda old: b"{}", "is damaged"),
        ("tensors.safetensors", lambda old: old[:-1] + b"x", "is damaged"),
        ("part-00001.parquet", lambda old: old + b"x", "is not what was written"),
        ("part-00001.parquet", None, "cannot be read"),
        ("checkpoint.json", None, "cannot be read"),
    ],
)
def test_what_comes_back_damaged_never_enters_the_run(
    tmp_path, whole, name, change, why
):
    def damaged(answer):
        facts, files = unpack(answer)
        for own in [own for own in files if own.endswith(name)]:
            content = files.pop(own)
            if change is not None:
                files[own] = change(content)
        return pack(facts, files)

    folder = tmp_path / "run"
    with pytest.raises(DataError, match=why):
        perform(load("digits", SETTINGS), folder, pool=Here(damaged))
    assert not list(folder.glob("*/c*"))
    assert not list(folder.rglob("*.partial"))
    perform(None, folder, processes=1)
    assert bytes_of(folder) == whole


def test_a_worker_that_does_not_fit_is_refused_by_name(tmp_path):
    folder = tmp_path / "run"

    def older(answer):
        facts, files = unpack(answer)
        if "environment" in facts:
            facts["environment"]["numpy"] = "0.1"
        return pack(facts, files)

    with pytest.raises(HeadgateError) as error:
        perform(load("digits", SETTINGS), folder, pool=Here(older))
    own = f"worker {os.uname().nodename}, {os.getpid()} does not fit the run: numpy is"
    assert own in str(error.value)
    assert "the run has 0.1 (3 times)" in str(error.value)


def test_a_part_without_a_name_cannot_go_to_a_pool(tmp_path):
    class Own(type(load("digits", SETTINGS).policies["hybrid"])):
        pass

    experiment = load("digits", SETTINGS).with_policy("mine", Own(K=4))
    with pytest.raises(SettingError, match=r"--on: this process alone can run"):
        perform(experiment, tmp_path / "run", pool=Here())


def test_luggage_that_is_too_large_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("headgate.simulation.luggage.MOST", 10)
    (tmp_path / "x.csv").write_text("a,label\n1,0\n2,1\n3,0\n4,1\n5,1\n6,0\n" * 5)
    data = f"data={{kind='table', file='{tmp_path / 'x.csv'}'}}"
    experiment = load("digits", [*SETTINGS, data, "system.clients=2"])
    with pytest.raises(SettingError, match=r"x\.csv: 0 MiB; modules and tables of up"):
        perform(experiment, tmp_path / "run", pool=Here())
