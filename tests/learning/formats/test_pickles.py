"""Pickles are replayed, never run."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.errors import DataError
from headgate.learning.formats import read_batch

from ..said import one_line
from .written import Sample, batch_bytes, refuses, write_batches

pytest.importorskip("PIL", reason="pillow is not installed")


class Evil:
    """Unpickled, it would make the file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickle_which_calls_something_is_refused_and_not_run(tmp_path: Path, protocol: int) -> None:
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps({"data": Evil(tmp_path / "was here"), "labels": []}, protocol))
    with pytest.raises(DataError) as error:
        read_batch(tmp_path / "data_batch_1")
    one_line(error, tmp_path / "data_batch_1")
    assert not (tmp_path / "was here").exists()


@pytest.mark.parametrize(
    "batch",
    [
        [1, 2],
        {"labels": [1]},
        {"data": np.zeros((1, 3072), np.uint8), "fine_labels": [1]},
        {"data": np.zeros((1, 3072), np.uint8), "labels": [1, 2]},
        {"data": np.zeros((1, 3072), np.uint8), "labels": [True]},
        {"data": np.zeros((1, 3072), np.float32), "labels": [1]},
        {"data": np.zeros((1, 3071), np.uint8), "labels": [1]},
        {7: 8},
    ],
)
def test_a_pickle_of_something_else_is_refused(tmp_path: Path, colour: Sample, batch: Any) -> None:
    write_batches(tmp_path, colour, 4)
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps(batch, 4))
    refuses(tmp_path, tmp_path / "data_batch_1")


SMALL_BATCHES = [batch_bytes(np.zeros((2, 3, 32, 32), np.uint8), np.array([3, 4]), protocol) for protocol in (0, 2, 4)]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    good=st.sampled_from(SMALL_BATCHES),
    # The structure lies at both ends, the pixels between them.
    changes=st.lists(st.tuples(st.integers(-80, 400), st.integers(0, 255)), min_size=1, max_size=4),
    cut=st.none() | st.integers(0, 7000),
)
def test_a_damaged_pickle_raises_nothing_but_data_errors(
    tmp_path: Path, good: bytes, changes: list[tuple[int, int]], cut: int | None
) -> None:
    content = bytearray(good)
    for place, value in changes:
        content[place] = value
    path = tmp_path / "data_batch_1"
    path.write_bytes(content[:cut])
    message, batch = "", {}
    try:
        batch = read_batch(path)
    except DataError as error:
        message = str(error)
    assert "\n" not in message
    assert message.startswith(str(path)) if message else all(isinstance(key, str) for key in batch)
