"""Server updates against the lines of their algorithms."""

import numpy as np
import pytest
import torch

from headgate.learning.server import Adam, Yogi

from .digits import TWO, simulate


@pytest.mark.parametrize("kind", [Adam, Yogi])
@pytest.mark.parametrize("arrays", ["numpy", "torch"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_adaptive_updates_number_by_number(kind, arrays, dtype):
    """Against the algorithm's lines written for one number, in whatever library the
    models come.
    """
    rng, update = np.random.default_rng(0), kind(lr=0.1, beta1=0.8, beta2=0.7, tau=0.05)
    make = (
        (lambda a: a.astype(dtype))
        if arrays == "numpy"
        else (lambda a: torch.from_numpy(a.astype(dtype)))
    )
    model = rng.normal(size=(2, 3))
    here, state = make(model), update.start(make(model))
    first, second = np.zeros((2, 3)), np.full((2, 3), 0.05**2)
    for t in range(1, 6):
        mean = model + rng.normal(size=(2, 3)) * (
            0.2 if t % 2 else 0.0
        )  # in every other round nothing changes
        here, state = update.step(t, here, make(mean), state)
        for i, j in np.ndindex(2, 3):
            change = mean[i, j] - model[i, j]
            first[i, j] = 0.8 * first[i, j] + 0.2 * change
            square, sign = change**2, np.sign(second[i, j] - change**2)
            second[i, j] = (
                0.7 * second[i, j] + 0.3 * square
                if kind is Adam
                else second[i, j] - 0.3 * square * sign
            )
            model[i, j] += 0.1 * first[i, j] / (np.sqrt(second[i, j]) + 0.05)
        assert (
            str(here.dtype).removeprefix("torch.")
            == str(state["second"].dtype).removeprefix("torch.")
            == dtype
        )
        np.testing.assert_allclose(
            here, model, rtol=1e-4 if dtype == "float32" else 1e-12, atol=1e-6
        )


def test_the_velocity_is_that_of_the_models():
    """θ(t) − θ(t−1) = lr·v(t) and v(t) = momentum·v(t−1) + the mean's change: the first
    step is lr times that of averaging.
    """
    averaged, own = (
        simulate(*TWO),
        simulate(*TWO, 'server={kind = "momentum", momentum = 0.7, lr = 0.5}'),
    )
    start = own.theta
    averaged.step()
    own.step()
    first = own.theta
    np.testing.assert_allclose(
        first - start, 0.5 * (averaged.theta - start), rtol=1e-7, atol=1e-7
    )
    own.step()
    np.testing.assert_allclose(
        own.theta - first, 0.5 * own.models.server["velocity"], rtol=1e-7, atol=1e-7
    )
