"""The server's model and what its strategy remembers: averages, and a file that is
whole or not there.
"""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord
from flwr.serverapp.strategy import FedAvg
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import DataError, SettingError
from headgate.flower.averaging import average, mean_of_models, row, server_step
from headgate.flower.parameters import (
    StrategyMemory,
    keep_only,
    read_parameters,
    write_parameters,
)
from headgate.learning.server import Average, Momentum, ServerUpdate

MODEL = {
    "w": np.array([1.0, -2.0]),
    "b": np.float32(0.5) * np.ones(1, np.float32),
    "steps": np.array(3),
}
VALUES = st.lists(
    st.tuples(st.floats(-1e3, 1e3), st.integers(0, 99), st.floats(0.01, 1.0)),
    min_size=1,
    max_size=6,
)


@given(VALUES)
def test_an_average_is_the_weighted_mean_and_keeps_types(drawn):
    weights = np.array([weight for _, _, weight in drawn])
    weights /= weights.sum()
    updates = [
        {"w": np.full(2, x), "b": np.full(1, x, np.float32), "steps": np.array(n)}
        for x, n, _ in drawn
    ]
    after = average(MODEL, updates, weights)
    mean = sum(w * x for w, (x, _, _) in zip(weights, drawn, strict=True))
    assert after["w"] == pytest.approx(np.full(2, mean), abs=1e-9)
    assert {name: array.dtype for name, array in after.items()} == {
        name: array.dtype for name, array in MODEL.items()
    }
    steps = sum(w * n for w, (_, n, _) in zip(weights, drawn, strict=True))
    assert abs(after["steps"] - steps) <= 0.5 + 1e-9


def test_a_server_update_moves_real_numbers_and_remembers():
    rule = Momentum(momentum=0.5)
    mean = {
        "w": np.array([2.0, 0.0]),
        "b": np.array([1.5], np.float32),
        "steps": np.array(4),
    }
    one, state = server_step(rule, 1, MODEL, mean, rule.start(row(MODEL)))
    two, state = server_step(rule, 2, one, one, state)
    assert one["w"].tolist() == [2.0, 0.0]
    assert two["w"].tolist() == [2.5, 1.0]  # half of the last step again
    assert (two["b"].dtype, two["b"].tolist(), int(two["steps"])) == (
        np.float32,
        [2.0],
        4,
    )
    assert {name: array.tolist() for name, array in state.items()} == {
        "velocity": [[0.5, 0.5, 1.0]]
    }
    plain, _ = server_step(Average(), 1, MODEL, mean, {})
    assert all(np.array_equal(plain[name], mean[name]) for name in MODEL)


def test_the_mean_of_models_moves_real_numbers():
    assert mean_of_models(1, MODEL, MODEL, None) is None
    one = {
        "w": np.array([3.0, 1.0]),
        "b": np.array([2.5], np.float32),
        "steps": np.array(4),
    }
    mean = mean_of_models(1, MODEL, one, 0.0)
    assert mean["w"].tolist() == [3.0, 1.0]  # the first model is the mean of itself
    two = {
        "w": np.array([1.0, 3.0]),
        "b": np.array([0.5], np.float32),
        "steps": np.array(6),
    }
    mean = mean_of_models(2, mean, two, 0.0)
    assert (mean["w"].tolist(), mean["b"].tolist(), int(mean["steps"])) == (
        [2.0, 2.0],
        [1.5],
        6,
    )
    assert mean["b"].dtype == np.float32


def test_a_server_update_of_another_shape_is_refused():
    class Wrong(ServerUpdate):
        def step(self, t, model, mean, state):
            return mean[0, :1], state

    with pytest.raises(
        SettingError, match=r"Wrong.step gave \(1,\) for a model of \(1, 3\)"
    ):
        server_step(Wrong(), 1, MODEL, MODEL, {})


KEPT = {
    "number": 2.5,
    "array": np.arange(6).reshape(2, 3),
    "by_name": {"w": np.ones(2), "b": np.zeros((), np.uint8)},
    "rows": [np.zeros(3), np.ones(1)],
    "trees": b"\x00bytes",
    "arrays": ArrayRecord(
        {"b": Array(np.ones(1, np.float32)), "a": Array(np.zeros(2))}
    ),
    "settings": ConfigRecord({"lr": 0.5, "names": ["x", "y"]}),
    "weighted_by_key": None,
    "fraction_train": 0.5,
}


class Remembering(FedAvg):
    """A strategy with attributes of every kind that can be saved, and one that
    cannot.
    """

    def __init__(self):
        super().__init__()
        self.number, self.handle = None, object()


def test_what_a_strategy_remembers_is_in_the_file_and_comes_back(tmp_path):
    strategy = Remembering()
    memory = StrategyMemory(strategy)
    assert (memory.unsaved, dict(memory.now())) == (["handle"], {})
    vars(strategy).update(KEPT)
    model, read = read_parameters(
        tmp_path, *write_parameters(tmp_path, 2, MODEL, memory.now())
    )
    assert list(model) == list(MODEL), "some strategies go by the places of arrays"
    again = Remembering()
    StrategyMemory(again).restore(read)
    for name, value in KEPT.items():
        assert type(getattr(again, name)) is type(value)
        assert repr(getattr(again, name)) == repr(value)
    memory.restore({})
    assert (strategy.number, strategy.fraction_train) == (None, 1.0)


def test_parameters_survive_and_damage_is_noticed(tmp_path):
    name, digest = write_parameters(tmp_path, 12, MODEL)
    assert name == "00000012.safetensors"
    there, memory = read_parameters(tmp_path, name, digest)
    assert dict(memory) == {}
    for key, array in MODEL.items():
        assert there[key].dtype == array.dtype
        assert np.array_equal(there[key], array)
    with pytest.raises(DataError, match="is damaged"):
        read_parameters(tmp_path, name, "0" * 64)
    with pytest.raises(DataError, match="cannot be read"):
        read_parameters(tmp_path, "none", digest)
    write_parameters(tmp_path, 13, MODEL)
    (tmp_path / ".00000014.safetensors.partial").write_bytes(b"half")
    keep_only(tmp_path, ["00000013.safetensors"])
    assert [path.name for path in tmp_path.iterdir()] == ["00000013.safetensors"]
