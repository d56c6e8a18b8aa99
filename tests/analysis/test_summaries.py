"""Summaries of runs, against numbers worked out by hand, and the sentence that says
what to take from them.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student_t

from headgate.analysis.intervals import Estimate, means, p_value, t_quantile
from headgate.analysis.limits import HELD, conclusion
from headgate.analysis.report import write_report
from headgate.analysis.runs import MEASURES, read_runs
from headgate.analysis.summary import columns
from headgate.errors import DataError, SettingError
from headgate.records.reader import RunFolder

from .made_up import outcome, ramp
from .run_folders import WICKED, Page, policy_summaries, rows, small, write


def test_student_s_quantile_is_exact_for_every_number_of_seeds():
    for seeds in range(2, 201):
        for level in (0.8, 0.95):
            expected = student_t.ppf((1 + level) / 2, seeds - 1)
            assert t_quantile(seeds - 1, level) == pytest.approx(expected, rel=1e-9)
            assert p_value(expected, seeds - 1) == pytest.approx(1 - level, rel=1e-9)


def test_means_leave_out_what_was_not_measured():
    mean, half = means(
        np.array([[1.0, np.nan, np.nan, np.inf], [3.0, 4.0, np.nan, 1.0]])
    )
    assert mean[:2] == pytest.approx([2, 4])
    assert half[0] == pytest.approx(t_quantile(1) * np.sqrt(2) / np.sqrt(2))
    assert np.isnan([*half[1:], mean[2]]).all()  # one value, none, an infinite one
    assert np.isinf(mean[3])


def test_summaries_by_hand(tmp_path):
    a, wicked, lost = policy_summaries(small(tmp_path / "run"), target=0.65)
    assert (a.policy, a.runs, a.lost, a.rounds, a.budget) == ("a", 3, 1, 4, 10.0)
    assert a.last_accuracy == Estimate(0.6, 0.6, 0.6, 2)
    best = a.best_accuracy
    assert (best.mean, best.half, best.runs) == pytest.approx(
        (0.7, 3.0777 * 0.1, 2), rel=1e-4
    )  # 0.6 and 0.8: error 0.1
    assert (best.low, best.high) == pytest.approx((0.39223, 1.00777), rel=1e-4)
    assert a.mean_accuracy.mean == pytest.approx(
        ((0.5 + 0.5 + 0.6) / 3 + (0.7 + 0.8 + 0.8) / 3) / 2
    )  # best so far
    assert (a.reached, a.first_round) == (1, 2.0)  # seed 1, in round 2
    assert (
        wicked.runs,
        wicked.lost,
        wicked.reached,
        wicked.first_round,
        wicked.cost_violation,
    ) == (1, 0, 0, None, 0.0)
    assert wicked.best_accuracy == Estimate(0.3, None, None, 1)
    assert (
        wicked.buffer_violation,
        wicked.peak_excess,
        wicked.n_eff,
        wicked.bound,
    ) == (0.0, -3, None, None)
    assert (wicked.runs_over_budget, wicked.dearest_share, wicked.kept_limits) == (
        0,
        0.5,
        True,
    )
    assert (lost.runs, lost.lost, lost.rounds) == (1, 1, 4)
    assert {getattr(lost, f"{name}_accuracy") for name in MEASURES} == {None}


def test_money_and_memory_of_a_lost_run_count(tmp_path):
    """The summary used to leave them out, and the comparison did not: two numbers for
    one thing.
    """
    a, _, lost = policy_summaries(small(tmp_path / "run"))
    assert (a.spend_per_round, a.spend_share) == pytest.approx(
        ((10 + 12 + 900) / 3, (10 + 12 + 900) / 30)
    )
    assert a.cost_violation == pytest.approx((40 + 48 + 3600) / 3 - 4 * 10)
    assert a.buffer_violation == pytest.approx(
        (20 + 18 + 1000) / 3 - 16 + (20 + 26 + 1000) / 3 - 24
    )
    assert (a.peak_n, a.peak_excess) == (500, 246)
    assert (a.runs_over_budget, a.dearest_share, a.kept_limits) == (2, 90.0, False)
    assert (lost.spend_per_round, lost.runs_over_budget, lost.dearest_share) == (
        1.0,
        0,
        0.1,
    )


def test_without_a_target_nothing_is_said_of_it(tmp_path):
    run = small(tmp_path / "run")
    assert {(s.reached, s.first_round) for s in policy_summaries(run)} == {(0, None)}
    assert "Round at" not in " ".join(columns(None).values())
    for target in (0.0, 90.0):
        with pytest.raises(SettingError, match=f"target = {target:g}"):
            policy_summaries(run, target)


def test_what_to_take_from_a_run_is_said_in_a_sentence(tmp_path):
    a, wicked, lost = read_runs([small(tmp_path / "run")])
    so_far = "So far, in 4 of 4 rounds, before all runs have begun: "
    broken = f"Not ranked, because a limit was broken: a (money and memory). {HELD}"
    assert (
        conclusion([a, wicked, lost])
        == f"{so_far}Best test accuracy within the limits: {WICKED} (30.0 %). {broken}"
        " What each client held was not recorded, so of memory nothing is known."
    )
    assert conclusion([a, wicked]).startswith(
        f"{so_far}Best test accuracy within the limits: {WICKED} (30.0 %), the only one"
        " that kept both limits in every run. "
    )
    assert conclusion([a]) == f"Nobody kept both limits in every run. {broken}"
    assert (
        conclusion([wicked])
        == f"{so_far}Best test accuracy within the limits: {WICKED} (30.0 %)."
    )
    assert conclusion([lost]).startswith(
        f"{so_far}lost kept both limits, no accuracy is known."
    )
    assert conclusion([]) == ""


def test_policies_are_told_apart_or_not(tmp_path):
    """Seed by seed, by the paired interval; a reference is never the best."""
    steady = ramp(5, spread=0.01)
    oracle, good = (
        outcome("oracle", steady + 0.2, spend=100.0),
        outcome("good", steady + 0.05),
    )
    poor, level = (
        outcome("poor", steady),
        outcome("level", steady + 0.05 + 0.002 * np.array([[1], [-1], [1], [-2]])),
    )
    assert (
        conclusion([oracle, good, poor])
        == "Best test accuracy within the limits: good (95.0 ± 0.7 %), +5.0 ± 0.0"
        " points ahead of poor, seed by seed."
    )
    assert "good (95.0 ± 0.7 %), not distinguishable from level" in conclusion(
        [oracle, good, level, poor]
    )
    assert conclusion([oracle]) == ""


def test_runs_of_different_data_are_not_ranked_together(tmp_path):
    mnist, digits = (
        replace(outcome(name, ramp(5)), data=name) for name in ("mnist", "digits")
    )
    said = conclusion([mnist, digits])
    assert "mnist: Best test accuracy within the limits: mnist (90.0 ± 0.0 %)." in said
    assert (
        "digits: Best test accuracy within the limits: digits (90.0 ± 0.0 %)." in said
    )
    assert "ahead" not in said


def test_a_running_run_counts_up_to_the_last_common_round(tmp_path):
    metrics = [
        *rows("a", 0, spend=[10.0, 20.0, 30.0]),
        *rows("a", 1, spend=[10.0, 20.0]),
    ]
    run = write(
        tmp_path / "run",
        metrics,
        [],
        rounds=9,
        policies=["a", "b"],
        seeds=[0, 1],
        state="running",
    )
    a, b = policy_summaries(RunFolder.open(run))
    assert (
        a.runs,
        a.rounds,
        a.spend_per_round,
        a.cost_violation,
        a.buffer_violation,
    ) == (2, 2, 15.0, 10.0, None)
    assert (b.runs, b.rounds) == (0, 0)
    (told,) = Page(
        write_report([RunFolder.open(run)], tmp_path / "r.html").read_text()
    ).data["runs"]
    assert (told["state"], told["round"], told["rounds"]) == ("interrupted", 9, 9)


def test_rounds_that_are_missing_are_refused(tmp_path):
    metrics = rows("a", 3, spend=[1.0] * 4)
    del metrics[1]
    run = write(
        tmp_path / "run",
        metrics,
        [],
        rounds=4,
        policies=["a"],
        seeds=[3],
        state="running",
    )
    with pytest.raises(
        DataError, match="metrics of policy a, seed 3: rounds are missing, 3 of 1 to 4"
    ):
        policy_summaries(RunFolder.open(run))
    empty = write(
        tmp_path / "empty",
        rows("a", 3, spend=[None]),
        [],
        rounds=4,
        policies=["a"],
        seeds=[3],
        state="running",
    )
    with pytest.raises(DataError, match="spend is empty"):
        policy_summaries(RunFolder.open(empty))
