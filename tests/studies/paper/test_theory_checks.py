from dataclasses import replace

import pytest

from headgate.experiment import load
from headgate.studies.paper import theory_checks
from headgate.studies.paper.theory_claims import theory_rows
from headgate.studies.paper.verdicts import FAILS, HOLDS, NOT_RUN, UNTESTABLE
from headgate.studies.theory.rates import measure
from headgate.theory.reuse import ck_uniformity


@pytest.fixture(scope="module")
def checks():
    return theory_checks.check(quick=True)


@pytest.fixture(scope="module")
def rates():
    experiment, policy = theory_checks.rehearsed(quick=True)
    return measure(experiment, policy, theory_checks.check_horizons(quick=True), 0.5, 0.5)


def test_the_printed_uniformity_is_off_by_what_erratum_1_says():
    assert theory_checks.printed_uniformity_error(5, 20) >= abs(0.86170 / ck_uniformity(5, 20) - 1) - 1e-4
    assert theory_checks.printed_uniformity_error(1, 20) == pytest.approx(0, abs=1e-12)  # without reuse there is no deficit


def test_the_floor_of_corollary_2_costs_too_much():
    assert 1.0 < theory_checks.dearest_candidate(load("mnist")) < 1.2


def test_fresh_samples_are_best_only_above_pdim():
    experiment = load("mnist")
    assert theory_checks.fresh_over_stale(experiment, 7850.0) < 1
    assert theory_checks.fresh_over_stale(experiment, 100.0) > 1


def test_a_constant_memory_is_best_long_after_the_beginning():
    assert theory_checks.uneven_over_constant(load("mnist").bound) > 1


def test_every_check_becomes_a_row_with_its_number(rates, checks):
    rows = {row.key.removeprefix("theory-"): row for row in theory_rows(rates, checks, None, "c")}
    assert (rows["corollary1"].written.verdict, rows["corollary2"].written.verdict) == (FAILS, FAILS)
    assert (rows["fresh"].written.verdict, rows["constant-n"].written.verdict) == (FAILS, HOLDS)
    assert rows["lemma1"].written.value.high == rows["lemma1"].written.value.mean
    assert rows["inequality"].written.verdict == NOT_RUN
    for key in ("any-regret", "any-vio", "fixed-regret", "fixed-vio", "planned-buffer"):
        assert rows[key].written.verdict != NOT_RUN
        assert rows[key].released.verdict == UNTESTABLE
    assert rows["buffer_violation"].own
    assert not rows["planned-buffer"].own


def test_a_lemma_that_is_broken_once_is_broken(rates, checks):
    over = replace(rates.points[0], lemma1=1.01)
    rows = theory_rows(replace(rates, points=(over, *rates.points[1:])), checks, None, "c")
    assert next(row for row in rows if row.key == "theory-lemma1").written.verdict == FAILS
