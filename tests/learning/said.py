"""What is said of data sets, and how."""

import pytest

from headgate.learning.datasets import available

CIFAR_CLASSES = [
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
]


def found(name, folder):
    return next(entry for entry in available(folder) if entry.name == name)


def refused(kind, read, *parts):
    """`read` ends in an error of this kind, which says all of this in one line."""
    with pytest.raises(kind) as error:
        read()
    message = str(error.value)
    assert "\n" not in message
    for part in parts:
        assert str(part) in message
    return message
