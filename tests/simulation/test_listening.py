"""The losses that listening policies are given: of samples before they are trained on,
and none where no policy listens.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from headgate.control.policies import Headgate
from headgate.experiment import load
from headgate.records.reader import RunFolder
from headgate.records.tables import CLIENTS, LOSSES
from headgate.simulation.engine import Simulation
from headgate.simulation.schedule import perform

from .digits import DATA, TWO

LISTENING = "policies.listening.kind=studies.zoo.listening:Listening"
SMALL = [
    *TWO,
    "run.rounds=6",
    'run.policies=["headgate", "listening"]',
    "training.steps=3",
    "system.budget=60",
    LISTENING,
]


@dataclass(frozen=True, eq=False, kw_only=True)
class Attentive(Headgate):
    """Writes down what it is told."""

    listens: ClassVar[bool] = True

    def start(self, system, runs):
        none = np.full((runs, system.clients), -1.0)
        return {**super().start(system, runs), "new": none, "held": none}

    def wanted(self, view, memory):
        share, memory = super().wanted(view, memory)
        if view.losses is not None:
            memory = {
                **memory,
                **{
                    name: np.nan_to_num(getattr(view.losses, name), nan=-1)
                    for name in ("new", "held")
                },
            }
        return share, memory


def simulation(*settings, executor="reference"):
    experiment = load("digits", [*SMALL, *settings]).with_policy(
        "attentive", Attentive()
    )
    return Simulation(experiment, DATA, "cpu", executor)


def by_hand(now, theta, packed):
    """A forward pass of every client by itself, on torch; (new, held) in nested lists,
    None where there are none.
    """
    weight, bias = (
        torch.from_numpy(each.copy()).double()
        for each in (theta[:, :640], theta[:, 640:])
    )
    scale, shift = (
        1 / (255 * np.array(DATA.std)),
        -np.array(DATA.mean) / np.array(DATA.std),
    )
    x = torch.from_numpy(
        np.asarray(packed.images).astype(np.float64) * scale.item() + shift.item()
    ).flatten(1)
    y, offsets = torch.as_tensor(np.asarray(packed.labels)), packed.offsets
    told = []
    for segment in range(len(offsets) - 1):
        run, own = (
            segment // now.batch.weights.shape[1],
            slice(offsets[segment], offsets[segment + 1]),
        )
        logits = x[own] @ weight[run].view(10, 64).T + bias[run]
        losses = cross_entropy(logits, y[own], reduction="none")
        new = torch.from_numpy(now.new[own])
        told.append(
            [
                float(losses[chosen].mean()) if chosen.any() else None
                for chosen in (new, ~new)
            ]
        )
    return np.array(told, dtype=object).reshape(*now.batch.weights.shape, 2)


@pytest.mark.parametrize("executor", ["reference", "gram"])
@pytest.mark.parametrize(
    "settings",
    [
        [],
        ["training.shift=1"],
        ["training.cohort=4"],
        [LISTENING, "policies.listening.rule=reservoir"],
    ],
    ids=["windows", "moved images", "a cohort", "a reservoir"],
)
def test_what_is_told_is_a_forward_pass_before_the_local_steps(executor, settings):
    own = simulation(*settings, executor=executor)
    somewhat = 0
    for t in range(1, 7):
        now, theta, before = (
            own._prepare(t, own.ledgers, own.purchases),
            own.theta.copy(),
            own.ledgers,
        )
        rows = {(row["policy"], row["seed"]): row for row in own.step().clients}
        told = by_hand(now, theta, own.learner._ragged(now.batch))
        for run, (name, seed) in enumerate(
            (name, seed) for name in own.names for seed in (0, 1)
        ):
            row = rows[name, seed]
            if name == "headgate":
                assert not LOSSES.keys() & row.keys()
                continue
            expected = np.full((2, own.experiment.system.clients), np.nan)
            expected[:, now.clients[run]] = told[run].T.astype(np.float64)
            for which, column in zip(expected, LOSSES, strict=True):
                np.testing.assert_allclose(row[column], which, rtol=1e-10, atol=1e-12)
            somewhat += np.isfinite(expected).all(axis=0).sum()
            ledger = own.ledgers[name]
            assert np.array_equal(
                ledger.losses.new[seed], row["new_loss"], equal_nan=True
            )
            if t > 1 and name == "attentive":  # it was told of the round before
                assert np.array_equal(
                    ledger.memory["held"],
                    np.nan_to_num(before[name].losses.held, nan=-1),
                )
            admitted = np.array(row["admitted"]) > 0
            assert not np.isfinite(row["new_loss"])[~admitted].any()
        assert own.ledgers["headgate"].losses is None
    assert somewhat > 20


def test_where_nobody_listens_nothing_is_asked_and_nothing_differs(
    monkeypatch, tmp_path
):
    settings = [*SMALL, 'run.policies=["headgate", "constant"]']
    plain, asked = (
        Simulation(load("digits", [*settings, *more]), DATA)
        for more in ([], ["training.losses=true"])
    )
    assert not plain.listening.runs.size
    for name in ("losses", "scores"):
        monkeypatch.setattr(plain.learner, name, lambda *_: pytest.fail("nobody asked"))
    for _ in range(6):
        one, other = plain.step(), asked.step()
        assert repr(one.metrics) == repr(other.metrics)
        for row, more in zip(one.clients, other.clients, strict=True):
            assert more.keys() - row.keys() == LOSSES.keys()
            assert {name: more[name] for name in row} == row
    assert "losses" not in load("digits", settings).tables()["training"]
    assert np.array_equal(plain.theta, asked.theta)
    assert all(ledger.losses is None for ledger in asked.ledgers.values())
    perform(load("digits", settings), tmp_path / "plain", processes=1)
    assert RunFolder.open(tmp_path / "plain").clients().schema == CLIENTS
