"""A second process: it amends, adjusts, shows and exports accounts that another process
uses, each time it is asked to.

    python second.py DESCRIPTOR        answers requests from a socket until it is closed

A request is (name, arguments); an answer is (outcome, result or message), where the
outcome is "accepted", "refused" (a HeadgateError) or "raw" (any other exception).
"""

import csv
import sys
import traceback
import warnings
from multiprocessing.connection import Connection
from pathlib import Path

import headgate.books.durable
from headgate import Books, System
from headgate.books.statement import amend, export, opened, statement
from headgate.control import Amendment
from headgate.control.policies import Headgate
from headgate.errors import HeadgateError

headgate.books.durable.SYNCHRONOUS = "OFF"  # processes end here, machines do not


def amends(folder, changes, by, why, order=None):
    amend(folder, Amendment(**changes), by, why, order)


def shows(folder):
    """Return the spent money and the author and reason of each amendment."""
    with opened(folder) as store:
        found = statement(store)
    return found.spent, [(each.by, each.why) for each in found.amendments]


def exports(folder, file):
    """Export the statement as `headgate ledger export` does; return what was spent, and
    the rows of a csv file.
    """
    path = Path(file)
    kind = path.suffix[1:]
    with opened(folder) as store:
        found = statement(store)
    export(found, path, kind)
    if kind != "csv":
        return found.spent, None
    with path.open(newline="", encoding="utf-8") as file:
        return found.spent, list(csv.DictReader(file))


def plays(folder):
    """Open the accounts to play rounds, which is refused while another process holds
    them.
    """
    Books(folder, System([4, 3, 5], budget=12.0), Headgate(fill=8.0)).close()


REQUESTS = {"amend": amends, "show": shows, "export": exports, "play": plays}
"""what the second process can be asked for"""


def answer(name, arguments):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return "accepted", REQUESTS[name](*arguments)
    except HeadgateError as error:
        return "refused", str(error)
    except Exception:
        return "raw", traceback.format_exc()


def main(descriptor):
    with Connection(descriptor) as line:
        while True:
            try:
                request = line.recv()
            except EOFError:
                return
            line.send(answer(*request))


if __name__ == "__main__":
    main(int(sys.argv[1]))
