import subprocess
import sys

import numpy as np
import pytest

from headgate.control.policies import Hybrid, Released
from headgate.control.rehearse import rehearse
from headgate.errors import SettingError
from headgate.experiment import load
from headgate.studies.paper.studies import (
    EQUAL,
    NAMES,
    RATES,
    RELEASED,
    WRITTEN,
    _largest,
    equal_means,
    experiments,
    study_of,
)


def of(name):
    return {folder.partition("/")[2]: experiment for folder, experiment in experiments(name)}


@pytest.mark.parametrize(("name", "scale"), [("mnist", 1), ("cifar10", 2), ("imagenette", 4)])
def test_as_written_is_the_text(name, scale):
    e = of(name)[WRITTEN]
    assert (e.prices.low, e.prices.high) == (1.0, 10.0)
    assert e.system.budget == 55.0 * scale
    for policy in ("acdpp", "constant"):
        assert (e.policies[policy].K, e.policies[policy].rate) == (10, 10.0 * scale)
    assert list(e.policies)[:4] == ["oracle", "acdpp", "constant", "hybrid"]
    assert e.model.name == ("lenet" if name == "mnist" else "resnet9")
    assert e.training.steps == 10
    assert e.data.validation == 0.0
    assert len(e.seeds) >= 5


@pytest.mark.parametrize(("name", "scale", "highest"), [("mnist", 1, 10), ("cifar10", 2, 49), ("imagenette", 4, 10)])
def test_as_released_is_what_the_scripts_do(name, scale, highest):
    e = of(name)[RELEASED]
    assert (e.prices.low, e.prices.high) == (1, highest)
    assert isinstance(e.policies["released"], Released)
    hybrid = e.policies["hybrid"]
    assert isinstance(hybrid, Hybrid)
    assert (hybrid.K, hybrid.rate, hybrid.paid, hybrid.fill) == (10, 10.0 * scale, False, "first")
    assert (e.policies["constant"].K, e.policies["constant"].rate) == (10, 10.0 * scale)
    assert e.training.aggregation == "alpha"
    np.testing.assert_allclose(e.system.weight, e.system.buffer / e.system.memory)


def test_mnist_as_released_is_logistic_regression_with_momentum():
    training = of("mnist")[RELEASED].training
    assert of("mnist")[RELEASED].model.name == "logistic"
    assert (training.lr, training.momentum, training.steps) == (0.1, 0.9, 10)


def test_at_equal_means_the_released_rule_keeps_its_budget_and_its_buffers():
    e = of("mnist")[EQUAL]
    spend = {}
    for name in ("released_fair", "released_capped", "constant_spend"):
        result = rehearse(e.system, e.policies[name], e.prices, e.seeds, e.rounds)
        spend[name] = result.spend.mean()
        assert result.peak_excess.max() <= 0, name
    assert 0.97 * e.system.budget <= spend["released_fair"] <= e.system.budget
    base = of("mnist")[RELEASED]
    released = rehearse(base.system, base.policies["released"], base.prices, base.seeds, base.rounds)
    assert spend["constant_spend"] == pytest.approx(released.spend.mean(), rel=0.01)
    both = rehearse(e.system, e.policies["constant_both"], e.prices, e.seeds, e.rounds)
    assert both.n.mean() == pytest.approx(released.n.mean(), rel=0.1)


def test_equal_means_says_what_the_released_policy_takes():
    found = equal_means(
        "mnist", ("prices.kind=integer", "prices.low=1", "prices.high=10", "policies.constant.kind=constant"), 100, 3
    )
    assert found.spend > 1.3 * load("mnist").system.budget
    assert found.memory > load("mnist").system.memory
    assert found.K_within * found.rate <= load("mnist").system.memory < (found.K_within + 1) * found.rate


@pytest.mark.parametrize("limit", [0.1, 3.3, 47.0, 1000.0])
def test_the_largest_number_that_fits(limit):
    found = _largest(lambda value: value <= limit, 1000.0)
    assert found <= limit
    assert found > limit / 1.2


def test_learning_rates_are_chosen_without_the_test_set():
    for name in NAMES:
        judged = [e for folder, e in of(name).items() if folder.startswith(RATES)]
        assert len(judged) >= 3
        assert all(e.data.validation > 0 for e in judged)
        chosen = of(name)[WRITTEN].training
        assert (chosen.lr, chosen.momentum) in {(e.training.lr, e.training.momentum) for e in judged}


def test_a_trial_run_is_small_and_needs_no_data():
    for name in NAMES:
        for folder, e in experiments(name, quick=True):
            assert (e.data.name, e.model.name) == ("digits", "logistic"), folder
            assert e.rounds * len(e.seeds) < 20


def test_a_study_is_known_by_name():
    assert study_of("mnist").scale == 1
    with pytest.raises(SettingError, match="study cifar: must be one of mnist"):
        study_of("cifar")


def test_what_runs_can_be_listed_without_tables_and_pictures():
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['polars', 'matplotlib', 'rich']))\n"
        "from headgate.studies.paper.studies import experiments\n"
        "assert len(experiments('imagenette', quick=True)) > 3\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
