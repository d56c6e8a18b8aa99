"""What every layout has in common: the arrays read, the source they come from, the names of the splits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headgate.errors import DataError
from headgate.escaping import one_line

Pixels = NDArray[np.uint8]
Labels = NDArray[np.int64]

SIZE = 64
"""Side to which pictures are brought when they differ in size; pictures of one size keep it."""

TRAIN_NAMES = ("train", "training")
TEST_NAMES = ("test", "validation", "valid", "val")
"""In this order: a real test split wins over a validation split."""


@dataclass(frozen=True, eq=False)
class Pictures:
    """A data set as read: images (N, C, H, W), labels (N,), class names where the files give them.

    `columns` are further columns of the training rows, for example who wrote a digit.
    """

    train_images: Pixels
    train_labels: Labels
    test_images: Pixels
    test_labels: Labels
    classes: tuple[str, ...] | None = None
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)


class PictureFiles(Protocol):
    """A data set found on disk but not read yet."""

    @property
    def format(self) -> str:
        """The layout's name, for people."""

    def counts(self) -> tuple[int, int]:
        """Training and test images, without decoding any of them."""

    def read(self, channels: int, classes: int) -> Pictures:
        """Everything, with `channels` (1 or 3) where the layout leaves it open.

        Labels must lie in 0..classes-1, or within the class names where the files bring their own.
        """


def reason(error: BaseException) -> str:
    """An error of another library in one line.

    >>> reason(ValueError("no\\nmore")), reason(EOFError())
    ('no', 'EOFError')
    """
    text = str(error).strip()
    return one_line(text.splitlines()[0]) if text else type(error).__name__


def check_labels(path: Path, labels: Labels, classes: int) -> None:
    """That the labels read from `path` are those of `classes` classes."""
    wrong = labels[(labels < 0) | (labels >= classes)]
    if wrong.size:
        raise DataError(f"{path}: label {wrong[0]} is outside 0..{classes - 1}")
