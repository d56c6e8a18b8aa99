"""What a run has learnt, by each of the measures."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from headgate.analysis.runs import MEASURES, measures

from .made_up import outcome

SHARES = st.floats(0.0, 1.0, width=32)


def judged(one, validation):
    """The same with an accuracy on held-out images at every evaluation."""
    values = np.full_like(one.values["test_accuracy"], np.nan)
    values[:, one.t - 1] = validation
    return replace(one, values={**one.values, "validation_accuracy": values})


def test_last_is_the_mean_over_the_last_tenth_of_the_rounds():
    curve = np.linspace(0.0, 0.99, 100)
    assert outcome("a", curve).last.tolist() == pytest.approx([curve[-10:].mean()])
    assert outcome("a", curve[:20], every=5).last.tolist() == pytest.approx([curve[18:20].mean()])  # rounds 95 and 100
    assert outcome("a", curve[:3], every=7).last.tolist() == pytest.approx([curve[2]])  # of 21 rounds one is looked at
    assert outcome("a", [0.9, 0.1]).last.tolist() == [0.1]  # however high it once was


@given(arrays(np.float64, (3, 12), elements=SHARES), arrays(np.float64, (3, 12), elements=SHARES))
def test_chosen_is_the_test_accuracy_of_the_first_model_that_is_best_on_held_out_images(curves, validation):
    one = judged(outcome("a", curves), validation)
    for seed in range(3):
        best = next(i for i in range(12) if validation[seed, i] == max(validation[seed]))
        assert one.chosen[seed] == curves[seed, best]
    assert (one.chosen <= one.best).all()


def test_the_choice_is_among_evaluated_rounds_and_of_runs_that_were_not_lost():
    one = outcome("a", [[0.1, 0.9, 0.5], [0.2, 0.3, 0.4]], every=4, lost=(0,))
    assert judged(one, np.array([[0.7, 0.8, 0.9]])).chosen.tolist() == [0.4]


def test_without_held_out_images_nothing_is_chosen():
    one = outcome("a", [0.5, 0.6])
    assert one.chosen.size == 0
    assert measures([one]) == ["best", "last", "mean"]
    held = judged(one, np.array([[0.3, 0.2]]))
    assert measures([held]) == list(MEASURES)
    assert measures([held, one]) == ["best", "last", "mean"]  # not of all of them
