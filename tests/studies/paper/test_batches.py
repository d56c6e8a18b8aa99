import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from headgate.control.rehearse import rehearse
from headgate.errors import SettingError
from studies.paper.batches import EQUAL, NAMES, RATES, RELEASED, WRITTEN, about, batches, recipes_of

KNOWN = json.loads((Path(__file__).parent / "batches.json").read_text("utf-8"))
"""what the recipes of the studies come to: numbers on pages depend on it, so a change must be meant"""
ROUNDS = 20
TRAINING = ("lr", "steps", "momentum", "weight_decay", "batch_size", "aggregation", "evaluate_every", "target", "dtype")


def of(name):
    return {run.name: run.experiment for run in batches(name)}


def beside(e):
    """All that a batch is beside its policies."""
    data, training, dealt = e.data, e.training, e.data.partition
    most = [getattr(dealt, name, None) for name in ("per_class", "per_client")]
    return {
        "rounds": e.rounds,
        "seeds": e.seeds.tolist(),
        "horizon": e.system.horizon,
        "buffers": e.system.buffer.tolist(),
        "budget": e.system.budget,
        "weights": [round(float(weight), 12) for weight in e.system.weight],
        "data": [data.kind, type(dealt).__name__.lower(), *most, type(data.stream).__name__.lower(), data.validation],
        "model": e.model.kind,
        "training": [getattr(training, name) for name in TRAINING],
        "bound": [e.bound.D, e.bound.sigma, e.bound.eta, e.bound.loss, e.bound.pdim],
    }


def orders(e, policy):
    """What it admits, holds and spends in the first rounds of two seeds, as one short text."""
    played = rehearse(e.system, policy, e.prices, e.seeds[:2], min(ROUNDS, e.rounds))
    text = json.dumps([played.admitted.tolist(), played.n.tolist(), np.round(played.spend, 6).tolist()])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", NAMES)
def test_what_the_studies_run_is_changed_on_purpose_only(name):
    found = {f"{name}/{own}": e for own, e in of(name).items()}
    assert list(found) == [folder for folder in KNOWN if folder.startswith(f"{name}/")]
    for folder, e in found.items():
        known = dict(KNOWN[folder])
        wanted = known.pop("orders")
        assert beside(e) == known, folder
        assert {own: orders(e, policy) for own, policy in e.policies.items()} == wanted, folder


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


def test_learning_rates_are_chosen_without_the_test_set():
    for name in NAMES:
        judged = [e for folder, e in of(name).items() if folder.startswith(RATES)]
        assert len(judged) >= 3
        assert all(e.data.validation > 0 for e in judged)
        chosen = of(name)[WRITTEN].training
        assert (chosen.lr, chosen.momentum) in {(e.training.lr, e.training.momentum) for e in judged}


def test_a_trial_run_is_small_and_needs_no_data():
    for name in NAMES:
        for run in batches(name, quick=True):
            e = run.experiment
            assert (e.data.kind, e.model.kind) == ("digits", "logistic"), run.name
            assert e.rounds * len(e.seeds) < 20
            assert not run.needs_gpu


def test_a_data_set_is_known_by_name():
    assert all(about(name)["differs"] for name in NAMES)
    with pytest.raises(SettingError, match="study cifar: must be one of mnist"):
        recipes_of("cifar")
