"""Arrays as people have them, made those of a data set: images of bytes, rows of features, whole labels."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headgate.errors import DataError
from headgate.learning.formats import Labels, Pixels

Features = NDArray[np.float32]
"""(N, 1, 1, d): features lie as the pixels of an image with one row, so that all that moves images moves them"""


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


def are_features(array: Any) -> bool:
    """Whether it is a table, a row for each sample, rather than images."""
    return np.ndim(array) == 2


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
