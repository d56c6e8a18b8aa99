"""A gate: a process that runs rounds at prices that it alone sees.

python gate.py PLACE ROUNDS SEED [DIES [PACE]]
    waits until it leads, then plays on to round ROUNDS; kills itself in round
    DIES, between `begin` and `settle`. Prints a line of JSON for each round. With
    PACE, seconds for a round, it goes on after an error of the database.
"""

import json
import os
import signal
import sys
import time

import numpy as np

from headgate import Books, System
from headgate.control.policies import Headgate
from headgate.errors import DataError

ROUNDS = 60
SYSTEM = System([8, 9, 10], budget=20.0, horizon=ROUNDS, currency="EUR")


def told(**said):
    print(json.dumps(said), flush=True)


def play(place, rounds, seed, dies, pace):
    with Books(place, SYSTEM, Headgate(fill=8.0), wait=60.0) as books:
        told(leads=books.ledger.t + 1)
        while books.ledger.t < rounds:
            t = books.ledger.t + 1
            price = float(np.random.default_rng([seed, t]).uniform(1, 10))
            bought = books.begin(price)
            asked = [each.samples for each in bought]
            told(round=t, price=bought[0].price, asked=asked)
            if t == dies:
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(pace)
            books.settle(round=t)
        found = books.audit()
        told(spent=str(found.spent), rounds=found.rounds)


def main(place, rounds, seed, dies="0", pace="0"):
    while True:
        try:
            return play(place, int(rounds), int(seed), int(dies), float(pace))
        except DataError as error:
            if not float(pace):
                raise
            told(error=str(error))
            time.sleep(0.1)


if __name__ == "__main__":
    main(*sys.argv[1:])
