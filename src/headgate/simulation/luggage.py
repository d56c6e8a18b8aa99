"""What an experiment needs beside headgate, for workers on other machines: the modules
that it names as `module:Class`, with those beside them that they import, and its own
tables. They travel by content.
"""

import importlib.util
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from functools import cache
from hashlib import sha256
from modulefinder import ModuleFinder
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

from headgate.errors import SettingError
from headgate.experiment import Experiment, named_outside
from headgate.reading import read_bytes
from headgate.records.parcels import Files, write_files
from headgate.registry import searching, setting_fields

MOST = 32 * 2**20
"""the most bytes of the modules and tables of an experiment that travel"""
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
    named = {*named_outside(experiment.tables()).values(), executor}
    modules = sorted({name.partition(":")[0] for name in named if ":" in name})
    return _luggage(experiment.folder, tuple(modules), tuple(_paths(experiment)))


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
    for path in dict.fromkeys(paths):
        tables[path] = f"data/{len(tables)}{Path(path).suffix}"
    sources |= {name: Path(path) for path, name in tables.items()}
    size = sum(path.stat().st_size for path in sources.values())
    if size > MOST:
        raise SettingError(
            f"--on: {', '.join(map(str, sources.values()))}: {size / 2**20:,.0f} MiB;"
            f" modules and tables of up to {MOST // 2**20} MiB travel to the workers"
        )
    files = {name: read_bytes(path, MOST) for name, path in sources.items()}
    return Luggage(files, tables)


def _paths(part: Any) -> Iterator[str]:
    """Yield the paths of the files that the settings of a part name."""
    if isinstance(part, Mapping):
        part = tuple(part.values())
    if isinstance(part, list | tuple):
        for each in part:
            yield from _paths(each)
    elif is_dataclass(part):
        for own in setting_fields(part):
            value = getattr(part, own.name)
            if not own.metadata.get("path"):
                yield from _paths(value)
            elif value is not None:
                yield os.path.abspath(value)


def _sources(module: str) -> dict[str, Path]:
    """Return the files of a module, and of those beside it that it imports, by their
    names in a parcel; none of an installed one.
    """
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        return {}
    levels = module.count(".") + bool(spec.submodule_search_locations)
    root = Path(spec.origin).parents[levels]
    if root in INSTALLED or module.partition(".")[0] == "headgate":
        return {}
    finder = ModuleFinder([str(root)])
    finder.import_hook(module)
    files = [getattr(each, "__file__", None) for each in finder.modules.values()]
    found = [Path(file) for file in files if file]
    return {f"code/{path.relative_to(root).as_posix()}": path for path in found}


class Unpacked:
    """The luggage that this process has unpacked; that of another run replaces it."""

    def __init__(self) -> None:
        self.folder: Path | None = None

    def put(self, files: Files) -> None:
        """Unpack the luggage among these files, and let its modules be found first."""
        own = {
            name: content
            for name, content in sorted(files.items())
            if name.startswith(("code/", "data/"))
        }
        digest = sha256()
        for name, content in own.items():
            digest.update(f"{name} {len(content)} ".encode() + content)
        if self.folder is not None and self.folder.name == digest.hexdigest():
            return
        self.forget()
        self.folder = Path(mkdtemp(prefix="headgate-")) / digest.hexdigest()
        write_files(self.folder, own)
        sys.path.insert(0, str(self.folder / "code"))

    def forget(self) -> None:
        """Remove the files, and the modules that were imported from them."""
        if self.folder is None:
            return
        code = str(self.folder / "code")
        sys.path.remove(code)
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(code):
                del sys.modules[name]
        shutil.rmtree(self.folder.parent, ignore_errors=True)
        self.folder = None

    def moved(self, tables: Any, paths: Mapping[str, str]) -> Any:
        """Return the tables of a recipe with the `paths` as they are on this
        machine.
        """
        if isinstance(tables, dict):
            return {name: self.moved(each, paths) for name, each in tables.items()}
        if isinstance(tables, str) and tables in paths:
            return str((self.folder or Path()) / paths[tables])
        return tables
