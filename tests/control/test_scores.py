"""Scores against a sample at a time in plain Python, and what a rule that looks is
given.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.control import Controller, Retention, System
from headgate.control.policies import Headgate
from headgate.control.scores import NAMES, WITHOUT_LABELS, Scores, scores_of
from headgate.control.types import SampleView
from headgate.errors import SettingError
from headgate.testing import check_retention

from .playing import goes_on


def plain(logits, label):
    """(loss, entropy, margin, error, guess) of one sample."""
    most = max(logits)
    total = math.fsum(math.exp(z - most) for z in logits)
    chances = [math.exp(z - most) / total for z in logits]
    logs = [z - most - math.log(total) for z in logits]
    first, *others = sorted(chances, reverse=True)
    guessed = logits.index(most)
    return (
        -logs[label],
        -math.fsum(p * own for p, own in zip(chances, logs, strict=True)),
        first - (others[0] if others else 0.0),
        [p - (c == label) for c, p in enumerate(chances)],
        [p - (c == guessed) for c, p in enumerate(chances)],
    )


@given(st.data(), st.integers(1, 4), st.integers(1, 5))
def test_scores_are_those_of_each_sample_by_itself(data, samples, classes):
    number = st.floats(-60, 60, width=32)
    rows = data.draw(
        st.lists(
            st.lists(number, min_size=classes, max_size=classes),
            min_size=samples,
            max_size=samples,
        )
    )
    labels = np.array(
        data.draw(
            st.lists(st.integers(0, classes - 1), min_size=samples, max_size=samples)
        )
    )
    features = np.arange(2 * samples, dtype=np.float32).reshape(samples, 2)
    found = scores_of(NAMES, np.array(rows, dtype=np.float32), labels, features)
    for name, values in found._asdict().items():
        assert values.dtype == np.float64, name
        assert np.isfinite(values).all(), name
    assert np.array_equal(found.features, features)
    for i, (row, label) in enumerate(zip(rows, labels.tolist(), strict=True)):
        for values, expected in zip(found[:5], plain(row, label), strict=True):
            np.testing.assert_allclose(values[i], expected, rtol=1e-12, atol=1e-12)
    alone = scores_of(WITHOUT_LABELS, np.array(rows, dtype=np.float32), None, features)
    assert alone.loss is None
    assert alone.error is None
    for name in WITHOUT_LABELS:
        assert np.array_equal(getattr(alone, name), getattr(found, name))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_model_that_has_broken_down_says_nothing(bad):
    logits, features = (
        np.array([[1.0, 2.0], [bad, 0.0], [0.0, 1.0]]),
        np.array([[1.0], [1.0], [bad]]),
    )
    found = scores_of(NAMES, logits, np.array([0, 1, 1]), features)
    for name, values in found._asdict().items():
        assert values[0].any(), name
        assert not values[1:].any(), name


@dataclass(frozen=True, eq=False)
class KeepsWorst(Retention):
    """Those that lose most stay; without a model the newest. It writes down what it was
    given.
    """

    scores: ClassVar[tuple[str, ...]] = ("loss", "features")
    seen: ClassVar[list] = []

    def rank(self, given):
        self.seen.append(given)
        return -given.position if given.scores is None else -given.scores.loss


@dataclass(frozen=True, eq=False, kw_only=True)
class KeepingWorst(Headgate):
    def retention(self, system):
        return KeepsWorst()


def lossy(runs, clients, positions, asked):
    """A loss that depends on the client and the place alone."""
    assert asked == KeepsWorst.scores
    return Scores(
        loss=(positions * 7 + clients) % 5 + 1.0, features=np.ones((len(runs), 2))
    )


def test_a_rule_is_given_what_it_asks_for_where_clients_are_full():
    check_retention(KeepsWorst(), rounds=12)  # without a model, too
    KeepsWorst.seen.clear()
    controller = Controller(System([3, 2], budget=1e9, horizon=9), KeepingWorst(), 2)
    held = {(r, m): [] for r in range(2) for m in range(2)}
    for orders, ledger in goes_on(
        controller, [1.0] * 4, samples=SampleView(scores=lossy)
    ):
        for (r, m), own in held.items():
            could = [
                *own,
                *(ledger.admitted - orders.admitted)[r, m]
                + range(orders.admitted[r, m]),
            ]
            held[r, m] = sorted(
                sorted(could, key=lambda i, m=m: (-((i * 7 + m) % 5), i))[: [3, 2][m]]
            )
            assert ledger.places[r, m][ledger.places[r, m] >= 0].tolist() == held[r, m]
    assert KeepsWorst.seen
    for given_ in KeepsWorst.seen:
        assert len(set(given_.seed.ravel().tolist())) == 1  # a run by itself
        assert (
            given_.there.sum(axis=1) > given_.room[:, 0]
        ).all()  # who has room for all is not asked
        assert given_.scores.features.shape == (*given_.position.shape, 2)
        assert not given_.scores.loss[~given_.there].any()
        assert not given_.scores.features[~given_.there].any()
        assert given_.scores.error is None


@pytest.mark.parametrize("asked", [("los",), "loss", ("loss", 3)])
def test_a_rule_that_asks_for_what_there_is_not_is_refused(asked):
    wrong = type("Wrong", (KeepsWorst,), {"scores": asked})
    policy = type("Own", (Headgate,), {"retention": lambda self, system: wrong()})()
    with pytest.raises(
        SettingError, match=r"Wrong.scores = .*: must be a tuple of loss, entropy"
    ):
        Controller(System([3, 2], budget=1.0, horizon=9), policy)
