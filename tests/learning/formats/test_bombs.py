"""Files that claim or become more than they are: one line, before memory is taken for
them.
"""

import gzip
import resource
import struct
import zlib
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from headgate.errors import HeadgateError
from headgate.learning.datasets import recognise
from headgate.learning.formats import decode, read_idx
from headgate.reading import check_parquet

from ..said import refused
from .written import encoded

pytest.importorskip("PIL", reason="pillow is not installed")


@pytest.fixture(autouse=True)
def _no_more_than_it_may(monkeypatch):
    """What is refused takes hardly anything: the peak of the process stays where it
    was.
    """
    monkeypatch.setenv("HEADGATE_MEMORY", "0.1")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # KiB


def grey(side):
    return encoded(np.zeros((1, side, side), np.uint8))


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ((150, 1024, 1024), "takes about 0.1 GiB of memory; at most 0.1"),
        ((2**32 - 1,) * 3, "GiB of memory; at most 0.1"),
        ((0, 2**32 - 1, 2**32 - 1), "is damaged"),
    ],
)
def test_an_idx_file_that_is_larger_than_it_may_be(tmp_path, shape, said):
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(bytes([0, 0, 8, 3]) + struct.pack(">3I", *shape)))
    refused(HeadgateError, lambda: read_idx(path), said)


def test_many_pictures_of_one_shade(tmp_path):
    large = grey(2000)
    for split in ("train", "test"):
        (tmp_path / split / "one").mkdir(parents=True)
        for i in range(20):
            (tmp_path / split / "one" / f"{i:03}.png").write_bytes(large)
    refused(
        HeadgateError,
        lambda: recognise(tmp_path).read(channels=1, classes=1),
        "26 pictures before it take",
    )


def test_a_picture_of_too_many_pixels(recwarn):
    small = grey(8)
    for side in (40_000, 12_000):
        head = b"IHDR" + struct.pack(">II", side, side) + small[24:29]
        wide = small[:12] + head + struct.pack(">I", zlib.crc32(head)) + small[33:]
        refused(
            HeadgateError, partial(decode, "huge.png", wide, 1), "bomb"
        )  # Pillow's own limit
    assert not recwarn.list


@pytest.mark.parametrize(
    ("rows", "size"),
    [(1_000_000, 20), (200, 100_000)],
    ids=["many rows", "one picture many times"],
)
def test_a_parquet_file_that_becomes_gigabytes(tmp_path, monkeypatch, rows, size):
    monkeypatch.setenv("HEADGATE_MEMORY", "0.01")
    kind = pl.Struct({"bytes": pl.Binary, "path": pl.String})
    picture = pl.Series(
        "image", [{"bytes": bytes(size), "path": None}], dtype=kind
    ).new_from_index(0, rows)
    frame = pl.DataFrame(
        {"image": picture, "label": pl.Series([0]).new_from_index(0, rows)}
    )
    for split in ("train", "test"):
        frame.write_parquet(tmp_path / f"{split}.parquet")
    refused(
        HeadgateError,
        lambda: recognise(tmp_path).read(channels=1, classes=10),
        "of memory; at most 0.01",
    )


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"compression": "snappy"},
        {"compression": "uncompressed"},
        {"row_group_size": 7},
    ],
)
def test_rows_are_counted_and_limited_before_they_are_read(tmp_path, monkeypatch, how):
    path = tmp_path / "x.parquet"
    pl.DataFrame(
        {"a": range(100), "b": ["text"] * 100, "c": [[1, 2]] * 100}
    ).write_parquet(path, **how)
    assert (
        check_parquet(path)
        == check_parquet(Path("x"), path.read_bytes(), most=100)
        == 100
    )
    assert (
        refused(HeadgateError, lambda: check_parquet(path, most=99))
        == f"{path}: 100 rows; at most 99"
    )
    monkeypatch.setenv("HEADGATE_MEMORY", str((path.stat().st_size + 2399) / 2**30))
    refused(
        HeadgateError, lambda: check_parquet(path), "100 rows of 3 columns take about"
    )
