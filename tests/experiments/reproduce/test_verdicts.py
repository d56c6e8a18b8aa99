import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import DataError
from headgate.experiments.reproduce import verdicts
from headgate.experiments.reproduce.outcomes import difference, estimate, speed_up
from headgate.experiments.reproduce.verdicts import FAILS, HOLDS, UNTESTABLE

from .made_up import BUDGET, outcome, ramp


def test_a_gain_as_large_as_claimed_holds():
    ours, other = outcome("acdpp", ramp(5, top=0.9, spread=0.01)), outcome("constant", ramp(5, top=0.86, spread=0.01))
    found = verdicts.gain(3.5)(ours, other)
    assert found.verdict == HOLDS
    assert found.value.mean == pytest.approx(4.0)
    assert found.spend == (BUDGET, BUDGET)


def test_a_gain_of_less_than_half_the_claim_does_not_hold():
    ours, other = outcome("acdpp", ramp(5, top=0.86)), outcome("constant", ramp(5, top=0.85))
    found = verdicts.gain(3.5)(ours, other)
    assert found.verdict == FAILS
    assert "less than half" in found.note
    assert verdicts.gain(None)(ours, other).verdict == HOLDS
    assert "other way round" in verdicts.gain(3.5)(other, ours).note


def test_a_gain_within_its_interval_does_not_hold():
    noisy = np.array([[0.8], [0.9], [0.7], [0.95]])
    found = verdicts.gain(1.0)(outcome("acdpp", noisy), outcome("constant", noisy[::-1] - 0.01))
    assert found.verdict == FAILS
    assert found.value.low < 0 < found.value.high


@pytest.mark.parametrize(
    ("spend", "other", "verdict"),
    [
        (1.0, 1.0, HOLDS),
        (1.019, 1.0, HOLDS),
        (1.49, 1.0, "holds only with overspend of 49 %"),
        (1.49, 0.5, "holds only with overspend of 49 %"),
        (1.49, 1.49, HOLDS),
        (3.0, 1.5, "holds only with overspend of 100 %"),
    ],
)
def test_money_beyond_budget_and_beyond_the_other_side_is_said(spend, other, verdict):
    ours = outcome("acdpp", ramp(5, top=0.9), spend=spend * BUDGET)
    assert verdicts.gain(1.0)(ours, outcome("constant", ramp(5, top=0.8), spend=other * BUDGET)).verdict == verdict


def test_one_seed_is_not_enough():
    assert verdicts.gain(1.0)(outcome("a", [[0.9]]), outcome("b", [[0.5]])).verdict == UNTESTABLE


def test_speed_is_a_ratio_of_first_rounds():
    found = verdicts.faster(2.0, 0.8)(outcome("acdpp", ramp(5)), outcome("constant", ramp(10)))
    assert found.verdict == HOLDS
    assert found.value.mean == 2.0
    assert "rounds 5 and 10" in found.note
    assert verdicts.faster(3.5, 0.8)(outcome("acdpp", ramp(5)), outcome("constant", ramp(10))).verdict == FAILS


def test_a_target_that_the_other_never_reaches_gives_a_lower_bound():
    found = verdicts.faster(2.0, 0.8)(outcome("acdpp", ramp(5)), outcome("constant", ramp(10, top=0.6)))
    assert found.verdict == HOLDS
    assert found.value.mean == pytest.approx(21 / 5)
    assert "lower bound" in found.note


def test_a_target_that_only_the_other_reaches_does_not_hold():
    found = verdicts.faster(2.0, 0.8)(outcome("acdpp", ramp(5, top=0.6)), outcome("constant", ramp(10)))
    assert found.verdict == FAILS
    assert found.value is None


def test_a_target_that_nobody_reaches_is_replaced():
    ours, other = outcome("acdpp", ramp(5, top=0.58)), outcome("constant", ramp(10, top=0.47))
    found = verdicts.faster(2.0, 0.8)(ours, other)
    assert "compared at 45 %" in found.note
    assert found.value.mean == pytest.approx(2.0)
    flat = outcome("flat", [[0.1, 0.1], [0.1, 0.1]])
    assert verdicts.faster(2.0, 0.8)(flat, flat).verdict == UNTESTABLE


@given(st.floats(0.11, 1.0), st.floats(0.11, 1.0))
def test_the_replaced_target_is_the_highest_step_that_both_reach(a, b):
    ours, other = outcome("a", [[a]]), outcome("b", [[b]])
    target = verdicts.common_target(ours, other)
    assert target <= min(a, b) + 1e-6
    assert target + verdicts.STEP > min(a, b) - 1e-6


def test_never_reaching_needs_somebody_who_does():
    good, bad = outcome("acdpp", ramp(5)), outcome("hybrid", ramp(5, top=0.5))
    assert verdicts.never_reaches(0.7)(good, bad).verdict == HOLDS
    assert verdicts.never_reaches(0.7)(good, good).verdict == FAILS
    assert verdicts.never_reaches(0.7)(bad, bad).verdict == UNTESTABLE


def test_close_to_the_oracle_within_two_points():
    oracle = outcome("oracle", ramp(5, top=0.9), spend=100 * BUDGET)
    assert verdicts.close_to_oracle(outcome("acdpp", ramp(5, top=0.885)), oracle).verdict == HOLDS
    assert verdicts.close_to_oracle(outcome("acdpp", ramp(5, top=0.87)), oracle).verdict == FAILS
    dear = outcome("acdpp", ramp(5, top=0.89), spend=1.5 * BUDGET)
    assert verdicts.close_to_oracle(dear, oracle).verdict == "holds only with overspend of 50 %"


def test_constraints():
    good = outcome("acdpp", ramp(5), spend=1.01 * BUDGET, held=(1.0,))
    bad = outcome("acdpp", ramp(5), spend=1.2 * BUDGET, held=(0.5, 2.0))
    for judge in (verdicts.keeps_budget, verdicts.keeps_buffers, verdicts.never_above_buffers):
        assert judge(good, good).verdict == HOLDS
        assert judge(bad, bad).verdict == FAILS
    mixed = outcome("acdpp", ramp(5), held=(1.5, 0.5))
    assert verdicts.keeps_buffers(mixed, mixed).verdict == HOLDS
    assert verdicts.never_above_buffers(mixed, mixed).verdict == FAILS


def test_debt_that_grows_is_not_stable():
    flat = outcome("acdpp", ramp(5), debt=np.full(20, 50.0))
    grows = outcome("acdpp", ramp(5), debt=np.arange(20) * 5.0)
    assert verdicts.debt_is_stable(flat, flat).verdict == HOLDS
    assert verdicts.debt_is_stable(grows, grows).verdict == FAILS
    none = outcome("acdpp", ramp(5), debt=0.0)
    assert verdicts.debt_is_stable(none, none).verdict == HOLDS


# Numbers


@given(st.lists(st.floats(0, 1), min_size=2, max_size=6), st.floats(-0.3, 0.3))
def test_a_shift_of_every_seed_is_a_gain_without_doubt(values, shift):
    ours, other = outcome("a", np.array(values)[:, None] + shift), outcome("b", np.array(values)[:, None])
    found = difference(ours, other)
    assert found.mean == pytest.approx(shift, abs=1e-12)
    assert found.high - found.low < 1e-9


def test_seeds_are_paired_by_name_not_by_place():
    ours = outcome("a", [[0.5], [0.7], [0.9]], seeds=(0, 1, 2))
    other = outcome("b", [[0.6], [0.8]], seeds=(1, 2))
    found = difference(ours, other)
    assert (found.mean, found.low, found.high) == (pytest.approx(0.1), pytest.approx(0.1), pytest.approx(0.1))


def test_running_bests_of_different_rounds_are_not_compared():
    often, seldom = outcome("a", [[0.5, 0.6]]), outcome("b", [[0.6]], every=2)
    for compare in (difference, lambda a, b: speed_up(a, b, 0.5)):
        with pytest.raises(DataError, match="evaluated in different rounds"):
            compare(often, seldom)


@given(st.integers(1, 19), st.integers(1, 19))
def test_speed_up_and_slow_down_are_inverse(a, b):
    ours, other = outcome("a", ramp(a)), outcome("b", ramp(b))
    assert speed_up(ours, other, 0.8).mean * speed_up(other, ours, 0.8).mean == pytest.approx(1.0)
    found = speed_up(ours, other, 0.8)
    assert found.low <= found.mean <= found.high


def test_an_estimate_of_equal_values_has_no_width():
    assert estimate(np.array([0.5, 0.5, 0.5])) == (0.5, 0.5, 0.5)
