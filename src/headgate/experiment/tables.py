"""Tables from outside: TOML is read within limits, and tables that are too deep or hold too long a text are refused."""

import tomllib
from collections.abc import Mapping
from typing import Any

from headgate.errors import DataError, SettingError
from headgate.escaping import one_line, shown
from headgate.limits import DEPTH, RECIPE, TEXT
from headgate.reading import check_keys


def read_toml(text: bytes | str, what: str) -> dict[str, Any]:
    """The tables of a TOML text; `what` it is called where it is none."""
    if len(text) > RECIPE:
        raise DataError(f"{what}: {len(text):,} bytes; at most {RECIPE:,}")
    try:
        said = text if isinstance(text, str) else text.decode("utf-8")
        check_keys(said)
        tables = tomllib.loads(said)
    except RecursionError:
        raise DataError(f"{what}: not valid TOML (lists or tables deeper than {DEPTH})") from None
    except ValueError as error:  # also what is no UTF-8, and a number of thousands of digits
        raise DataError(f"{what}: not valid TOML ({one_line(error, 200)})") from None
    check_tables(tables)
    return tables


def check_tables(value: Any, where: str = "", depth: int = 0) -> None:
    """Neither too deep nor with a text that is too long."""
    if depth > DEPTH:
        raise SettingError(f"{shown(where)}: lists and tables within one another; at most {DEPTH} of them")
    if isinstance(value, Mapping):
        for key, each in value.items():
            if len(str(key)) > TEXT:
                raise SettingError(f"{shown(where)}.{shown(key)}: a key of {len(key):,} characters; at most {TEXT:,}")
            check_tables(each, f"{where}.{key}" if where else str(key), depth + 1)
    elif isinstance(value, list | tuple):
        for each in value:
            if not isinstance(each, int | float):
                check_tables(each, where, depth + 1)
    elif isinstance(value, str) and (len(value) > TEXT or "\0" in value):
        said = "holds a zero byte" if len(value) <= TEXT else f"{len(value):,} characters; at most {TEXT:,}"
        raise SettingError(f"{shown(where)} = {shown(value)}: {said}")
