"""What numba compiled is found again by the next process, and only if it is whole and sealed with the user's key."""

import itertools
import pickle
import shutil
import subprocess
import sys
import tarfile
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("numba")

from numba import njit
from numba.core.bytecode import FunctionIdentity

from headgate.simulation.executors import kernel_cache
from headgate.simulation.executors.compiled import Compiled
from headgate.simulation.executors.kernel_calls import Kernel, call

from .compiled_nets import GREY, like_lenet
from .worlds import ONE_RUN, world


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "headgate-kernels"


def adding(what, sources=b"first"):
    """As another process would have it."""

    def add(values):
        return values + what

    return kernel_cache.keep(njit(add), sources)


def was_found(kernel, expected=3.0):
    assert kernel(np.float64(1)) == expected
    (hits,), (misses,) = ([sum(each.values())] for each in (kernel.stats.cache_hits, kernel.stats.cache_misses))
    assert hits + misses == 1
    return hits == 1


def only_file(folder):
    (file,) = folder.iterdir()
    return file


def test_what_was_compiled_is_found_again(folder):
    assert not was_found(adding(2))
    assert kernel_cache.key_file().stat().st_mode & 0o777 == 0o600
    assert was_found(adding(2))
    assert not was_found(adding(3), expected=4)  # another closure
    assert was_found(adding(2))


def test_who_compiles_for_the_first_time_says_so_beforehand(folder):
    task = world(like_lenet(), ONE_RUN, GREY).task
    assert "only this once" in Compiled(task).at_first
    was_found(adding(2))
    assert Compiled(task).at_first is None


def test_code_from_other_sources_is_another(folder):
    was_found(adding(2))
    assert not was_found(adding(2, b"second"))
    assert was_found(adding(2, b"second"))
    assert only_file(folder)  # the newer takes the older's place


def test_code_for_another_processor_is_another():
    cache = adding(2)._cache
    this, other = (SimpleNamespace(magic_tuple=lambda name=name: ("triple", name, "")) for name in ("this", "other"))
    assert cache._named((), this)[0] != cache._named((), other)[0]
    assert cache._named((), this)[1] != cache._named((), other)[1]


@pytest.mark.parametrize("damage", ["cut", "empty", "longer", "garbage", "first", "middle", "last"])
def test_a_damaged_file_is_noticed_and_made_anew(folder, damage):
    was_found(adding(2))
    file = only_file(folder)
    whole = file.read_bytes()
    at = {"first": 0, "middle": len(whole) // 2, "last": len(whole) - 1}.get(damage, 0)
    file.write_bytes(
        {"cut": whole[: len(whole) // 2], "empty": b"", "longer": whole + b"\0", "garbage": b"garbage" * 99}.get(
            damage, whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        )
    )
    assert not was_found(adding(2))
    assert file.read_bytes() != b""
    assert was_found(adding(2))


class Planted:
    """Runs when it is unpickled."""

    def __reduce__(self):
        return exec, ("raise SystemExit('it was run')",)


def test_an_archive_of_poisoned_kernels_is_not_run(folder, tmp_path, monkeypatch):
    """Made by somebody with the same headgate, numba and processor; it runs as the user who unpacks it."""
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("XDG_STATE_HOME", str(tmp_path / "attacker"))
        elsewhere.setattr(kernel_cache, "dumps", lambda parts: pickle.dumps(Planted()))
        was_found(adding(2))
        with pytest.raises(SystemExit, match="it was run"):  # the attacker's own kernels are taken
            adding(2)(np.float64(1))
    with tarfile.open(tmp_path / "kernels.tar", "w") as archive:
        archive.add(folder, folder.name)
    shutil.rmtree(folder)
    with tarfile.open(tmp_path / "kernels.tar") as archive:
        archive.extractall(tmp_path, filter="data")
    assert not was_found(adding(2))
    assert was_found(adding(2))  # it has been replaced


@pytest.mark.parametrize("variable", ["NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "XDG_STATE_HOME"])
def test_relative_folders_are_ignored(tmp_path, monkeypatch, variable):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setenv(variable, "unpacked")
    was_found(adding(2))
    assert not (tmp_path / "unpacked").exists()
    assert was_found(adding(2))


def test_a_key_that_others_may_read_seals_nothing(folder):
    was_found(adding(2))
    kernel_cache.key_file().chmod(0o640)
    assert not was_found(adding(2))
    assert not was_found(adding(4), expected=5)
    assert only_file(folder)
    note = Compiled(world(like_lenet(), ONE_RUN, GREY).task).note
    said = f"{kernel_cache.key_file()} cannot be made, or is not this user's alone"
    assert note == f"compiled kernels are not kept: {said}"
    kernel_cache.key_file().chmod(0o600)
    assert was_found(adding(2))


def test_where_nothing_can_be_kept_it_is_compiled(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    assert not was_found(adding(2))
    assert not was_found(adding(2))


@njit
def called(address, floats, marks, ints):
    call(address, floats, marks, ints, ints, 1)
    return floats[0]


def test_kernels_that_two_processes_compiled_are_told_apart(monkeypatch):
    """By a third, which finds both: each process gives its first kernel the same number."""

    def writing(what):
        def write(floats, marks, ints, args, n):
            floats[0] = what

        return Kernel(__file__, write)

    def does(kernel):
        return called(kernel.address(np.dtype(float)), np.zeros(1), np.zeros(1, np.uint16), np.zeros(1, np.int64))

    kernels = [writing(what) for what in (2, 3)]
    for kernel in kernels:
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(FunctionIdentity, "_unique_ids", itertools.count(1))
            kernel.address(np.dtype(float))
    assert [does(kernel) for kernel in kernels] == [2, 3]


PROCESS = """
import numpy as np
from headgate.simulation.executors import kernels
from headgate.simulation.executors.client_kernel import answer
from headgate.simulation.executors.compiled_room import Call, Ends, ClientRoom, program
from headgate.simulation.executors.compiled_shapes import Grid, Window

made = kernels.convolution(Window(1, 1, False, Grid(1), Grid(1)))
room = ClientRoom(np.zeros(999), np.zeros(99, np.uint16), np.zeros(99, np.int64))
room.floats[2:4] = 1, -3  # bytes become x - 3
calls = [Call(made, (64, 0, 1, 96, 128, 320, 0)), Call(kernels.relu, (4, 4, 1))]
ends, first = Ends(0, 0, 0, 0, 2, 3, 4, 4, 0, 0, 0, 1, 1, 1, 1), np.zeros(1, np.int64)
image, out = np.full((1, 1, 1, 1), 5, np.uint8), np.zeros((1, 1, 1))
answer(room, program(calls, [], ends, np.dtype(float)), image, first, np.zeros((1, 0)), first, out)
print(*out.ravel(), [sum(each.stats.cache_hits.values()) for each in (kernels.relu.function, made.function, answer)])
"""


def test_processes_that_compile_at_once_leave_whole_files(folder):
    def started():
        return subprocess.Popen([sys.executable, "-c", PROCESS], stdout=subprocess.PIPE, text=True)

    said = [each.communicate(timeout=300)[0] for each in [started(), started()]]
    assert all(each.startswith("2.0 [") for each in said)
    assert len(list(folder.iterdir())) == 3
    assert started().communicate(timeout=300)[0] == "2.0 [1, 1, 1]\n"
