"""Small data sets in every layout on disk, and how they are read back."""

import gzip
import io
import struct

import numpy as np
import polars as pl

from headgate.errors import DataError
from headgate.learning.datasets import recognise

from ..said import CIFAR_CLASSES, refused


class Sample:
    """Twenty training and ten test images of ten classes, in the order of their
    labels.
    """

    def __init__(self, channels, side):
        random = np.random.default_rng(5)
        self.train_labels, self.test_labels = np.repeat(np.arange(10), 2), np.arange(10)
        self.train_images = random.integers(
            0, 256, (20, channels, side, side), dtype=np.uint8
        )
        self.test_images = random.integers(
            0, 256, (10, channels, side, side), dtype=np.uint8
        )

    @property
    def splits(self):
        return {
            "train": (self.train_images, self.train_labels),
            "test": (self.test_images, self.test_labels),
        }


GREY, COLOUR = Sample(1, 28), Sample(3, 32)


def idx_bytes(array):
    return (
        bytes([0, 0, 8, array.ndim])
        + struct.pack(f">{array.ndim}I", *array.shape)
        + array.tobytes()
    )


def write_idx(folder, sample, packed):
    folder.mkdir(parents=True, exist_ok=True)
    for split, (images, labels) in zip(
        ("train", "t10k"), sample.splits.values(), strict=True
    ):
        for name, array in (
            ("images-idx3", images[:, 0]),
            ("labels-idx1", labels.astype(np.uint8)),
        ):
            content = idx_bytes(array)
            path = folder / f"{split}-{name}-ubyte{'.gz' * packed}"
            path.write_bytes(gzip.compress(content) if packed else content)


def write_binary(folder, sample):
    folder.mkdir(parents=True, exist_ok=True)
    for name, (images, labels) in {
        "data_batch_1.bin": (sample.train_images[:12], sample.train_labels[:12]),
        "data_batch_2.bin": (sample.train_images[12:], sample.train_labels[12:]),
        "test_batch.bin": sample.splits["test"],
    }.items():
        records = np.concatenate(
            [labels[:, None].astype(np.uint8), images.reshape(len(images), -1)], axis=1
        )
        (folder / name).write_bytes(records.tobytes())


def encoded(image, kind="PNG"):
    from PIL import Image

    out = io.BytesIO()
    picture = Image.fromarray(
        image[0] if len(image) == 1 else np.ascontiguousarray(image.transpose(1, 2, 0))
    )
    picture.save(
        out, kind, **({"lossless": True, "exact": True} if kind == "WEBP" else {})
    )
    return out.getvalue()


def write_pictures(folder, sample, kind="PNG", test="val"):
    for split, (images, labels) in sample.splits.items():
        for row, (image, label) in enumerate(zip(images, labels, strict=True)):
            path = (
                folder
                / (test if split == "test" else split)
                / CIFAR_CLASSES[label]
                / f"{row:03}.{kind}"
            )
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encoded(image, kind))


def parquet_frame(images, labels, kind="PNG", image="image", label="label"):
    rows = [
        {"bytes": encoded(picture, kind), "path": f"{row}.png"}
        for row, picture in enumerate(images)
    ]
    return pl.DataFrame({image: rows, label: labels.tolist()})


def write_parquet(folder, sample, names=("train.parquet", "test.parquet"), **how):
    for name, (images, labels) in zip(names, sample.splits.values(), strict=True):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        parquet_frame(images, labels, **how).write_parquet(folder / name)


def read(folder, channels=3):
    """What `folder` holds, read as ten classes."""
    source = recognise(folder)
    assert source is not None
    return source.read(channels, 10)


def layout(folder):
    source = recognise(folder)
    return (source.format, source.classes()) if source else ("", None)


def assert_same(splits, sample):
    """Pixel for pixel, and in the form which torch takes over without a copy or a
    warning.
    """
    for got, (images, labels) in zip(splits, sample.splits.values(), strict=True):
        np.testing.assert_array_equal(got.images, images)
        np.testing.assert_array_equal(got.labels, labels)
        assert (got.images.dtype, got.labels.dtype) == (np.uint8, np.int64)
        for array in (got.images, got.labels):
            assert array.flags.c_contiguous
            assert array.flags.writeable


def refuses(folder, *parts, channels=3):
    """Reading `folder` ends in one line with these parts."""
    refused(DataError, lambda: read(folder, channels), *parts)
