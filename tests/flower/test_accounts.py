"""The accounts by themselves: orders on disk, what answers come to, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from worlds import an_experiment

from headgate.books.accounts import Accounts, Answer
from headgate.books.ledger_store import ClientRow, LedgerStore
from headgate.books.messages import Receipt
from headgate.errors import LedgerError

EVERYBODY = range(3)


@pytest.fixture
def store(tmp_path):
    store = LedgerStore(tmp_path / "ledger.sqlite")
    yield store
    store.close()


def opened(store, policy="both", **more):
    return Accounts.of(an_experiment(policy, 6, **more), store)


def honest(order, rounds, admitted, occupancy, **more):
    """An answer of a client that has done as it says, and has not trained."""
    told = Receipt(order.experiment, order.round, order.client, rounds, admitted, order.known + sum(admitted), occupancy,
                0, False, 0, 0, 0, 0, "")  # fmt: skip
    return replace(told, **more)


def played(accounts, price, answered=EVERYBODY, present=EVERYBODY):
    """A round in which some of the clients do as they are told and say so; the others say nothing."""
    now, answers = accounts.begin(np.array([price]), present), []
    for client in answered:
        order = accounts.order(now, client)
        admitted = now.ordered(client)
        rounds = tuple(row.round for row in now.unheard(client)) or (now.t,)
        said = (*(0,) * (len(rounds) - 1), admitted)  # nothing on the orders before
        answers.append(accounts.judge(now, order, honest(order, rounds, said, now.expected(client, admitted))))
    done = accounts.settled(now, answers, offences=2)
    accounts.commit(done, ("file", "sha256"), {}, None)
    return now, done


# orders


def test_an_order_is_written_for_whoever_is_there_at_its_own_price(store):
    now = opened(store).begin(np.array([1.0, 2.0, 3.0]), {2, 0})
    assert [(row.round, row.client, row.price, row.free, row.admitted) for row in store.orders()] == [
        (1, 0, 1.0, 0, None),
        (1, 2, 3.0, 0, None),
    ]
    assert [row.ordered for row in store.orders()] == now.orders.admitted[0, [0, 2]].tolist()
    assert (now.ordered(0), now.ordered(1)) == (now.orders.admitted[0, 0], 0)


def test_an_order_says_up_to_where_and_what_the_server_has_heard(store):
    accounts = opened(store)
    first, _ = played(accounts, 2.0, answered=(0,))
    assert accounts.order(first, 1).acknowledged == 0
    second, _ = played(accounts, 2.0, answered=(0,))
    third = accounts.begin(np.array([2.0]), EVERYBODY)
    told = {client: accounts.order(third, client, train=False) for client in EVERYBODY}
    assert [told[client].acknowledged for client in EVERYBODY] == [2, 0, 0]
    for client, order in told.items():
        assert order.known == accounts.ledger.admitted[0, client]
        assert order.last == order.known + third.orders.admitted[0, client]
        assert order.kept_from == third.kept_from[0, client]
        assert order.limit == [3, 2, 4][client]
        assert (order.client, order.round, order.train, order.experiment) == (client, 3, False, store.experiment)
    assert [row.round for row in third.unheard(1)] == [1, 2, 3]
    assert told[0].known > 0 == told[1].known
    assert (first.t, second.t) == (1, 2)


def test_what_a_client_holds_follows_from_age_and_capacity(store):
    accounts = opened(store)
    for _ in range(3):
        now, _ = played(accounts, 2.0)
    now = accounts.begin(np.array([2.0]), EVERYBODY)
    ledger = accounts.ledger
    for client, limit in enumerate((3, 2, 4)):
        kept = int(ledger.admitted[0, client] - now.kept_from[0, client])
        assert [now.expected(client, more) for more in (0, 1, 9)] == [kept, min(kept + 1, limit), limit]
    assert np.any(now.kept_from > ledger.dropped)  # some leave by age


def test_what_open_orders_may_cost_and_what_rounding_may_add_is_set_aside(store):
    """54 in all: C·T. Three clients may answer apart, and each open order, too."""
    accounts, unit = opened(store), np.spacing(54.0)
    played(accounts, 0.1, answered=(0, 1))
    assert store.rounds()[0].reserved == 12 * unit
    (open_,) = store.outstanding()
    accounts.begin(np.array([2.0]), EVERYBODY)
    assert store.begun().reserved == 0.1 * open_.ordered + 15 * unit


def test_with_an_open_end_it_is_as_much_as_rounding_may_add_by_now(store):
    accounts = opened(store, run={"rounds": 6, "horizon": "open", "seeds": 1, "policies": ["both"]})
    accounts.begin(np.array([0.1]), EVERYBODY)
    assert store.begun().reserved == 12 * np.spacing(9.0)  # one round's budget


# a round that was begun before the server's process ended


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("UPDATE orders SET ordered = ordered + 1 WHERE client = 1", "round 1: client 1 was ordered"),
        ("UPDATE rounds SET round = 2", "round 2: was begun after round 0"),
    ],
)
def test_a_begun_round_that_was_changed_is_refused(store, change, reason):
    opened(store).begin(np.array([2.0]), EVERYBODY)
    store._db.execute(change)
    with pytest.raises(LedgerError, match=reason):
        opened(store).begin(np.array([2.0]), EVERYBODY)


# answers


def test_of_a_client_that_was_never_heard_nothing_is_known_but_its_offence(store):
    accounts = opened(store)
    assert accounts.client(1) == ClientRow(1, 0, 0, False, 0, 0, 0, 0)
    now = accounts.begin(np.array([2.0]), EVERYBODY)
    done = accounts.settled(now, [Answer(1, reason="odd", offence=True), Answer(2, reason="lost")], offences=2)
    assert done.clients == [ClientRow(1, 0, 1, False, 0, 0, 0, 0), ClientRow(2, 0, 0, False, 0, 0, 0, 0)]
    assert done.events == [(1, 1, "rejected", "odd"), (1, 2, "failed", "lost")]
    assert (done.closed, done.corrected, done.ledger.spent[0]) == ([], [], 0.0)


def test_what_a_client_says_beside_its_samples_is_kept(store):
    accounts = opened(store)
    now = accounts.begin(np.array([2.0]), EVERYBODY)
    order = accounts.order(now, 0)
    told = honest(order, (1,), (1,), 0, lost=1, note="the stream is empty")
    done = accounts.settled(now, [accounts.judge(now, order, told)], offences=2)
    assert done.events == [(1, 0, "lost", "1 samples of a store that is gone"), (1, 0, "short", "the stream is empty")]
    assert done.clients == [ClientRow(0, 1, 0, False, 1, 0, 0, 0)]
    accounts.commit(done, ("file", "sha256"), {}, None)
    now = accounts.begin(np.array([2.0]), EVERYBODY)
    order = accounts.order(now, 0)
    same = accounts.judge(now, order, honest(order, (2,), (0,), 0, lost=1))
    assert accounts.settled(now, [same], offences=2).events == []  # told before
