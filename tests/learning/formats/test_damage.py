"""Every damage is one line which names the file."""

import io
from functools import partial

import numpy as np
import polars as pl
import pytest

from headgate.errors import DataError
from headgate.learning.formats import decode

from .written import (
    COLOUR,
    GREY,
    idx_bytes,
    parquet_frame,
    read,
    refuses,
    write_binary,
    write_idx,
    write_parquet,
    write_pictures,
)

Image = pytest.importorskip("PIL.Image", reason="pillow is not installed")


def truncated(content):
    return content[: len(content) // 2 - 1]


def spoilt(content):
    middle = len(content) // 2
    return content[: middle - 500] + bytes(1000) + content[middle + 500 :]


def empty(content):
    return b""


@pytest.mark.parametrize(
    ("write", "damaged", "damage"),
    [
        (partial(write_idx, packed=True), "train-images-idx3-ubyte.gz", spoilt),
        (write_binary, "data_batch_2.bin", truncated),
        (write_binary, "data_batch_2.bin", empty),
        (write_binary, "data_batch_2.bin", lambda content: b"\x0b" + content[1:]),
        (write_parquet, "train.parquet", truncated),
        (write_parquet, "train.parquet", empty),
        (write_parquet, "train.parquet", spoilt),
        (write_pictures, "train/cat/006.PNG", truncated),
        (write_pictures, "val/dog/005.PNG", empty),
    ],
)
def test_damage_is_one_line_with_the_file(tmp_path, write, damaged, damage):
    write(tmp_path, COLOUR)
    read(tmp_path)
    path = tmp_path / damaged
    path.write_bytes(damage(path.read_bytes()))
    refuses(tmp_path, path)


def test_labels_name_the_file_where_they_are_out_of_range_or_too_few(tmp_path):
    write_idx(tmp_path / "idx", GREY, False)
    path = tmp_path / "idx" / "t10k-labels-idx1-ubyte"
    path.write_bytes(idx_bytes(np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 12], np.uint8)))
    refuses(tmp_path / "idx", path, "label 12 is outside 0..9", channels=1)
    path.write_bytes(idx_bytes(np.zeros(9, np.uint8)))
    refuses(tmp_path / "idx", path, "9 labels for the 10 images", channels=1)

    write_parquet(tmp_path / "parquet", COLOUR)
    path = tmp_path / "parquet" / "test.parquet"
    parquet_frame(COLOUR.test_images, np.array([0, -1, *range(8)])).write_parquet(path)
    refuses(tmp_path / "parquet", path, "label -1 is outside 0..9")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.rename({"image": "photo"}), "has photo, label"),
        (
            lambda frame: frame.with_columns(image=pl.lit("x.png")),
            "not a struct with bytes",
        ),
        (lambda frame: frame.with_columns(label=pl.lit("cat")), "not whole numbers"),
        (
            lambda frame: frame.with_columns(
                label=pl.when(pl.int_range(pl.len()) == 3).then(None).otherwise("label")
            ),
            "row 3",
        ),
        (
            lambda frame: frame.with_columns(
                image=pl.struct(bytes=pl.lit(None, pl.Binary), path=pl.lit("p"))
            ),
            "empty in row 0",
        ),
        (
            lambda frame: frame.with_columns(
                image=pl.struct(bytes=pl.lit(b"GIF89a"), path=pl.lit("p"))
            ),
            "row 0: picture cannot",
        ),
    ],
)
def test_parquet_of_another_make_is_refused(tmp_path, change, message):
    write_parquet(tmp_path, COLOUR)
    change(parquet_frame(*COLOUR.splits["train"])).write_parquet(
        tmp_path / "train.parquet"
    )
    refuses(tmp_path, tmp_path / "train.parquet", message)


@pytest.mark.parametrize(
    ("write", "gone", "message"),
    [
        (write_pictures, "val", "none in test, val or validation"),
        (write_binary, "test_batch.bin", "without test batches"),
        (write_binary, "data_batch_*", "without training batches"),
        (write_parquet, "test.parquet", "found train.parquet"),
        (
            partial(write_idx, packed=True),
            "t10k-labels*",
            "of labels for training and for test, found",
        ),
    ],
)
def test_half_a_data_set_is_refused(tmp_path, write, gone, message):
    write(tmp_path / "data", COLOUR)
    for path in (tmp_path / "data").glob(gone):
        path.rename(tmp_path / path.name)
    refuses(tmp_path / "data", tmp_path / "data", message)


def test_a_class_known_only_to_the_test_set_is_refused(tmp_path):
    write_pictures(tmp_path, COLOUR)
    (tmp_path / "val" / "cat").rename(tmp_path / "val" / "lynx")
    refuses(tmp_path, tmp_path / "val" / "lynx")


def test_sixteen_bit_pictures_are_refused_not_clipped():
    out = io.BytesIO()
    Image.fromarray(np.full((4, 4), 4000, np.uint16)).save(out, "PNG")
    with pytest.raises(
        DataError,
        match=r"x: picture cannot be decoded \(mode I;16 has more than 8 bits",
    ):
        decode("x", out.getvalue(), 1)
