"""The data sets by name and by function, what is listed of them, and what a Dataset refuses."""

import importlib.util
import io
import json
import os
import struct
import sys
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from headgate.errors import DataError, HeadgateError, SettingError
from headgate.learning.datasets import (
    DIGITS_COUNTS,
    NAMES,
    Dataset,
    Found,
    available,
    channel_statistics,
    data_folder,
    dataset_from_arrays,
    hold_out,
    load_dataset,
)

REAL = os.environ.get("HEADGATE_DATA")
needs_data = pytest.mark.skipif(not REAL, reason="HEADGATE_DATA names no folder with the real data sets")
needs_digits = pytest.mark.skipif(importlib.util.find_spec("sklearn") is None, reason="scikit-learn is not installed")

Bytes = NDArray[np.uint8]
CIFAR_CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
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


def found(name: str, folder: Path) -> Found:
    return next(entry for entry in available(folder) if entry.name == name)


def one_line(error: pytest.ExceptionInfo[HeadgateError], *parts: object) -> None:
    message = str(error.value)
    assert "\n" not in message
    for part in parts:
        assert str(part) in message


# by name


def test_what_is_read_gets_what_is_known_about_it(tmp_path: Path) -> None:
    write_idx(tmp_path / "mnist")
    data = load_dataset("mnist", tmp_path)
    np.testing.assert_array_equal(data.train_images, IMAGES[:, None])
    np.testing.assert_array_equal(data.test_labels, LABELS[:10])
    assert (data.name, data.classes, data.shape) == ("mnist", tuple("0123456789"), (1, 28, 28))
    assert (data.mean, data.std) == ((0.1307,), (0.3081,))
    assert found("mnist", tmp_path) == Found("mnist", tmp_path / "mnist", "idx", 20, 10)

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


def test_size_and_progress_are_handed_on(tmp_path: Path) -> None:
    write_parquet(tmp_path / "imagenette", png(width=4), png(width=5))
    calls: list[tuple[int, int]] = []
    data = load_dataset("imagenette", tmp_path, size=16, tick=lambda done, total: calls.append((done, total)))
    assert data.shape == (3, 16, 16)
    assert calls == [(30, 30)]
    with pytest.raises(SettingError, match="size = 0"):
        load_dataset("imagenette", tmp_path, size=0)


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


# where to look


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


def test_the_default_folder_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_DATA", str(tmp_path))
    write_idx(tmp_path / "mnist")
    assert len(load_dataset("mnist").train_labels) == 20
    assert [entry.train for entry in available()] == [DIGITS_COUNTS[0], 20, None, None]


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
    assert [entry.name for entry in entries] == list(NAMES)
    assert entries[0] == Found("digits", None, "scikit-learn", *DIGITS_COUNTS)
    assert entries[1].path == tmp_path / "mnist"
    assert str(damaged) in str(entries[1].problem)


def test_listing_decodes_nothing(tmp_path: Path) -> None:
    write_parquet(tmp_path / "cifar10", b"not a picture")
    for split in ("train", "val"):
        (tmp_path / "imagenette" / split / "tench").mkdir(parents=True)
        (tmp_path / "imagenette" / split / "tench" / "x.png").write_bytes(b"not a picture")
    assert [(entry.train, entry.test) for entry in available(tmp_path)] == [DIGITS_COUNTS, (None, None), (20, 10), (1, 1)]


@pytest.mark.parametrize("name", ["emnist", "", "MNIST"])
def test_an_unknown_name_lists_the_known_ones(name: str) -> None:
    with pytest.raises(SettingError) as error:
        load_dataset(name)
    one_line(error, repr(name), "digits, mnist, cifar10, imagenette or module:function")


# digits


@needs_digits
def test_digits_split_each_class_in_file_order() -> None:
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    data = load_dataset("digits")
    assert (len(data.train_labels), len(data.test_labels)) == DIGITS_COUNTS
    assert data.shape == (1, 8, 8)
    assert (data.train_images.min(), data.train_images.max()) == (0, 255)
    for label in range(10):
        rows = pixels[labels == label].reshape(-1, 8, 8)
        mine = np.concatenate([data.train_images[data.train_labels == label], data.test_images[data.test_labels == label]])[
            :, 0
        ]
        np.testing.assert_allclose(mine / 255 * 16, rows, atol=0.04)
        assert (data.test_labels == label).sum() == len(rows) // 5
    scaled = data.train_images / 255
    assert data.mean == pytest.approx((scaled.mean(),))
    assert data.std == pytest.approx((scaled.std(),))


# Dataset


def arguments(**changes: Any) -> dict[str, Any]:
    images = np.zeros((4, 1, 2, 2), np.uint8)
    return {
        "name": "mine",
        "train_images": images,
        "train_labels": np.array([0, 1, 0, 1]),
        "test_images": images[:2],
        "test_labels": np.array([0, 1]),
        "classes": ("a", "b"),
        "mean": (0.5,),
        "std": (0.5,),
    } | changes


def test_a_sound_data_set_is_taken() -> None:
    data = Dataset(**arguments(columns={"writer": np.arange(4)}))
    assert data.shape == (1, 2, 2)
    assert data.columns["writer"].tolist() == [0, 1, 2, 3]
    assert Dataset(**arguments()).columns == {}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_images": np.zeros((4, 1, 2, 2))}, "train_images must be a numpy array of uint8, is float64"),
        ({"test_images": [[1]]}, "test_images must be a numpy array of uint8, is list"),
        ({"train_labels": np.zeros(4, np.int32)}, "train_labels must be a numpy array of int64, is int32"),
        ({"train_images": np.zeros((4, 2, 2), np.uint8)}, "train_images must be (N, 1 or 3, height, width), is (4, 2, 2)"),
        ({"train_images": np.zeros((4, 2, 2, 2), np.uint8)}, "train_images must be (N, 1 or 3, height, width)"),
        ({"train_images": np.zeros((4, 1, 0, 2), np.uint8)}, "train_images must be (N, 1 or 3, height, width)"),
        ({"test_labels": np.zeros((2, 1), np.int64)}, "test_labels must be (N,), is (2, 1)"),
        ({"train_labels": np.zeros(3, np.int64)}, "4 train_images, but 3 train_labels"),
        ({"test_images": np.zeros((0, 1, 2, 2), np.uint8), "test_labels": np.zeros(0, np.int64)}, "test_images is empty"),
        ({"test_labels": np.array([0, 2])}, "test_labels holds 2, outside 0..1"),
        ({"train_labels": np.array([0, -1, 0, 0])}, "train_labels holds -1, outside 0..1"),
        ({"test_images": np.zeros((2, 1, 3, 2), np.uint8)}, "train_images are (1, 2, 2), test_images (1, 3, 2)"),
        ({"classes": ()}, "has no classes"),
        ({"mean": (0.5, 0.5)}, "mean has 2 entries for 1 channels"),
        ({"std": (0.0,)}, "std = (0.0,) must be above zero"),
        ({"mean": (float("nan"),)}, "mean = (nan,) must be finite"),
        ({"columns": {"writer": np.arange(3)}}, "column writer must be an array with one entry for each training image"),
    ],
)
def test_an_unsound_data_set_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as error:
        Dataset(**arguments(**changes))
    one_line(error, "data set mine: ", message)


@given(arrays(np.uint8, st.tuples(st.integers(1, 5), st.sampled_from([1, 3]), st.integers(1, 4), st.integers(1, 4))))
def test_channel_statistics_are_those_of_the_floats(images: Bytes) -> None:
    mean, std = channel_statistics(images)
    scaled = images / 255
    assert mean == pytest.approx(scaled.mean(axis=(0, 2, 3)), abs=1e-12)
    expected = scaled.std(axis=(0, 2, 3))
    for mine, other in zip(std, expected, strict=True):
        assert mine == pytest.approx(other, abs=1e-9) or (other < 1e-12 and mine == pytest.approx(1.0))


# functions of the user


def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> str:
    """A module beside the user, whose function `make` has this body."""
    name = "my_data_for_headgate"
    (tmp_path / f"{name}.py").write_text("import numpy as np\ndef make():\n    " + body.replace("\n", "\n    "))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return f"{name}:make"


FOUR = "i = np.arange({n}, dtype=np.uint8).reshape({shape})\nl = np.array([0, 2], np.{kind})\n"


@pytest.mark.parametrize(
    ("shape", "order", "kind"),
    [
        ((2, 4, 5), lambda array: array[:, None], "uint8"),
        ((2, 4, 5, 3), lambda array: array.transpose(0, 3, 1, 2), "int32"),
        ((2, 4, 5, 1), lambda array: array.transpose(0, 3, 1, 2), "int64"),
        ((2, 3, 4, 5), lambda array: array, "uint8"),
        ((2, 1, 4, 5), lambda array: array, "int32"),
    ],
)
def test_a_function_may_return_the_usual_shapes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], order: Callable[[Bytes], Bytes], kind: str
) -> None:
    array = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    for returned in ("return i, l, i, l", "return dict(train_images=i, train_labels=l, test_images=i, test_labels=l)"):
        data = load_dataset(module(tmp_path, monkeypatch, FOUR.format(n=array.size, shape=shape, kind=kind) + returned))
        np.testing.assert_array_equal(data.train_images, order(array))
        np.testing.assert_array_equal(data.test_images, order(array))
        assert data.train_images.flags.c_contiguous
        assert data.train_labels.tolist() == [0, 2]
        assert data.classes == ("0", "1", "2")
        assert (data.mean, data.std) == channel_statistics(order(array))
    assert str(tmp_path) not in sys.path


def test_a_function_may_return_a_data_set_or_name_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = FOUR.format(n=8, shape=(2, 2, 2), kind="int64")
    extra = "classes=['a', 'b', 'c'], mean=[0.25], std=[0.5], columns={'writer': [7, 8]}"
    four = "dict(train_images=i, train_labels=l, test_images=i, test_labels=l"
    data = load_dataset(module(tmp_path, monkeypatch, body + f"return {four}, {extra})"))
    assert (data.classes, data.mean, data.std) == (("a", "b", "c"), (0.25,), (0.5,))
    assert data.columns["writer"].tolist() == [7, 8]
    made = "from headgate.learning.datasets import dataset_from_arrays\nreturn dataset_from_arrays('own', i, l, i, l)"
    assert load_dataset(module(tmp_path, monkeypatch, body + made)).name == "own"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "return np.ones((2, 4, 4)), [0, 1], np.ones((2, 4, 4)), [0, 1]",
            "train_images must be uint8 in 0..255, is float64; multiply",
        ),
        (
            "i = np.ones((2, 4, 4), np.uint8)\nreturn i, [0, 1], i.astype(np.int64), [0, 1]",
            "test_images must be uint8 in 0..255, is int64",
        ),
        ("i = np.ones((2, 4, 4), np.uint8)\nreturn i, [0.0, 1.0], i, [0, 1]", "train_labels must be whole numbers, is float64"),
        (
            "i = np.ones((2, 4), np.uint8)\nreturn i, [0, 1], i, [0, 1]",
            "train_images must be (N, H, W), (N, H, W, 3) or (N, 3, H, W)",
        ),
        ("i = np.ones((2, 4, 4), np.uint8)\nreturn i, [0, 1], i, [0, 2]", "test_labels holds 2, outside 0..1"),
        ("i = np.ones((0, 4, 4), np.uint8)\nreturn i, np.zeros(0, int), i, np.zeros(0, int)", "train_images is empty"),
        ("return 7", "must return a Dataset, a dict or a tuple (train_images, train_labels, test_images, test_labels)"),
        ("return dict(train_images=1)", "lacks train_labels, test_images, test_labels"),
        (
            "return dict(train_images=1, train_labels=1, test_images=1, test_labels=1, color=1)",
            "has color, which means nothing here",
        ),
        ("return 1 / 0", "failed (ZeroDivisionError: division by zero)"),
    ],
)
def test_what_a_function_returns_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, message: str) -> None:
    name = module(tmp_path, monkeypatch, body)
    with pytest.raises((DataError, SettingError)) as error:
        load_dataset(name)
    one_line(error, name, message)


def test_a_function_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = module(tmp_path, monkeypatch, "return 1")
    (tmp_path / "broken_data_for_headgate.py").write_text("raise RuntimeError('no')")
    for wrong, message in (
        (name + "r", "has nothing to call by the name maker"),
        ("no_such_module_at_all:make", "cannot be imported (ModuleNotFoundError"),
        ("broken_data_for_headgate:make", "cannot be imported (RuntimeError: no)"),
        (":make", "cannot be imported"),
        (name.partition(":")[0] + ":", "has nothing to call by the name (none)"),
    ):
        with pytest.raises(SettingError) as error:
            load_dataset(wrong)
        one_line(error, wrong, message)


def test_a_refusal_of_the_function_itself_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = module(tmp_path, monkeypatch, "from headgate.errors import DataError\nraise DataError('the disk is not plugged in')")
    with pytest.raises(DataError, match=r"^the disk is not plugged in$"):
        load_dataset(name)


def test_arrays_are_copied_only_in_form() -> None:
    images = np.zeros((2, 1, 2, 2), np.uint8)
    data = dataset_from_arrays("mine", images, np.array([0, 1]), images, np.array([0, 1]))
    assert data.train_images is images
    assert (data.mean, data.std) == ((0.0,), (1.0,))


# the real data


def real(name: str) -> Dataset:
    """A real data set, or a skip which says what is missing."""
    folder = Path(REAL or "")
    entry = found(name, folder)
    if entry.path is None:
        pytest.skip(str(entry.problem))
    data = load_dataset(name, folder)
    assert (entry.train, entry.test, entry.problem) == (len(data.train_labels), len(data.test_labels), None)
    return data


# held out from training


def numbered(counts: list[int]) -> Dataset:
    """Images that carry their row, `counts` of each class, and their row as a column."""
    labels = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    images = np.arange(len(labels), dtype=np.uint8).reshape(-1, 1, 1, 1)
    return Dataset(
        "numbered", images, labels, images[:1], labels[:1], tuple(map(str, counts)), (0.5,), (0.5,), {"row": images[:, 0, 0, 0]}
    )


@given(st.lists(st.integers(1, 25), min_size=1, max_size=8), st.floats(0.01, 0.95))
def test_what_is_held_out_is_missing_from_training(counts: list[int], fraction: float) -> None:
    whole = numbered(counts)
    if not any(int(fraction * count) for count in counts):
        with pytest.raises(SettingError, match=r"data.validation = .*: holds out no image"):
            hold_out(whole, fraction)
        return
    made = hold_out(whole, fraction)
    kept, held = made.train_images.ravel(), made.test_images.ravel()
    assert sorted([*kept, *held]) == list(range(sum(counts)))
    assert np.bincount(made.test_labels, minlength=len(counts)).tolist() == [int(fraction * count) for count in counts]
    assert np.array_equal(made.columns["row"], kept)
    assert np.array_equal(whole.train_labels[kept], made.train_labels)
    assert np.array_equal(whole.train_labels[held], made.test_labels)
    again = hold_out(whole, fraction)
    assert np.array_equal(again.test_images, made.test_images)


def test_nothing_held_out_leaves_the_data_set_as_it_is() -> None:
    whole = numbered([3, 3])
    assert hold_out(whole, 0.0) is whole
    for fraction in (-0.1, 1.0):
        with pytest.raises(SettingError, match=r"data.validation = .*: must be a share"):
            hold_out(whole, fraction)


@needs_data
def test_real_mnist() -> None:
    data = real("mnist")
    assert data.train_images.shape == (60_000, 1, 28, 28)
    assert data.test_images.shape == (10_000, 1, 28, 28)
    assert data.train_labels[:8].tolist() == [5, 0, 4, 1, 9, 2, 1, 3]
    assert data.test_labels[:8].tolist() == [7, 2, 1, 0, 4, 1, 4, 9]
    mean, std = channel_statistics(data.train_images)
    assert mean == pytest.approx(data.mean, abs=1e-4)
    assert std == pytest.approx(data.std, abs=1e-4)


@needs_data
def test_real_cifar10() -> None:
    data = real("cifar10")
    assert (len(data.train_labels), len(data.test_labels)) in {(10_000, 5_000), (50_000, 10_000)}
    assert data.shape == (3, 32, 32)
    assert data.classes == tuple(CIFAR_CLASSES)
    for labels in (data.train_labels, data.test_labels):
        assert np.bincount(labels).tolist() == [len(labels) // 10] * 10
    mean, std = channel_statistics(data.train_images)
    assert mean == pytest.approx(data.mean, abs=0.01)
    assert std == pytest.approx(data.std, abs=0.01)


@needs_data
def test_real_imagenette() -> None:
    data = real("imagenette")
    assert (len(data.train_labels), len(data.test_labels)) == (9_469, 3_925)
    assert data.shape == (3, 64, 64)
    assert data.classes[:2] == ("tench", "English springer")
    assert np.bincount(data.train_labels).min() > 850
    mean, _ = channel_statistics(data.train_images)
    assert mean == pytest.approx(data.mean, abs=0.05)
