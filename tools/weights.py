"""How much each extra weighs where it is installed: all packages that it needs, and their files.

python tools/weights.py      a table; what is not installed here is said to be missing
"""

import importlib.metadata
import sys
from collections.abc import Iterator
from functools import cache

from packaging.requirements import Requirement


def needed(text: str, extra: str, seen: set[tuple[str, str]]) -> Iterator[str]:
    """The names of all packages that a requirement brings on this platform, itself included."""
    requirement = Requirement(text)
    if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
        return
    for own in ("", *requirement.extras):
        if (requirement.name, own) in seen:
            continue
        seen.add((requirement.name, own))
        yield requirement.name
        try:
            more = importlib.metadata.requires(requirement.name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        for each in more:
            yield from needed(each, own, seen)


@cache
def weight(name: str) -> int | None:
    """Bytes of a package's files as they lie here; None: it is not installed."""
    try:
        files = importlib.metadata.files(name) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return sum(path.stat().st_size for file in files if (path := file.locate()).is_file())  # type: ignore[union-attr]


def weights() -> dict[str, tuple[int, int, list[str]]]:
    """By extra: packages, bytes in all, and what is missing here. "" is headgate by itself."""
    meta = importlib.metadata.metadata("headgate")
    found = {}
    for extra in ("", *(meta.get_all("Provides-Extra") or [])):
        seen: set[tuple[str, str]] = set()
        wanted = (each for each in importlib.metadata.requires("headgate") or [] if extra or "extra ==" not in each)
        names = {name.lower().replace("_", "-") for each in wanted for name in needed(each, extra, seen)}
        sizes = {name: weight(name) for name in sorted(names)}
        found[extra] = len(names), sum(filter(None, sizes.values())), [name for name, size in sizes.items() if size is None]
    return found


if __name__ == "__main__":
    print(f"{'extra':10}{'packages':>10}{'MB':>8}  not installed here ({sys.platform}, Python {sys.version.split()[0]})")
    for extra, (count, size, missing) in weights().items():
        print(f"{extra or '(none)':10}{count:>10}{size / 1e6:>8.0f}  {', '.join(missing)}")
