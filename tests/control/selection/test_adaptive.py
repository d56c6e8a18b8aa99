"""The rule that finds out whether looking pays: who looks when, what is paid, and a
slow plain version of what it hears.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.control.controller import Controller
from headgate.control.files import load_ledger, save_ledger
from headgate.control.policies import Headgate
from headgate.control.selection import Adaptive, ByLot, ByMargin
from headgate.control.types import Losses, System
from headgate.errors import SettingError

CLIENTS, LOOKS = 5, 0.5
SYSTEM = System([3, 4, 2, 5, 3], budget=30.0, horizon=40)


def controller_of(runs=1, **settings):
    return Controller(
        SYSTEM, Headgate(selection=Adaptive(**settings)), runs, looks=LOOKS
    )


def played(controller, shares, prices):
    """The ledger after each round, in which clients get these shares of what they
    bought right, (T, R, M).
    """
    ledger, past = controller.open(), []
    for share, price in zip(shares, prices, strict=True):
        orders = controller.decide(ledger, price + LOOKS)
        after = controller.post(ledger, orders)
        right = np.where(orders.admitted > 0, share, np.nan)
        past.append((ledger, orders, after))
        ledger = replace(after, losses=controller.kept(Losses(right, right, right)))
    return past, ledger


@st.composite
def worlds(draw, runs=None):
    R, random = (
        runs or draw(st.integers(1, 3)),
        np.random.default_rng(draw(st.integers(0, 2**32 - 1))),
    )
    level = np.clip(
        np.cumsum(
            random.normal(0.02, draw(st.sampled_from([0.0, 0.1, 0.3])), (40, R, 1)),
            axis=0,
        ),
        0,
        1,
    )
    shares = np.clip(level + random.normal(0, 0.1, (40, R, CLIENTS)), 0, 1)
    silent = random.random((40, R, CLIENTS)) < draw(st.sampled_from([0.0, 0.5]))
    return np.where(silent, np.nan, shares), random.uniform(1, 10, (40, R))


def slowly(rule, history):
    """The state after all rounds of one run, from (which clients looked, samples
    bought, shares told) of each.
    """
    state, right, heard = "trial", 0.0, 0
    for t, (looked, bought, told) in enumerate(history, 1):
        if t == 1:
            continue
        everybody = [m for m in range(CLIENTS) if np.isfinite(told[m])]
        own = [m for m in everybody if state != "trial" or not looked[m]]
        new = max(round(bought * len(own) / max(len(everybody), 1)), len(own))
        if new:
            right += (
                new / (new + min(heard, 30)) * (np.mean([told[m] for m in own]) - right)
            )
        heard += new
        pays = state == "margins" or right >= (
            rule.level if state == "trial" else rule.again
        )
        if state != "trial" or heard >= (10 if pays else 100):
            state = "margins" if pays else "lots"
    return state


@settings(max_examples=20)
@given(worlds(), st.sampled_from([0.05, 0.7]), st.sampled_from([0.3, 0.8]))
def test_who_looks_is_what_a_plain_version_says_and_money_is_kept(world, level, again):
    shares, prices = world
    runs = prices.shape[1]
    controller = controller_of(runs, level=level, again=again)
    past, last = played(controller, shares, prices)
    rule = controller.policy.selection
    for r in range(runs):
        history = []
        for t, (before, orders, after) in enumerate(past):
            looks, state = rule.looking(before)[r], slowly(rule, history)
            everywhere = {
                "trial": np.arange(CLIENTS) % 4 > 0,
                "lots": False,
                "margins": True,
            }[state if t else "lots"]
            assert (looks == everywhere).all()
            paid = (orders.price if orders.price.ndim == 2 else orders.price[:, None])[
                r
            ]
            assert np.allclose(paid, prices[t, r] + LOOKS * looks)
            assert float(after.looks[r] - before.looks[r]) == pytest.approx(
                LOOKS * orders.admitted[r, looks].sum()
            )
            told = np.where(orders.admitted[r] > 0, shares[t, r], np.nan)
            history.append((looks, orders.admitted[r].sum(), told))
    assert (last.spent <= 30.0 * 40).all()
    assert (last.looks <= last.spent).all()


@settings(max_examples=8)
@given(worlds(runs=3))
def test_a_run_alone_and_a_run_that_goes_on_from_a_file_do_the_same(
    tmp_path_factory, world
):
    shares, prices = world
    past, _ = played(controller_of(3), shares, prices)
    for r in range(3):
        alone, _ = played(controller_of(1), shares[:, r : r + 1], prices[:, r : r + 1])
        for (_, orders, _), (_, own, _) in zip(past, alone, strict=True):
            assert np.array_equal(orders.admitted[r : r + 1], own.admitted)
    path, controller = tmp_path_factory.getbasetemp() / "ledger.npz", controller_of(3)
    for before, orders, _ in past[1::13]:
        save_ledger(before, path)
        again = controller.decide(
            load_ledger(path, controller), prices[before.t] + LOOKS
        )
        assert np.array_equal(again.admitted, orders.admitted)
        assert np.array_equal(again.price, orders.price)
        assert all(
            np.array_equal(again.memory[name], orders.memory[name])
            for name in orders.memory
        )


def test_what_it_is():
    assert isinstance(Adaptive().now(True), ByMargin)
    assert isinstance(Adaptive().now(False), ByLot)
    assert not Headgate(selection=ByMargin()).hears
    for wrong in ({"level": 1.1}, {"again": -0.1}, {"level": float("nan")}):
        with pytest.raises(
            SettingError, match=rf"{next(iter(wrong))} = .*must lie between 0 and 1"
        ):
            Adaptive(**wrong)
