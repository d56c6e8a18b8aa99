from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.analysis.comparison import by_offer, closed, closed_share
from headgate.analysis.intervals import Difference, student, t_quantile
from headgate.analysis.limits import best_place, holm
from headgate.analysis.runs import gaps

from .made_up import outcome

FLAT = np.full((4, 5), 0.5)
SPREAD = 0.001 * np.array([[-1.0], [1.0], [-2.0], [2.0]])


def test_limits_are_of_every_run_and_round():
    assert outcome("a", FLAT).broken == ""
    assert outcome("a", FLAT, spend=10.0 + 1e-12).broken == ""  # rounding
    assert outcome("a", FLAT, spend=10.1).runs_over_budget == 4
    one_run = outcome("a", FLAT, price=np.array([[1.0], [1.0], [1.0], [1.2]]))
    assert (one_run.runs_over_budget, one_run.broken) == (1, "money")
    assert one_run.dearest_share == pytest.approx(1.2)
    burst = outcome("a", FLAT, held=(1.0, 1.0, 1.5))
    assert (burst.peak_excess, burst.broken) == (3, "memory")


def test_closed_is_zero_for_constant_and_one_for_the_oracle():
    low, high, half = (
        outcome(name, FLAT + gain)
        for name, gain in (("constant", 0.0), ("oracle", 0.2), ("x", 0.1))
    )
    for key in ("best", "last", "mean"):
        assert [
            closed(one, low, high, key).mean for one in (low, high, half)
        ] == pytest.approx([0.0, 1.0, 0.5])
    assert closed(half, low, low, "best") is None
    assert (
        closed(low, low, high, "best").low is None
    )  # it is 0 by definition, not by measurement


def test_what_all_three_have_in_common_does_not_widen_the_interval_of_what_is_closed():
    noise = np.random.default_rng(1).normal(0.0, 0.02, (40, 1))
    low, high = (
        outcome("constant", 0.5 + noise + np.zeros((40, 5))),
        outcome("oracle", 0.7 + noise + np.zeros((40, 5))),
    )
    together = closed(outcome("x", 0.6 + noise + np.zeros((40, 5))), low, high, "last")
    assert (together.low, together.high) == pytest.approx(
        (0.5, 0.5)
    )  # what seeds have in common is no doubt
    own = 0.6 + np.random.default_rng(2).normal(0.0, 0.02, (40, 1)) + np.zeros((40, 5))
    apart = closed(outcome("x", own), low, high, "last")
    # the error of a mean of differences with standard deviation √2·0.02, over a gap of
    # 0.2; noise is independent of own
    expected = 1.3036 * np.std(own[:, 0] - noise[:, 0], ddof=1) / np.sqrt(40) / 0.2
    assert apart.half == pytest.approx(expected, rel=0.1)
    assert apart.low < apart.mean < apart.high


def test_the_interval_of_what_is_closed_holds_the_truth_as_often_as_it_says():
    """Ten seeds of a gap of three points of which a third is closed, as on CIFAR-10; a
    bootstrap gets to 75 % here.
    """
    noise = np.random.default_rng(3).normal(0.0, 0.006, (4000, 3, 10))
    found = [
        closed_share(0.46 + ours, 0.45 + low, 0.48 + high) for ours, low, high in noise
    ]
    assert sum(one.low <= 1 / 3 <= one.high for one in found) / 4000 == pytest.approx(
        0.8, abs=0.02
    )


def test_without_a_clear_gap_it_cannot_be_told_what_is_closed():
    spread = 0.1 * np.array([[-1.0], [1.0], [-1.0], [1.0]])
    low, high = (
        outcome("constant", FLAT - spread),
        outcome("oracle", FLAT + spread + 0.01),
    )
    found = closed(outcome("x", FLAT + 0.005), low, high, "best")
    assert (found.low, found.high) == (None, None)


def test_of_seeds_that_were_lost_by_one_nothing_is_closed_by_the_others():
    curve = np.array([[0.5], [0.6], [0.9]]) + np.zeros((3, 5))
    low, high = outcome("constant", curve), outcome("oracle", curve + 0.1)
    one = outcome("x", curve + 0.05).of_seeds([0, 1])
    assert closed(one, low, high, "best").mean == pytest.approx(0.5)
    assert closed(one, low, high, "best").runs == 2


def test_within_a_budget_others_are_named_by_their_policies_alone():
    found = [
        replace(outcome(name, FLAT + gain + SPREAD), label=f"point: {name}")
        for name, gain in (("good", 0.1), ("poor", 0))
    ]
    (own,) = by_offer(found).values()
    assert list(best_place(own)[1]) == ["poor"]


def test_the_best_is_one_that_kept_both_limits():
    found = [
        outcome("oracle", FLAT + 0.3, spend=100.0),
        outcome("spender", FLAT + 0.2, spend=20.0),
        outcome("hoarder", FLAT + 0.2, held=(2.0,)),
        outcome("good", FLAT + 0.1 + SPREAD),
        outcome("level", FLAT + 0.1 - 2 * SPREAD),
        outcome("poor", FLAT - SPREAD),
    ]
    best, against = best_place(found)
    assert best.policy == "good"
    assert set(against) == {"level", "poor"}
    assert against["poor"].p <= 0.05 < against["level"].p
    assert best_place(found[:3]) == (None, {})


def test_differences_are_taken_seed_by_seed():
    noise = np.random.default_rng(0).normal(0, 0.1, (10, 1))
    one, other = (
        outcome("a", 0.5 + noise + np.zeros((10, 4))),
        outcome("b", 0.49 + noise + np.zeros((10, 4))),
    )
    gap = student(gaps(one, other, "mean"))
    assert gap.mean == pytest.approx(0.01)
    assert gap.half == pytest.approx(0, abs=1e-12)
    assert gap.p == 0 or gap.p < 1e-6
    single = student(gaps(outcome("a", [[0.5]]), outcome("b", [[0.4]]), "best"))
    assert (single.half, single.p) == (None, None)


def test_the_interval_and_the_p_value_agree():
    each = np.random.default_rng(1).normal(0.3, 1.0, (12, 1)) / 100
    one, other = outcome("a", 0.5 + each), outcome("b", np.full((12, 1), 0.5))
    gap = student(gaps(one, other, "best"))
    assert (abs(gap.mean) > gap.half) == (gap.p < 0.05)
    assert gap.half == pytest.approx(
        t_quantile(11, 0.95) * each.std(ddof=1) / np.sqrt(12)
    )


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holms_correction_only_ever_raises_and_keeps_the_order(ps):
    before = {str(i): Difference(0.1, 0.0, 0.2, 3, p) for i, p in enumerate(ps)}
    after = holm(before)
    assert all(after[name].p >= gap.p for name, gap in before.items())
    smallest = min(ps)
    assert min(gap.p for gap in after.values()) == pytest.approx(
        min(1.0, len(ps) * smallest)
    )
    order = sorted(before, key=lambda name: before[name].p)
    assert [after[name].p for name in order] == sorted(gap.p for gap in after.values())


def test_the_mean_is_over_evaluated_rounds():
    one = outcome("a", [[0.2, 0.6, 0.4]])
    assert one.measure("best").tolist() == [0.6]
    assert one.measure("mean").tolist() == pytest.approx([(0.2 + 0.6 + 0.6) / 3])


def test_last_is_the_mean_over_the_last_tenth_of_the_rounds():
    curve = np.linspace(0.0, 0.99, 100)
    assert outcome("a", curve).last.tolist() == pytest.approx([curve[-10:].mean()])
    assert outcome("a", curve[:20], every=5).last.tolist() == pytest.approx(
        [curve[18:20].mean()]
    )  # rounds 95 and 100
    assert outcome("a", curve[:3], every=7).last.tolist() == pytest.approx(
        [curve[2]]
    )  # of 21 rounds one is looked at
    assert outcome("a", [0.9, 0.1]).last.tolist() == [0.1]  # however high it once was
