"""What is said of data sets, and how."""

from pathlib import Path

import pytest

from headgate.errors import HeadgateError
from headgate.learning.datasets import DatasetEntry, available

CIFAR_CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def found(name: str, folder: Path) -> DatasetEntry:
    return next(entry for entry in available(folder) if entry.name == name)


def one_line(error: pytest.ExceptionInfo[HeadgateError], *parts: object) -> None:
    message = str(error.value)
    assert "\n" not in message
    for part in parts:
        assert str(part) in message
