"""Recipes with the kinds of policies and prices that buy, drift, burst and switch."""

import numpy as np
import pytest

from headgate.control import KStep, policies
from headgate.control.prices import Bursts, Drift, Pareto, PerClient, Switches
from headgate.control.rehearse import rehearse
from headgate.errors import SettingError
from headgate.experiment import load

KINDS = {
    "headgate": policies.Headgate,
    "alert": policies.Alert,
    "threshold": policies.Threshold,
    "resolving": policies.Resolving,
    "pacing": policies.Pacing,
    "random": policies.Random,
    "clairvoyant": policies.Clairvoyant,
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_needs_no_settings_and_keeps_the_money(kind):
    experiment = load("mnist", [f'run.policies=["{kind}"]', "run.rounds=20", "run.seeds=2"])
    policy = experiment.policies[kind]
    assert type(policy) is KINDS[kind]
    result = rehearse(experiment.system, policy, experiment.prices, experiment.seeds, 20)
    assert np.all(result.spend.sum(axis=-1) <= 55.0 * 20)
    assert result.peak_excess.max() <= 0
    assert result.N[:, -1].min() >= 100


def test_settings_reach_the_policy():
    settings = [
        'run.policies=["headgate"]',
        "policies.headgate.early=0.25",
        "policies.headgate.rule={kind='kstep', K=7, capacity='buffer'}",
    ]
    policy = load("mnist", [*settings, "policies.headgate.fill=0.0", "policies.headgate.fairness=0.5"]).policies["headgate"]
    assert (policy.early, policy.fill, policy.fairness) == (0.25, 0.0, 0.5)
    assert type(policy.rule) is KStep
    assert (policy.rule.K, policy.rule.capacity) == (7, "buffer")
    assert load("mnist", ['run.policies=["threshold"]', "policies.threshold.limit=3.0"]).policies["threshold"].limit == 3.0


@pytest.mark.parametrize(
    ("settings", "process"),
    [
        (["kind=bursts", "low=1", "high=6", "factor=5", "chance=0.02", "length=10"], Bursts(1, 6, 5, 0.02, 10)),
        (["kind=drift", "first=3", "last=8", "rounds=100"], Drift(3, 8, 100)),
        (["kind=pareto", "low=1", "high=100", "tail=1.2"], Pareto(1, 100, 1.2)),
        (["kind=switches", "levels=[1, 10]", "lengths=[5, 5]", "repeat=true"], Switches((1, 10), (5, 5), True)),
    ],
)
def test_kinds_of_prices(settings, process, tmp_path):
    recipe = tmp_path / "own.toml"
    lines = [f'{line.split("=")[0]} = "{line.split("=")[1]}"' if line.startswith("kind") else line for line in settings]
    rest = "\n".join(lines)
    recipe.write_text(
        f'[system]\nbuffers = [3, 4]\nbudget = 9.0\n[run]\nrounds = 10\npolicies = ["headgate"]\n[prices]\n{rest}\n'
    )
    assert load(str(recipe)).prices == process


def test_prices_per_client():
    said = "kind='per-client', common={kind='uniform', low=1.0, high=10.0}, noise=0.2"
    factors = "factors=[1, 1, 1, 1, 1, 2, 2, 2, 2, 2]"
    experiment = load("mnist", ['run.policies=["headgate"]', f"prices={{{said}, {factors}}}"])
    assert isinstance(experiment.prices, PerClient)
    assert experiment.prices.path(experiment.seeds, 1, 4).shape == (10, 3, 10)
    with pytest.raises(SettingError, match=r"prices.factors: is missing"):
        load("mnist", [f"prices={{{said}}}"])
