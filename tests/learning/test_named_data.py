"""The data sets by name: where they are looked for, what is listed of them and what is
refused.
"""

import hashlib
from functools import partial

import numpy as np
import pytest

from headgate.errors import DataError, SettingError
from headgate.learning.datasets import (
    NAMES,
    DatasetEntry,
    available,
    data_folder,
    load_dataset,
)

from .formats.written import COLOUR, GREY, write_idx, write_parquet, write_pictures
from .said import CIFAR_CLASSES, found, refused

pytest.importorskip("PIL", reason="pillow is not installed")


def test_what_is_read_gets_what_is_known_about_it(tmp_path):
    write_idx(tmp_path / "mnist", GREY, packed=False)
    data = load_dataset("mnist", tmp_path)
    np.testing.assert_array_equal(data.train_images, GREY.train_images)
    assert (data.name, data.classes, data.shape) == (
        "mnist",
        tuple("0123456789"),
        (1, 28, 28),
    )
    assert (data.mean, data.std) == ((0.1307,), (0.3081,))
    assert found("mnist", tmp_path) == DatasetEntry("mnist", tmp_path / "mnist", "idx")

    write_parquet(tmp_path / "cifar10", COLOUR)
    data = load_dataset("cifar10", tmp_path)
    assert (data.classes, data.shape) == (tuple(CIFAR_CLASSES), (3, 32, 32))
    assert (data.mean, data.std) == ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))


def test_imagenet_numbers_get_their_names(tmp_path):
    digits = (
        1440764,
        2102040,
        2979186,
        3000684,
        3028079,
        3394916,
        3417042,
        3425413,
        3445777,
        3888257,
    )
    numbers = [f"n{number:08}" for number in digits]
    write_pictures(tmp_path / "imagenette", COLOUR)
    for number, name in zip(numbers, CIFAR_CLASSES, strict=True):
        for split in ("train", "val"):
            (tmp_path / "imagenette" / split / name).rename(
                tmp_path / "imagenette" / split / number
            )
    classes = load_dataset("imagenette", tmp_path).classes
    assert (classes[0], classes[-1], len(classes)) == ("tench", "parachute", 10)


def test_another_data_set_in_the_folder_is_refused(tmp_path):
    write_idx(tmp_path / "cifar10", GREY, packed=True)
    folder = tmp_path / "cifar10"
    refused(
        DataError,
        lambda: load_dataset("cifar10", tmp_path),
        folder,
        "1 channel(s), those of cifar10 have 3",
    )
    write_pictures(tmp_path / "imagenette", COLOUR)
    (tmp_path / "imagenette" / "train" / "more").mkdir()
    picture = next((tmp_path / "imagenette").rglob("*.PNG"))
    (tmp_path / "imagenette" / "train" / "more" / "x.png").write_bytes(
        picture.read_bytes()
    )
    refused(
        DataError,
        lambda: load_dataset("imagenette", tmp_path),
        "holds 11 classes, imagenette has 10",
    )


def test_the_data_folder_follows_the_environment(tmp_path, monkeypatch):
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


def test_missing_data_name_the_folder_and_the_command(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "other" / "cifar10").mkdir(parents=True)
    (tmp_path / "other" / "cifar10" / "notes.txt").write_text("nothing to learn from")
    for folder in (tmp_path / "nowhere", tmp_path / "empty", tmp_path / "other"):
        said = refused(
            DataError,
            partial(load_dataset, "cifar10", folder),
            folder,
            "headgate data get cifar10",
        )
        entry = found("cifar10", folder)
        assert (entry.format, entry.problem) == (None, said)


def test_an_empty_folder_does_not_hide_a_full_one(tmp_path):
    (tmp_path / "imagenette").mkdir()
    write_parquet(tmp_path / "imagenette2-320", COLOUR)
    assert found("imagenette", tmp_path).path == tmp_path / "imagenette2-320"


def test_the_list_reads_nothing_and_says_what_is_missing(tmp_path):
    write_idx(tmp_path / "mnist", GREY, packed=False)
    (tmp_path / "mnist" / "train-labels-idx1-ubyte").unlink()
    write_pictures(tmp_path / "imagenette", COLOUR)
    next((tmp_path / "imagenette").rglob("*.PNG")).write_bytes(b"not a picture")
    entries = available(tmp_path)
    assert [(entry.name, entry.format) for entry in entries] == list(
        zip(NAMES, ("with headgate", None, None, "image folder"), strict=True)
    )
    assert "needs idx files of images and of labels" in str(entries[1].problem)


@pytest.mark.parametrize("name", ["emnist", "", "MNIST"])
def test_an_unknown_name_lists_the_known_ones(name):
    known = "digits, mnist, cifar10, imagenette or module:Class"
    refused(SettingError, lambda: load_dataset(name), f"data.kind = {name}", known)


def test_digits_are_those_of_their_source():
    """Bit by bit what scikit-learn's `load_digits` gives: pixels times 255/16, the last
    fifth of each class for testing.
    """
    data = load_dataset("digits")
    arrays = (data.train_images, data.train_labels, data.test_images, data.test_labels)
    said = [(str(each.dtype), each.shape) for each in arrays]
    assert said == [
        ("uint8", (1442, 1, 8, 8)),
        ("int64", (1442,)),
        ("uint8", (355, 1, 8, 8)),
        ("int64", (355,)),
    ]
    digest = hashlib.sha256(b"".join(each.tobytes() for each in arrays)).hexdigest()
    assert digest == "5e3c50aaf9345f4db2731db1b72f0d29136fa8387e0fd719e50e63c1a9b859c5"
