from dataclasses import replace

import numpy as np
import pytest

from headgate.control import Controller
from headgate.control.files import FORMAT, load_ledger, save_ledger
from headgate.control.policies import Acdpp
from headgate.errors import DataError
from headgate.testing import a_system

from .playing import after


@pytest.fixture
def run():
    controller = Controller(
        a_system(), Acdpp(rate=3, K=4, capacity=a_system().buffer), 2
    )
    return controller, after(
        controller, [np.array([1.0 + t, 9.0 - t]) for t in range(9)]
    )


@pytest.mark.parametrize(
    ("most", "bytes_each"),
    [(127, 1), (128, 2), (-129, 2), (2**15, 4), (-(2**31), 4), (2**31, 8), (2**62, 8)],
)
def test_whole_numbers_take_no_more_room_than_they_need_and_come_back(
    run, tmp_path, most, bytes_each
):
    controller, ledger = run
    credit = np.zeros_like(ledger.credit)
    credit[0, 1] = most
    path = tmp_path / "ledger.npz"
    save_ledger(replace(ledger, credit=credit), path)
    with np.load(path) as file:
        assert file["credit"].itemsize == bytes_each
    loaded = load_ledger(path, controller)
    assert loaded.credit.dtype == np.int64
    assert np.array_equal(loaded.credit, credit)


def test_a_failed_write_leaves_the_old_file(run, tmp_path, monkeypatch):
    controller, ledger = run
    path = tmp_path / "ledger.npz"
    save_ledger(ledger, path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("headgate.writing.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        save_ledger(after(controller, [1.0], ledger), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["ledger.npz"]


def test_damaged_or_foreign_files_are_refused(run, tmp_path):
    controller, ledger = run
    path = tmp_path / "ledger.npz"
    save_ledger(ledger, path)
    whole = path.read_bytes()
    for damaged in (
        whole[: len(whole) // 2],
        b"",
        b"nonsense",
        whole[:200] + bytes(200) + whole[400:],
    ):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match="ledger"):
            load_ledger(path, controller)
    path.write_bytes(whole)
    with pytest.raises(DataError, match=r"missing|does not know|expected"):
        load_ledger(path, Controller(a_system(), Acdpp(rate=3, K=9), 2))
    with pytest.raises(DataError, match="not a readable ledger"):
        load_ledger(tmp_path / "none.npz", controller)


def test_values_that_cannot_be_are_refused(run, tmp_path):
    controller, ledger = run
    path = tmp_path / "ledger.npz"
    save_ledger(ledger, path)
    with np.load(path) as file:
        content = {name: file[name] for name in file.files}
    for name, value, message in (
        ("debt", np.array([np.nan, 0.0]), "not finite"),
        ("debt", np.array([-1.0, 0.0]), "negative"),
        ("dropped", content["admitted"] + 1, "negative occupancy"),
        (
            "head",
            np.array('{"format": "other", "t": 3}'),
            "not a ledger of this version",
        ),
        (
            "head",
            np.array(f'{{"format": "{FORMAT}", "t": 3}}'),
            "its terms are missing",
        ),
    ):
        np.savez(path, **{**content, name: value})
        with pytest.raises(DataError, match=message):
            load_ledger(path, controller)
