"""What headgate adds to Flower's log, and what it shortens in it."""

import logging
from functools import cache
from pathlib import Path

from flwr.common import log

from headgate.errors import HeadgateError
from headgate.registry import in_one_line


class OneLine(logging.Filter):
    """Writes an error of headgate that ends an app in one line, without the traceback
    that Flower adds: the message says what to do.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HeadgateError):
            record.msg, record.args = "headgate: %s", (in_one_line(error),)
            record.exc_info = record.exc_text = None
        return True


def shorten_refusals() -> None:
    """Write errors of headgate in one line from now on."""
    flowers = logging.getLogger("flwr")
    if not any(isinstance(each, OneLine) for each in flowers.filters):
        flowers.addFilter(OneLine())


@cache
def tell_store(home: Path) -> None:
    """Say once where the clients of this process keep their samples: Flower's processes
    have the environment of the SuperLink or SuperNode, not that of `flwr run`.
    """
    log(logging.INFO, "headgate: clients keep their samples in %s", home)
