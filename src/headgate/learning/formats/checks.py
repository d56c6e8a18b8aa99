"""Refusals which several layouts share."""

from pathlib import Path

from headgate.errors import DataError
from headgate.escaping import one_line
from headgate.learning.formats.types import Labels


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
