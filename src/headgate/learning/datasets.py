"""Data sets ready for learning: digits, mnist, cifar10, imagenette, or what a function of the user's returns.

Images stay uint8 and are brought to [0, 1], less `mean`, over `std`, when a batch is made: a quarter of
the memory of floats, and the numbers on disk are the numbers in memory.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.control.randomness import Purpose, uniform
from headgate.errors import DataError, SettingError
from headgate.learning.formats import Labels, PictureFiles, Pixels, recognise
from headgate.learning.formats.detect import PYTHON, refuse_python
from headgate.learning.formats.types import reason

_ARRAYS = ("train_images", "train_labels", "test_images", "test_labels")
_OPTIONAL = ("classes", "mean", "std", "columns")
Samples = NDArray[Any]
"""bytes or float32"""
Features = NDArray[np.float32]
"""(N, 1, 1, d): features lie as the pixels of an image with one row, so that all that moves images moves them"""
BYTE = 255.0
DIGITS_COUNTS = (1442, 355)
"""Training and test images of `digits`, known beforehand so that listing the data sets does not load it."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images (N, C, H, W) uint8 with C = 1 or 3, labels (N,) int64, mean and std of each channel in [0, 1] units.

    Features are float32 and lie as images with one row, (N, 1, 1, d); mean and std are then in their own units.
    `columns` holds further values of the training images (N train, ...), for example who wrote a digit.
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
    """held out of the training images, with `validation_labels`: nobody trains on them"""
    validation_labels: Labels | None = None

    def __post_init__(self) -> None:
        if not self.classes:
            self._refuse("has no classes")
        self._check_split("train_images", "train_labels")
        self._check_split("test_images", "test_labels")
        if self.train_images.shape[1:] != self.test_images.shape[1:]:
            self._refuse(f"train_images are {self.train_images.shape[1:]}, test_images {self.test_images.shape[1:]}")
        self._check_scale("mean", positive=False)
        self._check_scale("std", positive=True)
        for name, column in self.columns.items():
            if not isinstance(column, np.ndarray) or column.ndim < 1 or len(column) != len(self.train_labels):
                self._refuse(f"column {name} must be an array with one entry for each training image")

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        _, channels, height, width = self.train_images.shape
        return channels, height, width

    @property
    def judged(self) -> list[tuple[Samples, Labels]]:
        """What models are judged by: the test set and, where something was held out of the training images, that."""
        test = (self.test_images, self.test_labels)
        if self.validation_images is None or self.validation_labels is None:
            return [test]
        return [test, (self.validation_images, self.validation_labels)]

    @property
    def unit(self) -> float:
        """What stands for 1: the largest byte, or 1 itself of features."""
        return BYTE if self.train_images.dtype == np.uint8 else 1.0

    def _refuse(self, what: str) -> None:
        raise DataError(f"data set {self.name}: {what}")

    def _check_split(self, images_name: str, labels_name: str) -> None:
        images, labels = getattr(self, images_name), getattr(self, labels_name)
        for name, array, kinds in ((images_name, images, ("uint8", "float32")), (labels_name, labels, ("int64",))):
            if not isinstance(array, np.ndarray) or array.dtype not in kinds:
                kind = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
                self._refuse(f"{name} must be a numpy array of {' or '.join(kinds)}, is {kind}")
        if images.dtype != self.train_images.dtype:
            self._refuse(f"train_images are {self.train_images.dtype}, {images_name} {images.dtype}")
        if images.dtype == np.float32 and not np.isfinite(images).all():
            self._refuse(f"{images_name} holds values that are not finite")
        if images.ndim != 4 or images.shape[1] not in (1, 3) or 0 in images.shape[2:]:
            self._refuse(f"{images_name} must be (N, 1 or 3, height, width), is {images.shape}")
        if labels.ndim != 1:
            self._refuse(f"{labels_name} must be (N,), is {labels.shape}")
        if len(images) != len(labels):
            self._refuse(f"{len(images)} {images_name}, but {len(labels)} {labels_name}")
        if not len(images):
            self._refuse(f"{images_name} is empty")
        for label in (labels.min(), labels.max()):
            if not 0 <= label < len(self.classes):
                self._refuse(f"{labels_name} holds {label}, outside 0..{len(self.classes) - 1}")

    def _check_scale(self, name: str, positive: bool) -> None:
        values = getattr(self, name)
        if len(values) != self.train_images.shape[1]:
            self._refuse(f"{name} has {len(values)} entries for {self.train_images.shape[1]} channels")
        if not np.isfinite(values).all() or (positive and min(values) <= 0):
            self._refuse(f"{name} = {values} must be {'above zero' if positive else 'finite numbers'}")


@dataclass(frozen=True)
class DatasetEntry:
    """A line of the list of data sets: where it lies, how, and how much; or why it cannot be read."""

    name: str
    path: Path | None = None
    format: str | None = None
    train: int | None = None
    test: int | None = None
    problem: str | None = None


@dataclass(frozen=True)
class _Known:
    """What is fixed about a data set which comes as files."""

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
        ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
        (0.4914, 0.4822, 0.4465),
        (0.2470, 0.2435, 0.2616),
        ("cifar10", "cifar-10-batches-bin"),
    ),
    "imagenette": _Known(
        tuple(_IMAGENETTE.values()),
        (0.485, 0.456, 0.406),
        (0.229, 0.224, 0.225),
        ("imagenette", "imagenette64", "imagenette2", "imagenette2-160", "imagenette2-320"),
        _IMAGENETTE,
    ),
}
NAMES = ("digits", *_KNOWN)
"""The data sets known by name."""


def data_folder() -> Path:
    """Where data sets lie: $HEADGATE_DATA, otherwise `headgate` in the user's cache folder."""
    chosen = os.environ.get("HEADGATE_DATA")
    if chosen:
        return Path(chosen).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path("~/.cache")).expanduser() / "headgate"


def load_dataset(name: str, folder: Path | None = None) -> Dataset:
    """The data set `name`, read from `folder` (by default `data_folder()`).

    Pictures which differ in size are squeezed to 64 x 64; those of one size keep it.
    """
    if name == "digits":
        return _load_digits()
    if name in _KNOWN:
        return _load_known(name, folder or data_folder())
    raise SettingError(f"data.kind = {name}: must be {', '.join(NAMES)} or module:Class")


def available(folder: Path | None = None) -> list[DatasetEntry]:
    """What there is under each known name, without decoding images: what `load_dataset` would find, and what is made."""
    from headgate.learning.data import Sea  # which needs this module

    embedded = DatasetEntry("digits", None, "with headgate", *DIGITS_COUNTS)
    test = Sea().count // 5
    made = DatasetEntry("sea", None, "made, not read", Sea().count - test, test)
    return [embedded, *(_look(name, folder or data_folder()) for name in _KNOWN), made]


def hold_out(dataset: Dataset, fraction: float) -> Dataset:
    """The data set with this share of the training images of each class set aside for validation; 0 changes nothing.

    Settings such as a learning rate, and which round's model is taken, are chosen on them, so that the test set has no say in
    it. Which images are held out depends on the data set alone, not on a seed: all runs are judged by the same images.
    """
    if fraction == 0:
        return dataset
    held = share_of_each_class(dataset.train_labels, fraction, Purpose.VALIDATION)
    if not held.any():
        raise SettingError(f"data.validation = {fraction:g}: holds out no image, no class of {dataset.name} has enough of them")
    return replace(
        dataset,
        train_images=dataset.train_images[~held],
        train_labels=dataset.train_labels[~held],
        validation_images=dataset.train_images[held],
        validation_labels=dataset.train_labels[held],
        columns={name: column[~held] for name, column in dataset.columns.items()},
    )


def share_of_each_class(labels: Labels, share: float, purpose: Purpose) -> NDArray[np.bool_]:
    """This share of the rows of each class, rounded down and drawn at random, but the same for all seeds."""

    def some(rows: Labels) -> Labels:
        order = np.argsort(uniform(0, purpose, rows), kind="stable")
        return np.asarray(rows[order[: int(share * len(rows))]])

    return _of_each_class(labels, some)


def _of_each_class(labels: Labels, choose: Callable[[Labels], Labels]) -> NDArray[np.bool_]:
    """The rows that are chosen among those of each class."""
    chosen = np.zeros(len(labels), np.bool_)
    for label in np.unique(labels):
        chosen[choose(np.flatnonzero(labels == label))] = True
    return chosen


def channel_statistics(images: Pixels) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel in [0, 1] units, exact; a channel without variation gets 1.

    >>> channel_statistics(np.array([0, 255], np.uint8).reshape(2, 1, 1, 1))
    ((0.5,), (0.5,))
    """
    values = np.arange(256) / 255
    means, deviations = [], []
    for channel in range(images.shape[1]):
        # Counting the 256 values first needs no copy of all images as floats.
        shares = np.bincount(images[:, channel].ravel(), minlength=256) / max(images[:, channel].size, 1)
        mean = float(shares @ values)
        means.append(mean)
        deviations.append(float(np.sqrt(shares @ (values - mean) ** 2)) or 1.0)
    return tuple(means), tuple(deviations)


# by name


def _load_digits() -> Dataset:
    """8x8 digits, which come with headgate (digits.md). Of each class the last fifth in file order, rounded down, is the
    test set.

    Pixels come as 0..16 and are brought to 0..255 (x * 255 / 16, rounded); mean and std are those of the
    training pixels after that.
    """
    with np.load(Path(__file__).with_name("digits.npz"), allow_pickle=False) as file:
        images = np.rint(file["pixels"][:, np.newaxis] * (255 / 16)).astype(np.uint8)
        labels = file["labels"].astype(np.int64)
    test = _of_each_class(labels, lambda rows: rows[len(rows) - len(rows) // 5 :])
    mean, std = channel_statistics(images[~test])
    return Dataset("digits", images[~test], labels[~test], images[test], labels[test], tuple("0123456789"), mean, std)


def _load_known(name: str, root: Path) -> Dataset:
    known = _KNOWN[name]
    path, source = _find(name, root)
    try:
        pictures = source.read(len(known.mean), len(known.classes))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error})") from None
    channels = pictures.train_images.shape[1]
    if channels != len(known.mean):  # the folder is named after another data set
        raise DataError(f"{path}: images have {channels} channel(s), those of {name} have {len(known.mean)}")
    if pictures.classes is not None and len(pictures.classes) != len(known.classes):
        raise DataError(f"{path}: holds {len(pictures.classes)} classes, {name} has {len(known.classes)}")
    classes = tuple(known.other_names.get(title, title) for title in pictures.classes or known.classes)
    arrays = {key: np.ascontiguousarray(getattr(pictures, key)) for key in _ARRAYS}
    return Dataset(name, **arrays, classes=classes, mean=known.mean, std=known.std, columns=pictures.columns)


def _find(name: str, root: Path) -> tuple[Path, PictureFiles]:
    """The first of a data set's folders with something in it that can be read."""
    problem: DataError | None = None
    for path in (root / folder for folder in _KNOWN[name].folders):
        if not path.is_dir():
            continue
        try:
            source = recognise(path)
        except DataError as error:
            problem = problem or error
            continue
        if source is not None:
            return path, source
    if name == "cifar10" and problem is None and (root / PYTHON).is_dir():
        refuse_python(root / PYTHON)
    folders = ", ".join(_KNOWN[name].folders)
    missing = f"data set {name} is not in {root} (looked for {folders}): `headgate data get {name}` downloads it"
    raise problem or DataError(missing)


def _look(name: str, root: Path) -> DatasetEntry:
    path: Path | None = next((root / folder for folder in _KNOWN[name].folders if (root / folder).is_dir()), None)
    try:
        path, source = _find(name, root)
        return DatasetEntry(name, path, source.format, *source.counts())
    except (DataError, OSError) as error:
        return DatasetEntry(name, path, problem=str(error))


# from a user's arrays


def dataset_of(name: str, made: Any) -> Dataset:
    """What a user's data source returned, as a data set.

    Arrays come in the usual shapes: images (N, H, W), (N, H, W, C) or (N, C, H, W), C = 1 or 3, all uint8; or features (N, d),
    numbers of any kind, each of which is brought to mean 0 and deviation 1. What is left out is made from the training set:
    classes are called 0, 1, ... up to the largest label.
    """
    if isinstance(made, Dataset):
        return made
    if isinstance(made, tuple) and len(made) == len(_ARRAYS):
        made = dict(zip(_ARRAYS, made, strict=True))
    if not isinstance(made, dict):
        raise DataError(f"data.kind = {name}: must return a Dataset, a dict or a tuple ({', '.join(_ARRAYS)})")
    missing = [key for key in _ARRAYS if key not in made]
    unknown = [str(key) for key in made if key not in _ARRAYS + _OPTIONAL]
    if missing or unknown:
        wrong = f"lacks {', '.join(missing)}" if missing else f"has {', '.join(unknown)}, which means nothing here"
        raise DataError(f"data.kind = {name}: the dict returned {wrong}")
    given = {key: value for key, value in made.items() if value is not None}
    arrays: dict[str, Any] = {key: whole_labels(name, key, made[key]) for key in _ARRAYS if "labels" in key}
    if np.ndim(made["train_images"]) == 2:  # a table, a row for each sample
        given |= {"mean": (0.0,), "std": (1.0,)}
        scale = (made.get("mean"), made.get("std"))
        both = standardised(name, made["train_images"], made["test_images"], *scale)
        arrays["train_images"], arrays["test_images"] = both
    else:
        arrays |= {key: channels_first(name, key, made[key]) for key in _ARRAYS if "images" in key}
        mean, std = channel_statistics(arrays["train_images"])
        given = {"mean": mean, "std": std} | given
    return Dataset(
        name,
        **arrays,
        classes=tuple(map(str, given.get("classes", range(1 + int(arrays["train_labels"].max(initial=0)))))),
        mean=tuple(map(float, given["mean"])),
        std=tuple(map(float, given["std"])),
        columns={key: np.asarray(column) for key, column in given.get("columns", {}).items()},
    )


# arrays as people have them, made those of a data set


def channels_first(name: str, key: str, array: Any) -> Pixels:
    """(N, H, W), (N, H, W, C) or (N, C, H, W) as (N, C, H, W)."""
    images = np.asarray(array)
    if images.dtype != np.uint8:
        advice = "; multiply by 255, round, then .astype(numpy.uint8)" if images.dtype.kind == "f" else ""
        raise DataError(f"data set {name}: {key} must be uint8 in 0..255, is {images.dtype}{advice}")
    if images.ndim == 3:
        images = images[:, np.newaxis]
    elif images.ndim == 4 and images.shape[1] not in (1, 3) and images.shape[3] in (1, 3):
        images = images.transpose(0, 3, 1, 2)
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        usual = "(N, H, W), (N, H, W, 3) or (N, 3, H, W)"
        raise DataError(f"data set {name}: {key} must be {usual}, or features (N, d), is {images.shape}")
    return np.ascontiguousarray(images)


def whole_labels(name: str, key: str, array: Any) -> Labels:
    """As int64."""
    labels = np.asarray(array)
    if labels.dtype.kind not in "iu":
        raise DataError(f"data set {name}: {key} must be whole numbers, is {labels.dtype}")
    return labels.astype(np.int64)


def standardised(
    name: str, train: Any, test: Any, mean: Sequence[float] | None = None, std: Sequence[float] | None = None
) -> tuple[Features, Features]:
    """Features (N, d) of any kind of number, less their mean over the training rows, over their deviation there.

    That is done in float64, so that large numbers with small differences, as dates are, lose nothing. A feature that is the
    same in all training rows stays 0. `mean` and `std` (d,) take the place of those of the training rows.

    >>> standardised("shop", [[1.0, 5], [3.0, 5]], [[2.0, 6]])[0].reshape(2, 2).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    ours, theirs = (_numbers(name, f"{key}_features", own) for key, own in (("train", train), ("test", test)))
    if ours.shape[1] != theirs.shape[1]:
        raise DataError(f"data set {name}: train_features have {ours.shape[1]} columns, test_features {theirs.shape[1]}")
    with np.errstate(over="ignore", invalid="ignore"):
        middle = ours.mean(axis=0) if mean is None else _given(name, "mean", mean, ours.shape[1])
        spread = ours.std(axis=0) if std is None else _given(name, "std", std, ours.shape[1])
        if std is not None and spread.min() <= 0:
            raise DataError(f"data set {name}: std = {spread.min():g} of a feature must be above zero")
        if not np.isfinite(spread).all():
            column = int(np.argmin(np.isfinite(spread)))
            raise DataError(f"data set {name}: column {column} of train_features has values that are too large to be scaled")
        scaled = [((own - middle) / np.where(spread > 0, spread, 1.0)).astype(np.float32) for own in (ours, theirs)]
    for key, own in zip(("train", "test"), scaled, strict=True):
        _check_finite(name, f"{key}_features", own, "are too large to be scaled")
    return scaled[0][:, None, None], scaled[1][:, None, None]


def _numbers(name: str, key: str, array: Any) -> NDArray[np.float64]:
    table = np.asarray(array)
    if table.dtype.kind not in "fiub":
        raise DataError(
            f"data set {name}: {key} must be numbers, is {table.dtype}; make numbers of text and of what is missing"
        )
    if table.ndim != 2 or not table.shape[1]:
        raise DataError(f"data set {name}: {key} must be (N, d), a row for each sample, is {table.shape}")
    numbers = table.astype(np.float64)
    _check_finite(name, key, numbers, "are not finite; fill them in, or leave their rows out")
    return numbers


def _check_finite(name: str, key: str, table: NDArray[Any], wrong: str) -> None:
    bad = ~np.isfinite(table)
    if bad.any():
        row, column = (int(each) for each in np.argwhere(bad)[0])
        raise DataError(f"data set {name}: {int(bad.sum()):,} values of {key} {wrong}; the first is row {row}, column {column}")


def _given(name: str, key: str, values: Sequence[float], features: int) -> NDArray[np.float64]:
    given = np.asarray(values, np.float64)
    if given.shape != (features,) or not np.isfinite(given).all():
        raise DataError(f"data set {name}: {key} must be {features} finite numbers, one for each feature, is {given.shape}")
    return given


# from the Hugging Face hub


REPOSITORIES = {"mnist": "ylecun/mnist", "cifar10": "uoft-cs/cifar10", "imagenette": "frgfm/imagenette"}
REVISION = "main"
_PREFERRED = {"imagenette": "160px"}  # of several configurations the smallest: images are brought to 64 pixels anyway


def fetch(name: str, folder: Path) -> list[Path]:
    """Download the parquet files of data set `name` into folder/name and return them.

    Files that are there and whole are left alone; unfinished ones are resumed. The hub's address is that of
    huggingface_hub, $HF_ENDPOINT where it is set.
    """
    if name not in REPOSITORIES:
        embedded = " (digits comes with headgate, there is nothing to get)" if name == "digits" else ""
        raise SettingError(f"data = {name!r}: must be {', '.join(REPOSITORIES)}{embedded}")
    hub, repository = _library(), REPOSITORIES[name]
    where = {"repo_id": repository, "repo_type": "dataset", "revision": REVISION, "token": False}  # no token of the user's
    try:
        files = _choose(name, hub.HfApi().list_repo_files(**where))
        return [Path(hub.hf_hub_download(**where, filename=file, local_dir=folder / name)) for file in files]
    except DataError:
        raise
    except Exception as error:  # those of the library, of its HTTP client, whichever that is, and of the disk
        again = "running the command again resumes the download"
        raise DataError(f"{repository}: cannot be fetched ({reason(error)}); {again}") from None


def _library() -> Any:
    """huggingface_hub, where it is installed."""
    try:
        import huggingface_hub
    except ImportError:
        raise SettingError("data get: needs huggingface_hub: pip install 'headgate[hub]'") from None
    return huggingface_hub


def _choose(name: str, listing: list[str]) -> list[str]:
    """The parquet files of the smallest configuration, unless a path is unsafe: paths become file names here."""
    for path in listing:
        # Backslash and colon lead out of the folder on Windows.
        if any(part in ("", ".", "..") for part in path.split("/")) or re.search(r"[\\:\x00-\x1f]", path):
            raise DataError(f"{REPOSITORIES[name]}: the hub's listing names the unsafe path {path!r}, nothing was fetched")
    files = [path for path in listing if path.endswith(".parquet")]
    if not files:
        raise DataError(f"{REPOSITORIES[name]}: no parquet files on the hub")
    return [path for path in files if _PREFERRED.get(name) in path.split("/")] or files
