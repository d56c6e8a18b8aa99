import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from headgate.errors import SettingError
from headgate.experiment import load
from headgate.learning.datasets import load_dataset
from headgate.simulation.engine import Simulation
from headgate.theory.recursion import cumulative_excess_risk
from studies import recipe
from studies.paper.theory_claims import theory_rows
from studies.theory import judge
from studies.theory.measure import BASIC, measure
from studies.theory.population import pooled, risk


@pytest.fixture(scope="module")
def digits():
    return load_dataset("digits")


@pytest.fixture(scope="module")
def ticks():
    return []


@pytest.fixture(scope="module")
def outcome(digits, ticks):
    return measure(recipe("theory/digits"), digits, quick=True, tick=lambda done, of: ticks.append((done, of)))


def test_every_round_of_every_setting_is_told(outcome, ticks):
    assert ticks == [(done, 72) for done in range(1, 73)]  # 12 rounds, three budgets, two step sizes
    assert [(stage.lr, len(stage.points[0].risk)) for stage in outcome.stages] == [(0.5, 2), (0.061, 1)]
    for stage in outcome.stages:
        assert [(point.policy, point.budget) for point in stage.points] == [
            *((name, 55.0) for name in BASIC),
            *((name, 27.5) for name in BASIC[1:]),
            *((name, 110.0) for name in BASIC[1:]),
        ]


def test_the_risk_is_that_of_the_model_that_enters_each_round(outcome, digits):
    experiment = load("digits", ["system.budget=55.0", "run.rounds=12", "run.seeds=2", 'run.policies=["constant"]'])
    population = pooled(digits, experiment, seed=1)
    simulation = Simulation(experiment, digits, "cpu")
    expected = []
    for _ in range(12):
        expected.append(risk(population, torch.from_numpy(simulation.theta[1:2])).mean[0])
        simulation.step()
    point = next(each for each in outcome.stages[0].points if each.policy == "constant" and each.budget == 55)
    assert expected[0] == pytest.approx(np.log(10), rel=1e-6)
    assert point.risk[1] == pytest.approx(expected, rel=1e-4)


def test_excess_is_summed_over_rounds(outcome):
    for stage in outcome.stages:
        least = np.array([each.risk for each in outcome.optima[: len(stage.points[0].risk)]])
        for point in stage.points:
            assert point.measured == pytest.approx(point.risk.sum(axis=1) - 12 * least)
            by_seed = [cumulative_excess_risk(point.risk[s], least[s]) for s in range(len(least))]
            assert point.measured == pytest.approx(by_seed)
            assert (point.excess > 0).all()


def test_no_run_is_beyond_the_constants_read_off_them(outcome):
    for stage in outcome.stages:
        assert stage.seen.radius < min(each.radius for each in outcome.optima)
        k = stage.estimated
        assert max(point.risk.max() for point in stage.points) < k.loss
    assert outcome.stages[1].lr * outcome.L <= 1 < outcome.stages[0].lr * outcome.L


def test_verdicts_follow_the_numbers(outcome):
    two_seeds = replace(outcome, stages=outcome.stages[:1])  # one seed has no interval
    rows = theory_rows(None, None, [two_seeds], "c")
    found = {row.key.removeprefix("theory-"): row.written.verdict for row in rows if row.written.verdict != "not run here"}
    assert (found.pop("inequality"), found.pop("informative")) == ("vacuous", "does not hold")
    assert (found.pop("mismatch"), found.pop("step_size")) == ("does not hold", "does not hold")
    assert found.keys() == {"ranks", "ranks-equal"}
    stage = outcome.stages[0]
    informing = replace(stage.estimated, D=1e-9, pdim=1e-9)
    low = replace(outcome, stages=(replace(stage, estimated=informing),))
    row = next(row for row in theory_rows(None, None, [low], "c") if row.key == "theory-inequality")
    assert row.written.verdict == "does not hold"  # a bound below T·B can fail, and this one does


def test_a_surrogate_that_equals_the_risk_ranks_perfectly(outcome):
    for sign in (1, -1):
        points = [replace(point, excess=sign * point.surrogate()[:, None]) for point in outcome.stages[0].points]
        assert judge.surrogate_ranks(points).three == [sign] * 3


def test_equal_spend_is_that_of_the_budget(outcome):
    stage = outcome.stages[0]
    for point in stage.points:
        inside = 49.5 <= point.spend.mean() <= 60.5
        assert (point in judge.at_equal_spend(stage)) == inside


def test_everything_is_kept_as_json(outcome):
    kept = json.loads(json.dumps(judge.outcome_numbers(outcome)), parse_constant=pytest.fail)
    assert len(kept["points"]) == 26
    assert kept["points"][0]["excess"] == pytest.approx(outcome.stages[0].points[0].measured.mean())
    assert [stage["lr"] for stage in kept["stages"]] == [stage.lr for stage in outcome.stages]


def test_only_convex_models(digits, tmp_path):
    lenet = tmp_path / "lenet.toml"
    lenet.write_text('base = "digits"\nmodel.kind = "lenet"\n', "utf-8")
    with pytest.raises(SettingError, match=r"model\.kind = lenet"):
        measure(str(lenet), digits, quick=True)


# rank correlations


def test_known_values():
    a, b = np.array([1.0, 2, 3, 4, 5]), np.array([2.0, 1, 4, 3, 5])
    assert judge.spearman(a, b) == pytest.approx(0.8)
    assert np.isnan(judge.spearman(a, np.ones(5)))


@given(st.lists(st.integers(-5, 5), min_size=3, max_size=12), st.randoms())
def test_agreement_is_symmetric_blind_to_scale_and_turns_with_the_order(given_values, random):
    x = np.array(given_values, dtype=np.float64)
    y = np.array(random.sample(given_values, len(given_values)), dtype=np.float64)
    found = judge.spearman(x, y)
    if np.isnan(found):
        assert len(set(given_values)) == 1
        return
    assert found == pytest.approx(stats.spearmanr(x, y).statistic)
    assert judge.spearman(np.exp(x), y) == pytest.approx(found)
    assert judge.spearman(-x, y) == pytest.approx(-found)


def test_intervals_hold_the_value_and_close_where_seeds_agree():
    generator = np.random.default_rng(1)
    order = np.arange(8.0)[:, None]
    sure = judge.agreement(np.repeat(order, 6, axis=1), np.repeat(order**3, 6, axis=1))
    assert sure.three == [1.0] * 3
    unsure = judge.agreement(np.repeat(order, 6, axis=1), order + 8 * generator.standard_normal((8, 6)))
    assert unsure.low < unsure.high
    assert unsure.low <= unsure.mean <= unsure.high
