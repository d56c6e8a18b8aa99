"""The code of a client that needs torch: the shipped models, checks of models and the
SGD step.

A model is represented by a module, which states the computation, and a flat vector of
its parameters. Many runs can therefore share one module, and averaging models is
averaging vectors.
"""

from collections.abc import Callable, Mapping
from itertools import accumulate

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from headgate.errors import SettingError
from headgate.learning.local import LocalTraining
from headgate.learning.models import Model, Shape
from headgate.registry import in_one_line


def build_model(model: Model, shape: Shape, classes: int) -> nn.Module:
    """Build the module of `model` for images of `shape`; refuse a module that headgate
    cannot train.
    """
    made = model.build(shape, classes)
    name = model.kind
    if not isinstance(made, nn.Module):
        raise SettingError(
            f"model.kind = {name}: must make a torch.nn.Module, made"
            f" {type(made).__name__}"
        )
    _check_trainable(name, made)
    _check_output(name, made, shape, classes)
    return made


def initial_parameters(model: Model, shape: Shape, classes: int, seed: int) -> Tensor:
    """Return the initial parameters as a float32 vector, which the seed determines;
    torch's global generator is unchanged.
    """
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed would also seed the generators of every GPU, and those are
        # not restored.
        torch.default_generator.manual_seed(seed)
        made = build_model(model, shape, classes)
    return Flat(made).vector(dict(made.named_parameters())).to(torch.float32)


class Flat:
    """Conversion between a module's parameters and one vector, in the order of
    named_parameters.

    >>> flat = Flat(nn.Linear(3, 2))
    >>> {name: tuple(view.shape) for name, view in flat.views(torch.arange(8.0)).items()}
    {'weight': (2, 3), 'bias': (2,)}
    """

    def __init__(self, module: nn.Module) -> None:
        self.shapes = {
            name: tuple(parameter.shape)
            for name, parameter in module.named_parameters()
        }
        self.sizes = [parameter.numel() for parameter in module.parameters()]
        self.starts = list(accumulate(self.sizes, initial=0))
        self.size = self.starts[-1]

    def views(self, vector: Tensor) -> dict[str, Tensor]:
        """Return views of the parameters in a vector (..., size), by name; leading
        dimensions are kept.
        """
        # split instead of slices: its gradient is one concatenation, not one padded
        # vector for each parameter
        parts = torch.split_with_sizes(vector, self.sizes, dim=-1)
        return {
            name: part.reshape(*vector.shape[:-1], *shape)
            for (name, shape), part in zip(self.shapes.items(), parts, strict=True)
        }

    def vector(self, parameters: Mapping[str, Tensor]) -> Tensor:
        """Return the parameters as one new vector (size,), detached from any graph."""
        return torch.cat(
            [parameters[name].detach().reshape(-1) for name in self.shapes]
        )


# the models


def logistic(shape: Shape, classes: int) -> nn.Module:
    linear = nn.Linear(shape[0] * shape[1] * shape[2], classes)
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)
    return nn.Sequential(nn.Flatten(), linear)


def lenet(shape: Shape, classes: int) -> nn.Module:
    """Build LeNet-5 with ReLU and max-pooling; 28x28 images are padded to 32x32, the
    input size of LeNet-5.
    """
    channels, height, width = shape
    if min(height, width) < 28:
        raise SettingError(
            "model.kind = lenet: needs images of 28x28 or more, these are"
            f" {height}x{width}"
        )
    padding = 2 if height == width == 28 else 0

    def left(length: int) -> int:
        return ((length + 2 * padding - 4) // 2 - 4) // 2

    return nn.Sequential(
        nn.Conv2d(channels, 6, 5, padding=padding), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * left(height) * left(width), 120), nn.ReLU(),
        nn.Linear(120, 84), nn.ReLU(),
        nn.Linear(84, classes),
    )  # fmt: skip


class Residual(nn.Module):
    """A block that returns x + f(x), where f is a sequence of layers."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.f = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = self.f(x)
        return x + added


def resnet9(shape: Shape, classes: int) -> nn.Module:
    """Build ResNet-9 with Mish and GroupNorm, which, unlike BatchNorm, has no state
    besides its parameters.
    """
    channels, height, width = shape
    if min(height, width) < 8:
        raise SettingError(
            "model.kind = resnet9: needs images of 8x8 or more, these are"
            f" {height}x{width}"
        )

    def block(inward: int, outward: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(inward, outward, 3, padding=1, bias=False),
            nn.GroupNorm(32, outward),
            nn.Mish(),
        )

    return nn.Sequential(
        block(channels, 64),
        block(64, 128), nn.MaxPool2d(2), Residual(block(128, 128), block(128, 128)),
        block(128, 256), nn.MaxPool2d(2),
        block(256, 512), nn.MaxPool2d(2), Residual(block(512, 512), block(512, 512)),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(512, classes),
    )  # fmt: skip


SHIPPED = {"logistic": logistic, "lenet": lenet, "resnet9": resnet9}
"""builders of the shipped models, by their names in recipes"""


# checks of a model


def _check_trainable(name: str, model: nn.Module) -> None:
    """Refuse buffers and frozen parameters, which would not be averaged, and dropout,
    whose draws are not repeatable.
    """
    buffer = next((key for key, _ in model.named_buffers()), None)
    frozen = next(
        (
            key
            for key, parameter in model.named_parameters()
            if not parameter.requires_grad
        ),
        None,
    )
    dropping = next(
        (
            key
            for key, part in model.named_modules()
            if isinstance(part, _DropoutNd) and part.p > 0
        ),
        None,
    )
    if buffer is not None:
        hint = "take GroupNorm instead of BatchNorm"
        raise SettingError(
            f"model.kind = {name}: has a buffer ({buffer}), which no client would"
            f" share: {hint}"
        )
    if next(model.parameters(), None) is None:
        raise SettingError(f"model.kind = {name}: has no parameters to learn")
    if frozen is not None:
        raise SettingError(
            f"model.kind = {name}: the parameter {frozen} is frozen, all must be learnt"
        )
    if dropping is not None:
        raise SettingError(
            f"model.kind = {name}: has dropout ({dropping}), whose draws would not be"
            " repeatable"
        )


def _check_output(name: str, model: nn.Module, shape: Shape, classes: int) -> None:
    first = next(model.parameters())
    images = torch.zeros(2, *shape, dtype=first.dtype, device=first.device)
    images[1] = 1
    try:
        with torch.no_grad():
            output, alone = model(images), model(images[:1])
    except Exception as error:  # a forward pass can raise any error
        sizes = "x".join(map(str, shape))
        raise SettingError(
            f"model.kind = {name}: fails on images of {sizes} ({in_one_line(error)})"
        ) from error
    given = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
    if given != (2, classes):
        raise SettingError(
            f"model.kind = {name}: must return (n, {classes}) for n images, returns"
            f" {given} for 2"
        )
    if not torch.allclose(output[:1], alone, rtol=1e-3, atol=1e-4):
        # Executors choose their own batches, which must not change any result.
        raise SettingError(
            f"model.kind = {name}: what it returns for an image depends on the images"
            " beside it"
        )


# features, steps and slopes


def last_layer(model: nn.Module, shape: Shape) -> nn.Linear | None:
    """Return the linear layer whose output is the output of the model; None: the model
    does not end with such a layer.

    >>> last_layer(nn.Sequential(nn.Flatten(), nn.Linear(4, 3)), (1, 2, 2))
    Linear(in_features=4, out_features=3, bias=True)
    >>> last_layer(nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.Tanh()), (1, 2, 2)) is None
    True
    """
    answers: list[tuple[nn.Module, Tensor]] = []

    def note(layer: nn.Module, _: object, answer: Tensor) -> None:
        answers.append((layer, answer))

    first = next(model.parameters())
    with torch.no_grad():
        hooks = [
            layer.register_forward_hook(note)
            for layer in model.modules()
            if type(layer) is nn.Linear
        ]
        try:
            logits = model(
                torch.zeros(1, *shape, dtype=first.dtype, device=first.device)
            )
        finally:
            for hook in hooks:
                hook.remove()
    last = [layer for layer, answer in answers if answer is logits]
    asked_once = len(last) == 1 and sum(layer is last[0] for layer, _ in answers) == 1
    return last[0] if asked_once and isinstance(last[0], nn.Linear) else None


def with_features(
    layer: nn.Linear, answer: Callable[[], Tensor]
) -> tuple[Tensor, Tensor]:
    """Call `answer`, and return its output and the inputs of the last layer, with a
    column of ones if the layer has a bias.
    """
    went_in: list[Tensor] = []

    def note(_: nn.Module, given: tuple[Tensor, ...]) -> None:
        went_in.append(given[0])

    hook = layer.register_forward_pre_hook(note)
    try:
        logits = answer()
    finally:
        hook.remove()
    features = went_in[-1]
    return logits, (
        features
        if layer.bias is None
        else torch.cat([features, features.new_ones(len(features), 1)], dim=1)
    )


Tensors = list[Tensor] | tuple[Tensor, ...]


def descend(
    places: list[Tensor],
    velocity: list[Tensor],
    change: Tensors,
    training: LocalTraining,
) -> None:
    """Do one step of torch.optim.SGD by the gradients `change`, in place; without
    momentum, `velocity` may be empty.

    torch.optim is not used because its import takes seconds, and Flower starts a client
    process for every message.
    """
    if training.weight_decay:
        change = torch._foreach_add(change, places, alpha=training.weight_decay)
    if training.momentum:
        torch._foreach_mul_(velocity, training.momentum)
        torch._foreach_add_(velocity, change)
        change = velocity
    torch._foreach_sub_(places, change, alpha=training.lr)
