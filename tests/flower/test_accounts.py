"""The accounts by themselves: orders on disk, what answers come to, what is refused,
and money to the last bit.
"""

from contextlib import closing
from dataclasses import replace
from itertools import chain, combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from headgate.books.accounts import replay, reserve
from headgate.books.ledger_store import ClientRow, LedgerStore, Ordered
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from worlds import an_experiment

from headgate.control import Controller, System
from headgate.control.policies import Headgate
from headgate.errors import LedgerError
from headgate.flower.accounts import FlowerAccounts
from headgate.flower.messages import Receipt

EVERYBODY = range(3)


@pytest.fixture
def store(tmp_path):
    store = LedgerStore(tmp_path / "ledger.sqlite")
    yield store
    store.close()


def opened(store, policy="both", **more):
    return FlowerAccounts.of(an_experiment(policy, 6, **more), store)


# orders


def test_what_open_orders_may_cost_and_what_rounding_may_add_is_set_aside(store):
    """54 in all: C·T. Three clients may answer apart, and each open order, too."""
    accounts, unit = opened(store), np.spacing(54.0)
    play(accounts, [np.array([0.1])], answered=(0, 1))
    assert store.rounds()[0].reserved == 12 * unit
    (open_,) = store.outstanding()
    now = accounts.begin(np.array([2.0]), EVERYBODY)
    assert store.begun().reserved == 0.1 * open_.ordered + 15 * unit
    assert [accounts.order(now, client).acknowledged for client in EVERYBODY] == [
        1,
        1,
        0,
    ]


def test_with_an_open_end_it_is_as_much_as_rounding_may_add_by_now(store):
    accounts = opened(
        store, run={"rounds": 6, "horizon": "open", "seeds": 1, "policies": ["both"]}
    )
    accounts.begin(np.array([0.1]), EVERYBODY)
    assert store.begun().reserved == 12 * np.spacing(9.0)  # one round's budget


# a round that was begun before the server's process ended


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            "UPDATE orders SET ordered = ordered + 1 WHERE client = 1",
            "round 1: client 1 was ordered",
        ),
        ("UPDATE rounds SET round = 2", "round 2: was begun after round 0"),
    ],
)
def test_a_begun_round_that_was_changed_is_refused(store, change, reason):
    opened(store).begin(np.array([2.0]), EVERYBODY)
    store._db.execute(change)
    with pytest.raises(LedgerError, match=reason):
        opened(store).begin(np.array([2.0]), EVERYBODY)


# answers


def test_what_a_client_says_beside_its_samples_is_kept(store):
    accounts = opened(store)
    now = accounts.begin(np.array([2.0]), EVERYBODY)
    order = accounts.order(now, 0)
    told = Receipt(
        order.experiment,
        1,
        0,
        (1,),
        (1,),
        1,
        0,
        0,
        False,
        1,
        0,
        0,
        0,
        "the stream is empty",
    )
    done = accounts.settled(now, [accounts.judge(now, order, told)], offences=2)
    assert done.events == [
        (1, 0, "lost", "1 samples of a store that is gone"),
        (1, 0, "short", "the stream is empty"),
    ]
    assert done.clients == [ClientRow(0, 1, 0, False, 1, 0, 0, 0)]
    accounts.commit(done, ("file", "sha256"), {}, None)
    now = accounts.begin(np.array([2.0]), EVERYBODY)
    order = accounts.order(now, 0)
    same = accounts.judge(
        now, order, replace(told, round=2, rounds=(2,), admitted=(0,), note="")
    )
    assert accounts.settled(now, [same], offences=2).events == []  # told before


# what open orders may have cost, against every way in which clients can have done them

DRAWN = st.tuples(
    st.integers(1, 6), st.integers(0, 4), st.sampled_from([0.5, 1.0, 2.0, 3.5])
)
ORDERS = st.lists(DRAWN, max_size=5).map(
    lambda drawn: [
        Ordered(t, 0, ordered, min(free, ordered), price)
        for t, (ordered, free, price) in enumerate(drawn, 1)
    ]
)


def costs(orders):
    """The cost of every subset of a client's orders, done one after the other up to
    where each says.
    """
    for done in chain.from_iterable(
        combinations(orders, size) for size in range(len(orders) + 1)
    ):
        position, cost = 0, 0.0
        for row in done:
            admitted = max(row.ordered - position, 0)
            position += admitted
            cost += row._replace(admitted=admitted).charge
        yield cost


@given(ORDERS)
def test_what_is_set_aside_is_enough_and_no_more_than_all_orders_cost(orders):
    assert (
        max(costs(orders)) - 1e-12
        <= reserve(orders)
        <= sum(row.price * (row.ordered - row.free) for row in orders)
    )
    one_price = [row._replace(price=2.0, free=0) for row in orders]
    assert reserve(one_price) == max(costs(one_price))
    assert reserve(
        [*one_price, *(row._replace(client=1) for row in one_price)]
    ) == 2 * reserve(one_price)


def test_a_store_is_refused_by_a_controller_with_another_budget(tmp_path):
    def controller(budget):
        return Controller(System([3, 4], budget, 10), Headgate())

    first = controller(20.0)
    for _ in range(2):
        with closing(LedgerStore(tmp_path / "ledger.sqlite")) as store:
            assert replay(store, first).ledger.t == 0
            store.remember(first.terms, first.system, keeps=True, refusals={})
    with (
        closing(LedgerStore(tmp_path / "ledger.sqlite")) as store,
        pytest.raises(
            LedgerError,
            match=(
                r"ledger.sqlite was opened with budget = 20.0, this controller has 40.0"
            ),
        ),
    ):
        replay(store, controller(40.0))


# money to the last bit: answers in part, late, and on orders that overlap

BUFFER = np.array([3, 2, 4])
PRICES = st.builds(
    lambda digits, power: digits * 10.0**power, st.floats(0.01, 3.0), st.integers(-9, 3)
)


class Honest:
    """A client that admits up to where its orders say, or less, and whose answers may
    be lost.
    """

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
            order.experiment,
            order.round,
            self.client,
            rounds,
            admitted,
            self.position,
            held,
            0,
            False,
            0,
            0,
            0,
            0,
            "",
        )


def play(accounts, prices, chance=None, late=False, answered=range(3)):
    """The ledger after all rounds, of which those who answer do the last one; with
    `chance` they do less, or are late.
    """
    clients = [Honest(m) for m in range(BUFFER.size)]
    for t, price in enumerate(prices, start=1):
        at_once = not late or t == len(prices)
        present = [m for m in range(BUFFER.size) if at_once or chance.random() < 0.9]
        now = accounts.begin(price, present)
        answers = []
        for m in present:
            order = accounts.order(now, m)
            clients[m].obey(
                order,
                (
                    None
                    if chance is None or chance.random() < 0.8
                    else chance.randint(0, 3)
                ),
            )
            if m in answered and (at_once or chance.random() < 0.5):
                answers.append(
                    accounts.judge(now, order, clients[m].receipt(order, now))
                )
        accounts.commit(accounts.settled(now, answers, 3), ("", ""), {}, None)
    return accounts.ledger


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.lists(PRICES, min_size=3, max_size=3), min_size=1, max_size=5),
    st.booleans(),
    st.booleans(),
    st.sampled_from(
        [
            {"kind": "threshold", "limit": 1e9, "fill": 0.0, "fairness": 1.0},
            {"kind": "headgate"},
        ]
    ),
    st.randoms(use_true_random=False),
)
def test_no_more_than_c_times_t_is_spent_to_the_last_bit(
    rows, per_client, late, policy, chance
):
    """With just the money for every place of every round, so that the last bit counts,
    and one round to hear of it.
    """
    prices = [np.array(row if per_client else row[:1]) for row in rows]
    total = 0.0
    for price in prices:
        total += float(
            (price * BUFFER).sum() if per_client else price[0] * BUFFER.sum()
        )
    rounds = len(prices) + 1
    own = {
        "policies": {"p": policy},
        "prices": {"kind": "constant", "value": 1e-12},
    }  # which the server is not asked for here
    experiment = an_experiment("p", rounds, budget=total / rounds, **own)
    with (
        TemporaryDirectory() as folder,
        closing(LedgerStore(Path(folder) / "ledger.sqlite")) as store,
    ):
        ledger = play(
            FlowerAccounts.of(experiment, store), [*prices, prices[0]], chance, late
        )
        assert store.outstanding() == []
        assert ledger.spent[0] <= experiment.system.budget * rounds
        assert ledger.spent[0] == FlowerAccounts.of(experiment, store).ledger.spent[0]
        charged = sum(row.charge for row in store.orders())
        assert ledger.spent[0] == pytest.approx(charged, rel=1e-12)
        assert store.corrections() == []
