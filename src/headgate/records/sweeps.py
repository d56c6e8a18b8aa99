"""The points of a sweep are run folders within one folder, which says in sweep.json which they are."""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from headgate.errors import DataError
from headgate.limits import POINTS
from headgate.reading import read_object
from headgate.records.tables import Mark, mark_of
from headgate.writing import check_no_link

SWEEP = "sweep.json"
STATE = "state.json"
BETWEEN = "~"
"""a point is listed as SWEEP~POINT"""


def points_of(folder: Path) -> list[Path]:
    """A run folder, or all of a sweep."""
    if not (folder / SWEEP).exists():
        return [folder]
    names = read_object(folder / SWEEP).get("points")
    if not isinstance(names, list) or len(names) > POINTS or not all(map(_inside, names)):
        raise DataError(f"{folder / SWEEP}: is damaged")
    points = [folder / name for name in names]
    check_no_link(*points)
    return points


def _inside(name: object) -> bool:
    return isinstance(name, str) and name not in ("", ".", "..") and "\0" not in name and Path(name).name == name


def folder_name(label: str) -> str:
    """Of the point with this label.

    >>> folder_name("policies.acdpp.V=1e+3,prices.file=a/b")
    'policies.acdpp.V=1e_3,prices.file=a_b'
    """
    return "".join(c if c.isalnum() or c in "=.,-" else "_" for c in label)


def sweep_text(folder: Path, points: Sequence[Path]) -> bytes:
    """What sweep.json says with these points added to those that are there: a sweep may be played some points at a time."""
    before = points_of(folder) if (folder / SWEEP).exists() else []
    return json.dumps({"points": list(dict.fromkeys(point.name for point in (*before, *points)))}).encode()


class FoundRun(NamedTuple):
    """A run folder below another folder."""

    name: str
    sweep: str | None
    path: Path
    mark: Mark
    """of its state"""


def find_runs(folder: Path) -> Iterator[FoundRun]:
    """`folder` where it is a run itself; else the run folders below it, and in its sweeps. Links are not followed."""
    if (mark := mark_of(folder / STATE)) is not None:
        yield FoundRun(folder.resolve().name, None, folder, mark)
        return
    for path in _folders_in(folder):
        if (mark := mark_of(path / STATE)) is not None:
            yield FoundRun(path.name, None, path, mark)
        elif mark_of(path / SWEEP) is not None:
            for point in _folders_in(path):
                if (mark := mark_of(point / STATE)) is not None:
                    yield FoundRun(f"{path.name}{BETWEEN}{point.name}", path.name, point, mark)


def _folders_in(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return sorted(Path(each.path) for each in entries if each.is_dir(follow_symlinks=False))
    except OSError:
        return []
