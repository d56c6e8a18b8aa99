"""Other objectives than cross-entropy: the reference against a loop over written losses, the others against the reference."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import functional_call

from headgate.learning.local import LocalTraining, schedule
from headgate.learning.networks import ClientSlopes
from headgate.learning.objectives import CalibratedLogits, FreshShare, PlainLoss
from headgate.simulation.executors.batched import Batched
from headgate.simulation.executors.flat import FlatLoop
from headgate.simulation.executors.gram import Gram
from headgate.simulation.executors.reference import Reference

from ...learning import losses_written_out as written
from .worlds import (
    ONE_RUN,
    THREE_RUNS,
    assert_same,
    linear,
    linear_without_bias,
    tanh_net,
    tiny_convolution,
    world,
)

OBJECTIVES = {
    "fresh": (FreshShare(0.8), written.plain),
    "fedlc": (CalibratedLogits(2.0, 0.1), written.fedlc),
    "fedlc, left out": (CalibratedLogits(0.5, 0.0), written.fedlc),
    "one's own": (written.Pulled(0.7), written.pulled),
}
TAKING = {
    "gram": (Gram, [linear, linear_without_bias]),
    "flat": (FlatLoop, [linear, tiny_convolution]),
    "batched": (Batched, [tanh_net, tiny_convolution]),
    "batched, few shapes": (lambda task: Batched(task, few_shapes=True), [tanh_net]),
}


def factored(case, share=0.8, seed=0):
    """The same with some samples fresh, and weights by that."""
    new = np.random.default_rng(seed).random(len(case.packed.labels)) < 0.4
    factors = FreshShare(share).factors(new, case.packed.offsets)
    return case._replace(packed=case.packed._replace(factors=torch.from_numpy(factors).to(case.theta.dtype)))


def played(case, executor, training):
    return executor.advance(case.theta, case.packed, case.weights, training, case.seeds, 3)


def by_written_losses(case, training, loss):
    """Client by client, and loss by loss, differentiated by torch; what the server makes of it."""
    task, packed, after = case.task, case.packed, case.theta.clone()
    said = {name: value for name, value in vars(training.objective).items() if loss is not written.plain}

    def answers(theta, images):
        return functional_call(task.model.double(), task.flat.views(theta), (task.normalised(images),))

    for r, (start, shares) in enumerate(zip(case.theta, case.weights, strict=True)):
        for m, share in enumerate(shares):
            first, last = packed.offsets[r * len(shares) + m : r * len(shares) + m + 2]
            images, labels = packed.images[first:last], packed.labels[first:last].tolist()
            held = np.bincount(labels, minlength=task.classes).tolist() if labels else []
            received = answers(start, images).detach() if labels else None
            local, velocity = start, torch.zeros_like(start)
            for rows in schedule(training, case.seeds[r], m, 3, len(labels)) if labels else ():
                local = local.detach().requires_grad_()
                some = np.arange(len(labels))[rows]
                with torch.enable_grad():
                    logits = answers(local, images[some])
                    losses = [loss(z, received[i], labels[i], held, **said) for z, i in zip(logits, some, strict=True)]
                    factors = [1.0] * len(some) if packed.factors is None else packed.factors[first:last][some].tolist()
                    mean = sum(f * each for f, each in zip(factors, losses, strict=True)) / len(some)
                (gradient,) = torch.autograd.grad(mean, local)
                gradient = gradient + training.weight_decay * local.detach()
                velocity = training.momentum * velocity + gradient
                local = local.detach() - training.lr * velocity
            after[r] += share * (local.detach() - start)
    return after


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("model", [linear, tanh_net])
def test_the_reference_descends_the_loss_that_the_paper_writes(name, model):
    objective, loss = OBJECTIVES[name]
    case = world(model(), [[3, 0, 4]])
    case = factored(case) if objective.by_age else case
    for training in (LocalTraining(0.3, 3), LocalTraining(0.2, 2, 0.5, 0.01, batch_size=2)):
        training = replace(training, objective=objective)
        after, before = played(case, Reference(case.task), training)
        expected = by_written_losses(case, training, loss)
        assert (after - expected).abs().max() <= 1e-10 * (expected - case.theta).abs().max()
        plain = played(case._replace(packed=case.packed._replace(factors=None)), Reference(case.task), LocalTraining(0.3, 1))
        torch.testing.assert_close(before, plain[1])  # what is told of the round is cross-entropy, whatever is minimised


@pytest.mark.parametrize(("steps", "momentum", "decay"), [(1, 0.0, 0.0), (4, 0.0, 0.1), (4, 0.8, 0.1)])
@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize(("kind", "model"), [(kind, model) for kind, (_, models) in TAKING.items() for model in models])
def test_executors_do_what_the_reference_does(kind, model, name, steps, momentum, decay):
    objective = OBJECTIVES[name][0]
    case = world(model(), THREE_RUNS)
    case = factored(case) if objective.by_age else case
    training = LocalTraining(0.3, steps, momentum, decay, objective=objective)
    executor = TAKING[kind][0](case.task)
    given, judged = played(case, executor, training), played(case, Reference(case.task), training)
    assert_same(given, judged, case.theta)


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.lists(st.integers(0, 9), min_size=2, max_size=2), min_size=1, max_size=3),
    name=st.sampled_from(sorted(OBJECTIVES)),
    seed=st.integers(0, 99),
    steps=st.integers(1, 3),
)
def test_gram_and_flat_agree_on_any_buffers(sizes, name, seed, steps):
    objective = OBJECTIVES[name][0]
    case = factored(world(linear(), sizes, seed=seed), seed=seed)
    training = LocalTraining(0.2, steps, objective=objective)
    judged = played(case, Reference(case.task), training)
    for make in (Gram, FlatLoop):
        assert_same(played(case, make(case.task), training), judged, case.theta)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_mini_batches_and_weight_decay(name):
    objective = OBJECTIVES[name][0]
    case = factored(world(tanh_net(), ONE_RUN))
    training = LocalTraining(0.2, 2, 0.5, 0.02, batch_size=3, objective=objective)
    assert_same(played(case, FlatLoop(case.task), training), played(case, Reference(case.task), training), case.theta)


def test_a_settings_value_that_changes_nothing_is_cross_entropy():
    case = world(tanh_net(), ONE_RUN)
    judged = played(case, Reference(case.task), LocalTraining(0.3, 4))
    for objective in (written.Pulled(0.0), FreshShare(0.5)):
        training = LocalTraining(0.3, 4, objective=objective)
        assert_same(played(case, FlatLoop(case.task), training), judged, case.theta)


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("kind", TAKING)
def test_runs_together_are_runs_alone_and_one_that_broke_down_harms_no_other(kind, name):
    make, (model, *_) = TAKING[kind]
    case = world(model(), [[3, 0, 5], [2, 4, 1]])
    training = LocalTraining(0.3, 3, objective=OBJECTIVES[name][0])
    alone, _ = played(case.run(1), make(case.task), training)
    case.theta[0, 0] = torch.nan
    together, loss = played(case, make(case.task), training)
    torch.testing.assert_close(together[1:], alone, rtol=1e-12, atol=1e-14)
    assert torch.isnan(loss[0])
    assert torch.isfinite(loss[1])


@pytest.mark.parametrize("make", [FlatLoop, Batched, Reference, Gram])
def test_cross_entropy_is_descended_as_before(make, monkeypatch):
    """No slope is ever made where nothing but cross-entropy is minimised."""
    monkeypatch.setattr(PlainLoss, "slope", lambda *_: pytest.fail("a slope"))
    monkeypatch.setattr(ClientSlopes, "__init__", lambda *_: pytest.fail("slopes"))
    case = world(linear(), ONE_RUN)
    played(case, make(case.task), LocalTraining(0.3, 2))
