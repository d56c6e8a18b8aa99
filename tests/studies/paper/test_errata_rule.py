"""Errata of the rule and its settings. Each test fails if its erratum is untrue."""

import re
from pathlib import Path

import numpy as np
import pytest

from headgate.control.policies import Acdpp
from headgate.control.policies.dpp import BentCurve, argmin_on
from headgate.control.policy import PolicyContext
from headgate.control.rehearse import rehearse
from headgate.experiment import load
from headgate.theory import comparison as c
from headgate.theory.bound import BoundConstants, penalty, penalty_curvature, penalty_slope
from headgate.theory.comparison import admission_interval
from headgate.theory.reuse import kstep_uniformity, uniformity
from studies.paper.errata import about_the_rule as errata


@pytest.mark.paper("alg:acdpp", "eq:lambda-min-max")
def test_4_the_first_decision_is_a_burst_or_where_the_penalty_vanishes():
    *first, flat, from_pdim, largest, smallest, printed = errata.first_decision().values()
    assert first[::2] == pytest.approx([100, 1000, 10_000])  # N(0) = Pdim: Λ_max(1)
    assert first[1::2] == pytest.approx([100 / np.e] * 3, abs=0.03)  # N(0) = 0, to the letter
    assert flat == 0  # max(N, Pdim), N(0) = 0: every Λ is a minimiser
    assert smallest < printed < 99 < 101 < largest == pytest.approx(from_pdim, abs=0.2)  # which one is taken decides the budget


def test_4_the_policy_takes_the_largest_minimiser_which_spends_what_N0_at_Pdim_does():
    """The whole policy, in whole samples, beside the grid of the erratum."""
    e = load("mnist", ["run.seeds=150", "run.rounds=100"])
    spent = []
    for N0 in (0.0, e.bound.pdim):
        policy = Acdpp(N0=N0).resolved(PolicyContext(e.system, e.prices, e.bound, e.seeds, e.rounds))
        played = rehearse(e.system, policy, e.prices, e.seeds, e.rounds)
        assert np.all(played.admitted[:, 0] == 100)
        luck = policy.rate * (played.price - e.prices.mean(e.rounds))
        spent.append((played.price * played.admitted - luck).mean() / e.system.budget * 100)
    assert spent == pytest.approx([errata.first_decision()["spend in % of C, T = 100, N(0) = Pdim"]] * 2, abs=0.8)


@pytest.mark.paper("eq:kstep-drop", "alg:acdpp")
def test_36_a_sample_is_used_K_times_only_if_it_is_dropped_after_training():
    uses, n, fewer, less, printed = errata.dropped_before_or_after_training().values()
    assert (uses, n) == (10, printed)
    assert (fewer, less) == (9, 90)
    counts = np.minimum(np.arange(30, 0, -1), fewer)  # uses after 30 rounds of one sample each
    of_formula = kstep_uniformity(np.ones(30), 10)[-1]
    assert uniformity(np.minimum(np.arange(30, 0, -1), uses)) == pytest.approx(of_formula)
    assert uniformity(counts) != pytest.approx(of_formula)


def test_5_the_objective_can_have_two_minima_and_the_nearer_one_can_be_wrong():
    number, near, far = errata.two_minima().values()
    assert number == 2
    assert far < near
    kept, seen, pull, k = 5.0, 100.0, 8.0, BoundConstants(D=30.0)
    objective = BentCurve(
        lambda x: pull * x + penalty(kept + x, seen + x, k),
        lambda x: pull + penalty_slope(kept + x, seen + x, k),
        lambda x: penalty_curvature(kept + x, seen + x, k),
        (np.array([k.pdim - seen]), np.array([k.pdim * 1.7308 - seen])),
    )
    best = argmin_on(objective, np.array([0.0]), np.array([400.0]))
    assert objective.value(best)[0] == pytest.approx(far, rel=1e-9)


@pytest.mark.paper("eq:lambda-min-max")
def test_6_the_interval_soon_holds_no_whole_number():
    (first,) = errata.rounds_without_whole_samples().values()
    lo, hi = admission_interval(first, 100 / 11, 0.9)
    assert 9 < lo < hi < 10


@pytest.mark.paper("eq:optimal-K")
def test_7_the_floor_of_corollary_2_is_feasible_only_where_it_is_the_ceiling():
    ratio, floor, ceiling = errata.floor_of_corollary_2().values()
    assert ceiling <= 60 < floor
    for budget in np.linspace(10, 549, 50):  # the floor with full buffers always costs more than C unless both are one
        up, down = (f(5.5 * 100 / budget) for f in (np.ceil, np.floor))
        assert 5.5 * 100 / up <= budget * (1 + 1e-12)
        assert down == up or 5.5 * 100 / down > budget
    _, down = c.optimal_K(5.5, [100], 60.0)
    assert 5.5 * down.rate == pytest.approx(60.0)  # here its rate is capped
    assert ratio == pytest.approx(9.1667, abs=1e-4)


@pytest.mark.paper("eq:penalty-dpp")
def test_8_with_two_step_sizes_omega_1_is_linear():
    short, long = errata.two_step_sizes().values()
    assert long / short == pytest.approx(10, rel=0.06)
    k = BoundConstants()
    assert k.penalty_step == k.eta
    assert penalty(10, 100, BoundConstants(eta_tilde=2.0)) - penalty(10, 100, k) == pytest.approx(1.5 * 100 * 0.09)
    assert c.oracle_bound([100], 3, BoundConstants(eta_tilde=2.0)) == pytest.approx(c.oracle_bound([100], 3, k))


@pytest.mark.paper("eq:cum-buffer-violation")
def test_9_the_argmin_leaves_open_who_admits():
    even, to_one = errata.all_to_one_client().values()
    assert even == 0
    assert to_one > 45 * 100


@pytest.mark.paper("eq:nc-Nc", "eq:nc-lb")
def test_11_what_is_kept_is_counted_from_the_round_before():
    counted, printed, mended = errata.counted_twice().values()
    assert counted == mended != printed


@pytest.mark.paper("rem:buffer-violation")
def test_23_another_K_for_the_buffers_makes_the_regret_linear():
    shown = list(errata.another_K().values())
    per_round, limit, *overfull, ceiling = shown
    assert per_round == pytest.approx(limit, rel=1e-3)
    assert limit > 50
    assert np.all(np.divide(overfull[1:], overfull[:-1]) > 2)  # with Corollary 2's K: four times T, more than twice as much
    assert overfull[-1] > ceiling  # more than any rule with a fixed ρ = 0.9 ever reaches


def test_4_the_table_of_readings_says_these_numbers():
    """`What the text leaves open` in studies/paper/README.md."""
    page = (Path(__file__).parents[3] / "studies" / "paper" / "README.md").read_text("utf-8")
    said = re.findall(r"^\| (?:Pdim|0)\b.*\| ([\d.]+) \|$", page, re.MULTILINE)
    assert said == [f"{share:.1f}" for share in list(errata.first_decision().values())[-4:]]
