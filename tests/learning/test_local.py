"""What a client does in a round: settings, batch orders, steps of descent, and images
moved at random.
"""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import SettingError
from headgate.experiment.sections import Training
from headgate.learning.local import LocalTraining, batch_order, moves, schedule, shifted
from headgate.learning.networks import descend


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"lr": 0.0}, "lr = 0.0: must be a positive, finite number"),
        ({"steps": 0}, "steps = 0: must be a whole number, 1 or more"),
        ({"steps": True}, "steps = True: must be a whole number, 1 or more"),
        ({"momentum": -0.1}, "momentum = -0.1: must be a finite number, zero or more"),
        ({"momentum": 1.0}, "momentum = 1.0: must be less than 1"),
        (
            {"weight_decay": float("nan")},
            "weight_decay = nan: must be a finite number, zero or more",
        ),
        ({"batch_size": 0}, "batch_size = 0: must be a whole number, 1 or more"),
        (
            {"batch_size": 8, "steps": 65_537},
            "steps = 65537: at most 65536 epochs of mini-batches",
        ),
    ],
)
def test_meaningless_training_is_refused(settings, refusal):
    with pytest.raises(SettingError) as raised:
        LocalTraining(**{"lr": 0.1, "steps": 1, **settings})
    assert str(raised.value) == refusal
    with pytest.raises(SettingError, match=r"^average = -1"):
        Training(average=-1.0)


def test_batch_orders_are_permutations_and_differ_with_every_part_of_their_address():
    base = {"seed": 3, "client": 4, "t": 5, "epoch": 6, "n": 50}
    order = batch_order(**base)
    assert np.array_equal(np.sort(order), np.arange(50))
    assert np.array_equal(order, batch_order(**base))
    others = [
        batch_order(**{**base, key: base[key] + 1})
        for key in ("seed", "client", "t", "epoch")
    ]
    for one, other in itertools.combinations([order, *others], 2):
        assert not np.array_equal(one, other)


def test_each_sample_is_as_likely_in_each_place():
    orders = np.array(
        [batch_order(seed=1, client=0, t=t, epoch=0, n=4) for t in range(1, 2001)]
    )
    for place in range(4):
        assert np.bincount(orders[:, place]) == pytest.approx(
            500, abs=5 * np.sqrt(2000 * 3 / 16)
        )


@pytest.mark.parametrize(
    ("key", "value"), [("t", 1 << 24), ("epoch", 1 << 16), ("n", 1 << 24), ("t", -1)]
)
def test_addresses_that_would_meet_others_are_refused(key, value):
    with pytest.raises(
        SettingError, match=f"^{key} = {value}: mini-batches are addressed for 0 to"
    ):
        batch_order(**{"seed": 0, "client": 0, "t": 0, "epoch": 0, "n": 3, key: value})


def test_a_schedule_passes_over_the_buffer_once_an_epoch():
    batches = list(
        schedule(LocalTraining(0.1, steps=3, batch_size=4), seed=1, client=2, t=3, n=10)
    )
    assert [len(rows) for rows in batches] == [4, 4, 2] * 3
    for epoch in range(3):
        order = np.concatenate(batches[3 * epoch : 3 * epoch + 3])
        assert np.array_equal(
            order, batch_order(seed=1, client=2, t=3, epoch=epoch, n=10)
        )
    assert (
        list(schedule(LocalTraining(0.1, steps=3), seed=1, client=2, t=3, n=10))
        == [slice(None)] * 3
    )  # without batches


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_steps_are_those_of_torch_to_the_bit(momentum, decay):
    torch.manual_seed(3)
    start, slopes = (
        [torch.randn(4, 3), torch.randn(5)],
        [[torch.randn(4, 3), torch.randn(5)] for _ in range(4)],
    )
    theirs = [each.clone().requires_grad_() for each in start]
    optimiser = torch.optim.SGD(theirs, lr=0.1, momentum=momentum, weight_decay=decay)
    ours, velocity = (
        [each.clone() for each in start],
        [torch.zeros_like(each) for each in start],
    )
    for change in slopes:
        for each, slope in zip(theirs, change, strict=True):
            each.grad = slope.clone()
        optimiser.step()
        descend(ours, velocity, change, LocalTraining(0.1, 1, momentum, decay))
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


@given(st.integers(1, 3), st.integers(0, 40), st.integers(1, 50), st.integers(0, 2**31))
def test_moves_are_addressed_and_within_reach(most, samples, t, seed):
    numbers = np.arange(samples)
    move = moves(most, np.full(samples, seed), t, numbers)
    assert move.shape == (2, samples)
    assert np.abs(move).max(initial=0) <= most
    backwards = moves(most, np.full(samples, seed), t, numbers[::-1])
    assert np.array_equal(
        backwards[:, ::-1], move
    )  # a sample's move depends on nothing but its address


def test_all_moves_are_equally_likely_and_new_every_round():
    move = moves(2, np.zeros(50_000, dtype=np.int64), 3, np.arange(50_000))
    counts = np.bincount((move[0] + 2) * 5 + move[1] + 2, minlength=25)
    assert abs(counts - 2000).max() < 6 * np.sqrt(2000)
    assert not np.array_equal(
        move, moves(2, np.zeros(50_000, dtype=np.int64), 4, np.arange(50_000))
    )


@given(st.integers(0, 2), st.integers(1, 3), st.data())
def test_an_image_is_moved_as_a_plain_loop_moves_it(most, channels, data):
    images = np.random.default_rng(0).integers(
        1, 255, (4, channels, 5, 6), dtype=np.uint8
    )
    move = np.array(
        data.draw(
            st.lists(st.tuples(*[st.integers(-most, most)] * 2), min_size=4, max_size=4)
        )
    ).T
    found = shifted(images, move, most)
    for s, c, y, x in np.ndindex(images.shape):
        from_y, from_x = y - move[0, s], x - move[1, s]
        inside = 0 <= from_y < 5 and 0 <= from_x < 6
        assert found[s, c, y, x] == (images[s, c, from_y, from_x] if inside else 0)
