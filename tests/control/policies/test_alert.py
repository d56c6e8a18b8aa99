"""Headgate that is on the alert: old places renewed on an alarm, and its test for a
change beside a slow plain version.
"""

import math
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate.control import Controller, Losses, Report, System
from headgate.control.policies import Alert, Headgate
from headgate.control.prices import Uniform
from headgate.control.rehearse import rehearse

from ..playing import goes_on

MNIST = System(np.array([8, 9, 10, 11, 12] * 2), 55.0, 100)
LONG = System(MNIST.buffer, 55.0, 120)


SELDOM = np.tile([2.0, *[9.0] * 11], 8)
"""one low price in twelve, where headgate renews and nowhere else"""


def told_of(system, t, losses, admitted):
    """What `wanted` looks at of a round's view, the same in two runs."""
    new = np.array([losses] * 2)
    told = Losses(new, np.full(new.shape, np.nan))
    two = np.zeros(2)
    return SimpleNamespace(
        system=system,
        t=t,
        losses=told,
        debt=two,
        price=two,
        admitted=np.full(2, admitted),
    )


class PlainAlarm:
    """One run, a number at a time; an alarm is on until 20 new samples lose less than
    three times the usual, ten rounds at most."""

    def __init__(self, limit):
        self.limit, self.on, self.rang, self.since, self.quiet = limit, False, 0, [], -1
        self.rise = self.heard = self.evidence = 0
        self.forget()

    def forget(self):
        self.usual = self.samples = self.squares = self.rounds = 0.0

    def hear(self, losses, buffers, admitted):
        self.louder, self.of = 1.0, 0
        told = [
            (min(loss, 1e6), size)
            for loss, size in zip(losses, buffers, strict=True)
            if not math.isnan(loss)
        ]
        count = min(admitted, sum(size for _, size in told))
        if count == 0:
            return
        loss = sum(loss * size for loss, size in told) / sum(size for _, size in told)
        known = self.samples >= 30 and self.usual > 0
        if known:
            self.louder, self.of = loss / self.usual, count
        if self.on:
            return
        worth = count * 60 / (count + 60)
        if known:
            ratio, scatter = self.louder, (8 * 5 + self.squares) / (8 + self.rounds)
            # ln of gamma(3·usual) over gamma(usual) at this loss, shapes worth/scatter
            self.evidence = max(
                self.evidence + worth / scatter * (ratio - ratio / 3 - math.log(3)), 0.0
            )
            self.squares += worth * (min(ratio, 3) - 1) ** 2
            self.rounds += 1
        kept = self.samples * math.exp(-worth / 150)
        self.usual = (self.usual * kept + loss * worth) / (kept + worth)
        self.samples = kept + worth

    def round(self, t, losses, buffers, count):
        if self.evidence == 0:
            self.rise = self.heard
        self.heard += count
        self.hear(losses, buffers, count)
        if not self.on:
            if self.evidence > self.limit:
                self.evidence, self.on, self.rang, self.since = 0.0, True, t, []
            return
        self.since += [(self.louder, self.of)]
        if sum(of for _, of in self.since) >= 20:
            self.on = sum(louder * of for louder, of in self.since) >= 3 * sum(
                of for _, of in self.since
            )
            self.since = []
        if self.on and t - self.rang >= 10:
            self.on = False
            self.forget()

    def least(self, t, buffers, count):
        """The share of the places that is bought at any price, with probes of 0.02 and
        a turnover of a half.
        """
        self.quiet = 0 if count else self.quiet + 1
        stale = (
            min(max(1 - (self.heard - self.rise) / sum(buffers), 0), 1)
            if self.rang == t
            else 0
        )
        probe = (
            0.4 if self.louder > 3 and not self.on else 0.02 if self.quiet >= 4 else 0
        )
        return 0.5 * max(stale, probe)


def played(policy, high):
    """The ledgers after 96 rounds, where new samples lose 1, and `high` from round 26
    on.
    """
    controller = Controller(System(MNIST.buffer, 16.0, 96), policy)

    def report(orders):
        new = np.where(orders.admitted > 0, high if orders.t >= 26 else 1.0, np.nan)
        return Report(orders.admitted, losses=Losses(new, new))

    return [
        controller.open(),
        *(ledger for _, ledger in goes_on(controller, SELDOM, report=report)),
    ]


def bought(ledgers):
    return np.diff([ledger.admitted.sum() for ledger in ledgers])


LARGE = 15, 35, 40
LOSS = st.one_of(st.sampled_from([0.0, np.nan, 1e-300, 1e300]), st.floats(0.0, 20.0))
LOSSES = st.one_of(
    st.sampled_from([0.4, 1.0, 2.9, 3.1, 9.0, 30.0]).map(lambda loss: [loss] * 3),
    st.lists(LOSS, min_size=3, max_size=3),
)
ROUND = st.tuples(
    LOSSES, st.one_of(st.sampled_from([0, 1, 2, 7, 19, 20, 40]), st.integers(0, 60))
)
ROUNDS = st.lists(ROUND, min_size=1, max_size=40)
USUAL, LOUD, NONE = ([1.0] * 3, 90), ([30.0] * 3, 40), ([np.nan] * 3, 0)


@settings(max_examples=120, deadline=None)
@given(
    st.one_of(ROUNDS, ROUNDS.map(lambda rounds: [USUAL, *rounds])),
    st.sampled_from([LARGE, (1, 1, 1)]),
    st.sampled_from([0.1, 1.0, 40.0]),
)
@example(
    [USUAL, LOUD, *[NONE] * 11], LARGE, 1.0
)  # it is given up, and what is usual is learnt from the beginning
@example(
    [([1.0] * 3, 60), ([9.0] * 3, 5)], (5, 25, 30), 0.1
)  # of 60 samples 30 count, which just suffice
@example([([0.0] * 3, 60), ([1.0] * 3, 5)], LARGE, 0.1)  # nothing is usual yet
@example([([1.0, np.nan, np.nan], 1)], (1, 1, 1), 0.1)
def test_alarms_are_on_as_the_plain_one_says(rounds, buffers, stated):
    system, policy = (
        System(np.array(buffers), 1.0, 100),
        Alert(false_alarms=stated, turnover=0.5),
    )
    memory, plain, admitted = (
        policy.start(system, 2),
        PlainAlarm(math.log(100 / stated)),
        0,
    )
    for t, (losses, count) in enumerate(rounds, start=1):
        losses, admitted = losses if count else [np.nan] * 3, admitted + count
        with patch.object(
            Headgate, "wanted", lambda self, view, memory: (np.zeros(2), memory)
        ):
            share, memory = policy.wanted(told_of(system, t, losses, admitted), memory)
        plain.round(t, losses, system.buffer, count)
        assert share == pytest.approx([plain.least(t, buffers, count)] * 2, rel=1e-9)
        assert memory["on"].tolist() == [plain.on] * 2
        assert memory["last_alarm"].tolist() == [plain.rang] * 2
        assert memory["before_rise"].tolist() == [plain.rise] * 2
        assert memory["evidence"] == pytest.approx(
            [plain.evidence] * 2, rel=1e-9, abs=1e-9
        )
        assert memory["usual"] == pytest.approx([plain.usual] * 2, rel=1e-9, abs=1e-12)
        assert all(np.isfinite(array).all() for array in memory.values())


@pytest.mark.parametrize("smooth", [0.0, 0.25])
def test_an_alarm_renews_what_is_older_than_the_change(
    smooth,
):
    """The world changes in round 26, after a low price. The probe of round 30 loses
    nine times the usual, so 40 more are bought, at 9; they ring, and all places but
    those 42 are renewed, at 9 again. Then nothing is left to hurry for."""
    calm, moved = (played(Alert(smooth=smooth), high) for high in (1.0, 9.0))
    assert calm[-1].memory["alarms"][0] == 0
    assert [int(ledger.memory["alarms"][0]) for ledger in moved[30:33]] == [0, 0, 1]
    assert np.array_equal(bought(calm)[:30], bought(moved)[:30])
    assert bought(moved)[29:33].tolist() == [2, 40, 58, 0]
    assert moved[-1].spent[0] <= 16 * 96


def test_what_no_alarm_takes_is_spent_by_the_end():
    one = rehearse(MNIST, Alert(), Uniform(1, 10), np.arange(20), 100)
    assert 0.97 * 5500 < one.spend.mean(axis=0).sum() <= 5500


def means_of(kind, rng, admitted, level):
    """Means of so many new samples' losses by client, (R, M); NaN where there are
    none.
    """
    shape = np.where(admitted > 0, admitted, 1)
    if kind == "gamma":
        means = rng.gamma(shape / 6, 6 / shape)
    else:
        # one in five is wrong and loses much, as with a linear model; and models differ
        # from round to round
        wrong = rng.binomial(shape, 0.2)
        means = (
            5 * np.where(wrong > 0, rng.gamma(np.maximum(wrong, 1)), 0.0) / shape + 0.05
        )
        means = means * np.exp(rng.normal(0, 0.2, (len(admitted), 1)))
    return np.where(admitted > 0, level * means, np.nan)


def alarms_of(policy, kind, level, runs=300, seed=0):
    """Alarms of each run after 120 rounds, whose level(t) is the loss of new
    samples.
    """
    rng = np.random.default_rng(seed)

    def report(orders):
        new = means_of(kind, rng, orders.admitted, level(orders.t))
        return Report(orders.admitted, losses=Losses(new, new))

    prices = (rng.uniform(1, 10, runs) for _ in range(120))
    return np.array(
        [
            ledger.memory["alarms"]
            for _, ledger in goes_on(
                Controller(LONG, policy, runs), prices, report=report
            )
        ]
    )


@pytest.mark.parametrize(
    ("kind", "stated", "falling"),
    [
        ("gamma", 0.1, False),
        ("gamma", 1.0, True),
        ("mostly right", 0.1, True),
        ("mostly right", 1.0, False),
    ],
)
def test_a_calm_world_rings_no_more_often_than_stated(kind, stated, falling):
    """Expected alarms are at most as stated: the mean of 300 runs is, but for three of
    its standard errors.
    """
    alarms = alarms_of(
        Alert(false_alarms=stated),
        kind,
        lambda t: 0.5 + 2 * math.exp(-t / 20) if falling else 1.0,
    )[-1]
    assert alarms.mean() <= stated + 3 * math.sqrt(stated / alarms.size)


@pytest.mark.parametrize(("probe", "within"), [(0.02, 9), (0.0, 12)])
@pytest.mark.parametrize("rise", [4.0, 8.0])
def test_a_change_is_heard_soon(rise, probe, within):
    """New samples lose several times as much from round 61 on: most runs ring soon, and
    once. Without probes only a low price lets it hear, which one round in four has: for
    nine rounds a thirteenth of the runs has none, for twelve one in thirty."""
    alarms = alarms_of(
        Alert(probe=probe), "mostly right", lambda t: rise if t > 60 else 1.0
    )
    rung = (alarms[59 + within] > alarms[59]).mean()
    assert rung > (0.9 if rise == 8 else 0.6)
    assert np.median(alarms[-1] - alarms[59]) == 1
