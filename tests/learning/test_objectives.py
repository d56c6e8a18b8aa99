"""What clients minimise: every slope against the loss as its paper writes it,
differentiated by torch.
"""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import SettingError
from headgate.experiment import load
from headgate.learning.networks import ClientSlopes
from headgate.learning.objectives import (
    CalibratedLogits,
    FreshShare,
    LocalAnswers,
    PlainLoss,
)

from . import losses_written_out as written
from .said import refused

UNIT = st.one_of(
    st.floats(0, 1), st.sampled_from([0.1, 0.3, 0.7])
)  # of which float32 would be another number
OBJECTIVES = st.one_of(
    st.just((PlainLoss(), written.plain, {})),
    st.builds(lambda share: (FreshShare(share), written.plain, {}), UNIT),
    st.builds(
        lambda tau, vacant: (
            CalibratedLogits(tau, vacant),
            written.fedlc,
            {"tau": tau, "vacant": vacant},
        ),
        st.floats(0.01, 20),
        st.sampled_from([0.0, 1e-3, 0.5, 1.0]),
    ),
    st.builds(
        lambda pull: (written.Pulled(pull), written.pulled, {"pull": pull}), UNIT
    ),
)


@st.composite
def answers(draw):
    """Logits of two models to the samples of one client, and labels, of which some
    classes may be absent.
    """
    classes, n = draw(st.integers(2, 5)), draw(st.integers(1, 6))
    number = st.floats(-8, 8)
    z, received = (
        draw(
            st.lists(
                st.lists(number, min_size=classes, max_size=classes),
                min_size=n,
                max_size=n,
            )
        )
        for _ in "ab"
    )
    return (
        np.array(z),
        np.array(received),
        np.array(draw(st.lists(st.integers(0, classes - 1), min_size=n, max_size=n))),
    )


@settings(deadline=None, max_examples=150)
@given(case=answers(), chosen=OBJECTIVES, arrays=st.sampled_from([np, torch]))
def test_a_slope_is_the_derivative_of_the_loss_that_the_paper_writes(
    case, chosen, arrays
):
    (z, received, labels), (objective, loss, said) = case, chosen
    held = np.bincount(labels, minlength=z.shape[1])
    here = torch.tensor(z, requires_grad=True)
    total = sum(
        loss(here[i], torch.tensor(received[i]), int(y), held.tolist(), **said)
        for i, y in enumerate(labels)
    )
    (expected,) = torch.autograd.grad(total, here)
    truth = np.eye(z.shape[1])[labels]
    own = [np.ascontiguousarray(array.T) for array in (z, received, truth)]
    counts = held[:, None].astype(float)
    if arrays is torch:
        own, counts = (
            [torch.from_numpy(array) for array in own],
            torch.from_numpy(counts),
        )
    with np.errstate(divide="ignore"):
        slope = objective.slope(LocalAnswers(*own, counts, arrays))
    np.testing.assert_allclose(np.asarray(slope).T, expected, rtol=1e-9, atol=1e-10)


@settings(deadline=None)
@given(
    sizes=st.lists(st.lists(st.booleans(), max_size=6), min_size=1, max_size=5),
    share=UNIT,
)
def test_fresh_samples_have_their_share_and_old_ones_the_rest(sizes, share):
    new = np.array([each for client in sizes for each in client], dtype=bool)
    offsets = np.concatenate(
        [[0], np.cumsum([len(client) for client in sizes])]
    ).astype(np.int64)
    factors = FreshShare(share).factors(new, offsets)
    for first, client in zip(offsets, sizes, strict=False):
        own = factors[first : first + len(client)]
        np.testing.assert_allclose(
            own, written.share_of_fresh(client, share), rtol=1e-12
        )
        if client:
            assert own.mean() == pytest.approx(1.0)
        if any(client) and not all(client):
            assert own[np.array(client)].sum() == pytest.approx(share * len(client))


def test_a_share_like_that_of_the_samples_is_no_weight_at_all():
    new = np.array([True, False, False, False])
    assert FreshShare(0.25).factors(new, np.array([0, 4])).tolist() == [1.0] * 4


def test_slopes_of_some_samples_know_what_classes_the_client_holds_in_all():
    """Of a mini-batch of one class, the other one is not vacant."""
    torch.manual_seed(0)
    received, logits, labels = (
        torch.randn(4, 3, dtype=torch.float64),
        torch.randn(2, 3, dtype=torch.float64),
        [0, 0, 1, 1],
    )
    made = ClientSlopes(
        CalibratedLogits(2.0, 0.1),
        received,
        torch.tensor(labels),
        torch.tensor([1.0, 2.0, 0.5, 0.5]).double(),
    )
    rows = np.array([0, 1])
    here = logits.clone().requires_grad_()
    total = sum(
        factor * written.fedlc(here[i], None, 0, [2, 2, 0], 2.0, 0.1)
        for i, factor in enumerate((1.0, 2.0))
    )
    (expected,) = torch.autograd.grad(total / 2, here)
    torch.testing.assert_close(made(logits, rows), expected)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            'objective={kind = "fedlk"}',
            "objective.kind = fedlk: no such objective; did you mean fedlc?",
        ),
        ('objective={kind = "plain", tau = 1.0}', "objective.tau: unknown key"),
        (
            'objective={kind = "fresh", share = 1.5}',
            "objective.share = 1.5: must be 0 to 1",
        ),
        ('objective={kind = "fedlc", tau = 0}', "objective.tau = 0"),
        (
            'objective={kind = "fedlc", vacant = 2.0}',
            "objective.vacant = 2.0: must be 0 to 1",
        ),
        (
            'objective={kind = "os:system"}',
            "objective.kind = os:system: must be a class, a subclass of LocalObjective",
        ),
    ],
)
def test_bad_settings_are_named(setting, message):
    refused(SettingError, lambda: load("digits", [setting]), message)


def test_where_nothing_is_said_nothing_is_written():
    plain, said = load("digits"), load("digits", ["objective.kind=plain"])
    assert plain.objective == PlainLoss() == said.objective
    assert "objective" not in plain.tables()
    assert plain.tables() == said.tables()
