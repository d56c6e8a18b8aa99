"""What clients minimise, from the recipe on: who is fresh, who agrees, and what becomes
of a run that breaks down.
"""

import numpy as np
import pytest

from headgate.learning.objectives import OBJECTIVE

from ..learning import losses_written_out as written
from .digits import TWO, batches, played, simulate

SMALL = [
    *TWO,
    "run.rounds=6",
    'run.policies=["headgate", "constant"]',
    "training.steps=2",
]
KINDS = [kind for kind in OBJECTIVE.kinds if kind != "plain"]


def test_each_kind_learns_something_else():
    ends = [
        played(*SMALL, f"objective.kind={kind}")[0].theta.tobytes()
        for kind in OBJECTIVE.kinds
    ]
    assert len(set(ends)) == len(ends)


@pytest.mark.parametrize(
    ("setting", "executor"),
    [("model.kind=logistic", "gram"), ("training.batch_size=4", "flat")],
)
def test_auto_finds_one_that_does_it(setting, executor):
    assert (
        simulate(*SMALL, setting, "objective.kind=fedlc").learner.executor.name
        == executor
    )


@pytest.mark.parametrize(
    "more",
    [
        [],
        ["data.late=2"],
        ['policies.constant.rule={kind="reservoir"}'],
        ["training.cohort=3"],
    ],
)
def test_fresh_is_what_a_client_has_labels_of_since_this_round(more, monkeypatch):
    own = simulate(*SMALL, "objective={kind='fresh', share=0.7}", *more)
    seen = batches(own, monkeypatch)
    mixed, held_before = 0, [set() for _ in own.run_seeds]
    for _ in range(own.experiment.rounds):
        now = own._prepare(own.t + 1, own.ledgers, own.purchases)
        own.step()
        packed = seen[-1]
        for segment, (first, last) in enumerate(
            zip(packed.offsets[:-1], packed.offsets[1:], strict=True)
        ):
            run, client = divmod(segment, now.clients.shape[1])
            who = int(now.clients[run, client])
            places = [(who, int(sample)) for sample in now.samples[first:last]]
            new = now.new[first:last].tolist()
            expected = written.share_of_fresh(new, 0.7)
            np.testing.assert_allclose(packed.factors[first:last], expected)
            mixed += len(set(expected)) > 1
            if (
                not own.experiment.training.cohort
            ):  # what was trained on before is old, and all else is fresh
                assert [place not in held_before[run] for place in places] == new
                held_before[run].update(places)
    assert mixed > 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_breaks_down_is_lost_and_leaves_the_others_alone(kind):
    own, other = (
        simulate(*SMALL, f"objective.kind={kind}", "training.average=2")
        for _ in range(2)
    )
    for _ in range(3):
        own.step()
        other.step()
    broken = own.models.theta.copy()
    broken[0, 0] = np.nan
    own.models = own.models._replace(theta=broken)
    for _ in range(3):
        found, rows = own.step().metrics, other.step().metrics
    assert own.diverged[0] > 0
    assert (own.diverged[1:] == 0).all()
    np.testing.assert_array_equal(own.theta[1:], other.theta[1:])
    assert rows[1:] == found[1:]
