from dataclasses import replace

import numpy as np
import pytest

from headgate.experiment import load
from headgate.theory.reuse import ck_uniformity
from studies.paper import theory_claims
from studies.paper.theory_claims import (
    FASTER,
    of_any_setting,
    of_formulas,
    of_other_settings,
    of_rates,
    theory_rows,
)
from studies.paper.verdicts import FAILS, HOLDS, NOT_RUN, UNTESTABLE, VACUOUS
from studies.theory.rates import Fit, MeasuredRates, measure


@pytest.fixture(scope="module")
def rates():
    return measure(
        *theory_claims.rehearsed(2), theory_claims.other_horizons(quick=True), 0.5, 0.5
    )


def test_formulas_fail_as_the_errata_say():
    assert (
        theory_claims.printed_uniformity_error(5, 20)
        >= abs(0.86170 / ck_uniformity(5, 20) - 1) - 1e-4
    )
    assert theory_claims.printed_uniformity_error(1, 20) == pytest.approx(
        0, abs=1e-12
    )  # without reuse there is no deficit
    assert 1.0 < theory_claims.dearest_candidate(load("mnist")) < 1.2
    assert theory_claims.uneven_over_constant(load("mnist").bound) > 1
    verdicts = {key: written.verdict for key, (written, _) in of_formulas().items()}
    assert verdicts == {
        "corollary1": FAILS,
        "corollary2": FAILS,
        "fresh": FAILS,
        "constant-n": HOLDS,
    }


def test_what_is_measured_becomes_a_row_with_its_number(rates):
    rows = {
        row.key.removeprefix("theory-"): row
        for row in theory_rows(of_rates(rates) | of_other_settings(rates, True), "c")
    }
    assert rows["lemma1"].written.value.high == rows["lemma1"].written.value.mean
    assert rows["inequality"].written.verdict == NOT_RUN
    assert rows["fixed-regret"].written.verdict == VACUOUS
    for key in (
        "any-regret",
        "any-vio",
        "any-regret-rate",
        "any-vio-rate",
        "fixed-regret",
        "fixed-vio",
        "planned-buffer",
    ):
        assert rows[key].written.verdict != NOT_RUN
        assert rows[key].released.verdict == UNTESTABLE
    for key in ("sublinear", "any-regret"):  # whatever the verdict
        assert "difference of two upper bounds" in rows[key].written.note
    assert rows["buffer_violation"].own
    assert not rows["planned-buffer"].own


def test_a_lemma_that_is_broken_once_is_broken():
    for broken in (1.01, np.inf):
        found = theory_claims.lemma1(np.array([0.5, broken]))
        assert found.verdict == FAILS
        assert np.isfinite(found.value.three).all()
    assert "infinite at 1 of" in found.note
    assert theory_claims.lemma1(np.array([0.5, 1.0])).verdict == HOLDS


def test_any_gamma_and_phi_is_asked_where_it_can_break(rates):
    assert {(0.1, 0.8), (0.1, 0.9)} <= set(theory_claims.OTHER)
    broken = replace(rates.fits[1], exponent=1.3, low=1.2, high=1.4, holds=False)
    spoilt = MeasuredRates(
        rates.points, (rates.fits[0], broken, *rates.fits[2:]), 0.7, 0.3
    )
    findings = of_any_setting([rates, spoilt])
    for key in ("any-vio", "any-vio-rate"):
        assert (findings[key].verdict, findings[key].value.mean) == (FAILS, 1.3)
        assert "(0.7, 0.3): 1.30" in findings[key].note


def test_rates_become_rows():
    fits = (
        Fit("regret", 0.6, 0.59, 0.61, "O(T^0.5)", 0.5, False),
        Fit("cost_violation", 0.4, 0.3, 0.5, "O(T^0.75)", 0.75, True),
        Fit("buffer_violation", None, None, None, "O(1)", 0.0, True),
        Fit("omega3", 0.6, 0.59, 0.61, "O(log T)", 0.1, False),
    )
    found = of_rates(MeasuredRates((), fits, 0.5, 0.5))
    verdicts = {key: written.verdict for key, (written, _) in found.items()}
    assert (
        verdicts.pop("regret") == verdicts.pop("omega3") == FAILS
    )  # proved by an erratum
    assert found["regret"][0].value.three == pytest.approx([0.6, 0.59, 0.61])
    assert verdicts == dict.fromkeys(
        ("sublinear", "vio-sublinear", "cost_violation", "buffer_violation"), HOLDS
    )
    assert {released.verdict for _, released in found.values()} == {UNTESTABLE}
    rows = {row.key: row for row in theory_rows(found, "c")}
    assert (rows["theory-regret"].written, rows["theory-omega1"].written.verdict) == (
        found["regret"][0],
        NOT_RUN,
    )
    steep = MeasuredRates(
        (), (Fit("buffer_violation", 0.3, 0.2, 0.4, "O(1)", 0.0, False),), 0.5, 0.5
    )
    assert (
        of_rates(steep)["buffer_violation"][0].verdict == FASTER
    )  # no slope refutes an O(·)
