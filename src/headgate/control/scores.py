"""A model's scores of samples, for rules that look: its certainty, its error, and the
gradient that a sample causes.

A rule names the scores that it needs; only these are computed. The gradient of a
sample's loss with respect to the last layer is error ⊗ features.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.errors import SettingError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Scores(NamedTuple):
    """A model's scores of samples, None if they were not asked for. (…) is the shape of
    the samples, for example (C, W).

    All numbers are finite. They are 0 for a place without a sample and for a model with
    non-finite output.

    Parameters
    ----------
    loss : array of float, optional
        Cross-entropy with the sample's label, (…).
    entropy : array of float, optional
        Entropy of the predicted probabilities, (…); needs no label.
    margin : array of float, optional
        Largest minus second largest predicted probability, (…); needs no label.
    error : array of float, optional
        Predicted probabilities minus the label as 0 and 1, (…, classes).
    guess : array of float, optional
        Predicted probabilities minus the predicted class as 0 and 1, (…, classes);
        needs no label.
    features : array of float, optional
        Input of the last layer, with a 1 for its bias if it has one, (…, H); needs no
        label.
    """

    loss: Floats | None = None
    entropy: Floats | None = None
    margin: Floats | None = None
    error: Floats | None = None
    guess: Floats | None = None
    features: Floats | None = None

    def placed(self, there: Bools) -> "Scores":
        """Return the scores in the shape of `there`: in order at the places that are
        true, 0 elsewhere.

        >>> Scores(loss=np.array([0.5, 2.0])).placed(np.array([[True, False], [False, True]])).loss.tolist()
        [[0.5, 0.0], [0.0, 2.0]]
        """

        def put(values: Floats) -> Floats:
            everywhere = np.zeros((*there.shape, *values.shape[1:]))
            everywhere[there] = values
            return everywhere

        return Scores(*(None if values is None else put(values) for values in self))


NAMES = Scores._fields
WITHOUT_LABELS = ("entropy", "margin", "guess", "features")
"""scores that need no labels"""
ScoresAt = Callable[[Ints, Ints, Ints, tuple[str, ...]], Scores]
"""function that returns the scores of each sample, given (runs, clients, positions,
names of scores)
"""


def checked_scores(scores: Scores, asked: tuple[str, ...], samples: int) -> Scores:
    """Return the scores named in `asked` in float64, or raise SettingError if they do
    not fit the number of samples.
    """
    found: dict[str, Floats] = {}
    for name in asked:
        values = np.asarray(getattr(scores, name, None), dtype=np.float64)
        many = 2 if name in ("error", "guess", "features") else 1
        if (
            values.ndim != many
            or len(values) != samples
            or not np.isfinite(values).all()
        ):
            wanted = f"{many}-dimensional, of {samples} samples, and finite"
            raise SettingError(
                f"scores.{name}: must be {wanted}; it is of shape {values.shape}"
            )
        found[name] = values
    return Scores(**found)


def scores_of(
    asked: tuple[str, ...],
    logits: NDArray[Any],
    labels: Ints | None,
    features: NDArray[Any] | None,
) -> Scores:
    """Compute the scores named in `asked`, in float64, from the logits of a model, (S,
    classes).

    Labels may be None if no score in `asked` needs them, features if they are not in
    `asked`.
    """
    z = logits.astype(np.float64)
    broken = ~np.isfinite(z).all(axis=1)
    if features is not None:
        features = features.astype(np.float64)
        broken |= ~np.isfinite(features).all(axis=1)
    z[broken] = 0.0
    z -= z.max(axis=1, keepdims=True)
    log_chance = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
    chance, each = np.exp(log_chance), np.arange(len(z))
    found: dict[str, Floats] = {}
    if "loss" in asked:
        found["loss"] = -log_chance[each, labels]
    if "entropy" in asked:
        found["entropy"] = -(chance * log_chance).sum(axis=1)
    if "margin" in asked:
        two = (
            np.partition(chance, -2, axis=1)[:, -2:]
            if chance.shape[1] > 1
            else np.insert(chance, 0, 0.0, axis=1)
        )
        found["margin"] = two[:, 1] - two[:, 0]
    for name, classes in (("error", labels), ("guess", z.argmax(axis=1))):
        if name in asked:
            found[name] = chance.copy()
            found[name][each, classes] -= 1.0
    if "features" in asked:
        assert features is not None
        found["features"] = features
    for values in found.values():
        values[broken] = 0.0
    return Scores(**found)
