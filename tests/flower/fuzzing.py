"""The fuzzers of Flower's side by name, for `make fuzz`: each is a function of (seconds, seed), and tells what it tried.

    python tests/flower/fuzzing.py {machine,replies} [--seconds 60] [--seed 0] [--steps 100000]

A result is {"cases": {kind: times}, "failures": [{"seed": …, "error": …}]}.
"""

import argparse
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parent))

from headgate.flower.quiet import ENVIRONMENT

Result = dict[str, Any]


def machine(seconds: float | None = None, seed: int = 0, steps: int | None = None) -> Result:
    """A federation in which anything happens: tests/flower/federation.py."""
    import federation as own

    return own.main(seconds, seed, steps)


def replies(seconds: float | None = None, seed: int = 0, steps: int | None = None) -> Result:
    """Replies that are changed in every part: tests/flower/mutations.py."""
    import mutations as own

    return own.main(seconds, seed, steps)


FUZZERS: dict[str, Callable[..., Result]] = {"machine": machine, "replies": replies}


@contextmanager
def unsynced() -> Iterator[None]:
    """Processes end here, machines do not: nothing waits for the disk, and Flower says nothing."""
    log = logging.getLogger("flwr")
    with patch("headgate.flower.durable.SYNCHRONOUS", "OFF"), patch("os.fsync", lambda descriptor: None):
        before, log.disabled = log.disabled, True
        try:
            yield
        finally:
            log.disabled = before


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fuzzer", choices=sorted(FUZZERS))
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.seconds is None and given.steps is None:
        given.seconds = 60.0
    os.environ |= dict(ENVIRONMENT)
    found = FUZZERS[given.fuzzer](given.seconds, given.seed, given.steps)
    print(json.dumps(found, indent=1))
    return bool(found["failures"])


if __name__ == "__main__":
    sys.exit(main())
