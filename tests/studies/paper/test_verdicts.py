from dataclasses import replace

import numpy as np
import pytest

from headgate.analysis.runs import gaps
from studies.pages import compact
from studies.paper import verdicts
from studies.paper.verdicts import (
    DIRECTION,
    FAILS,
    HOLDS,
    NOT_RUN,
    SIZE,
    UNDECIDED,
    UNTESTABLE,
)

from ...analysis.made_up import BUDGET, outcome, ramp
from .made_up_sides import control, side

NOISE = np.array([[-1.0], [1.0], [-1.0], [1.0], [-1.0], [1.0]])


def test_a_gain_that_may_be_none_and_is_too_small_holds_in_no_way():
    noisy, same = (
        side("acdpp", 0.85 + 0.004 * NOISE),
        side("constant", np.full((6, 1), 0.85)),
    )
    found = verdicts.gain(noisy, same, 3.5)
    assert (found.verdict, found.value.mean) == (SIZE, pytest.approx(0.0, abs=1e-9))
    assert (
        verdicts.gain(noisy, same, 0.1).verdict == UNDECIDED
    )  # as much as claimed is possible


def test_a_difference_too_small_to_matter_is_none_however_clear():
    """As on CIFAR-10: a tenth of a point below decides nothing."""
    small, other = (
        side("acdpp", 0.849 + 1e-5 * NOISE),
        side("constant", np.full((6, 1), 0.85)),
    )
    found = verdicts.gain(small, other, None)
    assert found.tests[0] < 1e-6
    assert (found.verdict, found.note) == (UNDECIDED, "")
    assert (
        verdicts.gain(side("acdpp", 0.847 + 1e-5 * NOISE), other, None).verdict == FAILS
    )


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
    ours = side("acdpp", ramp(5, top=0.9), spend=spend * BUDGET)
    assert (
        verdicts.gain(
            ours, side("constant", ramp(5, top=0.8), spend=other * BUDGET), 1.0
        ).verdict
        == verdict
    )


def test_one_seed_is_not_enough():
    assert (
        verdicts.gain(side("a", [[0.9]]), side("b", [[0.5]]), 1.0).verdict == UNTESTABLE
    )


@pytest.mark.parametrize(
    ("ours", "other", "claimed", "verdict", "value", "said"),
    [
        ((5, 0.9), (10, 0.9), 2.0, HOLDS, 2.0, "rounds 5.0 and 10.0"),
        ((5, 0.9), (10, 0.9), 3.5, DIRECTION, 2.0, ""),
        ((10, 0.9), (5, 0.9), 3.5, FAILS, 0.5, ""),
        (
            (5, 0.9),
            (10, 0.6),
            8.0,
            HOLDS,
            21 / 5,
            "4 of 4 runs of constant never get there",
        ),  # it cannot refute a larger one
        (
            (5, 0.6),
            (10, 0.9),
            2.0,
            FAILS,
            10 / 21,
            "4 of 4 runs of acdpp never get there",
        ),
        (
            (5, 0.58),
            (10, 0.47),
            2.0,
            UNTESTABLE,
            None,
            "no run reaches 80 % in 20 rounds",
        ),
    ],
)
def test_speed_is_a_ratio_of_first_rounds(ours, other, claimed, verdict, value, said):
    made = (
        side(name, ramp(at, top=top))
        for name, (at, top) in (("acdpp", ours), ("constant", other))
    )
    found = verdicts.faster(*made, claimed, 0.8)
    assert (found.verdict, found.value and round(found.value.mean, 6)) == (
        verdict,
        value and round(value, 6),
    )
    assert said in found.note
    assert found.at_least == (other[1] < 0.8 <= ours[1])
    assert (found.value is None or found.value.high is None) == (other[1] < 0.8)


def test_sooner_is_asked_at_the_highest_target_that_every_run_reaches():
    ours, other = side("acdpp", ramp(5, top=0.58)), side("constant", ramp(10, top=0.47))
    found = verdicts.sooner(ours, other)
    assert found.verdict == HOLDS
    assert "at 45 %" in found.note
    assert found.value.mean == pytest.approx(2.0, abs=0.05)
    assert verdicts.sooner(other, ours).verdict == FAILS
    one_late = np.vstack([ramp(10, top=0.47), ramp(10, top=0.42)])
    assert "at 40 %" in verdicts.sooner(ours, side("constant", one_late)).note
    flat = side("flat", [[0.1, 0.1], [0.1, 0.1]])
    assert verdicts.sooner(flat, flat).verdict == UNTESTABLE


def test_without_published_rounds_speed_is_not_judged():
    ours, other = (
        replace(side(name, ramp(5)), first=None) for name in ("acdpp", "constant")
    )
    for found in (verdicts.sooner(ours, other), verdicts.faster(ours, other, 2.0, 0.8)):
        assert (found.verdict, found.note) == (
            NOT_RUN,
            "the rounds of single seeds are not published",
        )
    assert verdicts.gain(ours, other, None).verdict == UNDECIDED  # final accuracies are


def test_never_reaching_needs_somebody_who_does():
    good, bad = side("acdpp", ramp(5)), side("hybrid", ramp(5, top=0.5))
    assert verdicts.never_reaches(good, bad, 0.7).verdict == HOLDS
    assert verdicts.never_reaches(good, good, 0.7).verdict == FAILS
    assert verdicts.never_reaches(bad, good, 0.7).verdict == FAILS
    nobody = verdicts.never_reaches(
        side("acdpp", ramp(5, top=0.6)), side("hybrid", ramp(5, top=0.3)), 0.7
    )
    assert nobody.verdict == UNTESTABLE
    assert "acdpp ends at 60.0 %" in nobody.note


@pytest.mark.parametrize(
    "rule",
    [(verdicts.gain, 1.0), (verdicts.faster, 2.0, 0.8), (verdicts.never_reaches, 0.8)],
)
def test_lost_seeds_are_counted_and_a_lost_side_decides(rule):
    judge, *asked = rule
    ours, other = side("acdpp", ramp(5, top=0.9)), side("constant", ramp(12, top=0.7))
    partly = side("acdpp", ramp(5, top=0.9), lost=(1,))
    assert "3 of 4 seeds: 1 of acdpp diverged" in judge(partly, other, *asked).note
    gone = side("acdpp", ramp(5), lost=(0, 1, 2, 3))
    assert judge(gone, other, *asked).verdict == FAILS
    assert judge(ours, gone, *asked).verdict == UNTESTABLE
    for found in (judge(gone, other, *asked), judge(ours, gone, *asked)):
        assert "4 of 4 runs of acdpp diverged" in found.note


def test_close_to_the_oracle_within_two_points():
    oracle = side("oracle", ramp(5, top=0.9), spend=100 * BUDGET)
    told = verdicts.below_oracle(
        side("acdpp", ramp(5, top=0.885)), oracle, side("constant", ramp(5, top=0.87))
    )
    assert told.verdict == UNTESTABLE
    assert "50 (50 … 50) % of the way" in told.note
    assert (
        verdicts.close_to_oracle(side("acdpp", ramp(5, top=0.885)), oracle).verdict
        == HOLDS
    )
    assert (
        verdicts.close_to_oracle(side("acdpp", ramp(5, top=0.87)), oracle).verdict
        == FAILS
    )
    dear = side("acdpp", ramp(5, top=0.89), spend=1.5 * BUDGET)
    assert (
        verdicts.close_to_oracle(dear, oracle).verdict
        == "holds only with overspend of 50 %"
    )
    near = side("acdpp", 0.88 + 0.004 * NOISE)
    assert (
        verdicts.close_to_oracle(near, side("oracle", np.full((6, 1), 0.9))).verdict
        == UNDECIDED
    )


# Constraints


def test_constraints_are_on_expectations():
    good = [control(spend=1.01 * BUDGET)]
    bad = [
        control(
            spend=1.2 * BUDGET,
            fullest=(1.25, 0.001),
            peak_share=2.0,
            growth=(5.0, 0.01),
        )
    ]
    rules = (
        verdicts.keeps_budget,
        verdicts.keeps_buffers,
        verdicts.never_above_buffers,
        verdicts.debt_is_stable,
    )
    for judge in rules:
        assert judge(good).verdict == HOLDS
        assert judge(bad).verdict == FAILS
    assert verdicts.keeps_buffers([control(peak_share=2.0)]).verdict == HOLDS
    assert (
        verdicts.keeps_budget([control(spend=1.021 * BUDGET, error=0.02)]).verdict
        == UNDECIDED
    )
    assert verdicts.debt_is_stable([control(growth=None)]).verdict == UNTESTABLE


def test_the_budget_is_shown_by_horizon():
    found = verdicts.keeps_budget(
        [control(spend=1.03 * BUDGET), control(spend=1.01 * BUDGET, rounds=40)]
    )
    assert (found.verdict, found.value.mean) == (FAILS, pytest.approx(103.0))
    assert found.note == "T = 20; 101.0 (101.0 … 101.0) % at T = 40"


def test_what_is_not_finite_never_gets_into_json():
    with pytest.raises(ValueError, match="JSON"):
        compact({"value": float("inf")})


def test_seeds_are_paired_by_name_and_bests_at_equal_rounds():
    ours = outcome("a", [[0.5], [0.7], [0.9]], seeds=(0, 1, 2))
    assert gaps(ours, outcome("b", [[0.6], [0.8]], seeds=(1, 2))) == pytest.approx(
        [0.1, 0.1]
    )
    assert gaps(outcome("a", [[0.5, 0.6]]), outcome("b", [[0.6]], every=2)).size == 0
