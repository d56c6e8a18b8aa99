"""Files that are written whole, where their numbers come from, and scripts of pages."""

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from headgate.errors import DataError, SettingError
from headgate.records.reader import RunFolder
from headgate.records.writer import commit, make_folder
from headgate.version import __version__
from headgate.writing import replace_file


@cache
def beside(module: str, name: str) -> str:
    """Return the text of a file beside a module, whose `__file__` is `module`."""
    return (Path(module).parent / name).read_text("utf-8")


@cache
def words(module: str, name: str = "words.toml") -> dict[str, Any]:
    """Return the tables of a TOML file in the folder of a module."""
    return tomllib.loads(beside(module, name))


def as_json(value: Any) -> str:
    return (
        json.dumps(
            value,
            indent=1,
            ensure_ascii=False,
            allow_nan=False,
        )
        + "\n"
    )


def write(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write texts to files of a folder, by name, and return the paths.

    The folder is created if it is missing.
    """
    make_folder(folder)
    paths = [folder / name for name in texts]
    for path in paths:
        write_whole("page", path, texts[path.name].encode())
    return paths


def check_file(
    what: str,
    path: Path,
    suffixes: Iterable[str],
) -> None:
    """Raise an error if a file has a wrong suffix or no folder."""
    if path.suffix not in suffixes:
        raise SettingError(f"{what} {path}: must end in {', '.join(suffixes)}")
    if not path.parent.is_dir():
        raise DataError(f"{what} {path}: there is no folder {path.parent}")


def write_whole(
    what: str,
    path: Path,
    content: bytes | Callable[[BinaryIO], object],
) -> None:
    """Write a whole file or none; an error message names `what`."""
    try:
        replace_file(path, content, durable=False)
    # polars reports a full disk with its own error
    except (OSError, pl.exceptions.PolarsError) as error:
        why = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise DataError(f"{what} {path}: cannot be written ({why})") from None


UNRECORDED = "not recorded"


def facts_of(
    command: str,
    runs: Sequence[RunFolder],
    quick: bool = False,
) -> dict[str, Any]:
    """Return the command, the code, the dates, the devices and the time of runs."""
    known = [run.environment for run in runs]
    commits = {str(each.get("commit") or UNRECORDED) for each in known}
    dates = {str(each.get("started", ""))[:10] for each in known}
    devices = [
        f"{each.get('device', 'cpu')}, {each.get('executor')}, {each.get('dtype')}"
        for each in known
    ]
    seconds = sum(run.computing_s for run in runs)
    return {
        "command": command,
        "quick": quick,
        "page_commit": this_code(),
        "commits": sorted(commits),
        "dates": sorted(dates),
        "devices": list(dict.fromkeys(devices)),
        "computing_s": round(seconds, 1),
    }


def this_code() -> str:
    """Return the commit of this code, or its version if it is not in a checkout."""
    return commit() or f"headgate {__version__}"


IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";\n', re.MULTILINE)
EXPORT = re.compile(
    r"^export (?=(?:async )?(?:const|function|class) (\w+))", re.MULTILINE
)


def script(entry: str) -> str:
    """Return one script of the module `entry` and all its imports.

    Each module is in its own function, to keep their names apart.
    """
    done: dict[str, str] = {}
    _add(entry, done)
    text = '"use strict";\n' + "".join(done.values())
    # nothing may end the script element
    return re.sub(r"<(?=/script|!--)", r"\\x3c", text, flags=re.IGNORECASE)


def _add(name: str, done: dict[str, str]) -> None:
    """Add a module to those that are done, after all that it imports."""
    text = beside(__file__, f"drawing/{name}.js")
    taken = ""
    for names, other in IMPORT.findall(text):
        if other not in done:
            _add(other, done)
        taken += f"const {{{names.replace(' as ', ': ')}}} = {other}Module;\n"
    given = ", ".join(EXPORT.findall(text))
    body = EXPORT.sub("", IMPORT.sub("", text))
    done[name] = (
        f"const {name}Module = (() => {{\n{taken}{body}return {{ {given} }};\n}})();\n"
    )
