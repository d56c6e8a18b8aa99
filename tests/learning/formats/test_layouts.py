"""Every layout on disk gives the same pixels."""

import gzip
from functools import partial

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from headgate.errors import DataError
from headgate.learning.datasets import recognise
from headgate.learning.formats import read_idx

from ..said import CIFAR_CLASSES, refused
from .written import (
    COLOUR,
    GREY,
    Sample,
    assert_same,
    encoded,
    idx_bytes,
    layout,
    parquet_frame,
    read,
    refuses,
    write_binary,
    write_idx,
    write_parquet,
    write_pictures,
)

pytest.importorskip("PIL", reason="pillow is not installed")


@pytest.mark.parametrize("root", [".", "imagenette2-160"])
@pytest.mark.parametrize(
    ("write", "sample", "called"),
    [
        (partial(write_idx, packed=False), GREY, ("idx", None)),
        (partial(write_idx, packed=True), GREY, ("idx", None)),
        (write_binary, COLOUR, ("cifar-10-batches-bin", None)),
        (
            partial(write_pictures, test="test"),
            COLOUR,
            ("image folder", tuple(CIFAR_CLASSES)),
        ),
        (
            partial(write_pictures, kind="WEBP"),
            COLOUR,
            ("image folder", tuple(CIFAR_CLASSES)),
        ),
        (partial(write_parquet, image="img", kind="WEBP"), COLOUR, ("parquet", None)),
        (
            partial(
                write_parquet,
                names=("train-00000-of-00001.parquet", "validation-0.parquet"),
            ),
            COLOUR,
            ("parquet", None),
        ),
        (
            partial(
                write_parquet,
                names=("data/train.parquet", "data/test.parquet"),
                label="labels",
            ),
            COLOUR,
            ("parquet", None),
        ),
        (
            partial(
                write_parquet,
                names=("a=b [c] *?/train.parquet", "a=b [c] *?/test.parquet"),
            ),
            COLOUR,
            ("parquet", None),
        ),
    ],
)
def test_every_layout_comes_back_exactly(tmp_path, root, write, sample, called):
    write(tmp_path / root, sample)
    assert_same(read(tmp_path, len(sample.train_images[0])), sample)
    assert layout(tmp_path) == called


def test_an_unpacked_file_beside_its_gzip_is_one_file(tmp_path):
    write_idx(tmp_path, GREY, False)
    write_idx(tmp_path, GREY, True)
    assert_same(read(tmp_path, 1), GREY)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    array=st.one_of(
        arrays(np.uint8, st.tuples(st.integers(0, 40))),
        arrays(
            np.uint8, st.tuples(st.integers(0, 6), st.integers(1, 7), st.integers(1, 7))
        ),
    ),
    packed=st.booleans(),
    cut=st.integers(1, 400),
)
def test_idx_round_trip_and_damage(tmp_path, array, packed, cut):
    content = idx_bytes(array)
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(content) if packed else content)
    got = read_idx(path)
    np.testing.assert_array_equal(got, array)
    assert got.shape == array.shape
    whole = path.read_bytes()
    for damaged in (
        whole[: max(len(whole) - cut, 0)],
        content + b"\x00",
        b"\x00\x00\x0d" + content[3:],
    ):
        path.write_bytes(damaged)
        refused(DataError, lambda: read_idx(path), path)


def test_pictures_of_different_sizes_are_squeezed(tmp_path):
    for split, width in (("train", 80), ("val", 120)):
        path = tmp_path / split / "n0" / "x.JPEG"
        path.parent.mkdir(parents=True)
        ramp = np.broadcast_to(
            np.linspace(0, 255, width).astype(np.uint8), (3, 80, width)
        )
        path.write_bytes(encoded(ramp))
    pictures = read(tmp_path)
    # The whole width is kept: the ramp still goes from black to white, in every size.
    for images, *_ in pictures:
        assert images.shape == (1, 3, 64, 64)
        assert images[0, 0, 30].astype(int) == pytest.approx(
            np.linspace(0, 255, 64), abs=4
        )


def test_parquet_in_parts_keeps_their_order_and_further_columns(tmp_path):
    write_parquet(tmp_path, COLOUR)
    (tmp_path / "train.parquet").unlink()
    frame = parquet_frame(*COLOUR.splits["train"]).with_columns(
        writer=pl.Series([f"w{row}" for row in range(20)]),
        weight=pl.Series(np.arange(20.0)),
        gaps=pl.Series([None] + [1] * 19),
    )
    frame[:7].write_parquet(tmp_path / "train-00000-of-00002.parquet")
    frame[7:].write_parquet(tmp_path / "train-00001-of-00002.parquet")
    pictures = read(tmp_path)
    assert_same(pictures, COLOUR)
    assert {name: column.tolist() for name, column in pictures[0].columns.items()} == {
        "writer": [1, 2, *range(13, 21), *range(3, 13)],  # w0, w1, w10, ...
        "weight": list(range(20)),
    }
    (tmp_path / "train-00000-of-00002.parquet").unlink()
    refuses(tmp_path, tmp_path / "train-00001-of-00002.parquet", "one of 2 parts")


def test_of_several_configurations_one_is_read(tmp_path):
    write_parquet(
        tmp_path, Sample(3, 8), ("320px/train.parquet", "320px/validation.parquet")
    )
    write_parquet(tmp_path, COLOUR, ("160px/train.parquet", "160px/validation.parquet"))
    assert_same(read(tmp_path), COLOUR)


def test_a_test_split_wins_over_a_validation_split_and_idx_over_parquet(tmp_path):
    write_parquet(tmp_path, GREY)
    (tmp_path / "validation.parquet").write_bytes(
        (tmp_path / "train.parquet").read_bytes()
    )
    assert_same(read(tmp_path, 1), GREY)
    write_idx(tmp_path, GREY, True)
    assert layout(tmp_path) == ("idx", None)


def test_unfinished_and_hidden_files_are_not_data(tmp_path):
    (tmp_path / "train-00000-of-00002.parquet.part").write_bytes(b"PAR1 and no more")
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "train.parquet").write_bytes(b"junk")
    assert recognise(tmp_path) is None
    write_parquet(tmp_path, COLOUR)
    assert_same(read(tmp_path), COLOUR)
