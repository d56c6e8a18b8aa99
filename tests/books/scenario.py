"""Forty rounds in which everything changes, played through Books by a process that may
be killed at any moment.

    python scenario.py FOLDER
        plays on from where it was killed; prints the rounds that it settles

Clients are files. A client does an order by what it says in all, so doing it twice
admits nothing twice.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np

from headgate import Books, Delivery, System
from headgate.control.policies import Headgate

ROUNDS = 40
SYSTEM = System([8, 9, 10, 11, 12], budget=40.0, horizon=ROUNDS, currency="EUR")
CHANGES = {
    10: {"join": 7},
    15: {"money": 400.25},
    20: {"leave": 1},
    30: {"money": -300.5},
}
"""after so many rounds"""
REFUND, ERASED = 25, (12, 28)


def draw(t):
    return np.random.default_rng([7, t])


def price_of(t):
    return round(float(draw(t).uniform(1, 10)), 2)


def there(t, clients):
    """Client 3 is away half of the time."""
    return [
        client for client in range(clients) if client != 3 or draw(t).random(2)[1] < 0.5
    ]


def answers(t, client):
    """One answer in six is lost, and comes with a later one."""
    return draw(t).random(20)[client] > 1 / 6 or t == ROUNDS


class Client:
    """What a client has: how many samples it admitted in each round, and how many it
    was made to erase.
    """

    def __init__(self, folder, client):
        self.path = folder / f"client-{client}.json"
        self.state = (
            json.loads(self.path.read_text())
            if self.path.exists()
            else {"admitted": {}, "reported": 0, "erased": []}
        )

    def save(self):
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(self.state))
        os.replace(new, self.path)

    @property
    def position(self):
        return sum(self.state["admitted"].values())

    def do(self, order):
        """Admit what is missing; one delivery in five is short by a sample."""
        t, admitted = str(order.round), self.state["admitted"]
        if t not in admitted:
            short = int(draw(order.round).random(40)[20 + order.client] < 0.2)
            admitted[t] = max(order.last - self.position - short, 0)
            if order.round in ERASED and order.client == 0:
                self.state["erased"].append(self.position - 1)
            self.save()

    def delivery(self, order):
        told = {
            int(t): n
            for t, n in self.state["admitted"].items()
            if int(t) >= self.state["reported"]
        }
        keys = [f"{order.client}-{order.round}-{n}" for n in range(told[order.round])]
        erased = sum(
            order.first <= position < self.position for position in self.state["erased"]
        )
        return Delivery(told.pop(order.round), keys, told, erased)


def play(folder):
    with Books(folder, SYSTEM, Headgate(fill=8.0)) as books:
        while books.ledger.t < ROUNDS:
            t, done = (
                books.ledger.t,
                {each.why for each in books.statement().amendments},
            )
            if t in CHANGES and f"after {t}" not in done:
                books.amend("the tests", f"after {t}", **CHANGES[t])
            if t == REFUND and "refund" not in done:
                line = next(
                    line for line in books.statement().lines if line.charged > 3
                )
                books.adjust(line.round, line.client, -2.75, "the tests", "refund")
            orders = books.begin(
                price_of(t + 1),
                there(t + 1, books.system.clients),
                in_all=45,
                when=f"2026-{1 + t // 10:02}-01",
            )
            reports = {}
            for order in orders:
                client = Client(folder, order.client)
                client.do(order)
                if answers(order.round, order.client):
                    reports[order.client] = client.delivery(order)
            books.settle(reports)
            for client in reports:
                own = Client(folder, client)
                own.state["reported"] = t + 1
                own.save()
            print(t + 1, flush=True)


if __name__ == "__main__":
    play(Path(sys.argv[1]))
