"""Models, their flat vectors, and the settings and batch orders of local training."""

import itertools
import sys
import textwrap

import numpy as np
import pytest
import torch
from torch import nn

from headgate.errors import SettingError
from headgate.learning.local import LocalTraining, batch_order, schedule
from headgate.learning.models import MODEL, LeNet, Logistic, OwnModel, ResNet9
from headgate.learning.networks import Flat, Residual, build_model, initial_parameters


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
    shapes = [tuple(parameter.shape) for parameter in build_model(LeNet(), (1, 28, 28), 10).parameters()]
    assert shapes[0::2] == [(6, 1, 5, 5), (16, 6, 5, 5), (120, 400), (84, 120), (10, 84)]
    assert shapes[1::2] == [(6,), (16,), (120,), (84,), (10,)]


@pytest.mark.parametrize(
    ("shape", "features"), [((1, 28, 28), 400), ((3, 32, 32), 400), ((1, 28, 32), 320), ((3, 64, 64), 2704)]
)
def test_lenet_fits_images_of_28_and_more(shape, features):
    model = build_model(LeNet(), shape, 7)
    assert model[7].in_features == features
    assert model[0].padding == ((2, 2) if shape[1:] == (28, 28) else (0, 0))


@pytest.mark.parametrize(("name", "least"), [("lenet", 28), ("resnet9", 8)])
def test_too_small_images_are_refused(name, least):
    refusal = f"^model.kind = {name}: needs images of {least}x{least} or more, these are {least - 1}x32$"
    with pytest.raises(SettingError, match=refusal):
        build_model(MODEL.kinds[name](), (1, least - 1, 32), 10)


def test_resnet9_has_its_blocks_and_six_and_a_half_million_parameters():
    model = build_model(ResNet9(), (3, 32, 32), 10)
    assert size_of(model) == 6_573_130
    convolutions = [part for part in model.modules() if isinstance(part, nn.Conv2d)]
    assert [(part.in_channels, part.out_channels) for part in convolutions] == [
        (3, 64), (64, 128), (128, 128), (128, 128), (128, 256), (256, 512), (512, 512), (512, 512),
    ]  # fmt: skip
    assert all(part.bias is None and part.kernel_size == (3, 3) and part.padding == (1, 1) for part in convolutions)
    assert [part.num_groups for part in model.modules() if isinstance(part, nn.GroupNorm)] == [32] * 8
    assert len([part for part in model.modules() if isinstance(part, nn.Mish)]) == 8
    assert len([part for part in model.modules() if isinstance(part, nn.MaxPool2d)]) == 3


def test_a_residual_adds_what_it_computes():
    images = torch.randn(2, 3)
    assert torch.equal(Residual(nn.Tanh())(images), images + torch.tanh(images))


# flat vectors


@pytest.mark.parametrize("name", ["logistic", "lenet"])
def test_initial_parameters_are_those_of_torch_and_leave_its_generator_alone(name):
    model = MODEL.kinds[name]()
    torch.manual_seed(5)
    expected = torch.cat([parameter.detach().flatten() for parameter in build_model(model, (1, 28, 28), 10).parameters()])
    torch.manual_seed(99)
    state = torch.get_rng_state()
    first, again = (initial_parameters(model, (1, 28, 28), 10, seed=5) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first, expected)
    assert torch.equal(first, again)
    assert first.dtype == torch.float32
    assert not first.requires_grad


def test_initial_parameters_differ_between_seeds():
    assert not torch.equal(*(initial_parameters(LeNet(), (1, 28, 28), 10, seed) for seed in (1, 2)))


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
    assert all(parameter.any() for parameter in parameters.values())  # a vector is a copy


def test_flat_views_keep_leading_dimensions():
    flat = Flat(nn.Linear(3, 2))
    vectors = torch.randn(4, 5, 8)
    views = flat.views(vectors)
    assert torch.equal(views["weight"], vectors[..., :6].unflatten(-1, (2, 3)))
    assert torch.equal(views["bias"], vectors[..., 6:])


def test_flat_views_pass_gradients_on():
    flat = Flat(nn.Linear(3, 2))
    vector = torch.randn(8, requires_grad=True)
    views = flat.views(vector)
    (gradient,) = torch.autograd.grad(views["weight"].pow(2).sum() + 3 * views["bias"].sum(), vector)
    torch.testing.assert_close(gradient, torch.cat([2 * vector[:6], torch.full((2,), 3.0)]))


# a user's class


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    """Writes a module into the working folder and gives its name, a new one each time."""
    monkeypatch.chdir(tmp_path)
    numbers = itertools.count()

    def write(source):
        name = f"own_models_{tmp_path.name}_{next(numbers)}".replace("-", "_")
        (tmp_path / f"{name}.py").write_text("import torch\nfrom torch import nn\n" + textwrap.dedent(source))
        return name

    yield write
    for name in [name for name in sys.modules if name.startswith("own_models_")]:
        del sys.modules[name]


def test_a_class_of_two_arguments_is_given_shape_and_classes(own_module):
    module = own_module(
        """
        class Net(nn.Sequential):
            def __init__(self, shape, classes):
                super().__init__(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], classes))
        """
    )
    before = list(sys.path)
    model = build_model(OwnModel(f"{module}:Net"), (3, 4, 5), 6)
    assert model[1].weight.shape == (6, 60)
    assert sys.path == before
    assert initial_parameters(OwnModel(f"{module}:Net"), (3, 4, 5), 6, seed=1).shape == (6 * 61,)


def test_a_class_without_arguments_is_called_without(own_module):
    module = own_module(
        """
        class Net(nn.Sequential):
            def __init__(self):
                super().__init__(nn.Flatten(), nn.Linear(60, 6))
        """
    )
    assert build_model(OwnModel(f"{module}:Net"), (3, 4, 5), 6)[1].in_features == 60


BUILT = """
from headgate.learning.models import Model
class Net(Model):
    def build(self, shape, classes):
        return {}
"""
REFUSED = {
    "has a buffer (1.running_mean), which no client would share": "nn.Flatten(), nn.BatchNorm1d(60), nn.Linear(60, 6)",
    "what it returns for an image depends on the images beside it": (
        "nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4, track_running_stats=False), nn.Flatten(), nn.Linear(80, 6)"
    ),
    "has no parameters to learn": "nn.Flatten()",
    "has dropout (1), whose draws would not be repeatable": "nn.Flatten(), nn.Dropout(0.5), nn.Linear(60, 6)",
    "the parameter 1.weight is frozen": "nn.Flatten(), nn.Linear(60, 6).requires_grad_(False)",
    "must return (n, 6) for n images, returns (2, 7) for 2": "nn.Flatten(), nn.Linear(60, 7)",
    "must return (n, 6) for n images, returns (2, 3, 4, 6) for 2": "nn.Linear(5, 6)",
    "must return (n, 6) for n images, returns tuple for 2": "nn.Flatten(), nn.GRU(60, 6)",
    "fails on images of 3x4x5 (RuntimeError: mat1 and mat2": "nn.Flatten(), nn.Linear(61, 6)",
}


@pytest.mark.parametrize("reason", REFUSED)
def test_models_that_cannot_be_averaged_or_scored_are_refused(own_module, reason):
    module = own_module(BUILT.format(f"nn.Sequential({REFUSED[reason]})"))
    with pytest.raises(SettingError) as refusal:
        build_model(OwnModel(f"{module}:Net"), (3, 4, 5), 6)
    assert str(refusal.value).startswith(f"model.kind = {module}:Net: {reason}")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("source", "name", "reason"),
    [
        ("1 / 0", "Net", "cannot be imported (ZeroDivisionError: division by zero)"),
        ("Net = 3", "Net", "must be a class, a subclass of Model or Module"),
        ("", "Net", " has no Net"),
        ("def net(): return nn.Linear(60, 6)", "net", "must be a class, a subclass of Model or Module"),
        (BUILT.format("3"), "Net", "must make a torch.nn.Module, made int"),
        (
            "class Net(nn.Module):\n    def __init__(self, shape, classes):\n        raise OSError('no\\nfile')",
            "Net",
            "OSError: no file",
        ),
    ],
)
def test_what_is_no_model_is_refused_in_one_line(own_module, source, name, reason):
    module = own_module(source)
    with pytest.raises(SettingError) as refusal:
        build_model(OwnModel(f"{module}:{name}"), (3, 4, 5), 6)
    assert str(refusal.value).startswith(f"model.kind = {module}:{name}: ")
    assert reason in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_model_is_a_part_and_may_be_one_of_the_users(own_module):
    module = own_module(
        """
        from dataclasses import dataclass
        from headgate.learning.models import Model

        @dataclass(frozen=True)
        class Wide(Model):
            width: int = 3

            def build(self, shape, classes):
                return nn.Sequential(nn.Flatten(), nn.Linear(60, self.width), nn.Tanh(), nn.Linear(self.width, classes))
        """
    )
    assert build_model(OwnModel(f"{module}:Wide", {"width": 7}), (3, 4, 5), 6)[1].out_features == 7
    with pytest.raises(SettingError, match=r"model\.widht: unknown key; did you mean width\?"):
        build_model(OwnModel(f"{module}:Wide", {"widht": 7}), (3, 4, 5), 6)
    assert [MODEL.kinds[kind]().kind for kind in MODEL.kinds] == ["logistic", "lenet", "resnet9"]


# local training


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"lr": -1}, "lr = -1: must be a positive, finite number"),
        ({"lr": 0.0}, "lr = 0.0: must be a positive, finite number"),
        ({"lr": float("inf")}, "lr = inf: must be a positive, finite number"),
        ({"steps": 0}, "steps = 0: must be a whole number, 1 or more"),
        ({"steps": 1.5}, "steps = 1.5: must be a whole number, 1 or more"),
        ({"steps": True}, "steps = True: must be a whole number, 1 or more"),
        ({"momentum": -0.1}, "momentum = -0.1: must be a finite number, zero or more"),
        ({"momentum": 1.0}, "momentum = 1.0: must be less than 1"),
        ({"weight_decay": float("nan")}, "weight_decay = nan: must be a finite number, zero or more"),
        ({"batch_size": 0}, "batch_size = 0: must be a whole number, 1 or more"),
        ({"batch_size": 8, "steps": 65_537}, "steps = 65537: at most 65536 epochs of mini-batches"),
    ],
)
def test_meaningless_training_is_refused(settings, refusal):
    with pytest.raises(SettingError) as raised:
        LocalTraining(**{"lr": 0.1, "steps": 1, **settings})
    assert str(raised.value) == refusal


def test_batch_orders_are_permutations_and_differ_with_every_part_of_their_address():
    base = {"seed": 3, "client": 4, "t": 5, "epoch": 6, "n": 50}
    order = batch_order(**base)
    assert np.array_equal(np.sort(order), np.arange(50))
    assert np.array_equal(order, batch_order(**base))
    others = [batch_order(**{**base, key: base[key] + 1}) for key in ("seed", "client", "t", "epoch")]
    for one, other in itertools.combinations([order, *others], 2):
        assert not np.array_equal(one, other)


def test_each_sample_is_as_likely_in_each_place():
    orders = np.array([batch_order(seed=1, client=0, t=t, epoch=0, n=4) for t in range(1, 2001)])
    for place in range(4):
        assert np.bincount(orders[:, place]) == pytest.approx(500, abs=5 * np.sqrt(2000 * 3 / 16))


@pytest.mark.parametrize(("key", "value"), [("t", 1 << 24), ("epoch", 1 << 16), ("n", 1 << 24), ("t", -1)])
def test_addresses_that_would_meet_others_are_refused(key, value):
    with pytest.raises(SettingError, match=f"^{key} = {value}: mini-batches are addressed for 0 to"):
        batch_order(**{"seed": 0, "client": 0, "t": 0, "epoch": 0, "n": 3, key: value})


def test_a_schedule_passes_over_the_buffer_once_an_epoch():
    batches = list(schedule(LocalTraining(0.1, steps=3, batch_size=4), seed=1, client=2, t=3, n=10))
    assert [len(rows) for rows in batches] == [4, 4, 2] * 3
    for epoch in range(3):
        order = np.concatenate(batches[3 * epoch : 3 * epoch + 3])
        assert np.array_equal(order, batch_order(seed=1, client=2, t=3, epoch=epoch, n=10))


def test_a_schedule_without_batches_takes_all_rows_at_every_step():
    assert list(schedule(LocalTraining(0.1, steps=3), seed=1, client=2, t=3, n=10)) == [slice(None)] * 3
