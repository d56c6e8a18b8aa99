"""Forty rounds in which everything changes, played through Books by a process that may
be killed at any moment.

    python scenario.py PLACE FOLDER
        plays on from where it was killed; prints the rounds that it settles

Labels come up to four rounds after they were ordered, some are skipped and some are
rejected later; orders expire after three rounds. Clients are files with the keys that
they have. What becomes of a sample is known from its key, so a repeated round repeats
its reports.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np

from headgate import Books, Delivery, System
from headgate.control.policies import Headgate

ROUNDS, EXPIRES = 40, 3
SYSTEM = System(
    {"north": 8, "south": 9, "west": 10, "east": 11, "moor": 12},
    budget=40.0,
    horizon=ROUNDS,
    currency="EUR",
)
NAMES = [*SYSTEM.names, "new"]
CHANGES = {
    10: {"join": 7, "name": "new"},
    15: {"money": 400.25},
    20: {"leave": "south"},
    30: {"money": -300.5},
}
"""after so many rounds"""
REFUND = 25


def draw(*place):
    return np.random.default_rng([7, *place])


def price_of(t):
    return round(float(draw(t).uniform(1, 10)), 2)


def there(t, clients):
    """East is away half of the time."""
    return [name for name in clients if name != "east" or draw(t).random(2)[1] < 0.5]


def answers(t, name):
    """One answer in six is lost, and comes with a later one."""
    return draw(t).random(20)[NAMES.index(name)] > 1 / 6 or t >= ROUNDS


def told(t, name):
    """The round in which a client reports what happened in round t."""
    return next(later for later in range(t, ROUNDS + 9) if answers(later, name))


def fate(t, name, n):
    """In which round it is reported that a sample came or was skipped, whether it was
    skipped, and in which round it is rejected.
    """
    own = draw(t, NAMES.index(name), n)
    due = told(t + int(own.integers(0, 5)), name)
    skipped, rejected = own.random(2) < (0.1, 0.1)
    until = told(due + int(own.integers(1, 4)), name)
    in_time = due <= t + EXPIRES and not skipped
    return due, bool(skipped), until if rejected and in_time else None


class Client:
    """The keys that a client has."""

    def __init__(self, folder, name):
        self.path, self.name = folder / f"client-{name}.json", name
        self.keys = set()
        if self.path.exists():
            self.keys = set(json.loads(self.path.read_text()))

    def report(self, books, now):
        """Return what happened since the last answer, on all orders."""
        found = []
        for t in range(1, now + 1):
            order = books.order(t, self.name)
            asked = 0 if order is None else order.asked
            fates = {f"{t}-{n}": fate(t, self.name, n) for n in range(asked)}
            new = {key: each for key, each in fates.items() if each[0] == now}
            came = [key for key, (_, skipped, _) in new.items() if not skipped]
            rejected = {
                key: "blurred" for key, (*_, until) in fates.items() if until == now
            }
            if new or rejected:
                self.keys = (self.keys | set(came)) - rejected.keys()
                skipped = len(new) - len(came)
                found.append(Delivery(len(came), came, skipped, rejected, t))
        self.save()
        return found

    def save(self):
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(sorted(self.keys)))
        os.replace(new, self.path)


def play(place, folder):
    with Books(place, SYSTEM, Headgate(fill=8.0), wait=20.0) as books:
        while books.ledger.t < ROUNDS:
            t, made = books.ledger.t, books.statement().amendments
            done = {each.why for each in made}
            if t in CHANGES and f"after {t}" not in done:
                books.amend("the tests", f"after {t}", **CHANGES[t])
            if t == REFUND:
                lines = books.statement().lines
                line = next(line for line in lines if line.paid > 3 or line.adjusted)
                key = "credit note"
                books.adjust(line.round, line.client, -2.75, "the tests", "refund", key)
            books.begin(
                price_of(t + 1),
                there(t + 1, books.system.names),
                in_all=45,
                when=f"2026-{1 + t // 10:02}-01",
                under_way=30,
                expires=EXPIRES,
            )
            reports = {
                name: Client(folder, name).report(books, t + 1)
                for name in books.system.names
                if answers(t + 1, name)
            }
            books.settle(reports, round=t + 1)
            print(t + 1, flush=True)


if __name__ == "__main__":
    play(sys.argv[1], Path(sys.argv[2]))
