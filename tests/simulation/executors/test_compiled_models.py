"""Which models are compiled, and when another executor is picked."""

import importlib.util

import pytest
import torch
from torch import nn

from headgate.errors import SettingError
from headgate.learning.local import LocalTraining
from headgate.simulation.executors import choose
from headgate.simulation.executors.flat import FlatLoop

from .compiled_nets import GREY, like_lenet
from .worlds import CLASSES, task_of

pytest.importorskip("numba")


def ending(*layers):
    """Some layers that keep 2x8x8, and what makes a model of them."""
    return nn.Sequential(nn.Conv2d(1, 2, 1), *layers, nn.Flatten(), nn.Linear(128, CLASSES))


def twice_the_same():
    layer = nn.Conv2d(1, 1, 3, padding=1)
    return nn.Sequential(layer, layer, nn.Flatten(), nn.Linear(64, CLASSES))


class Own(nn.Sequential):
    def forward(self, x):
        return 2 * super().forward(x)


CONV = "must be square, of stride 1 and one group, padded with zeros"
POOL = "must have square windows side by side, without padding"
REFUSED = [
    (nn.Sequential(nn.Flatten(), nn.Linear(64, 40_000), nn.ReLU(), nn.Linear(40_000, CLASSES)), "made for small models"),
    (Own(*like_lenet()), "as a torch.nn.Sequential does; Own does not"),
    (ending(nn.GroupNorm(1, 2)), "the model has a GroupNorm, only Conv2d, Linear, .* are compiled"),
    (ending(nn.Sequential(nn.ReLU())), "the model has a Sequential, only"),
    (ending(nn.Conv2d(2, 2, 3, stride=2)), CONV),
    (ending(nn.Conv2d(2, 2, 3, padding=2, dilation=2)), CONV),
    (ending(nn.Conv2d(2, 2, 3, padding=1, groups=2)), CONV),
    (ending(nn.Conv2d(2, 2, 3, padding="same")), CONV),
    (ending(nn.Conv2d(2, 2, (3, 1), padding=(1, 0))), CONV),
    (ending(nn.Conv2d(2, 2, 3, padding=1, padding_mode="circular")), CONV),
    (ending(nn.MaxPool2d(3, stride=1, padding=1)), POOL),
    (ending(nn.MaxPool2d(2, ceil_mode=True)), POOL),
    (ending(nn.MaxPool2d((1, 2))), POOL),
    (ending(nn.AvgPool2d(1, divisor_override=2)), POOL),
    (ending(nn.Linear(8, 8)), r"Linear\(.* does not take what comes before it \(2x8x8\)"),
    (ending(nn.MaxPool2d(9)), "does not take what comes before it"),
    (nn.Sequential(nn.Conv2d(1, 1, 1), nn.Flatten(2), nn.Linear(64, CLASSES)), "Flatten.* does not take"),
    (nn.Sequential(nn.Conv2d(1, 1, 1), nn.Flatten(), nn.Linear(64, 9)), "the model gives 9, must give 4"),
    (twice_the_same(), "two layers of the model share parameters"),
    (ending(nn.Conv2d(2, 2000, 3, padding=1), nn.Conv2d(2000, 2, 3, padding=1)), "made for small images"),
]


@pytest.mark.parametrize(("model", "why"), REFUSED)
def test_a_model_that_does_not_fit_is_refused_and_auto_takes_another(model, why):
    task = task_of(model, GREY)
    with pytest.raises(SettingError, match=f"--executor compiled: .*{why}"):
        choose(task, LocalTraining(0.1, 1), "compiled")
    assert choose(task, LocalTraining(0.1, 1, batch_size=4)).name == "flat"


def test_what_else_does_not_fit(monkeypatch):
    task = task_of(like_lenet(), GREY)
    assert choose(task, LocalTraining(0.1, 1, 0.9, 0.1)).name == "compiled"
    assert choose(task, LocalTraining(0.1, 1, batch_size=4)).name == "compiled"
    for other in ({"dtype": torch.float16}, {"device": torch.device("cuda")}):
        with pytest.raises(SettingError, match=r"only for float32 or float64 on the CPU, not torch\.float"):
            choose(task_of(like_lenet(), GREY, **other), LocalTraining(0.1, 1), "compiled")
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "numba" else find(name))
    assert type(choose(task, LocalTraining(0.1, 1))) is FlatLoop
    with pytest.raises(SettingError, match="--executor compiled: needs numba, which is not installed"):
        choose(task, LocalTraining(0.1, 1), "compiled")
