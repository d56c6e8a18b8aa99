"""What an experiment needs beside headgate, for workers on other machines: the modules
that it names as `module:Class`, with those beside them that they import, and its own
tables. They travel by content.
"""

import importlib.util
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from functools import cache
from modulefinder import ModuleFinder
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from headgate.errors import SettingError
from headgate.experiment import Experiment, named_outside
from headgate.reading import read_bytes
from headgate.records.parcels import Files, write_files
from headgate.registry import searching, setting_fields

MOST = 32 * 2**20
"""the most bytes of the modules and tables of an experiment that travel"""
TRAVELLING = ("code/", "data/")
"""the beginnings of their names in a parcel"""
INSTALLED = tuple(Path(sysconfig.get_path(name)) for name in ("purelib", "stdlib"))
"""folders whose modules do not travel"""


class Luggage(NamedTuple):
    """The modules and tables of an experiment.

    Parameters
    ----------
    files : mapping of str to bytes
        Their contents, by their names in a parcel.
    paths : mapping of str to str
        The names in a parcel of files that the settings name, by their paths.
    """

    files: Files
    paths: Mapping[str, str]


def luggage_of(experiment: Experiment, executor: str) -> Luggage:
    """Return what an experiment needs beside headgate; raise SettingError if it is too
    large.
    """
    named = [*named_outside(experiment.tables()).values(), executor]
    outside = {name.partition(":")[0] for name in named if ":" in name}
    modules = tuple(sorted(outside))
    paths = tuple(dict.fromkeys(_paths(experiment)))
    return _luggage(experiment.folder, modules, paths)


@cache  # a run goes on with the modules with which it began
def _luggage(
    folder: Path | None,
    modules: tuple[str, ...],
    paths: tuple[str, ...],
) -> Luggage:
    sources: dict[str, Path] = {}
    with searching(folder):
        for name in modules:
            sources |= _sources(name)
    tables: dict[str, str] = {}
    for number, path in enumerate(paths):
        tables[path] = f"data/{number}{Path(path).suffix}"
        sources[tables[path]] = Path(path)
    size = sum(path.stat().st_size for path in sources.values())
    if size > MOST:
        named = ", ".join(map(str, sources.values()))
        raise SettingError(
            f"--on: {named}: {size / 2**20:,.0f} MiB; modules and tables of up to"
            f" {MOST // 2**20} MiB travel to the workers"
        )
    files = {name: read_bytes(path, MOST) for name, path in sources.items()}
    return Luggage(files, tables)


def _paths(part: Any) -> Iterator[str]:
    """Yield the paths of the files that the settings of a part name."""
    inside: Iterable[Any] = ()
    if isinstance(part, Mapping):
        inside = part.values()
    elif isinstance(part, list | tuple):
        inside = part
    elif is_dataclass(part):
        settings = setting_fields(part)
        inside = [getattr(part, own.name) for own in settings]
        for own, value in zip(settings, inside, strict=True):
            if own.metadata.get("path") and value is not None:
                yield os.path.abspath(value)
    for each in inside:
        yield from _paths(each)


def _sources(module: str) -> dict[str, Path]:
    """Return the files of a module, and of those beside it that it imports, by their
    names in a parcel; none of an installed one.
    """
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        spec = None
    origin = getattr(spec, "origin", None) or ""
    if spec is None or not origin.endswith(".py"):
        return {}
    levels = module.count(".")
    if spec.submodule_search_locations:
        levels += 1
    root = Path(origin).parents[levels]
    if root in INSTALLED or module.partition(".")[0] == "headgate":
        return {}
    finder = ModuleFinder([str(root)])
    finder.import_hook(module)
    found: dict[str, Path] = {}
    for own in finder.modules.values():
        if file := getattr(own, "__file__", None):
            name = Path(file).relative_to(root).as_posix()
            found[f"code/{name}"] = Path(file)
    return found


class Unpacked:
    """The luggage that this process has unpacked; that of another run replaces it."""

    def __init__(self) -> None:
        self.folder = Path()
        self._content: dict[str, bytes] = {}
        self._whole: TemporaryDirectory[str] | None = None

    def put(self, files: Files) -> None:
        """Unpack the luggage among these files, so that its modules are found first,
        and forget the modules of the one before.
        """
        own = {name: files[name] for name in files if name.startswith(TRAVELLING)}
        if own == self._content:
            return
        if self._whole is not None:
            self._forget(str(self.folder / "code"))
            self._whole.cleanup()
        self._whole = TemporaryDirectory(prefix="headgate-")
        self.folder = Path(self._whole.name)
        self._content = own
        sys.path.insert(0, str(self.folder / "code"))
        write_files(self.folder, own)

    def _forget(self, code: str) -> None:
        """Forget the modules that were imported from a folder."""
        sys.path.remove(code)
        for name, module in list(sys.modules.items()):
            file = str(getattr(module, "__file__", None))
            if file.startswith(code):
                del sys.modules[name]

    def moved(self, tables: Any, paths: Mapping[str, str]) -> Any:
        """Return the tables of a recipe with the `paths` as they are on this
        machine.
        """
        if isinstance(tables, dict):
            return {name: self.moved(each, paths) for name, each in tables.items()}
        if isinstance(tables, str) and tables in paths:
            return str(self.folder / paths[tables])
        return tables
