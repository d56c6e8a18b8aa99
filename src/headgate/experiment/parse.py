"""From a table of TOML to a section's model; what is wrong with it is said in one line."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import ValidationError

from headgate.errors import SettingError
from headgate.experiment.settings import BoundSettings, Settings

S = TypeVar("S", bound=Settings)


def parse(model: type[S], raw: Any, section: str) -> S:
    """Validate a section, and put the first complaint into one line."""
    if not isinstance(raw, dict):
        raise SettingError(f"{section} = {raw}: must be a section")
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        first, path = errors[0], [str(part) for part in errors[0]["loc"]]
        if first["type"] == "extra_forbidden":
            known = list((BoundSettings if path[:-1] == ["bound"] else model).model_fields)
            raise SettingError(f"{'.'.join([section, *path])}: unknown key{nearest(path[-1], known)}") from None
        if first["type"] == "missing":
            raise SettingError(f"{section}.{path[0]}: is missing") from None
        messages = dict.fromkeys(_plain(e["msg"]) for e in errors if e["loc"][0] == first["loc"][0])
        raise SettingError(f"{section}.{path[0]} = {raw.get(path[0])}: must be {' or '.join(messages)}") from None


def _plain(message: str) -> str:
    return message.removeprefix("Value error, ").removeprefix("Input should be ").removeprefix("must be ")


def nearest(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else f"; known: {', '.join(dict.fromkeys(known))}"
