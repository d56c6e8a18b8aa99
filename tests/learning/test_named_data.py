"""The data sets by name: where they are looked for, what is listed of them and what is refused."""

import io
import json
import struct
from itertools import cycle, islice
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from headgate.errors import DataError, SettingError
from headgate.learning.datasets import (
    DIGITS_COUNTS,
    NAMES,
    DatasetEntry,
    available,
    data_folder,
    load_dataset,
)

from .said import CIFAR_CLASSES, found, one_line

IMAGES = np.random.default_rng(5).integers(0, 256, (20, 28, 28), dtype=np.uint8)
LABELS = np.repeat(np.arange(10, dtype=np.uint8), 2)


def write_idx(folder: Path) -> None:
    """IMAGES and LABELS for training, the first ten of them for test."""
    folder.mkdir()
    for split, rows in (("train", 20), ("t10k", 10)):
        for kind, array in (("images", IMAGES[:rows]), ("labels", LABELS[:rows])):
            head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
            (folder / f"{split}-{kind}-idx{array.ndim}-ubyte").write_bytes(head + array.tobytes())


def write_parquet(folder: Path, *pictures: bytes, rows: int = 20, classes: list[str] | None = None) -> None:
    """The pictures in turn: `rows` for training, with a column `writer`, and ten for test."""
    folder.mkdir()
    metadata = {"huggingface": json.dumps({"info": {"features": {"label": {"names": classes}}}})} if classes else None
    images = [{"bytes": picture} for picture in islice(cycle(pictures), 20)]
    frame = pl.DataFrame({"image": images, "label": [0, 1] * 10, "writer": range(20)})
    for split, count in (("train", rows), ("test", 10)):
        frame[:count].write_parquet(folder / f"{split}.parquet", metadata=metadata)


def png(width: int = 4) -> bytes:
    """A dark picture, four pixels high."""
    image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    out = io.BytesIO()
    image.new("RGB", (width, 4), (9, 9, 9)).save(out, "PNG")
    return out.getvalue()


def test_what_is_read_gets_what_is_known_about_it(tmp_path: Path) -> None:
    write_idx(tmp_path / "mnist")
    data = load_dataset("mnist", tmp_path)
    np.testing.assert_array_equal(data.train_images, IMAGES[:, None])
    np.testing.assert_array_equal(data.test_labels, LABELS[:10])
    assert (data.name, data.classes, data.shape) == ("mnist", tuple("0123456789"), (1, 28, 28))
    assert (data.mean, data.std) == ((0.1307,), (0.3081,))
    assert found("mnist", tmp_path) == DatasetEntry("mnist", tmp_path / "mnist", "idx", 20, 10)

    write_parquet(tmp_path / "cifar10", png())
    data = load_dataset("cifar10", tmp_path)
    assert (data.classes, data.shape) == (tuple(CIFAR_CLASSES), (3, 4, 4))
    assert (data.mean, data.std) == ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
    assert data.columns["writer"].tolist() == list(range(20))


def test_imagenet_numbers_get_their_names(tmp_path: Path) -> None:
    digits = (1440764, 2102040, 2979186, 3000684, 3028079, 3394916, 3417042, 3425413, 3445777, 3888257)
    numbers = [f"n{number:08}" for number in digits]
    write_parquet(tmp_path / "imagenette", png(), classes=numbers)
    classes = load_dataset("imagenette", tmp_path).classes
    assert (classes[0], classes[-1], len(classes)) == ("tench", "parachute", 10)


def test_another_data_set_in_the_folder_is_refused(tmp_path: Path) -> None:
    write_idx(tmp_path / "cifar10")
    with pytest.raises(DataError) as error:
        load_dataset("cifar10", tmp_path)
    one_line(error, tmp_path / "cifar10", "1 channel(s), those of cifar10 have 3")
    write_parquet(tmp_path / "imagenette", png(), classes=[str(n) for n in range(12)])
    with pytest.raises(DataError) as error:
        load_dataset("imagenette", tmp_path)
    one_line(error, "holds 12 classes, imagenette has 10")


def test_a_split_without_images_is_refused(tmp_path: Path) -> None:
    write_parquet(tmp_path / "cifar10", png(), rows=0)
    with pytest.raises(DataError, match="train_images is empty"):
        load_dataset("cifar10", tmp_path)


def test_the_data_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_DATA", str(tmp_path / "here"))
    assert data_folder() == tmp_path / "here"
    monkeypatch.setenv("HEADGATE_DATA", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_folder() == tmp_path / "cache" / "headgate"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_folder() == tmp_path / ".cache" / "headgate"
    monkeypatch.setenv("HEADGATE_DATA", "~/data")
    assert data_folder() == tmp_path / "data"


def test_missing_data_name_the_folder_and_the_command(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other" / "cifar10").mkdir(parents=True)
    (tmp_path / "other" / "cifar10" / "notes.txt").write_text("nothing to learn from")
    for folder in (tmp_path / "nowhere", tmp_path / "empty", tmp_path / "other"):
        with pytest.raises(DataError) as error:
            load_dataset("cifar10", folder)
        one_line(error, folder, "headgate data get cifar10")
        entry = found("cifar10", folder)
        assert (entry.format, entry.train, entry.test, entry.problem) == (None, None, None, str(error.value))


def test_an_empty_folder_does_not_hide_a_full_one(tmp_path: Path) -> None:
    (tmp_path / "imagenette").mkdir()
    write_parquet(tmp_path / "imagenette2-320", png())
    assert load_dataset("imagenette", tmp_path).shape == (3, 4, 4)
    assert found("imagenette", tmp_path).path == tmp_path / "imagenette2-320"


def test_the_list_says_what_is_wrong(tmp_path: Path) -> None:
    write_idx(tmp_path / "mnist")
    damaged = tmp_path / "mnist" / "train-images-idx3-ubyte"
    damaged.write_bytes(b"\x00\x00\x0d\x03")
    entries = available(tmp_path)
    assert [entry.name for entry in entries] == [*NAMES, "sea"]
    assert entries[0] == DatasetEntry("digits", None, "with headgate", *DIGITS_COUNTS)
    assert entries[1].path == tmp_path / "mnist"
    assert str(damaged) in str(entries[1].problem)


def test_listing_decodes_nothing(tmp_path: Path) -> None:
    write_parquet(tmp_path / "cifar10", b"not a picture")
    for split in ("train", "val"):
        (tmp_path / "imagenette" / split / "tench").mkdir(parents=True)
        (tmp_path / "imagenette" / split / "tench" / "x.png").write_bytes(b"not a picture")
    seen = [DIGITS_COUNTS, (None, None), (20, 10), (1, 1)]
    assert [(entry.train, entry.test) for entry in available(tmp_path)] == [*seen, (9_600, 2_400)]


@pytest.mark.parametrize("name", ["emnist", "", "MNIST"])
def test_an_unknown_name_lists_the_known_ones(name: str) -> None:
    with pytest.raises(SettingError) as error:
        load_dataset(name)
    one_line(error, f"data.kind = {name}", "digits, mnist, cifar10, imagenette or module:Class")


def test_digits_are_those_of_their_source() -> None:
    """Bit by bit what they were when they were read through scikit-learn."""
    pixels, labels = pytest.importorskip("sklearn.datasets").load_digits(return_X_y=True)
    data, images = load_dataset("digits"), np.rint(pixels.reshape(-1, 1, 8, 8) * (255 / 16))
    held = np.concatenate([np.flatnonzero(labels == label)[-((labels == label).sum() // 5) :] for label in range(10)])
    test = np.isin(np.arange(len(labels)), held)
    for mine, theirs in (
        (data.train_images, images[~test].astype(np.uint8)),
        (data.train_labels, labels[~test].astype(np.int64)),
        (data.test_images, images[test].astype(np.uint8)),
        (data.test_labels, labels[test].astype(np.int64)),
    ):
        assert (mine.dtype, mine.shape, mine.tobytes()) == (theirs.dtype, theirs.shape, theirs.tobytes())
