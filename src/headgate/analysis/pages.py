"""Pages of Markdown and the numbers beside them: how every study and every comparison is written down."""

import json
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from headgate.errors import DataError, SettingError
from headgate.writing import replace_file

QUICK_WARNING = (
    "> **A trial run** (`--quick`): two seeds, a few rounds, logistic regression on the small digits. "
    "It shows that the chain works; its numbers and verdicts mean nothing."
)


@cache
def beside(module: str, name: str) -> str:
    """A text that lies beside a module, which gives its `__file__`."""
    return (Path(module).parent / name).read_text("utf-8")


@cache
def words(module: str, name: str = "words.toml") -> dict[str, Any]:
    """Sentences, names and claims likewise, as TOML."""
    return tomllib.loads(beside(module, name))


def page(title: str, *parts: str, quick: bool = False) -> str:
    """A heading and its parts: paragraphs, tables, figures; empty ones are left out.

    >>> page("Rates", "Measured.", "", "## Claims")
    '# Rates\\n\\nMeasured.\\n\\n## Claims\\n'
    """
    return "\n\n".join(filter(None, [f"# {title}", QUICK_WARNING if quick else "", *parts])) + "\n"


def filled(template: str, quick: bool, **said: Any) -> str:
    """A page from its template; that of a trial run says so below its heading."""
    text = template.format(**said)
    return text.replace("\n\n", f"\n\n{QUICK_WARNING}\n\n", 1) if quick else text


def bullets(said: Iterable[str]) -> str:
    return "\n".join(f"- {each}" for each in said)


def figure(shows: str, file: str) -> str:
    return f"![{shows}]({file})"


def as_json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def write(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Files of a folder, which is made if need be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            replace_file(folder / name, text.encode(), durable=False)
    except OSError as error:
        raise DataError(f"{folder}: cannot be written ({error.strerror})") from None
    return [folder / name for name in texts]


def check_file(what: str, path: Path, suffixes: Iterable[str]) -> None:
    """Refuse a file that could not be written, before the work is done."""
    if path.suffix not in suffixes:
        raise SettingError(f"{what} {path}: must end in {', '.join(suffixes)}")
    if not path.parent.is_dir():
        raise DataError(f"{what} {path}: there is no folder {path.parent}")


def write_whole(what: str, path: Path, content: bytes | Callable[[BinaryIO], object]) -> None:
    """A whole file or none; what cannot be written is said of `what`."""
    try:
        replace_file(path, content, durable=False)
    except (OSError, pl.exceptions.PolarsError) as error:  # of a full disk polars says it in its own way
        why = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise DataError(f"{what} {path}: cannot be written ({why})") from None


def read_numbers(path: Path) -> dict[str, Any]:
    """What `as_json` wrote; nothing where there is no such file."""
    if not path.is_file():
        return {}
    try:
        numbers = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read ({error}); delete it and make it anew") from None
    if not isinstance(numbers, dict):
        raise DataError(f"{path}: must hold a JSON object; delete it and make it anew")
    return numbers


def of_one_sort(path: Path, quick: bool) -> dict[str, Any]:
    """`read_numbers`, refused where a trial run would be mixed with real results."""
    known = read_numbers(path)
    if known and bool(known.get("quick")) != quick:
        kind, other = ("a trial run", "real results") if quick else ("real results", "a trial run")
        raise DataError(f"{path.parent}: holds {other}, {kind} would be mixed with them; choose another --out or --pages")
    return known
