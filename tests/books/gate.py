"""A gate: a process that runs rounds at prices that it alone sees.

python gate.py PLACE ROUNDS SEED [DIES]
    waits until it leads, then plays on to round ROUNDS; kills itself in round
    DIES, between `begin` and `settle`. Prints a line of JSON for each round.
"""

import json
import os
import signal
import sys

import numpy as np

from headgate import Books, System
from headgate.control.policies import Headgate

SYSTEM = System([8, 9, 10], budget=20.0, horizon=60, currency="EUR")


def main(place, rounds, seed, dies=0):
    with Books(place, SYSTEM, Headgate(fill=8.0), wait=60.0) as books:
        print(json.dumps({"leads": books.ledger.t + 1}), flush=True)
        while books.ledger.t < rounds:
            t = books.ledger.t + 1
            price = float(np.random.default_rng([seed, t]).uniform(1, 10))
            bought = books.begin(price)
            asked = [each.samples for each in bought]
            told = {"round": t, "price": bought[0].price, "asked": asked}
            print(json.dumps(told), flush=True)
            if t == dies:
                os.kill(os.getpid(), signal.SIGKILL)
            books.settle(round=t)
        found = books.audit()
        print(json.dumps({"spent": str(found.spent), "rounds": found.rounds}))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
