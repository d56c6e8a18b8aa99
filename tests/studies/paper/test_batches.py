import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from headgate.control.rehearse import rehearse
from studies.paper.batches import NAMES, batches

KNOWN = json.loads((Path(__file__).parent / "batches.json").read_text("utf-8"))
"""what the recipes of the studies come to: numbers on pages depend on it, so a change
must be meant
"""
ROUNDS = 20
TRAINING = (
    "lr",
    "steps",
    "momentum",
    "weight_decay",
    "batch_size",
    "aggregation",
    "evaluate_every",
    "target",
    "dtype",
)


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
        "data": [
            data.kind,
            type(dealt).__name__.lower(),
            *most,
            type(data.stream).__name__.lower(),
            data.validation,
        ],
        "model": e.model.kind,
        "training": [getattr(training, name) for name in TRAINING],
        "bound": [e.bound.D, e.bound.sigma, e.bound.eta, e.bound.loss, e.bound.pdim],
    }


def orders(e, policy):
    """What it admits, holds and spends in the first rounds of two seeds, as one short
    text.
    """
    played = rehearse(e.system, policy, e.prices, e.seeds[:2], min(ROUNDS, e.rounds))
    text = json.dumps(
        [
            played.admitted.tolist(),
            played.n.tolist(),
            np.round(played.spend, 6).tolist(),
        ]
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", NAMES)
def test_what_the_studies_run_is_changed_on_purpose_only(name):
    found = {f"{name}/{own}": e for own, e in of(name).items()}
    assert list(found) == [folder for folder in KNOWN if folder.startswith(f"{name}/")]
    for folder, e in found.items():
        known = dict(KNOWN[folder])
        wanted = known.pop("orders")
        assert beside(e) == known, folder
        assert {
            own: orders(e, policy) for own, policy in e.policies.items()
        } == wanted, folder


def test_a_trial_run_is_small_and_needs_no_data():
    for name in NAMES:
        for run in batches(name, quick=True):
            e = run.experiment
            assert (e.data.kind, e.model.kind) == ("digits", "logistic"), run.name
            assert e.rounds * len(e.seeds) < 20
            assert not run.needs_gpu
