"""What helps all policies alike: the mean of the server's models, and images that are
moved.
"""

from functools import partial

import numpy as np
import pytest

from headgate.learning.local import moves, shifted
from headgate.learning.server import newest_share

from .digits import DATA, TWO, batches, simulate

SMALL = [*TWO, "run.rounds=6", 'run.policies=["headgate", "constant"]']


simulation = partial(simulate, *SMALL)


@pytest.mark.parametrize("executor", ["flat", "gram"])
def test_the_mean_model_is_judged_and_never_trained_on(executor):
    plain, averaged = (
        simulation(executor=executor),
        simulation("training.average=3", executor=executor),
    )
    mean = np.zeros_like(plain.theta)
    for t in range(1, 7):
        plain.step()
        metrics = averaged.step().metrics
        assert np.array_equal(plain.theta, averaged.theta)
        mean += newest_share(t, 3.0) * (plain.theta - mean)
        learner = averaged.learner
        accuracy, loss = map(learner.read, learner.judges[0](learner._put(mean)))
        assert [row["test_accuracy"] for row in metrics] == pytest.approx(
            accuracy.tolist()
        )
        assert [row["test_loss"] for row in metrics] == pytest.approx(loss.tolist())


@pytest.mark.parametrize("executor", ["reference", "gram"])
def test_every_sample_is_moved_by_its_own_move_of_the_round(monkeypatch, executor):
    moved = simulation("training.shift=2", executor=executor)
    seen = batches(moved, monkeypatch)
    now = moved._prepare(1, moved.ledgers, moved.purchases)
    moved.step()
    move = moves(2, np.array(moved.run_seeds)[now.runs], 1, now.samples)
    plain = DATA.train_images[now.batch.rows]
    assert np.array_equal(seen[0].images, shifted(plain, move, 2))
    assert not np.array_equal(seen[0].images, plain)
