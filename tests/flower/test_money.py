"""Money to the last bit through Flower's accounts: answers in part, late, and on orders that overlap."""

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from worlds import an_experiment

from headgate.books.accounts import Accounts
from headgate.books.ledger_store import LedgerStore
from headgate.books.messages import Receipt

BUFFER = np.array([3, 2, 4])
PRICES = st.builds(lambda digits, power: digits * 10.0**power, st.floats(0.01, 3.0), st.integers(-9, 3))


class Honest:
    """A client that admits up to where its orders say, or less, and whose answers may be lost."""

    def __init__(self, client):
        self.client, self.position, self.done = client, 0, {}

    def obey(self, order, part):
        room = max(order.last - self.position, 0)
        self.done[order.round] = room if part is None else min(part, room)
        self.position += self.done[order.round]

    def receipt(self, order, now):
        rounds = tuple(t for t in sorted(self.done) if t > order.acknowledged)
        admitted = tuple(self.done[t] for t in rounds)
        held = now.expected(self.client, self.position - now.known(self.client))
        return Receipt(
            order.experiment, order.round, self.client, rounds, admitted, self.position, held, 0, False, 0, 0, 0, 0, ""
        )


def play(accounts, prices, chance, late):
    """The ledger after all rounds. In the last one everybody answers."""
    clients = [Honest(m) for m in range(BUFFER.size)]
    for t, price in enumerate(prices, start=1):
        present = [m for m in range(BUFFER.size) if not late or t == len(prices) or chance.random() < 0.9]
        now = accounts.begin(price, present)
        answers = []
        for m in present:
            order = accounts.order(now, m)
            clients[m].obey(order, None if chance.random() < 0.8 else chance.randint(0, 3))
            if not late or t == len(prices) or chance.random() < 0.5:
                answers.append(accounts.judge(now, order, clients[m].receipt(order, now)))
        accounts.commit(accounts.settled(now, answers, 3), ("", ""), {}, None)
    assert [row.admitted for row in accounts.store.outstanding()] == []
    return accounts.ledger


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.lists(PRICES, min_size=3, max_size=3), min_size=1, max_size=5),
    st.booleans(),
    st.booleans(),
    st.sampled_from([{"kind": "threshold", "limit": 1e9, "fill": 0.0, "fairness": 1.0}, {"kind": "headgate"}]),
    st.randoms(use_true_random=False),
)
def test_no_more_than_c_times_t_is_spent_to_the_last_bit(rows, per_client, late, policy, chance):
    """With just the money for every place of every round, so that the last bit counts, and one round to hear of it."""
    prices = [np.array(row if per_client else row[:1]) for row in rows]
    total = 0.0
    for price in prices:
        total += float((price * BUFFER).sum() if per_client else price[0] * BUFFER.sum())
    rounds = len(prices) + 1
    own = {"policies": {"p": policy}, "prices": {"kind": "constant", "value": 1e-12}}  # which the server is not asked for here
    experiment = an_experiment("p", rounds, budget=total / rounds, **own)
    with TemporaryDirectory() as folder, closing(LedgerStore(Path(folder) / "ledger.sqlite")) as store:
        ledger = play(Accounts.of(experiment, store), [*prices, prices[0]], chance, late)
        assert ledger.spent[0] <= experiment.system.budget * rounds
        assert ledger.spent[0] == Accounts.of(experiment, store).ledger.spent[0]
        charged = sum(row.charge for row in store.orders())
        assert ledger.spent[0] == pytest.approx(charged, rel=1e-12)
        assert store.corrections() == []
