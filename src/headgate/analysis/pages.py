"""Files that are written whole, the origin of their numbers, and the scripts of
self-contained pages.
"""

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
    """Return the text of a file in the folder of a module, whose `__file__` is
    `module`.
    """
    return (Path(module).parent / name).read_text("utf-8")


@cache
def words(module: str, name: str = "words.toml") -> dict[str, Any]:
    """Return the tables of a TOML file in the folder of a module."""
    return tomllib.loads(beside(module, name))


def as_json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def write(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write texts to files of a folder, by name, and return the paths; create the
    folder if it is missing.
    """
    make_folder(folder)
    for name, text in texts.items():
        write_whole("page", folder / name, text.encode())
    return [folder / name for name in texts]


def check_file(what: str, path: Path, suffixes: Iterable[str]) -> None:
    """Raise an error if a file has a wrong suffix or no folder, before any work is done
    for it.
    """
    if path.suffix not in suffixes:
        raise SettingError(f"{what} {path}: must end in {', '.join(suffixes)}")
    if not path.parent.is_dir():
        raise DataError(f"{what} {path}: there is no folder {path.parent}")


def write_whole(
    what: str, path: Path, content: bytes | Callable[[BinaryIO], object]
) -> None:
    """Write a whole file or none; an error message names `what`."""
    try:
        replace_file(path, content, durable=False)
    except (
        OSError,
        pl.exceptions.PolarsError,
    ) as error:  # polars reports a full disk with its own error
        why = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise DataError(f"{what} {path}: cannot be written ({why})") from None


UNRECORDED = "not recorded"


def facts_of(
    command: str, runs: Sequence[RunFolder], quick: bool = False
) -> dict[str, Any]:
    """Return the command, the commits, dates, devices and computing time of the runs,
    and the commit that writes the page.
    """
    known = [run.environment for run in runs]
    commits = sorted({str(each.get("commit") or UNRECORDED) for each in known})
    dates = sorted({str(each.get("started", ""))[:10] for each in known})
    devices = [
        f"{each.get('device', 'cpu')}, {each.get('executor')}, {each.get('dtype')}"
        for each in known
    ]
    return {
        "command": command,
        "quick": quick,
        "page_commit": this_code(),
        "commits": commits,
        "dates": dates,
        "devices": list(dict.fromkeys(devices)),
        "computing_s": round(sum(run.computing_s for run in runs), 1),
    }


def this_code() -> str:
    """Return the commit of this code, or its version if it is not in a checkout."""
    return commit() or f"headgate {__version__}"


IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";\n', re.MULTILINE)
EXPORT = re.compile(
    r"^export (?=(?:async )?(?:const|function|class) (\w+))", re.MULTILINE
)


def script(entry: str) -> str:
    """Return one script of the module `entry` and all its imports, each in its own
    function to keep their names apart.
    """
    done: dict[str, str] = {}

    def add(name: str) -> None:
        text = beside(__file__, f"drawing/{name}.js")
        needed = IMPORT.findall(text)
        for _, other in needed:
            if other not in done:
                add(other)
        taken = "".join(
            f"const {{{names.replace(' as ', ': ')}}} = {other}Module;\n"
            for names, other in needed
        )
        given, body = EXPORT.findall(text), EXPORT.sub("", IMPORT.sub("", text))
        done[name] = (
            f"const {name}Module = (() => {{\n"
            f"{taken}{body}return {{ {', '.join(given)}"
            " };\n"
            "})();\n"
        )

    add(entry)
    return re.sub(
        r"<(?=/script|!--)",
        r"\\x3c",
        '"use strict";\n' + "".join(done.values()),
        flags=re.IGNORECASE,
    )
