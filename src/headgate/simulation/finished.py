"""Which policies of a comparison were played before, so that one can be added to a folder of finished runs."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w

from headgate.errors import HeadgateError
from headgate.experiment import Experiment
from headgate.records.reader import ENVIRONMENT, read_config
from headgate.records.sums import read_sealed
from headgate.records.sweeps import STATE, SWEEP, folder_name, points_of

Points = Sequence[tuple[str, Experiment]]
BESIDE = ",policies="
"""between a point's label and the names of policies that were added to it"""


class FinishedPolicies(NamedTuple):
    """Where each wanted policy is, or is to be played."""

    finished: dict[Path, list[str]]
    """finished run folders, and which of their policies are meant"""
    left: list[tuple[str, Experiment]]
    """what is not there; a point that was begun with other settings is among it, and refused when it is played"""


def find_finished(points: Points, folder: Path) -> FinishedPolicies:
    """Look for each point in the folder of its label and in those beside it to which policies were added."""
    there = points_of(folder) if (folder / SWEEP).is_file() else []
    found = FinishedPolicies({}, [])
    for label, wanted in points:
        first, names = folder / folder_name(label), list(wanted.policies)
        if label and first in there and _policies(first) != names:
            for path in (first, *(each for each in there if each.name.startswith(first.name + BESIDE))):
                common = [name for name in names if name in _policies(path)]
                if common and _holds(path, wanted.only(common)):
                    found.finished[path] = common
                    names = [name for name in names if name not in common]
        if len(names) == len(wanted.policies):
            found.left.append((label, wanted))
        elif names:
            found.left.append((label + BESIDE + ",".join(names), wanted.only(names)))
    return found


def in_order(points: Points, shares: Mapping[Path, list[str]]) -> dict[Path, list[str]]:
    """Return run folders as their points come, the first one's before those that were added to it."""
    names = [folder_name(label) for label, _ in points]
    if len(names) == 1:
        return dict(shares)
    return dict(sorted(shares.items(), key=lambda share: names.index(share[0].name.partition(BESIDE)[0])))


def _policies(folder: Path) -> list[str]:
    try:
        return list(read_config(folder)["run"]["policies"])
    except (HeadgateError, KeyError, TypeError):  # what is wrong is reported when it is played
        return []


def _holds(folder: Path, wanted: Experiment) -> bool:
    """Return whether these policies, all of which a recipe can name, were played there to the end with the same settings."""
    if not (folder / STATE).exists() or read_sealed(folder / STATE).get("state") != "finished":
        return False
    if wanted.unnamed or read_sealed(folder / ENVIRONMENT).get("unnamed"):
        return False
    said, own = read_config(folder), tomllib.loads(tomli_w.dumps(wanted.tables()))
    return _only(said, list(wanted.policies)) == own


def _only(tables: dict[str, Any], names: list[str]) -> dict[str, Any]:
    chosen = {name: settings for name, settings in tables["policies"].items() if name in names}
    return {**tables, "policies": chosen, "run": {**tables["run"], "policies": names}}
