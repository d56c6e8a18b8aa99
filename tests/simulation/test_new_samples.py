"""Which samples are new in a round, and what becomes of a run that breaks down."""

import numpy as np
import pytest

from .digits import TWO, batches, simulate

SMALL = [
    *TWO,
    "run.rounds=6",
    'run.policies=["headgate", "constant"]',
    "training.steps=2",
]


@pytest.mark.parametrize(
    "more",
    [
        [],
        ["data.late=2"],
        ['policies.constant.rule={kind="reservoir"}'],
        ["training.cohort=3"],
    ],
)
def test_new_is_what_a_client_has_labels_of_since_this_round(more, monkeypatch):
    own = simulate(*SMALL, *more)
    seen = batches(own, monkeypatch)
    mixed, held_before = 0, [set() for _ in own.run_seeds]
    for _ in range(own.experiment.rounds):
        now = own._prepare(own.t + 1, own.ledgers, own.purchases)
        own.step()
        packed = seen[-1]
        assert packed.factors is None
        assert len(now.new) == len(packed.labels)
        for segment, (first, last) in enumerate(
            zip(packed.offsets[:-1], packed.offsets[1:], strict=True)
        ):
            run, client = divmod(segment, now.clients.shape[1])
            who = int(now.clients[run, client])
            places = [(who, int(sample)) for sample in now.samples[first:last]]
            new = now.new[first:last].tolist()
            mixed += len(set(new)) > 1
            if (
                not own.experiment.training.cohort
            ):  # what was trained on before is old, and all else is new
                assert [place not in held_before[run] for place in places] == new
                held_before[run].update(places)
    assert mixed > 0


def test_a_run_that_breaks_down_is_lost_and_leaves_the_others_alone():
    own, other = (simulate(*SMALL, "training.average=2") for _ in range(2))
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
