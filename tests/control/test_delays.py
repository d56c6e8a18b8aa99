"""Samples that take rounds to arrive: what a plain loop over single samples says."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate import Books, Delivery
from headgate.control import Controller, System
from headgate.control.delays import LONGEST, Delays, learned
from headgate.control.files import load_ledger, save_ledger
from headgate.control.policies import Acdpp, Constant, Headgate
from headgate.control.policies.references import held
from headgate.control.prices import Uniform
from headgate.control.rehearse import rehearse
from headgate.control.types import Report
from headgate.errors import DataError, SettingError

SYSTEM = System([6, 9, 5], budget=20.0, horizon=40)
CENTS = System([6, 9, 5], budget=20.0, horizon=40, quantum=0.01)
POLICIES = {
    "headgate": Headgate(),
    "held": held(Acdpp(rate=4, K=5)),
    "K": Constant(rate=4, K=3),
}
QUEUES = {
    "always 3": 3,
    "two delays": {"1": 3, "6": 1},
    "some at once": {"0": 1, "2": 1, "9": 2},
    "geometric": {"geometric": 2.5},
}
SEEDS = np.array([3, 4, 8])


def delay_of(arrived, waiting):
    """The rounds in which nine samples in ten arrive, from two lists of rounds."""
    known = arrived + [age for age in waiting if age > max(arrived, default=0)]
    return sorted(known)[int(np.ceil(0.9 * len(known))) - 1] if known else 0


class Plain:
    """A queue of one run, a sample at a time."""

    def __init__(self, delays, seed, clients):
        self.delays, self.seed = delays, seed
        self.numbers = [0] * clients
        self.waiting, self.arrived = [], []

    def known(self, t):
        """What is decided by: the price of what is under way, how many, the delay."""
        ages = [t - ordered for ordered, *_ in self.waiting]
        reserved = sum(price for *_, price in self.waiting)
        return reserved, len(self.waiting), delay_of(self.arrived, ages)

    def order(self, t, client, count, price):
        for _ in range(count):
            number = np.array([self.numbers[client]])
            drawn = self.delays.drawn(np.array([self.seed]), np.array([client]), number)
            due = t + int(self.delays.rounds[drawn[0]])
            self.waiting.append((t, due, client, price))
            self.numbers[client] += 1

    def arrive(self, t):
        """The samples that arrive in round t: the round of each, its client, price."""
        came = [each for each in self.waiting if each[1] == t]
        self.waiting = [each for each in self.waiting if each[1] != t]
        self.arrived += [t - ordered for ordered, *_ in came]
        return came


def plain(system, policy, delays, seed, prices):
    """Yield the orders, what arrived and the ledger of each round."""
    controller = Controller(system, policy, 1, np.array([seed]))
    ledger = controller.open()
    queue = Plain(delays, seed, system.clients)
    for t, price in enumerate(prices, 1):
        reserved, under_way, delay = queue.known(t)
        orders = controller.decide(
            ledger,
            price[None] if price.ndim else float(price),
            np.array([reserved]),
            under_way=under_way,
            delay=delay,
        )
        each = np.broadcast_to(price, system.clients)
        for client, count in enumerate(orders.admitted[0].tolist()):
            queue.order(t, client, count, float(each[client]))
        came = queue.arrive(t)
        now, late = np.zeros((2, 1, system.clients), dtype=np.int64)
        for ordered, _, client, _ in came:
            (now if ordered == t else late)[0, client] += 1
        charge = sum(price for ordered, *_, price in came if ordered < t)
        report = Report(now, late, np.array([float(charge)]))
        ledger = controller.post(ledger, orders, report)
        yield orders, now + late, ledger


def fast(system, policy, delays, seeds, prices):
    """Yield the orders and the ledger of each round of all runs."""
    controller = Controller(system, policy, len(seeds), seeds, delays=delays)
    ledger = controller.open()
    for price in np.moveaxis(prices, 1, 0):
        orders = controller.decide(ledger, np.ascontiguousarray(price))
        ledger = controller.post(ledger, orders)
        yield orders, ledger


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize(
    ("policy", "own_prices"),
    [*((each, False) for each in POLICIES), ("headgate", True)],
)
def test_runs_together_do_what_a_plain_queue_of_single_samples_does(
    policy, own_prices, queue
):
    delays, prices = Delays.of(QUEUES[queue]), Uniform(1.0, 10.0).path(SEEDS, 1, 41)
    if own_prices:
        prices = prices[..., None] + np.array([0.0, 1.5, 3.0])
    rounds = list(fast(SYSTEM, POLICIES[policy], delays, SEEDS, prices))
    for run, seed in enumerate(SEEDS.tolist()):
        slow = plain(SYSTEM, POLICIES[policy], delays, seed, prices[run])
        before = np.zeros(3)
        for (orders, ledger), (own, came, after) in zip(rounds, slow, strict=True):
            assert orders.admitted[run].tolist() == own.admitted[0].tolist()
            assert (ledger.admitted[run] - before).tolist() == came[0].tolist()
            assert ledger.spent[run] == pytest.approx(after.spent[0])
            assert ledger.occupancy[run].tolist() == after.occupancy[0].tolist()
            assert ledger.uses[run] == after.uses[0]
            before = ledger.admitted[run]
        assert ledger.admitted[run].any()


@pytest.mark.parametrize("queue", ["always 3", "some at once"])
def test_the_ledger_on_disk_buys_the_same(tmp_path, queue, monkeypatch):
    """Accounts of orders, samples and exact money judge the arrays of a simulation."""
    monkeypatch.setattr("headgate.books.durable.SYNCHRONOUS", "OFF")
    delays, seeds = Delays.of(QUEUES[queue]), SEEDS[:1]
    prices = np.round(Uniform(1.0, 10.0).path(seeds, 1, 41), 2)
    own = Plain(delays, int(seeds[0]), 3)
    with Books(tmp_path, CENTS, held(Headgate()), int(seeds[0])) as books:
        for t, (orders, ledger) in enumerate(
            fast(CENTS, held(Headgate()), delays, seeds, prices), 1
        ):
            purchases = books.begin(float(prices[0, t - 1]))
            assert [each.samples for each in purchases] == orders.admitted[0].tolist()
            for each in purchases:
                own.order(t, each.client, each.samples, each.price)
            came = Counter((client, ordered) for ordered, _, client, _ in own.arrive(t))
            reports = {}
            for (client, ordered), count in came.items():
                one = Delivery(count, round=ordered)
                reports.setdefault(client, []).append(one)
            books.settle(reports)
            money = books.balance()
            assert float(money.spent) == pytest.approx(ledger.spent[0])
            reserved = ledger.committed[0] - ledger.spent[0]
            assert float(money.reserved) == pytest.approx(reserved, abs=1e-6)
            assert books.ledger.admitted.tolist() == ledger.admitted.tolist()
        assert ledger.spent[0] > 600


@settings(max_examples=25, deadline=None)
@given(
    queue=st.one_of(
        st.integers(1, 45),
        st.dictionaries(
            st.integers(0, 30).map(str), st.floats(0.1, 5), min_size=1, max_size=5
        ),
    ),
    budget=st.floats(1.0, 60.0),
    quantum=st.sampled_from([None, 0.01, 1.0]),
    policy=st.sampled_from([Headgate(), POLICIES["held"], held(POLICIES["K"])]),
    horizon=st.sampled_from([40, None]),
)
def test_the_budget_and_the_buffers_hold_under_every_delay(
    queue, budget, quantum, policy, horizon
):
    system = System([6, 9, 5], budget, horizon, quantum=quantum)
    delays, prices = Delays.of(queue), Uniform(1.0, 10.0).path(SEEDS, 1, 41)
    overdraft = getattr(policy, "overdraft", 0.0)
    paid = np.zeros(3)
    for orders, ledger in fast(system, policy, delays, SEEDS, prices):
        most = system.money(orders.t, overdraft)
        assert (ledger.committed <= most).all()
        assert (ledger.spent <= ledger.committed).all()
        assert (ledger.spent >= paid).all(), "money never comes back"
        assert (ledger.occupancy <= system.buffer).all()
        everything = ledger.admitted.sum(axis=-1) + ledger.pipeline.under_way
        assert everything.tolist() == ledger.ordered.sum(axis=-1).tolist()
        paid = ledger.spent
        nothing = ledger.pipeline.under_way == 0
        assert (ledger.spent[nothing] == ledger.committed[nothing]).all()


def test_near_the_end_nothing_is_ordered_that_comes_too_late():
    prices = Uniform(1.0, 10.0).path(SEEDS, 1, 41)
    rounds = list(fast(SYSTEM, Headgate(), Delays.of(7), SEEDS, prices))
    ordered = np.array([orders.admitted.sum() for orders, _ in rounds])
    assert ordered[28:33].any()
    assert not ordered[33:].any()
    assert not rounds[-1][1].pipeline.under_way.any()


def test_a_delay_costs_labels_and_money_and_not_much_of_either():
    """As the ledger on disk, which learns the delay as well."""
    system, seeds = System([30] * 3, budget=20.0, horizon=100), np.arange(20)
    at_once, slow = (
        rehearse(system, Headgate(), Uniform(1.0, 10.0), seeds, 100, delays=delays)
        for delays in (None, Delays.of(10))
    )
    labels, fewer = at_once.admitted.sum(), slow.admitted.sum()
    assert 0.93 < fewer / labels < 1
    dearer = slow.spend.sum() / fewer / (at_once.spend.sum() / labels)
    assert 1 < dearer < 1.07


@given(
    arrived=st.lists(st.integers(0, 12), max_size=30),
    waiting=st.lists(st.integers(1, 12), max_size=30),
)
def test_the_delay_is_learned_as_by_a_sorted_list(arrived, waiting):
    counts = [np.bincount(ages, minlength=13)[None] for ages in (arrived, waiting)]
    assert learned(*(each.astype(int) for each in counts)) == delay_of(arrived, waiting)


def test_samples_are_drawn_from_the_stated_shares():
    delays, many = Delays.of({"2": 1, "5": 3}), np.arange(4000)
    drawn = delays.drawn(np.full(4000, 7), np.full(4000, 2), many)
    assert np.mean(delays.rounds[drawn] == 5) == pytest.approx(0.75, abs=0.03)
    long = Delays.of({"geometric": 5.0})
    assert long.mean == pytest.approx(5, abs=0.01)
    assert long.rounds[0] == 0
    counted = delays.counted(np.array([7]), np.array([[0, 9]]), np.array([[5, 0]]))
    own = delays.drawn(np.full(5, 7), np.zeros(5, int), np.arange(5))
    assert counted.tolist() == [[np.bincount(own, minlength=2).tolist(), [0, 0]]]


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        (-1, "is no number of rounds"),
        (LONGEST + 1, "at most 1,000 rounds"),
        ({"1": -1.0}, "weights must be finite"),
        ({"1": 0.0}, "weights must be finite"),
        ({}, "weights must be finite"),
        ({"soon": 1.0}, "'soon': is no number of rounds; known: geometric"),
        ({"01": 1.0}, "is no number of rounds"),
        ({"geometric": 0.0}, "delay.geometric = 0: must be above 0"),
        ({"geometric": 51.0}, "at most 50 rounds"),
    ],
)
def test_a_delay_that_cannot_be_is_refused(stated, message):
    with pytest.raises(SettingError, match=message):
        Delays.of(stated)


def test_a_ledger_with_samples_under_way_comes_back_from_its_file(tmp_path):
    delays, prices = Delays.of(QUEUES["two delays"]), np.full((3, 9), 2.0)
    *_, (_, ledger) = fast(SYSTEM, Headgate(), delays, SEEDS, prices)
    path = tmp_path / "ledger.npz"
    save_ledger(ledger, path)
    controller = Controller(SYSTEM, Headgate(), 3, SEEDS, delays=delays)
    loaded = load_ledger(path, controller)
    assert ledger.pipeline.under_way.any()
    price = np.array([1.0, 2.0, 9.0])
    ours, theirs = (controller.decide(each, price) for each in (ledger, loaded))
    assert ours.admitted.tolist() == theirs.admitted.tolist()
    for name, array in controller.post(loaded, theirs).pipeline.arrays().items():
        again = getattr(controller.post(ledger, ours).pipeline, name)
        assert np.array_equal(array, again)
    with pytest.raises(DataError, match="does not know"):
        load_ledger(path, Controller(SYSTEM, Headgate(), 3, SEEDS))
