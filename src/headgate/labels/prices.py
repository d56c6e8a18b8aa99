"""The price of a label in the round that begins: a number, a price process such as a
CSV file, or what a command or an address answers.
"""

import json
import math
import os
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np

from headgate.control.checks import amount
from headgate.control.prices import Fixed, PriceProcess
from headgate.errors import DataError, SettingError, require
from headgate.escaping import one_line, shown
from headgate.labels.nouns import Later
from headgate.limits import NUMBER
from headgate.registry import PRICES, Search, Slot, make

MOST = 2**16
"""the most bytes of an answer"""
LONGEST = 600.0
"""the most seconds for which an answer is waited for"""
Price = float | dict[str, float]
"""one price, or one for each client by name"""


class Asked(ABC):
    """A price that is asked for at the beginning of each round.

    The answer is JSON: a number, or an object with a number for each client. `field`
    names where in the answer it is, as in "data.price".
    """

    field: str
    timeout: float

    def __post_init__(self) -> None:
        amount("timeout", self.timeout, 0.1, LONGEST)

    @property
    @abstractmethod
    def source(self) -> str:
        """What is asked, for messages."""

    @abstractmethod
    def answer(self, folder: Path) -> bytes:
        """Return the answer; raise `Later` if there is none now."""

    def price(self, folder: Path, clients: Sequence[str]) -> Price:
        """Return the price of this round."""
        text = self.answer(folder)
        if len(text) > MOST:
            raise Later(f"{self.source}: answered more than {MOST} bytes")
        try:
            found = json.loads(text)
            for name in filter(None, self.field.split(".")):
                found = found[int(name)] if isinstance(found, list) else found[name]
            if isinstance(found, dict):
                return {client: _number(found[client]) for client in clients}
            return _number(found)
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            said = shown(text.decode("utf-8", "replace"), 100)
            why = f"{type(error).__name__}: {one_line(error, 100)}"
            raise Later(f"{self.source}: answered {said}, no price ({why})") from None


def _number(value: Any) -> float:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    if not known or not math.isfinite(value) or not 0 <= value <= NUMBER:
        raise ValueError(f"{shown(repr(value))} is no price")
    return float(value)


@dataclass
class Command(Asked):
    """The price that a command prints. It is a command of your own, run as you.

    Parameters
    ----------
    command : tuple of str
        The program and its arguments, run in the folder of the gate's file without a
        shell.
    field : str, default ""
        Where the price is in what it prints.
    timeout : float, default 30.0
        Seconds after which it is ended.
    """

    command: tuple[str, ...]
    field: str = ""
    timeout: float = 30.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(bool(self.command), "command", list(self.command), "a program")

    @property
    def source(self) -> str:
        return f"command {self.command[0]}"

    def answer(self, folder: Path) -> bytes:
        try:
            process = subprocess.Popen(
                self.command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise Later(f"{self.source}: cannot be run ({error.strerror})") from None
        clock = Timer(self.timeout, _end, [process])
        clock.start()
        try:
            assert process.stdout is not None
            with process.stdout as output:
                text = output.read(MOST + 1)
        except BaseException:
            _end(process)
            raise
        finally:
            clock.cancel()
        if len(text) > MOST:
            _end(process)
        code = process.wait()
        if code < 0 and len(text) <= MOST:
            raise Later(f"{self.source}: did not answer in {self.timeout:g} seconds")
        if code > 0 and len(text) <= MOST:
            raise Later(f"{self.source}: ended with code {code}")
        return text


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a command with all that it has started."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


@dataclass
class Url(Asked):
    """The price at an address that answers JSON.

    Parameters
    ----------
    url : str
        The address, https or http.
    field : str, default ""
        Where the price is in the answer, as in "data.price".
    timeout : float, default 30.0
        Seconds after which no answer counts as none.
    """

    url: str
    field: str = ""
    timeout: float = 30.0

    def __post_init__(self) -> None:
        super().__post_init__()
        fits = self.url.startswith(("https://", "http://"))
        require(fits, "url", self.url, "an address, as https://host/price")

    @property
    def source(self) -> str:
        return self.url.partition("?")[0]

    def answer(self, folder: Path) -> bytes:
        httpx = imported_httpx()
        found = b""
        try:
            with httpx.stream("GET", self.url, timeout=self.timeout) as reply:
                if reply.status_code != httpx.codes.OK:
                    raise Later(f"{self.source}: answered {reply.status_code}")
                for some in reply.iter_bytes(MOST):
                    found += some
                    if len(found) > MOST:
                        break
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            why = one_line(error, 200) or type(error).__name__
            raise Later(f"{self.source}: cannot be reached ({why})") from None
        return found


def imported_httpx() -> Any:
    """Return the module httpx, or state how to install it."""
    try:
        import httpx
    except ImportError:
        raise SettingError(
            "httpx is not installed: pip install 'headgate[labels]'"
        ) from None
    return httpx


ASKED = Slot("price", Asked, {"command": Command, "url": Url})


def make_price(description: Any, search: Search) -> Asked | PriceProcess:
    """Return where the price comes from.

    Parameters
    ----------
    description : float or dict
        A number, or a table with `kind`: "command", "url", or a price process of
        recipes, such as "trace" for a file.
    search : Search
        Folder of the gate's file.
    """
    if isinstance(description, int | float) and not isinstance(description, bool):
        return Fixed(float(description))
    kind = description.get("kind") if isinstance(description, dict) else description
    slot = ASKED if kind in ASKED.kinds else PRICES
    made: Asked | PriceProcess = make(slot, description, "price", search)
    return made


def check_price(description: Any, search: Search) -> None:
    """Raise SettingError if the price is not stated as it must be."""
    made = make_price(description, search)
    if isinstance(made, PriceProcess):
        made.mean(None)


def price_of(
    description: Any,
    search: Search,
    t: int,
    seed: int,
    clients: Sequence[str],
) -> Price:
    """Return the price of round `t`; raise `Later` if it is not known yet."""
    made = make_price(description, search)
    if isinstance(made, Asked):
        return made.price(search.folder or Path(), clients)
    try:
        path = made.path(np.array([seed]), t, t + 1)[0, 0]
    except DataError as error:  # a file to which a price a round is appended
        raise Later(f"price: {error}") from None
    if np.ndim(path) == 0:
        return float(path)
    return dict(zip(clients, map(float, path), strict=True))
