"""A model's scores of samples, for rules that look.

They are its certainty, its error, and the gradient that a sample causes. A rule names
the scores that it needs; only these are computed. The gradient of a sample's loss with
respect to the last layer is error ⊗ features.
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
    """A model's scores of samples, None if they were not asked for.

    (…) is the shape of the samples, for example (C, W). All numbers are finite. They
    are 0 for a place without a sample and for a model with non-finite output.

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

    Examples
    --------
    >>> scores_of(("entropy",), np.array([[0.0, 0.0]]), None, None).entropy.round(3)
    array([0.693])
    """

    loss: Floats | None = None
    entropy: Floats | None = None
    margin: Floats | None = None
    error: Floats | None = None
    guess: Floats | None = None
    features: Floats | None = None

    def placed(self, there: Bools) -> "Scores":
        """Return the scores in the shape of `there`.

        Parameters
        ----------
        there : array of bool
            Which places have a sample. Their scores follow in order; others are 0.

        Returns
        -------
        Scores
            The scores.

        Examples
        --------
        >>> there = np.array([[True, False], [False, True]])
        >>> Scores(loss=np.array([0.5, 2.0])).placed(there).loss.tolist()
        [[0.5, 0.0], [0.0, 2.0]]
        """
        placed: dict[str, Floats] = {}
        for name, values in self._asdict().items():
            if values is not None:
                placed[name] = np.zeros((*there.shape, *values.shape[1:]))
                placed[name][there] = values
        return Scores(**placed)


NAMES = Scores._fields
WITHOUT_LABELS = ("entropy", "margin", "guess", "features")
"""scores that need no labels"""
ScoresAt = Callable[[Ints, Ints, Ints, tuple[str, ...]], Scores]
"""function that returns the scores of each sample, given (runs, clients, positions,
names of scores)
"""
BY_CLASS = ("error", "guess", "features")
"""scores that have several numbers for each sample"""


def checked_scores(
    scores: Scores,
    asked: tuple[str, ...],
    samples: int,
) -> Scores:
    """Return the scores named in `asked` in float64.

    SettingError is raised if they do not fit the number of samples.
    """
    found: dict[str, Floats] = {}
    for name in asked:
        values = np.asarray(getattr(scores, name, None), dtype=np.float64)
        ndim = 2 if name in BY_CLASS else 1
        fits = values.ndim == ndim and len(values) == samples
        if not fits or not np.isfinite(values).all():
            raise SettingError(
                f"scores.{name}: must be {ndim}-dimensional, of {samples} samples, and"
                f" finite; it is of shape {values.shape}"
            )
        found[name] = values
    return Scores(**found)


def scores_of(
    asked: tuple[str, ...],
    logits: NDArray[Any],
    labels: Ints | None,
    features: NDArray[Any] | None,
) -> Scores:
    """Compute the scores named in `asked`, in float64.

    Parameters
    ----------
    asked : tuple of str
        Names of the scores.
    logits : array
        Output of the model, (S, classes).
    labels : array of int or None
        Class of each sample, (S,); None if no score in `asked` needs them.
    features : array or None
        Input of the last layer, (S, H); None if it is not in `asked`.

    Returns
    -------
    Scores
        The scores.
    """
    z = logits.astype(np.float64)
    broken = ~np.isfinite(z).all(axis=1)
    if features is not None:
        features = features.astype(np.float64)
        broken |= ~np.isfinite(features).all(axis=1)
    z[broken] = 0.0
    z -= z.max(
        axis=1,
        keepdims=True,
    )
    log_chance = z - np.log(
        np.exp(z).sum(
            axis=1,
            keepdims=True,
        )
    )
    chance = np.exp(log_chance)
    each = np.arange(len(z))

    found: dict[str, Floats] = {}
    if "loss" in asked:
        found["loss"] = -log_chance[each, labels]
    if "entropy" in asked:
        found["entropy"] = -(chance * log_chance).sum(axis=1)
    if "margin" in asked:
        found["margin"] = _margin(chance)
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


def _margin(chance: Floats) -> Floats:
    """Return the largest minus the second largest probability of each sample, (S,)."""
    if chance.shape[1] == 1:
        return chance[:, 0] - 0.0
    two = np.partition(chance, -2, axis=1)[:, -2:]
    return two[:, 1] - two[:, 0]
