"""The server's model: averages, and a file that is whole or not there."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import DataError, SettingError
from headgate.flower.parameters import ServerModel, average, keep_only, read_parameters, write_parameters
from headgate.learning.server import Average, Momentum, ServerUpdate

MODEL = {"w": np.array([1.0, -2.0]), "b": np.float32(0.5) * np.ones(1, np.float32), "steps": np.array(3)}
VALUES = st.lists(st.tuples(st.floats(-1e3, 1e3), st.integers(0, 99), st.floats(0.01, 1.0)), min_size=1, max_size=6)


@given(VALUES)
def test_an_average_is_the_weighted_mean_and_keeps_types(drawn):
    weights = np.array([weight for _, _, weight in drawn])
    weights /= weights.sum()
    updates = [{"w": np.full(2, x), "b": np.full(1, x, np.float32), "steps": np.array(n)} for x, n, _ in drawn]
    after = average(MODEL, updates, weights)
    mean = sum(w * x for w, (x, _, _) in zip(weights, drawn, strict=True))
    assert after["w"] == pytest.approx(np.full(2, mean), abs=1e-9)
    assert {name: array.dtype for name, array in after.items()} == {name: array.dtype for name, array in MODEL.items()}
    steps = sum(w * n for w, (_, n, _) in zip(weights, drawn, strict=True))
    assert abs(after["steps"] - steps) <= 0.5 + 1e-9


def test_without_updates_the_model_is_the_same_to_the_bit():
    after = average(MODEL, [], np.zeros(0))
    assert all(after[name] is MODEL[name] for name in MODEL)


def test_a_server_update_moves_real_numbers_and_remembers(tmp_path):
    first = ServerModel.first(MODEL, Momentum(momentum=0.5))
    mean = {"w": np.array([2.0, 0.0]), "b": np.array([1.5], np.float32), "steps": np.array(4)}
    one = first.step(1, mean, Momentum(momentum=0.5))
    two = one.step(2, one.model, Momentum(momentum=0.5))
    assert one.model["w"].tolist() == [2.0, 0.0]
    assert two.model["w"].tolist() == [2.5, 1.0]  # half of the last step again
    assert (two.model["b"].dtype, two.model["b"].tolist(), int(two.model["steps"])) == (np.float32, [2.0], 4)
    back = read_parameters(tmp_path, *write_parameters(tmp_path, 2, two))
    assert {name: array.tolist() for name, array in back.state.items()} == {"velocity": [[0.5, 0.5, 1.0]]}
    assert all(np.array_equal(back.model[name], two.model[name]) for name in MODEL)
    plain = ServerModel.first(MODEL, Average()).step(1, mean, Average())
    assert all(np.array_equal(plain.model[name], mean[name]) for name in MODEL)


def test_the_mean_of_models_is_judged_and_survives(tmp_path):
    first = ServerModel.first(MODEL, Average())
    assert first.averaged(1, None).mean is None
    assert first.judged is first.model
    one = first.step(1, {"w": np.array([3.0, 1.0]), "b": np.array([2.5], np.float32), "steps": np.array(4)}, Average())
    one = one.averaged(1, 0.0)
    assert one.judged["w"].tolist() == [3.0, 1.0]  # the first model is the mean of itself
    two = one.step(2, {"w": np.array([1.0, 3.0]), "b": np.array([0.5], np.float32), "steps": np.array(6)}, Average())
    two = two.averaged(2, 0.0)
    assert two.model["w"].tolist() == [1.0, 3.0]
    assert (two.judged["w"].tolist(), two.judged["b"].tolist(), int(two.judged["steps"])) == ([2.0, 2.0], [1.5], 6)
    assert two.judged["b"].dtype == np.float32
    back = read_parameters(tmp_path, *write_parameters(tmp_path, 2, two))
    assert all(np.array_equal(back.judged[name], two.judged[name]) for name in MODEL)
    assert back.model.keys() == MODEL.keys()


def test_a_server_update_of_another_shape_is_refused():
    class Wrong(ServerUpdate):
        def step(self, t, model, mean, state):
            return mean[0, :1], state

    with pytest.raises(SettingError, match=r"Wrong.step gave \(1,\) for a model of \(1, 3\)"):
        ServerModel.first(MODEL, Wrong()).step(1, MODEL, Wrong())


def test_parameters_survive_and_damage_is_noticed(tmp_path):
    name, digest = write_parameters(tmp_path, 12, ServerModel(MODEL, {}))
    assert name == "00000012.safetensors"
    there = read_parameters(tmp_path, name, digest).model
    for key, array in MODEL.items():
        assert there[key].dtype == array.dtype
        assert np.array_equal(there[key], array)
    with pytest.raises(DataError, match="is damaged"):
        read_parameters(tmp_path, name, "0" * 64)
    with pytest.raises(DataError, match="cannot be read"):
        read_parameters(tmp_path, "none", digest)
    write_parameters(tmp_path, 13, ServerModel(MODEL, {}))
    (tmp_path / ".00000014.safetensors.partial").write_bytes(b"half")
    keep_only(tmp_path, ["00000013.safetensors"])
    assert [path.name for path in tmp_path.iterdir()] == ["00000013.safetensors"]
