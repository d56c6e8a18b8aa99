"""Policies that buy, and the keys by which a recipe says what full clients drop."""

import numpy as np
import pytest

from headgate.control import ClassBalanced, Fifo, KStep, Reservoir
from headgate.control.rehearse import rehearse
from headgate.experiment import load

BUYERS = ["headgate", "threshold", "resolving", "pacing", "random", "clairvoyant"]
RULES = {"fifo": Fifo, "reservoir": Reservoir, "class-balanced": ClassBalanced}


def recipe(kind, *settings):
    return load(
        "mnist", [f'run.policies=["{kind}"]', "run.rounds=15", "run.seeds=2", *(f"policies.{kind}.{s}" for s in settings)]
    )


@pytest.mark.parametrize("kind", [*BUYERS, "alert"])
def test_every_kind_needs_no_settings_and_keeps_the_money(kind):
    experiment = load("mnist", [f'run.policies=["{kind}"]', "run.rounds=20", "run.seeds=2"])
    result = rehearse(experiment.system, experiment.policies[kind], experiment.prices, experiment.seeds, 20)
    assert np.all(result.spend.sum(axis=-1) <= 55.0 * 20)
    assert result.peak_excess.max() <= 0
    assert result.N[:, -1].min() >= 100


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", [*BUYERS, "constant"])
def test_every_buyer_and_constant_take_every_rule(kind, rule):
    experiment = recipe(kind, f'rule={{kind="{rule}", capacity="buffer"}}')
    retention = experiment.policies[kind].retention(experiment.system)
    assert type(retention) is RULES[rule]
    assert np.array_equal(retention.limit(experiment.system), experiment.system.buffer)
    assert experiment.tables()["policies"][kind]["rule"]["kind"] == rule
    same = recipe(kind, f'rule={{kind="{rule}"}}')
    assert same.tables() == experiment.tables()
    assert recipe(kind, f"rule={rule}").tables() == experiment.tables()


@pytest.mark.parametrize("rule", RULES)
def test_a_rehearsal_counts_what_was_trained_on(rule):
    experiment = recipe("headgate", f"rule={rule}")
    result = rehearse(experiment.system, experiment.policies["headgate"], experiment.prices, experiment.seeds, 15)
    unused = result.ledger.unused
    assert np.array_equal(result.N[:, -1] + unused, result.admitted.sum(axis=-1))
    assert result.peak_excess.max() <= 0
    assert np.all(result.n_eff[:, -1] <= result.N[:, -1] + 1e-9)
    assert np.any(np.asarray(unused) > 0) == (rule not in ("fifo", "class-balanced"))


@pytest.mark.parametrize("kind", [*BUYERS, "constant"])
def test_the_same_is_bought_under_every_rule(kind):
    """Nobody takes what was never used for what was never bought."""
    bought = []
    for rule in RULES:
        experiment = recipe(kind, f"rule={rule}")
        result = rehearse(experiment.system, experiment.policies[kind], experiment.prices, experiment.seeds, 15)
        bought.append((result.admitted.tolist(), result.spend.tolist(), result.n.tolist()))
    assert all(each == bought[0] for each in bought)


def test_capacity_and_age():
    lots = recipe("headgate", "rule=reservoir", "rule.capacity=3")
    assert lots.policies["headgate"].rule.limit(lots.system).tolist() == [3] * 10
    constant = [
        recipe("constant", *settings).policies["constant"].retention(lots.system)
        for settings in ([], ["capacity=buffer"], ["rule=fifo"], ["rule={kind='kstep', K=4, capacity='buffer'}"])
    ]
    assert [type(rule) for rule in constant] == [KStep, KStep, Fifo, KStep]
    assert [rule.capacity for rule in constant] == [None, "buffer", "buffer", "buffer"]
