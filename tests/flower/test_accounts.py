"""The accounts by themselves: orders on disk, what answers come to, what is refused,
and money to the last bit.
"""

import sqlite3
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from itertools import chain, combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from worlds import an_experiment

from headgate.books.database import LEDGER
from headgate.books.exact import exact
from headgate.books.in_file import FileTables
from headgate.books.nouns import OrderState
from headgate.books.state import Told
from headgate.books.statement import amend
from headgate.control import Amendment
from headgate.errors import LedgerError, SettingError
from headgate.flower.accounts import FlowerAccounts
from headgate.flower.messages import Receipt

EVERYBODY = range(3)
OPEN = []
"""accounts that a test has opened"""


@pytest.fixture
def folder(tmp_path):
    yield tmp_path
    while OPEN:
        OPEN.pop().journal.close()


def opened(folder, policy="both", **more):
    experiment = an_experiment(policy, 6, **more)
    accounts = FlowerAccounts.of(experiment, FileTables(folder / LEDGER))
    OPEN.append(accounts)
    return accounts


# a round that was begun before the server's process ended


def test_a_begun_round_that_was_changed_is_refused(folder):
    opened(folder).begin(np.array([2.0]), EVERYBODY)
    with closing(sqlite3.connect(folder / LEDGER)) as db, db:
        db.execute("UPDATE entries SET body = replace(body, '[1,', '[2,')")
    with pytest.raises(LedgerError, match=r"entry 2 \(begun, round 1, .*was changed"):
        opened(folder)


# answers


def test_what_a_client_says_beside_its_samples_is_kept(folder):
    accounts = opened(folder)
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
    assert done.body["events"] == [
        (1, 0, "lost", "1 samples of a store that is gone"),
        (1, 0, "short", "the stream is empty"),
    ]
    assert done.told == {0: Told(heard=1, lost=1)}
    accounts.commit(done, ("file", "sha256"), {}, None)
    now = accounts.begin(np.array([2.0]), EVERYBODY)
    order = accounts.order(now, 0)
    same = accounts.judge(
        now, order, replace(told, round=2, rounds=(2,), admitted=(0,), note="")
    )
    done = accounts.settled(now, [same], offences=2)
    assert done.body["events"] == []  # told before


# what open orders may have cost, against every way in which clients can have done them

DRAWN = st.tuples(
    st.integers(1, 6), st.integers(0, 4), st.sampled_from(["0.5", "1", "2", "3.5"])
)
ORDERS = st.lists(DRAWN, max_size=5).map(
    lambda drawn: [
        OrderState(t, 0, "", Decimal(price), asked, min(free, asked))
        for t, (asked, free, price) in enumerate(drawn, 1)
    ]
)


def costs(orders):
    """The cost of every subset of a client's orders, done one after the other up to
    where each says.
    """
    for done in chain.from_iterable(
        combinations(orders, size) for size in range(len(orders) + 1)
    ):
        position, cost = 0, Decimal(0)
        for row in done:
            admitted = max(row.asked - position, 0)
            position += admitted
            cost += row._replace(delivered=admitted).charged(Decimal(0))
        yield cost


@given(ORDERS)
def test_what_is_set_aside_is_enough_whatever_clients_have_done(orders):
    reserved = sum(row.reserved(Decimal(0)) for row in orders)
    assert max(costs(orders)) <= reserved


def test_a_store_is_refused_by_a_controller_with_another_budget(folder):
    opened(folder, budget=20.0)
    with pytest.raises(
        LedgerError,
        match=(
            r"ledger.sqlite was opened with budget = 20.0, this controller has 40.0"
        ),
    ):
        opened(folder, budget=40.0)


def test_terms_of_a_policy_that_does_not_keep_to_its_money_are_not_amended(folder):
    """Books limits every policy. A run on Flower may have one that spends what it
    wants.
    """
    accounts = opened(folder, "both")
    before = accounts.journal.last
    with pytest.raises(
        SettingError,
        match=(
            "the policy does not keep to its money: terms can be amended with one that"
            " does"
        ),
    ):
        amend(folder, Amendment(money=5.0), "anna", "")
    accounts.newest()
    assert accounts.journal.last == before


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
        closing(FileTables(Path(folder) / LEDGER)) as tables,
    ):
        accounts = FlowerAccounts.of(experiment, tables)
        ledger = play(accounts, [*prices, prices[0]], chance, late)
        accounts.journal.audit()
        state = accounts.newest()
        assert state.orders == {}
        assert state.spent <= exact(experiment.system.money(rounds))
        again = FlowerAccounts.of(experiment, tables).ledger
        assert ledger.spent[0] == again.spent[0]
        assert ledger.spent[0] == pytest.approx(float(state.spent), rel=1e-12)
        assert not any(order.beyond for order in tables.orders())
