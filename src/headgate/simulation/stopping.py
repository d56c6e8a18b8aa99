"""Ctrl-C, taken as a wish to stop after the round."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def told_to_stop() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C is noted, so that a round is never torn; the second one stops at once."""
    noted = False

    def note(signum: int, frame: object) -> None:
        nonlocal noted
        if noted:
            raise KeyboardInterrupt
        noted = True

    try:
        before = signal.signal(signal.SIGINT, note)
    except ValueError:  # not the main thread: signals are somebody else's business
        yield lambda: False
        return
    try:
        yield lambda: noted
    finally:
        signal.signal(signal.SIGINT, before)
