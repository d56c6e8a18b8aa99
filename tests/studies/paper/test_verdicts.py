import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.analysis.intervals import Estimate, estimate
from headgate.analysis.pages import as_json
from headgate.analysis.runs import difference
from headgate.errors import DataError
from headgate.studies.paper import verdicts
from headgate.studies.paper.outcomes import speed_up
from headgate.studies.paper.verdicts import DIRECTION, FAILS, HOLDS, UNDECIDED, UNTESTABLE

from ...analysis.made_up import BUDGET, outcome, ramp


def test_a_gain_as_large_as_claimed_holds():
    ours, other = outcome("acdpp", ramp(5, top=0.9, spread=0.01)), outcome("constant", ramp(5, top=0.86, spread=0.01))
    found = verdicts.gain(ours, other, 3.5)
    assert found.verdict == HOLDS
    assert found.value.mean == pytest.approx(4.0)
    assert found.spend == (BUDGET, BUDGET)


def test_a_gain_that_is_smaller_than_claimed_says_both():
    ours, other = outcome("acdpp", ramp(5, top=0.86)), outcome("constant", ramp(5, top=0.85))
    assert verdicts.gain(ours, other, 3.5).verdict == DIRECTION
    assert verdicts.gain(ours, other, None).verdict == HOLDS
    assert "other way round" in verdicts.gain(other, ours, 3.5).note
    dear = outcome("acdpp", ramp(5, top=0.86), spend=1.5 * BUDGET)
    assert verdicts.gain(dear, other, 3.5).verdict == f"{DIRECTION}, only with overspend of 50 %"


def test_a_gain_that_may_be_none_and_is_too_small_does_not_hold():
    noisy = 0.85 + 0.004 * np.array([[-1.0], [1.0], [-1.0], [1.0]])
    same = outcome("constant", np.full((4, 1), 0.85))
    found = verdicts.gain(outcome("acdpp", noisy), same, 3.5)
    assert (found.verdict, found.value.mean) == (FAILS, pytest.approx(0.0, abs=1e-9))
    assert verdicts.gain(outcome("acdpp", noisy), same, 0.1).verdict == UNDECIDED  # as much as claimed lies in the interval


def test_a_gain_whose_interval_has_the_line_in_it_is_not_decided():
    noisy = np.array([[0.8], [0.9], [0.7], [0.95]])
    found = verdicts.gain(outcome("acdpp", noisy), outcome("constant", noisy[::-1] - 0.01), 1.0)
    assert found.verdict == UNDECIDED
    assert found.value.low < 0 < found.value.high


@pytest.mark.parametrize(
    ("spend", "other", "verdict"),
    [
        (1.0, 1.0, HOLDS),
        (1.019, 1.0, HOLDS),
        (1.49, 1.0, "holds only with overspend of 49 %"),
        (1.49, 0.5, "holds only with overspend of 49 %"),
        (1.49, 1.49, "holds, both over budget (149 % and 149 %)"),
        (2.68, 4.67, "holds, both over budget (268 % and 467 %)"),
        (3.0, 1.5, "holds only with overspend of 100 %"),
    ],
)
def test_money_beyond_budget_and_beyond_the_other_side_is_said(spend, other, verdict):
    ours = outcome("acdpp", ramp(5, top=0.9), spend=spend * BUDGET)
    assert verdicts.gain(ours, outcome("constant", ramp(5, top=0.8), spend=other * BUDGET), 1.0).verdict == verdict


def test_one_seed_is_not_enough():
    assert verdicts.gain(outcome("a", [[0.9]]), outcome("b", [[0.5]]), 1.0).verdict == UNTESTABLE


def test_speed_is_a_ratio_of_first_rounds():
    found = verdicts.faster(outcome("acdpp", ramp(5)), outcome("constant", ramp(10)), 2.0, 0.8)
    assert found.verdict == HOLDS
    assert found.value.mean == pytest.approx(2.0)
    assert "rounds 5 and 10" in found.note
    assert verdicts.faster(outcome("acdpp", ramp(5)), outcome("constant", ramp(10)), 3.5, 0.8).verdict == DIRECTION
    assert verdicts.faster(outcome("acdpp", ramp(10)), outcome("constant", ramp(5)), 3.5, 0.8).verdict == FAILS


def test_a_target_that_the_other_never_reaches_gives_a_lower_bound():
    found = verdicts.faster(outcome("acdpp", ramp(5)), outcome("constant", ramp(10, top=0.6)), 2.0, 0.8)
    assert found.verdict == HOLDS
    assert found.value.mean == pytest.approx(21 / 5)
    assert "lower bound" in found.note


def test_a_lower_bound_cannot_refute():
    found = verdicts.faster(outcome("acdpp", ramp(12)), outcome("constant", ramp(10, top=0.6)), 8.0, 0.8)
    assert (found.verdict, found.at_least, found.value.high) == (HOLDS, True, None)
    late = verdicts.faster(outcome("acdpp", ramp(20), every=2), outcome("constant", ramp(10, top=0.6), every=2), 8.0, 0.8)
    assert late.value.mean == pytest.approx(41 / 40)
    last = outcome("acdpp", ramp(19.5, spread=0.05))  # some draws of the seeds never get there
    found = verdicts.faster(last, outcome("constant", ramp(10, top=0.6)), 8.0, 0.8)
    assert found.verdict == UNTESTABLE
    assert "too short" in found.note


def test_a_target_that_only_the_other_reaches_does_not_hold():
    found = verdicts.faster(outcome("acdpp", ramp(5, top=0.6)), outcome("constant", ramp(10)), 2.0, 0.8)
    assert found.verdict == FAILS
    assert "constant does in round 10" in found.note


def test_a_target_that_nobody_reaches_decides_nothing():
    ours, other = outcome("acdpp", ramp(5, top=0.58)), outcome("constant", ramp(10, top=0.47))
    found = verdicts.faster(ours, other, 2.0, 0.8)
    assert (found.verdict, found.value) == (UNTESTABLE, None)
    assert "neither reaches 80 %" in found.note
    assert "constant ends at 47.0 %" in found.note


def test_sooner_is_asked_at_targets_that_both_reach():
    ours, other = outcome("acdpp", ramp(5, top=0.58)), outcome("constant", ramp(10, top=0.47))
    found = verdicts.sooner(ours, other)
    assert found.verdict == HOLDS
    assert "at 45 %" in found.note
    assert found.value.mean == pytest.approx(2.0, abs=0.05)
    assert verdicts.sooner(other, ours).verdict == FAILS
    flat = outcome("flat", [[0.1, 0.1], [0.1, 0.1]])
    assert verdicts.sooner(flat, flat).verdict == UNTESTABLE


@given(st.floats(0.11, 1.0), st.floats(0.11, 1.0))
def test_the_replaced_target_is_the_highest_step_that_both_reach(a, b):
    ours, other = outcome("a", [[a]]), outcome("b", [[b]])
    target = verdicts.common_target(ours, other)
    assert target <= min(a, b) + 1e-9
    assert target + 1 / verdicts.STEPS > min(a, b) - 1e-9
    assert target == round(target, 2)


def test_never_reaching_needs_somebody_who_does():
    good, bad = outcome("acdpp", ramp(5)), outcome("hybrid", ramp(5, top=0.5))
    assert verdicts.never_reaches(good, bad, 0.7).verdict == HOLDS
    assert verdicts.never_reaches(good, good, 0.7).verdict == FAILS
    assert verdicts.never_reaches(bad, good, 0.7).verdict == FAILS
    nobody = verdicts.never_reaches(outcome("acdpp", ramp(5, top=0.6)), outcome("hybrid", ramp(5, top=0.3)), 0.7)
    assert nobody.verdict == UNTESTABLE
    assert "acdpp ends at 60.0 %" in nobody.note


@pytest.mark.parametrize("rule", [(verdicts.gain, 1.0), (verdicts.faster, 2.0, 0.8), (verdicts.never_reaches, 0.8)])
def test_lost_seeds_are_counted_and_a_lost_side_decides(rule):
    judge, *asked = rule
    ours, other = outcome("acdpp", ramp(5, top=0.9)), outcome("constant", ramp(12, top=0.7))
    partly = outcome("acdpp", ramp(5, top=0.9), lost=(1,))
    assert "3 of 4 seeds: 1 of acdpp diverged" in judge(partly, other, *asked).note
    gone = outcome("acdpp", ramp(5), lost=(0, 1, 2, 3))
    assert judge(gone, other, *asked).verdict == FAILS
    assert judge(ours, gone, *asked).verdict == UNTESTABLE
    for found in (judge(gone, other, *asked), judge(ours, gone, *asked)):
        assert "4 of 4 runs of acdpp diverged" in found.note


def test_close_to_the_oracle_within_two_points():
    oracle = outcome("oracle", ramp(5, top=0.9), spend=100 * BUDGET)
    told = verdicts.below_oracle(outcome("acdpp", ramp(5, top=0.885)), oracle, outcome("constant", ramp(5, top=0.87)))
    assert told.verdict == UNTESTABLE
    assert "50 % of the way" in told.note
    assert verdicts.close_to_oracle(outcome("acdpp", ramp(5, top=0.885)), oracle).verdict == HOLDS
    assert verdicts.close_to_oracle(outcome("acdpp", ramp(5, top=0.87)), oracle).verdict == FAILS
    dear = outcome("acdpp", ramp(5, top=0.89), spend=1.5 * BUDGET)
    assert verdicts.close_to_oracle(dear, oracle).verdict == "holds only with overspend of 50 %"


def test_close_is_not_decided_on_the_line():
    oracle = outcome("oracle", np.full((4, 1), 0.9), spend=100 * BUDGET)
    near = outcome("acdpp", 0.88 + 0.004 * np.array([[-1.0], [1.0], [-1.0], [1.0]]))
    assert verdicts.close_to_oracle(near, oracle).verdict == UNDECIDED


def test_constraints():
    good = outcome("acdpp", ramp(5), spend=1.01 * BUDGET, held=(1.0,))
    bad = outcome("acdpp", ramp(5), spend=1.2 * BUDGET, held=(0.5, 2.0))
    for judge in (verdicts.keeps_budget, verdicts.keeps_buffers, verdicts.never_above_buffers):
        assert judge(good).verdict == HOLDS
        assert judge(bad).verdict == FAILS
    mixed = outcome("acdpp", ramp(5), held=(1.5, 0.5))
    assert verdicts.keeps_buffers(mixed).verdict == HOLDS
    assert verdicts.never_above_buffers(mixed).verdict == FAILS


def test_money_is_what_was_really_spent():
    """Dear prices are not taken out again: who buys less then, or more, would be judged by another's luck."""
    assert verdicts.keeps_budget(outcome("constant", ramp(5), price=1.1)).verdict == FAILS
    lucky = outcome("acdpp", ramp(5), price=np.array([[0.9], [1.1], [0.8], [1.2]]))
    found = verdicts.keeps_budget(lucky)
    assert (found.value.mean, found.verdict) == (pytest.approx(100.0), UNDECIDED)
    longer = outcome("acdpp", ramp(5, rounds=60), spend=1.018 * BUDGET)
    assert "20 rounds; 101.8 (101.8 … 101.8) % over 60" in verdicts.keeps_budget(lucky, longer).note


def test_constraints_are_judged_although_all_models_are_lost():
    lost = outcome("acdpp", ramp(5), spend=1.2 * BUDGET, lost=(0, 1, 2, 3))
    assert verdicts.keeps_budget(lost).verdict == FAILS


def test_debt_that_grows_is_not_stable():
    flat = outcome("acdpp", ramp(5), debt=np.full(20, 50.0))
    grows = outcome("acdpp", ramp(5), debt=np.arange(20) * 5.0)
    assert verdicts.debt_is_stable(flat).verdict == HOLDS
    assert verdicts.debt_is_stable(grows).verdict == FAILS
    for small in (0.0, np.repeat([0.0, 0.0, 0.0, 1.0], 5), np.repeat([1.0, 1.0, 1.0, 2.0], 5)):
        found = verdicts.debt_is_stable(outcome("acdpp", ramp(5), debt=small))
        assert found.verdict == HOLDS
        assert np.isfinite(found.value.mean)


def test_what_is_not_finite_never_gets_into_json():
    with pytest.raises(ValueError, match="JSON"):
        as_json({"value": float("inf")})


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
    assert found.low <= found.mean + 1e-9
    assert found.mean <= found.high + 1e-9


def test_a_target_is_crossed_between_two_looks():
    ours, other = outcome("a", [[0.5, 0.7]] * 2, every=5), outcome("b", [[0.4, 0.6]] * 2, every=5)
    assert speed_up(ours, other, 0.6).mean == pytest.approx(10 / 7.5)


def test_speed_ups_of_differing_seeds_have_an_interval():
    ours, other = outcome("a", ramp(5, spread=0.1, seeds=20)), outcome("b", ramp(12, spread=0.1, seeds=20)[::-1])
    found = speed_up(ours, other, 0.75)
    assert found.low < found.high
    assert found.low <= found.mean <= found.high
    assert found == speed_up(ours, other, 0.75)  # the resampling is addressed, not drawn


def test_the_interval_of_a_speed_up_holds_the_truth_about_as_often_as_it_says():
    """Twenty seeds of noisy ramps, many times over: 80 % are promised."""
    generator, t, held = np.random.default_rng(5), np.arange(1, 61), 0
    truth = 24 / 12
    for _ in range(60):
        noise = generator.normal(1.0, 0.15, (2, 20, 1)) + generator.normal(0.0, 0.01, (2, 20, 60))
        fast, slow = (np.clip(t / first * 0.8 * each, 0, 0.95) for first, each in zip((12, 24), noise, strict=True))
        found = speed_up(outcome("a", fast), outcome("b", slow), 0.8)
        held += found.low <= truth <= found.high
    assert 0.68 <= held / 60 <= 0.95


def test_an_estimate_of_equal_values_has_no_width():
    assert estimate(np.array([0.5, 0.5, 0.5])) == Estimate(0.5, 0.5, 0.5, 3)
