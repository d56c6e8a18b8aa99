"""One client among several decides neither the model nor the measurement."""

from contextlib import closing

import numpy as np
import pytest
from flwr.app import Message, MetricRecord, RecordDict
from hostile import with_arrays
from worlds import World, an_experiment, counting_app, start

from headgate.errors import DataError
from headgate.flower.averaging import UNKNOWN, capped
from headgate.flower.rounds import Discipline, Update, check_update
from headgate.flower.strategy import AdmissionStrategy
from headgate.records.reader import RunFolder

NOTHING_KNOWN = [UNKNOWN, UNKNOWN]
MODEL = {"w": np.zeros(2), "steps": np.zeros((), np.int64)}


def of_length(*lengths, steps=1):
    return [
        Update(m, 1, {"w": np.array([length, 0.0]), "steps": np.array(steps)}, {})
        for m, length in enumerate(lengths)
    ]


def last_model(world):
    with closing(world.strategy()) as strategy:
        return {
            name: array.numpy()
            for name, array in strategy.start(world.grid, start()).arrays.items()
        }


LIES = {
    "far": with_arrays(w=np.full(2, -1e100)),
    "whole numbers": with_arrays(steps=np.array(-(2**50))),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_huge_update_moves_the_model_no_farther_than_an_ordinary_one(tmp_path, lie):
    honest = World(tmp_path / "honest", an_experiment("fifo", 6))
    world = World(tmp_path / "lied", an_experiment("fifo", 6))
    world.grid.faults = {(t, 1): "reply changed" for t in range(1, 7)}
    world.grid.tamper = LIES[lie]
    expected, found = last_model(honest), last_model(world)
    for name, array in expected.items():
        assert np.all(np.abs(found[name] - array) <= 2 * np.abs(array).max() + 1), name
    events = world.events("shortened")
    assert [(event.round, event.client) for event in events] == [
        (t, 1) for t in range(1, 7)
    ]
    assert "more than 10 times the median" in events[0].reason
    assert honest.events("shortened") == []
    assert (
        RunFolder.open(tmp_path / "lied" / "run").state["discipline"]["norm_multiple"]
        == 10.0
    )


def test_what_is_not_too_long_is_left_as_it_is_to_the_bit():
    updates = of_length(1.0, 2.0, 20.0)
    same, medians, events = capped(1, updates, MODEL, 10.0, NOTHING_KNOWN)
    assert all(one is other for one, other in zip(same, updates, strict=True))
    assert (medians, events) == ([2.0, 1.0], [])
    (*_, longest), _, (event,) = capped(
        1, of_length(1.0, 2.0, 20.1), MODEL, 10.0, NOTHING_KNOWN
    )
    assert longest.model["w"].tolist() == [2.0, 0.0]
    assert (event.client, event.kind) == (2, "shortened")


def test_the_largest_median_so_far_is_the_measure():
    """Once most clients have learned what they hold, one that has new samples moves
    much farther than they do.
    """
    _, medians, _ = capped(1, of_length(2.0, 2.0, 2.0), MODEL, 10.0, NOTHING_KNOWN)
    same, after, events = capped(2, of_length(1e-6, 1e-6, 2.0), MODEL, 10.0, medians)
    assert (same[2].model["w"].tolist(), after, events) == ([2.0, 0.0], medians, [])


def test_two_updates_have_no_median_of_their_own():
    updates = of_length(1e-9, 5.0)
    same, medians, _ = capped(1, updates, MODEL, 10.0, NOTHING_KNOWN)
    assert (same, medians) == (updates, NOTHING_KNOWN)
    _, medians, _ = capped(1, of_length(1.0, 1.0, 1.0), MODEL, 10.0, NOTHING_KNOWN)
    assert [
        event.client
        for event in capped(2, of_length(1e99, 5.0), MODEL, 10.0, medians)[2]
    ] == [0]


def test_one_learner_moves_the_model_but_no_whole_numbers():
    updates = [
        *of_length(0.0, 0.0, steps=0),
        Update(2, 1, {"w": np.ones(2), "steps": np.array(7)}, {}),
    ]
    (*_, last), _, (event,) = capped(1, updates, MODEL, 10.0, NOTHING_KNOWN)
    assert (last.model["w"].tolist(), int(last.model["steps"])) == ([1.0, 1.0], 0)
    assert "whole numbers" in event.reason


def test_it_can_be_switched_off_and_goes_on_after_a_restart(tmp_path):
    world = World(
        tmp_path / "off",
        an_experiment("fifo", 6),
        Discipline(gather=0.0, norm_multiple=0),
    )
    world.grid.faults, world.grid.tamper = {(6, 1): "reply changed"}, LIES["far"]
    assert np.abs(last_model(world)["w"]).max() > 1e90
    world = World(tmp_path / "on", an_experiment("fifo", 6))
    world.play(5)
    world.grid.nodes.pop(100)  # two are left: the medians of earlier rounds count
    world.grid.faults, world.grid.tamper = {(6, 1): "reply changed"}, LIES["far"]
    world.play()
    assert [(event.round, event.client) for event in world.events("shortened")] == [
        (6, 1)
    ]


def test_whole_numbers_are_bounded_as_well():
    check_update({"steps": np.array(2**53)}, MODEL)
    for far in (2**53 + 2, 2**63 - 1, -(2**63)):
        with pytest.raises(DataError, match=r"steps moves whole numbers by more than"):
            check_update({"steps": np.array(far)}, MODEL)
    check_update(
        {"key": np.array(2**63 + 5, np.uint64)}, {"key": np.array(2**63, np.uint64)}
    )  # as the model has them


def test_clients_count_in_a_measurement_by_their_weight_in_the_recipe(tmp_path):
    app = counting_app(tmp_path / "stores")
    said = [(0.90, 10), (0.92, 20), (0.01, 2**53)]

    @app.evaluate()
    def evaluate(message, context):
        accuracy, examples = said[context.node_config["partition-id"]]
        record = MetricRecord({"accuracy": accuracy, "num-examples": examples})
        return Message(RecordDict({"metrics": record}), reply_to=message)

    for name, weights, mean in (("equal", None, 0.61), ("given", [1, 2, 1], 0.6875)):
        system = {"buffers": [3, 2, 4], "clients": 3, "budget": 9.0} | (
            {"weights": weights} if weights else {}
        )
        world = World(tmp_path / name, an_experiment("fifo", 1, system=system))
        world.use(app)
        strategy = AdmissionStrategy(
            world.experiment, tmp_path / name / "run", client_evaluation=True
        )
        with closing(strategy):
            found = strategy.start(world.grid, start()).evaluate_metrics_clientapp[1]
        assert found["accuracy"] == pytest.approx(mean)
