from dataclasses import replace

import numpy as np
import pytest

from headgate.experiment import load
from headgate.theory.reuse import ck_uniformity
from studies.paper import theory_checks
from studies.paper.theory_claims import of_checks, of_rates, theory_rows
from studies.paper.verdicts import FAILS, HOLDS, NOT_RUN, UNTESTABLE, VACUOUS
from studies.theory.rates import measure


@pytest.fixture(scope="module")
def checks():
    return theory_checks.check(quick=True)


@pytest.fixture(scope="module")
def rates():
    return measure(*theory_checks.rehearsed(2), theory_checks.check_horizons(quick=True), 0.5, 0.5)


def test_the_printed_uniformity_is_off_by_what_erratum_1_says():
    assert theory_checks.printed_uniformity_error(5, 20) >= abs(0.86170 / ck_uniformity(5, 20) - 1) - 1e-4
    assert theory_checks.printed_uniformity_error(1, 20) == pytest.approx(0, abs=1e-12)  # without reuse there is no deficit


def test_the_floor_of_corollary_2_costs_too_much():
    assert 1.0 < theory_checks.dearest_candidate(load("mnist")) < 1.2


def test_a_constant_memory_is_best_long_after_the_beginning():
    assert theory_checks.uneven_over_constant(load("mnist").bound) > 1


def test_every_check_becomes_a_row_with_its_number(rates, checks):
    found = {**of_rates(rates), **of_checks(rates, checks)}
    rows = {row.key.removeprefix("theory-"): row for row in theory_rows(found, "c")}
    assert (rows["corollary1"].written.verdict, rows["corollary2"].written.verdict) == (FAILS, FAILS)
    assert (rows["fresh"].written.verdict, rows["constant-n"].written.verdict) == (FAILS, HOLDS)
    assert rows["lemma1"].written.value.high == rows["lemma1"].written.value.mean
    assert rows["inequality"].written.verdict == NOT_RUN
    assert rows["fixed-regret"].written.verdict == VACUOUS
    for key in ("any-regret", "any-vio", "any-regret-rate", "any-vio-rate", "fixed-regret", "fixed-vio", "planned-buffer"):
        assert rows[key].written.verdict != NOT_RUN
        assert rows[key].released.verdict == UNTESTABLE
    for key in ("sublinear", "any-regret"):  # whatever the verdict
        assert "difference of two upper bounds" in rows[key].written.note
    assert rows["buffer_violation"].own
    assert not rows["planned-buffer"].own


def test_a_lemma_that_is_broken_once_is_broken(rates, checks):
    for broken in (1.01, np.inf):
        over = replace(rates.points[0], lemma1=broken)
        found, _ = of_checks(replace(rates, points=(over, *rates.points[1:])), checks)["lemma1"]
        assert found.verdict == FAILS
        assert np.isfinite(found.value.three).all()
    assert "infinite at 1 of" in found.note


def test_any_gamma_and_phi_is_asked_where_it_can_break(rates, checks):
    assert {(0.1, 0.8), (0.1, 0.9)} <= {(other.gamma, other.phi) for other in checks.other}
    broken = replace(checks.other[0].fits[1], exponent=1.3, low=1.2, high=1.4, holds=False)
    spoilt = replace(checks.other[0], fits=(checks.other[0].fits[0], broken, *checks.other[0].fits[2:]))
    findings = of_checks(rates, replace(checks, other=(spoilt,)))
    for found, _ in (findings["any-vio"], findings["any-vio-rate"]):
        assert (found.verdict, found.value.mean) == (FAILS, 1.3)
        assert "(0.7, 0.3): 1.30" in found.note
