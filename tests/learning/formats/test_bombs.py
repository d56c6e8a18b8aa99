"""Files that claim or become more than they are: one line, before memory is taken for them."""

import gzip
import io
import resource
import struct
import zlib
from pathlib import Path

import polars as pl
import pytest

from headgate import limits
from headgate.errors import HeadgateError
from headgate.learning.formats import decode, read_idx, recognise
from headgate.reading import check_parquet

Image = pytest.importorskip("PIL.Image", reason="pillow is not installed")


@pytest.fixture(autouse=True)
def _no_more_than_it_may():
    """What is refused takes hardly anything: the peak of the process stays where it was."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # KiB


def refused(read) -> str:
    with pytest.raises(HeadgateError) as refusal:
        read()
    said = str(refusal.value)
    assert "\n" not in said
    return said


def png(side, shade: int = 0) -> bytes:
    file = io.BytesIO()
    Image.new("L", side, shade).save(file, "PNG")
    return file.getvalue()


def test_a_packed_idx_file_that_becomes_a_thousand_times_as_large(tmp_path):
    path = tmp_path / "train-images-idx3-ubyte.gz"
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(bytes([0, 0, 8, 3]) + struct.pack(">3I", 150, 1024, 1024))
        for _ in range(150):
            file.write(bytes(1 << 20))
    assert "at most 100 times as many" in refused(lambda: read_idx(path))


@pytest.mark.parametrize("shape", [(0, 2**32 - 1, 2**32 - 1), (2**32 - 1, 0, 1)])
def test_an_idx_file_of_nothing_times_much(tmp_path, shape):
    path = tmp_path / "x-idx3-ubyte"
    path.write_bytes(bytes([0, 0, 8, 3]) + struct.pack(">3I", *shape))
    assert "nothing in it" in refused(lambda: read_idx(path))


def test_pictures_of_mixed_sizes_the_first_a_large_one(tmp_path):
    for split, many in (("train", 40), ("test", 2)):
        (tmp_path / split / "one").mkdir(parents=True)
        for i in range(many):
            (tmp_path / split / "one" / f"{i:03}.png").write_bytes(png((3000, 3000) if i == 0 else (8, 9), i))
    found = recognise(tmp_path)
    assert found is not None
    assert found.read(channels=1, classes=1).train_images.shape == (40, 1, 64, 64)


def test_many_pictures_of_one_shade_are_refused_before_room_is_made(tmp_path):
    for split in ("train", "test"):
        (tmp_path / split / "one").mkdir(parents=True)
        for i in range(20):
            (tmp_path / split / "one" / f"{i:03}.png").write_bytes(png((2000, 2000)))
    found = recognise(tmp_path)
    assert found is not None
    assert "at most 100 times as many" in refused(lambda: found.read(channels=1, classes=1))


def test_a_picture_of_too_many_pixels(recwarn):
    said, small = {}, png((8, 8))
    for side in (40_000, 12_000, 8_000):
        head = b"IHDR" + struct.pack(">II", side, side) + small[24:29]
        wide = small[:12] + head + struct.pack(">I", zlib.crc32(head)) + small[33:]
        said[side] = refused(lambda data=wide: decode("huge.png", data, 1))
    assert "bomb" in said[40_000]  # Pillow's own limit
    for side in (12_000, 8_000):
        assert f"{side} x {side} pixels; at most {limits.PIXELS:,}" in said[side]
    assert not recwarn.list


# parquet


def frame(rows: int, content: bytes, label=0, **more) -> pl.DataFrame:
    picture = pl.Series("image", [{"bytes": content, "path": None}], dtype=pl.Struct({"bytes": pl.Binary, "path": pl.String}))
    return pl.DataFrame({"image": picture.new_from_index(0, rows), "label": pl.Series([label]).new_from_index(0, rows), **more})


def written(folder: Path, train: pl.DataFrame, **how) -> Path:
    train.write_parquet(folder / "train.parquet", **how)
    train.head(3).write_parquet(folder / "test.parquet", **how)
    return folder


@pytest.mark.parametrize(("rows", "size"), [(2_000_000, 20), (1_000, 100_000)], ids=["many rows", "one picture many times"])
def test_a_parquet_file_that_becomes_gigabytes(tmp_path, rows, size):
    written(tmp_path, frame(rows, bytes(size)))
    found = recognise(tmp_path)
    assert found is not None
    assert "at most 100 times as many" in refused(lambda: found.read(channels=1, classes=10))


@pytest.mark.parametrize("how", [{}, {"compression": "snappy"}, {"compression": "uncompressed"}, {"row_group_size": 7}])
def test_rows_are_counted_and_limited_before_they_are_read(tmp_path, monkeypatch, how):
    path = tmp_path / "x.parquet"
    pl.DataFrame({"a": range(100), "b": ["text"] * 100, "c": [[1, 2]] * 100}).write_parquet(path, **how)
    assert check_parquet(path) == check_parquet(Path("x"), path.read_bytes(), most=100) == 100
    assert refused(lambda: check_parquet(path, most=99)) == f"{path}: 100 rows; at most 99"
    monkeypatch.setenv("HEADGATE_MEMORY", str((path.stat().st_size + 2399) / 2**30))
    assert "100 rows of 3 columns take about" in refused(lambda: check_parquet(path))
