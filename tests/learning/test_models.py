"""Models and their flat vectors."""

import sys

import pytest
import torch
from torch import nn

from headgate.errors import SettingError
from headgate.learning.models import MODEL, LeNet, Logistic, OwnModel, ResNet9
from headgate.learning.networks import Flat, build_model, initial_parameters


def size_of(model):
    return sum(parameter.numel() for parameter in model.parameters())


# the models


def test_logistic_starts_at_zero_and_is_linear():
    model = build_model(Logistic(), (1, 28, 28), 10)
    assert size_of(model) == 7850
    assert not any(parameter.any() for parameter in model.parameters())
    torch.nn.init.normal_(model[1].weight)
    images = torch.randn(3, 1, 28, 28)
    torch.testing.assert_close(model(images), images.flatten(1) @ model[1].weight.T)


def test_lenet_is_lenet_5():
    shapes = [
        tuple(parameter.shape)
        for parameter in build_model(LeNet(), (1, 28, 28), 10).parameters()
    ]
    assert shapes[0::2] == [
        (6, 1, 5, 5),
        (16, 6, 5, 5),
        (120, 400),
        (84, 120),
        (10, 84),
    ]
    assert shapes[1::2] == [(6,), (16,), (120,), (84,), (10,)]


@pytest.mark.parametrize(
    ("shape", "features"),
    [((1, 28, 28), 400), ((3, 32, 32), 400), ((1, 28, 32), 320), ((3, 64, 64), 2704)],
)
def test_lenet_fits_images_of_28_and_more(shape, features):
    model = build_model(LeNet(), shape, 7)
    assert model[7].in_features == features
    assert model[0].padding == ((2, 2) if shape[1:] == (28, 28) else (0, 0))


@pytest.mark.parametrize(("name", "least"), [("lenet", 28), ("resnet9", 8)])
def test_too_small_images_are_refused(name, least):
    refusal = (
        f"^model.kind = {name}: needs images of {least}x{least} or more, these are"
        f" {least - 1}x32$"
    )
    with pytest.raises(SettingError, match=refusal):
        build_model(MODEL.kinds[name](), (1, least - 1, 32), 10)


def test_resnet9_has_its_blocks_and_six_and_a_half_million_parameters():
    model = build_model(ResNet9(), (3, 32, 32), 10)
    assert size_of(model) == 6_573_130
    convolutions = [part for part in model.modules() if isinstance(part, nn.Conv2d)]
    assert [(part.in_channels, part.out_channels) for part in convolutions] == [
        (3, 64), (64, 128), (128, 128), (128, 128), (128, 256), (256, 512), (512, 512),
        (512, 512),
    ]  # fmt: skip
    assert all(
        part.bias is None and part.kernel_size == (3, 3) and part.padding == (1, 1)
        for part in convolutions
    )
    assert [
        part.num_groups for part in model.modules() if isinstance(part, nn.GroupNorm)
    ] == [32] * 8
    assert len([part for part in model.modules() if isinstance(part, nn.Mish)]) == 8
    assert (
        len([part for part in model.modules() if isinstance(part, nn.MaxPool2d)]) == 3
    )


# flat vectors


@pytest.mark.parametrize("name", ["logistic", "lenet"])
def test_initial_parameters_are_those_of_torch_and_leave_its_generator_alone(name):
    model = MODEL.kinds[name]()
    torch.manual_seed(5)
    expected = torch.cat(
        [
            parameter.detach().flatten()
            for parameter in build_model(model, (1, 28, 28), 10).parameters()
        ]
    )
    torch.manual_seed(99)
    state = torch.get_rng_state()
    first, again = (
        initial_parameters(model, (1, 28, 28), 10, seed=5) for _ in range(2)
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first, expected)
    assert torch.equal(first, again)
    assert first.dtype == torch.float32
    assert not first.requires_grad
    assert torch.equal(first, initial_parameters(model, (1, 28, 28), 10, seed=6)) == (
        name == "logistic"
    )


def test_flat_vectors_and_parameters_are_the_same_numbers_in_the_same_memory():
    model = build_model(LeNet(), (1, 28, 28), 10)
    flat = Flat(model)
    parameters = dict(model.named_parameters())
    vector = flat.vector(parameters)
    assert vector.shape == (flat.size,) == (61_706,)
    views = flat.views(vector)
    assert list(views) == list(parameters)
    assert all(torch.equal(views[name], parameters[name]) for name in parameters)
    vector.zero_()
    assert not any(view.any() for view in views.values())
    assert all(
        parameter.any() for parameter in parameters.values()
    )  # a vector is a copy


# a user's class


HEAD = "from torch import nn\n"


@pytest.mark.parametrize("arguments", ["", ", shape, classes"])
def test_a_class_is_given_shape_and_classes_if_it_takes_two_arguments(
    own_module, arguments
):
    size = "shape[0] * shape[1] * shape[2], classes" if arguments else "60, 6"
    init = (
        f"    def __init__(self{arguments}):\n"
        f"        super().__init__(nn.Flatten(), nn.Linear({size}))\n"
    )
    model, before = (
        OwnModel(
            f"{own_module(HEAD + 'class Net(nn.Sequential):' + chr(10) + init)}:Net"
        ),
        list(sys.path),
    )
    assert build_model(model, (3, 4, 5), 6)[1].weight.shape == (6, 60)
    assert sys.path == before
    assert initial_parameters(model, (3, 4, 5), 6, seed=1).shape == (6 * 61,)


BUILT = """
from headgate.learning.models import Model
class Net(Model):
    def build(self, shape, classes):
        return {}
"""
REFUSED = {
    "has a buffer (1.running_mean), which no client would share": (
        "nn.Flatten(), nn.BatchNorm1d(60), nn.Linear(60, 6)"
    ),
    "what it returns for an image depends on the images beside it": (
        "nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4, track_running_stats=False),"
        " nn.Flatten(), nn.Linear(80, 6)"
    ),
    "has no parameters to learn": "nn.Flatten()",
    "has dropout (1), whose draws would not be repeatable": (
        "nn.Flatten(), nn.Dropout(0.5), nn.Linear(60, 6)"
    ),
    "the parameter 1.weight is frozen": (
        "nn.Flatten(), nn.Linear(60, 6).requires_grad_(False)"
    ),
    "must return (n, 6) for n images, returns (2, 7) for 2": (
        "nn.Flatten(), nn.Linear(60, 7)"
    ),
    "must return (n, 6) for n images, returns tuple for 2": (
        "nn.Flatten(), nn.GRU(60, 6)"
    ),
    "fails on images of 3x4x5 (RuntimeError: mat1 and mat2": (
        "nn.Flatten(), nn.Linear(61, 6)"
    ),
}
NO_MODELS = {
    "must make a torch.nn.Module, made int": BUILT.format("3"),
    "must be a class, a subclass of Model or Module": (
        "def Net(): return nn.Linear(60, 6)"
    ),
    "cannot be imported (ZeroDivisionError: division by zero)": "1 / 0",
    "OSError: no file": (
        "class Net(nn.Module):\n"
        "    def __init__(self, *said): raise OSError('no\\nfile')"
    ),
    " has no Net": "",
}


@pytest.mark.parametrize("reason", [*REFUSED, *NO_MODELS])
def test_what_is_no_model_or_cannot_be_averaged_or_scored_is_refused_in_one_line(
    own_module, reason
):
    source = (
        NO_MODELS[reason]
        if reason in NO_MODELS
        else BUILT.format(f"nn.Sequential({REFUSED[reason]})")
    )
    module = own_module(HEAD + source)
    with pytest.raises(SettingError) as refusal:
        build_model(OwnModel(f"{module}:Net"), (3, 4, 5), 6)
    assert str(refusal.value).startswith(
        f"model.kind = {module}:Net: {reason * (reason in REFUSED)}"
    )
    assert reason in str(refusal.value)
    assert "\n" not in str(refusal.value)


WIDE = """
from dataclasses import dataclass
from headgate.learning.models import Model
@dataclass(frozen=True)
class Wide(Model):
    width: int = 3
    def build(self, shape, classes):
        inner = nn.Linear(60, self.width), nn.Tanh()
        return nn.Sequential(nn.Flatten(), *inner, nn.Linear(self.width, classes))
"""


def test_a_model_is_a_part_and_may_be_one_of_the_users(own_module):
    module = own_module(HEAD + WIDE)
    assert (
        build_model(OwnModel(f"{module}:Wide", {"width": 7}), (3, 4, 5), 6)[
            1
        ].out_features
        == 7
    )
    with pytest.raises(
        SettingError, match=r"model\.widht: unknown key; did you mean width\?"
    ):
        build_model(OwnModel(f"{module}:Wide", {"widht": 7}), (3, 4, 5), 6)
    assert [MODEL.kinds[kind]().kind for kind in MODEL.kinds] == [
        "logistic",
        "lenet",
        "resnet9",
    ]
