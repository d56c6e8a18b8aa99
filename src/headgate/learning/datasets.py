"""Data sets ready for learning: digits, mnist, cifar10, imagenette, or what a user's
data source returns.

Images are kept as uint8, which takes a quarter of the memory of float32. When a batch
is made, its pixels are scaled to [0, 1], `mean` is subtracted and the result is divided
by `std`.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.control.randomness import Purpose
from headgate.errors import DataError, SettingError, require
from headgate.escaping import one_line
from headgate.learning.formats import (
    TEST_NAMES,
    TRAIN_NAMES,
    CifarRecords,
    IdxFiles,
    ImageFolder,
    Labels,
    PictureFiles,
    Pixels,
    naming,
)
from headgate.learning.partition import share_of_each_class

_ARRAYS = ("train_images", "train_labels", "test_images", "test_labels")
Samples = NDArray[Any]
"""images as uint8, or features as float32"""
Features = NDArray[np.float32]
"""features (N, 1, 1, d), stored like images with one row of pixels, so that all code
for images can process them
"""
BYTE = 255.0


@dataclass(
    frozen=True,
    eq=False,
)
class Dataset:
    """Images and labels for training and testing, and how pixels are scaled.

    Features are stored like images with one row, (N, 1, 1, d), as float32.

    Parameters
    ----------
    name : str
        The name of the data set in messages.
    train_images, test_images : array
        Images (N, C, H, W) of uint8 with C = 1 or 3, or features.
    train_labels, test_labels : array of int64
        The class of each image, (N,), from 0 on.
    classes : tuple of str
        The names of the classes.
    mean, std : tuple of float
        Mean and deviation of each channel, in units of `unit`.
    columns : mapping, optional
        Further values of the training images, (N train, ...), by name; for example the
        writer of each digit.
    validation_images, validation_labels : array, optional
        Images held out of the training set, on which no client trains, and their
        labels.
    by_concept : tuple of (images, labels)
        If the world changes: the test sets of all concepts, then their validation sets
        if any, instead of the single sets.
    """

    name: str
    train_images: Samples
    train_labels: Labels
    test_images: Samples
    test_labels: Labels
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    validation_images: Samples | None = None
    validation_labels: Labels | None = None
    by_concept: tuple[tuple[Samples, Labels], ...] = ()

    def __post_init__(self) -> None:
        for problem in self._problems():
            raise DataError(f"data set {self.name}: {problem}")

    def _problems(self) -> Iterator[str]:
        if not self.classes:
            yield "has no classes"
        yield from self._problems_of("train", self.train_images, self.train_labels)
        yield from self._problems_of("test", self.test_images, self.test_labels)

        train = (self.train_images.shape[1:], str(self.train_images.dtype))
        test = (self.test_images.shape[1:], str(self.test_images.dtype))
        if train != test:
            yield f"train_images are {train}, test_images {test}"
        for name, values in (("mean", self.mean), ("std", self.std)):
            fits = len(values) == self.shape[0] and np.isfinite(values).all()
            if not fits or (name == "std" and min(values) <= 0):
                yield (
                    f"{name} = {values} must be a finite number for each channel, and"
                    " std above zero"
                )
        for name, column in self.columns.items():
            if np.shape(column)[:1] != self.train_labels.shape:
                yield (
                    f"column {name} must be an array with one entry for each training"
                    " image"
                )

    def _problems_of(
        self,
        split: str,
        images: Any,
        labels: Any,
    ) -> Iterator[str]:
        for name, array, wanted in (
            ("images", images, ("uint8", "float32")),
            ("labels", labels, ("int64",)),
        ):
            kind = getattr(array, "dtype", type(array).__name__)
            if kind not in wanted:
                yield (
                    f"{split}_{name} must be a numpy array of {' or '.join(wanted)},"
                    f" is {kind}"
                )

        shape = images.shape
        if len(shape) != 4 or shape[1] not in (1, 3) or 0 in shape[2:]:
            yield f"{split}_images must be (N, 1 or 3, height, width), is {shape}"
        if labels.shape != (len(images),):
            yield (
                f"{split}_labels must be ({len(images)},), one for each of"
                f" {split}_images, is {labels.shape}"
            )
        if not len(images):
            yield f"{split}_images is empty"
        if images.dtype == np.float32 and not np.isfinite(images).all():
            yield f"{split}_images holds values that are not finite"

        least, largest = labels.min(), labels.max()
        if least < 0 or largest >= len(self.classes):
            yield (
                f"{split}_labels holds {least} to {largest}, outside"
                f" 0..{len(self.classes) - 1}"
            )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of each image."""
        _, channels, height, width = self.train_images.shape
        return channels, height, width

    @property
    def judged(self) -> list[tuple[Samples, Labels]]:
        """The sets on which models are evaluated: the test set, then the validation set
        if images were held out for it.
        """
        if self.by_concept:
            return list(self.by_concept)
        test = (self.test_images, self.test_labels)
        if self.validation_images is None or self.validation_labels is None:
            return [test]
        return [test, (self.validation_images, self.validation_labels)]

    @property
    def unit(self) -> float:
        """The stored value that stands for 1: 255 for images, 1 for features."""
        return BYTE if self.train_images.dtype == np.uint8 else 1.0


@dataclass(frozen=True)
class DatasetEntry:
    """One line of the list of data sets: the path and format of a data set, or the
    reason why it cannot be read.
    """

    name: str
    path: Path | None = None
    format: str | None = None
    problem: str | None = None


@dataclass(frozen=True)
class _Known:
    """The fixed properties of a data set that is read from files."""

    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    folders: tuple[str, ...]
    other_names: Mapping[str, str] = field(default_factory=dict)


_IMAGENETTE = {
    "n01440764": "tench",
    "n02102040": "English springer",
    "n02979186": "cassette player",
    "n03000684": "chain saw",
    "n03028079": "church",
    "n03394916": "French horn",
    "n03417042": "garbage truck",
    "n03425413": "gas pump",
    "n03445777": "golf ball",
    "n03888257": "parachute",
}
_KNOWN = {
    "mnist": _Known(tuple("0123456789"), (0.1307,), (0.3081,), ("mnist",)),
    "cifar10": _Known(
        (
            "airplane",
            "automobile",
            "bird",
            "cat",
            "deer",
            "dog",
            "frog",
            "horse",
            "ship",
            "truck",
        ),
        (0.4914, 0.4822, 0.4465),
        (0.2470, 0.2435, 0.2616),
        ("cifar10", "cifar-10-batches-bin"),
    ),
    "imagenette": _Known(
        tuple(_IMAGENETTE.values()),
        (0.485, 0.456, 0.406),
        (0.229, 0.224, 0.225),
        (
            "imagenette",
            "imagenette64",
            "imagenette2",
            "imagenette2-160",
            "imagenette2-320",
        ),
        _IMAGENETTE,
    ),
}
NAMES = ("digits", *_KNOWN)
"""names of the shipped data sets"""


def data_folder() -> Path:
    """Return the folder of the data sets: $HEADGATE_DATA, otherwise `headgate` in the
    user's cache folder.
    """
    chosen = os.environ.get("HEADGATE_DATA")
    if chosen:
        return Path(chosen).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path("~/.cache")).expanduser() / "headgate"


def load_dataset(name: str, folder: Path | None = None) -> Dataset:
    """Read the data set `name` from `folder` (by default `data_folder()`).

    Pictures that differ in size are resized to 64 x 64; pictures that share one size
    keep it. The 8x8 digits are part of the package (digits.md): the last fifth of each
    class in file order, rounded down, is the test set, and pixels are scaled from 0..16
    to 0..255 (x * 255 / 16, rounded).
    """
    if name == "digits":
        return _digits()
    require(name in _KNOWN, "data.kind", name, f"{', '.join(NAMES)} or module:Class")
    known = _KNOWN[name]
    path, source = _find(name, folder or data_folder())
    train, test = source.read(len(known.mean), len(known.classes))

    channels = train.images.shape[1]
    if channels != len(known.mean):
        # The folder holds another data set than its name says.
        raise DataError(
            f"{path}: images have {channels} channel(s), those of {name} have"
            f" {len(known.mean)}"
        )
    titles = source.classes() or known.classes
    if len(titles) != len(known.classes):
        raise DataError(
            f"{path}: holds {len(titles)} classes, {name} has {len(known.classes)}"
        )
    return Dataset(
        name,
        train.images,
        train.labels,
        test.images,
        test.labels,
        tuple(known.other_names.get(title, title) for title in titles),
        known.mean,
        known.std,
        train.columns,
    )


def _digits() -> Dataset:
    path = Path(__file__).with_name("digits.npz")
    with np.load(path, allow_pickle=False) as file:
        pixels = file["pixels"][:, np.newaxis] * (255 / 16)
        labels = file["labels"].astype(np.int64)
    images = np.rint(pixels).astype(np.uint8)

    held = np.zeros(len(labels), np.bool_)
    for label in range(10):
        rows = np.flatnonzero(labels == label)
        held[rows[len(rows) - len(rows) // 5 :]] = True
    return Dataset(
        "digits",
        images[~held],
        labels[~held],
        images[held],
        labels[held],
        tuple("0123456789"),
        *channel_statistics(images[~held]),
    )


def _find(name: str, root: Path) -> tuple[Path, PictureFiles]:
    """Return the first of a data set's folders that holds files of a known format, and
    these files.
    """
    for folder in _KNOWN[name].folders:
        path = root / folder
        source = recognise(path) if path.is_dir() else None
        if source is not None:
            return path, source
    folders = ", ".join(_KNOWN[name].folders)
    raise DataError(
        f"data set {name} is not in {root} (looked for {folders}): `headgate data get"
        f" {name}` downloads it"
    )


def recognise(folder: Path) -> PictureFiles | None:
    """Return the data set in `folder` or its subfolders; None: there is none.

    If there are several layouts, the first one in the order image folder, idx, parquet,
    cifar-10-batches-bin is chosen.
    """
    # imports polars, which the other formats do not need
    from headgate.learning.table import ParquetFiles

    splits = "|".join(TRAIN_NAMES + TEST_NAMES)
    layouts: dict[str, type[PictureFiles]] = {
        rf"(^|/)({splits})/[^/]+/[^/]+\.(jpe?g|png|webp)$": ImageFolder,
        r"idx[13]-?ubyte(\.gz)?$": IdxFiles,
        r"\.parquet$": ParquetFiles,
        r"(^|/)(data|test)_batch(_\d+)?\.bin$": CifarRecords,
    }
    with naming(folder):
        there = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    names = [path.relative_to(folder).as_posix().lower() for path in there]
    for pattern, layout in layouts.items():
        files = [
            path
            for path, name in zip(there, names, strict=True)
            if re.search(pattern, name) and not re.search(r"(^|/)\.", name)
        ]
        if files:
            return layout.find(folder, files)
    return None


def available(folder: Path | None = None) -> list[DatasetEntry]:
    """List the data sets that `load_dataset` would find, one entry for each name,
    without reading them.
    """
    entries = [DatasetEntry("digits", format="with headgate")]
    for name in _KNOWN:
        try:
            path, source = _find(name, folder or data_folder())
            entries.append(DatasetEntry(name, path, source.format))
        except (DataError, OSError) as error:
            entries.append(DatasetEntry(name, problem=str(error)))
    return entries


def hold_out(dataset: Dataset, fraction: float) -> Dataset:
    """Set this share of the training images of each class aside for validation; 0
    changes nothing.

    Learning rates and the round of the model that is kept should be chosen on the
    validation set, so that the test set does not influence them. The choice of images
    depends on the data set alone, not on a seed: all runs use the same images.
    """
    if fraction == 0:
        return dataset
    held = share_of_each_class(dataset.train_labels, fraction, Purpose.VALIDATION)
    if not held.any():
        raise SettingError(
            f"data.validation = {fraction:g}: holds out no image, no class of"
            f" {dataset.name} has enough of them"
        )
    return replace(
        dataset,
        train_images=dataset.train_images[~held],
        train_labels=dataset.train_labels[~held],
        validation_images=dataset.train_images[held],
        validation_labels=dataset.train_labels[held],
        columns={name: column[~held] for name, column in dataset.columns.items()},
    )


def channel_statistics(images: Pixels) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the exact mean and standard deviation of each channel in [0, 1] units; a
    constant channel has deviation 1.

    >>> channel_statistics(np.array([0, 255], np.uint8).reshape(2, 1, 1, 1))
    ((0.5,), (0.5,))
    """
    values = np.arange(256) / 255
    means, deviations = [], []
    for channel in range(images.shape[1]):
        # Counting the 256 values avoids a copy of all images as floats.
        pixels = images[:, channel].ravel()
        shares = np.bincount(pixels, minlength=256) / max(pixels.size, 1)
        mean = float(shares @ values)
        means.append(mean)
        deviations.append(float(np.sqrt(shares @ (values - mean) ** 2)) or 1.0)
    return tuple(means), tuple(deviations)


# from a user's arrays


def dataset_of(name: str, made: Any) -> Dataset:
    """Make a data set of what a user's data source returned.

    Images may be (N, H, W), (N, H, W, C) or (N, C, H, W) with C = 1 or 3, all uint8.
    Features are (N, d), numbers of any type; each is scaled to mean 0 and deviation 1.
    Optional entries that are missing are derived from the training set; the classes are
    then named 0, 1, ... up to the largest label.
    """
    if isinstance(made, Dataset):
        return made
    if isinstance(made, tuple) and len(made) == len(_ARRAYS):
        made = dict(zip(_ARRAYS, made, strict=True))
    if not isinstance(made, dict):
        raise DataError(
            f"data.kind = {name}: must return a Dataset, a dict or a tuple"
            f" ({', '.join(_ARRAYS)})"
        )
    _check_keys(name, made)

    train, test, mean, std = _arrays(name, made["train_images"], made["test_images"])
    labels = _whole_labels(made["train_labels"])
    classes = made.get("classes") or range(1 + int(labels.max(initial=0)))
    columns = made.get("columns") or {}
    return Dataset(
        name,
        train,
        labels,
        test,
        _whole_labels(made["test_labels"]),
        tuple(map(str, classes)),
        tuple(map(float, made.get("mean") or mean)),
        tuple(map(float, made.get("std") or std)),
        {key: np.asarray(column) for key, column in columns.items()},
    )


def _check_keys(name: str, made: dict[str, Any]) -> None:
    missing = [key for key in _ARRAYS if key not in made]
    known = {*_ARRAYS, "classes", "columns"}
    if not missing and np.ndim(made["train_images"]) != 2:
        known |= {"mean", "std"}
    unknown = [str(key) for key in made if key not in known]
    if not missing and not unknown:
        return
    wrong = f"has {', '.join(unknown)}, which means nothing here"
    if missing:
        wrong = f"lacks {', '.join(missing)}"
    raise DataError(f"data.kind = {name}: the dict returned {wrong}")


def _arrays(
    name: str,
    train: Any,
    test: Any,
) -> tuple[Samples, Samples, tuple[float, ...], tuple[float, ...]]:
    """Return the training and the test images, or features, and their mean and std."""
    if np.ndim(train) == 2:  # a table with one row for each sample
        return *standardised(name, train, test), (0.0,), (1.0,)
    images = _channels_first(name, "train_images", train)
    tests = _channels_first(name, "test_images", test)
    return images, tests, *channel_statistics(images)


def _channels_first(
    name: str,
    key: str,
    array: Any,
) -> Pixels:
    """Return images (N, H, W), (N, H, W, C) or (N, C, H, W) as (N, C, H, W)."""
    images = np.asarray(array)
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        usual = (
            "(N, H, W), (N, H, W, 3) or (N, 3, H, W) of uint8 in 0..255, or features"
            " (N, d)"
        )
        raise DataError(
            f"data set {name}: {key} must be {usual}, is {images.shape} of"
            f" {images.dtype}"
        )
    if images.ndim == 3:
        images = images[:, np.newaxis]
    elif images.shape[1] not in (1, 3):
        images = images.transpose(0, 3, 1, 2)
    return np.ascontiguousarray(images)


def _whole_labels(array: Any) -> NDArray[Any]:
    """Return whole numbers as int64, and labels of any other type unchanged."""
    labels = np.asarray(array)
    return labels.astype(np.int64) if labels.dtype.kind in "iu" else labels


def standardised(
    name: str,
    train: Any,
    test: Any,
) -> tuple[Features, Features]:
    """Scale features (N, d) to mean 0 and deviation 1 over the training rows, and
    return the training and the test features.

    The computation is in float64, so that large numbers with small differences, for
    example dates, keep their precision. A feature that is the same in all training rows
    becomes 0 there.

    >>> standardised("shop", [[1.0, 5], [3.0, 5]], [[2.0, 6]])[0].reshape(2, 2).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    tables = {"train_features": np.asarray(train), "test_features": np.asarray(test)}
    for key, table in tables.items():
        numbers = table.dtype.kind in "fiub" and table.ndim == 2 and table.shape[1]
        if not numbers or not np.isfinite(table).all():
            raise DataError(
                f"data set {name}: {key} must be finite numbers (N, d), a row for each"
                f" sample, is {table.shape} of {table.dtype}"
            )
    ours, theirs = (table.astype(np.float64) for table in tables.values())
    if ours.shape[1] != theirs.shape[1]:
        raise DataError(
            f"data set {name}: train_features have {ours.shape[1]} columns,"
            f" test_features {theirs.shape[1]}"
        )

    with np.errstate(
        over="ignore",
        invalid="ignore",
    ):
        middle, spread = ours.mean(axis=0), ours.std(axis=0)
    finite = np.isfinite(spread)
    if not finite.all():
        raise DataError(
            f"data set {name}: column {int(np.argmin(finite))} of train_features has"
            " values that are too large to be scaled"
        )
    scale = np.where(spread > 0, spread, 1.0)

    train_features, test_features = (
        ((table - middle) / scale).astype(np.float32) for table in (ours, theirs)
    )
    return train_features[:, None, None], test_features[:, None, None]


# from the Hugging Face hub


REPOSITORIES = {
    "mnist": "ylecun/mnist",
    "cifar10": "uoft-cs/cifar10",
    "imagenette": "frgfm/imagenette",
}
_FILES = {"imagenette": "*160px/*.parquet"}
"""the smallest configuration, because images are resized to 64 pixels"""


def fetch(name: str, folder: Path) -> list[Path]:
    """Download the parquet files of data set `name` into folder/name and return their
    paths.

    Complete files are not downloaded again; incomplete ones are resumed. The address of
    the hub is the one that huggingface_hub uses, $HF_ENDPOINT if it is set.
    """
    if name not in REPOSITORIES:
        hint = " (digits comes with headgate, there is nothing to get)"
        raise SettingError(
            f"data = {name!r}: must be {', '.join(REPOSITORIES)}"
            f"{hint if name == 'digits' else ''}"
        )
    try:
        import huggingface_hub as hub
    except ImportError:
        raise SettingError(
            "data get: needs huggingface_hub: pip install 'headgate[hub]'"
        ) from None

    repository = REPOSITORIES[name]
    try:
        hub.snapshot_download(
            repository,
            repo_type="dataset",
            allow_patterns=_FILES.get(name, "*.parquet"),
            local_dir=folder / name,
            token=False,
        )
    except Exception as error:
        # The library, its HTTP client and the disk raise errors of many types.
        raise DataError(
            f"{repository}: cannot be fetched ({one_line(error, 200)}); running the"
            " command again resumes the download"
        ) from None
    files = sorted((folder / name).rglob("*.parquet"))
    if not files:
        raise DataError(f"{repository}: no parquet files on the hub")
    return files
