"""A process that is killed right before the n-th SQL statement of a call, for every n,
in as many folders.

    python -m tests.books.killed PLACE CALL ...
        leaves PLACE/CALL/before, PLACE/CALL/after, PLACE/CALL/0, 1, 2, ...; prints how
        many there are for each call

`before` and `after` are the accounts before and after the call; each number is a copy
of `before` in which a process died that had opened the accounts and run so many
statements of the call. The largest number died after the call returned. PLACE is a
folder, or the beginning of an address in PostgreSQL.
"""

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any, NamedTuple

import headgate.books.durable
from headgate import Books, Delivery, System
from headgate.books.addresses import SCHEMES
from headgate.books.books import journal_of
from headgate.books.copying import copy
from headgate.books.statement import amend
from headgate.control import Amendment
from headgate.control.policies import Headgate

from .failpoints import connection_of, watching
from .kept import InPostgres

SYSTEM = System([4, 3, 5], budget=12.0, horizon=20, currency="EUR")
DAY = "2026-11-{:02}"


def opening(folder):
    return Books(folder, SYSTEM, Headgate(fill=8.0), wait=20.0)


def begins(books):
    books.begin(2.0, when=DAY.format(books.ledger.t + 1))


def first_round(books):
    """Client 1 does not answer, and client 2 skips the rest."""
    books.begin(2.0, when=DAY.format(1), expires=2)
    books.settle({0: 4, 2: Delivery(2, ["2-1-0", "2-1-1"], cancelled=3)})


def open_round(books):
    first_round(books)
    begins(books)


def settles(books):
    """Reports with keys, of late samples, of more than was ordered, of skipped and of
    rejected ones, and one that is refused. It may be repeated.
    """
    first = books.order(2, 0)
    keys = [f"0-2-{n}" for n in range(first.asked)]
    late = Delivery(2, ["1-1-0", "1-1-1"], cancelled=1, round=1)
    reports = {
        0: [Delivery(first.asked, keys), Delivery(1, ["0-1-9"], round=1)],
        1: [late._replace(rejected={"1-1-0": "blurred"})],
    }
    books.settle(reports, {2: "more than it was to hold"}, round=2)


def arrives(books):
    """Between two rounds, under a key."""
    delivery = Delivery(2, ["1-1-0", "1-1-1"], cancelled=1, round=1)
    books.settle({1: delivery}, key="from the queue")


def amends(books):
    books.amend("anna", "a client joins, and money is taken back", join=4, money=-5.5)


def adjusts(books):
    books.adjust(1, 0, -1.25, "anna", "returned")


def requests(books):
    """As a service does, which must be able to give the answer again."""

    def do():
        books.amend("board", "second order", money=4.5)
        return str(books.balance().approved)

    answer = journal_of(books).once("key 17", "digest", do, "anna")
    assert journal_of(books).once("key 17", "digest", do, "anna") == answer == "244.5"


def by_command(folder):
    amend(folder, Amendment(month=30.0, money=3.0), "board", "from outside")


class Call(NamedTuple):
    """A call that writes, and what is played before it. A call that begins or settles
    is only made where it was not done.
    """

    prepare: Any
    call: Any
    on: str = "books"
    """whether it is called with open accounts, with the folder, or opens the folder
    itself
    """


CALLS = {
    "open": Call(None, opening, "opening"),
    "begin": Call(first_round, begins),
    "settle": Call(open_round, settles),
    "arrive": Call(first_round, arrives),
    "amend": Call(open_round, amends),
    "adjust": Call(first_round, adjusts),
    "request": Call(open_round, requests),
    "command": Call(open_round, by_command, "folder"),
}


def play_on(folder):
    """Play two rounds to their ends, whatever state the accounts are in, and return the
    audited statement.
    """
    with opening(folder) as books:
        while books.ledger.t < 4:
            begins(books)
            books.settle()
        return books.audit()


def made(call, folder, before=None, after=lambda: None):
    """Make a call; `before` sees each of its statements, and `after` is called when it
    returned.
    """
    if call.on == "books":
        with opening(folder) as books:
            with watching(folder, connection_of(books), before):
                call.call(books)
            after()
        return
    with watching(folder, None, before):
        done = call.call(folder)
    after()
    if call.on == "opening":
        done.close()


def apart(do):
    """Run a function in a process of its own; return how it ended, below 0: by a
    signal.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            do()
            code = 0
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def dies():
    os.kill(os.getpid(), signal.SIGKILL)


def killed(call, folder, at):
    """Make a call in a process that dies before its statement `at`, or when it
    returned; return whether it died.
    """
    count = 0

    def before(connection, statement):
        nonlocal count
        if count == at:
            dies()
        count += 1

    ended = apart(
        lambda: made(call, folder, before, lambda: dies() if count == at else None)
    )
    assert ended in (0, -signal.SIGKILL), f"{folder}: ended with {ended}"
    return ended != 0


def prepared(call, folder):
    if not isinstance(folder, InPostgres):
        folder.mkdir(parents=True)
    if call.prepare is None:
        return
    with opening(folder) as books:
        call.prepare(books)


def copied(call, source, target):
    """Copy the accounts, if there are any, with all that stands beside them."""
    if not isinstance(source, InPostgres):
        shutil.copytree(source, target)
    elif call.prepare is not None:
        assert apart(lambda: copy(source, target)) == 0


def main(root, *names):
    headgate.books.durable.SYNCHRONOUS = "OFF"  # processes end here, machines do not
    counted = {}
    for name in names:
        call = CALLS[name]
        before, after = root / name / "before", root / name / "after"
        assert apart(lambda call=call, folder=before: prepared(call, folder)) == 0
        copied(call, before, after)
        assert apart(lambda call=call, folder=after: made(call, folder)) == 0
        at, died = 0, True
        while died:
            folder = root / name / str(at)
            copied(call, before, folder)
            died = killed(call, folder, at)
            at += 1
        counted[name] = at - 1  # the last one was not killed
    print(json.dumps(counted))


if __name__ == "__main__":
    served = sys.argv[1].startswith(SCHEMES)
    main((InPostgres if served else Path)(sys.argv[1]), *sys.argv[2:])
