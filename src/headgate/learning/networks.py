"""The code of a client that needs torch: checks of models and the SGD step.

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


def build_model(
    model: Model,
    shape: Shape,
    classes: int,
) -> nn.Module:
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
    problem = _untrainable(made)
    if problem is not None:
        raise SettingError(f"model.kind = {name}: {problem}")
    _check_output(name, made, shape, classes)
    return made


def initial_parameters(
    model: Model,
    shape: Shape,
    classes: int,
    seed: int,
) -> Tensor:
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
    >>> views = flat.views(torch.arange(8.0))
    >>> {name: tuple(view.shape) for name, view in views.items()}
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


# checks of a model


def _untrainable(model: nn.Module) -> str | None:
    """Return why headgate cannot train a model: buffers and frozen parameters would not
    be averaged, and the draws of dropout are not repeatable.
    """
    for key, _ in model.named_buffers():
        hint = "take GroupNorm instead of BatchNorm"
        return f"has a buffer ({key}), which no client would share: {hint}"
    if next(model.parameters(), None) is None:
        return "has no parameters to learn"
    for key, parameter in model.named_parameters():
        if not parameter.requires_grad:
            return f"the parameter {key} is frozen, all must be learnt"
    for key, part in model.named_modules():
        if isinstance(part, _DropoutNd) and part.p > 0:
            return f"has dropout ({key}), whose draws would not be repeatable"
    return None


def _check_output(
    name: str,
    model: nn.Module,
    shape: Shape,
    classes: int,
) -> None:
    first = next(model.parameters())
    images = torch.zeros(
        2,
        *shape,
        dtype=first.dtype,
        device=first.device,
    )
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
    if not torch.allclose(
        output[:1],
        alone,
        rtol=1e-3,
        atol=1e-4,
    ):
        # Executors choose their own batches, which must not change any result.
        raise SettingError(
            f"model.kind = {name}: what it returns for an image depends on the images"
            " beside it"
        )


# features, steps and slopes


def last_layer(model: nn.Module, shape: Shape) -> nn.Linear | None:
    """Return the linear layer whose output is the output of the model; None: the model
    does not end with such a layer.

    >>> layers = [nn.Flatten(), nn.Linear(4, 3)]
    >>> last_layer(nn.Sequential(*layers), (1, 2, 2))
    Linear(in_features=4, out_features=3, bias=True)
    >>> last_layer(nn.Sequential(*layers, nn.Tanh()), (1, 2, 2)) is None
    True
    """
    answers: list[tuple[nn.Linear, Tensor]] = []

    def note(
        layer: nn.Linear,
        _: object,
        answer: Tensor,
    ) -> None:
        answers.append((layer, answer))

    first = next(model.parameters())
    with torch.no_grad():
        layers = [layer for layer in model.modules() if type(layer) is nn.Linear]
        hooks = [layer.register_forward_hook(note) for layer in layers]
        image = torch.zeros(
            1,
            *shape,
            dtype=first.dtype,
            device=first.device,
        )
        try:
            logits = model(image)
        finally:
            for hook in hooks:
                hook.remove()
    last = [layer for layer, answer in answers if answer is logits]
    calls = [layer for layer, _ in answers if last and layer is last[0]]
    return last[0] if len(last) == len(calls) == 1 else None


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
    if layer.bias is not None:
        ones = features.new_ones(len(features), 1)
        features = torch.cat([features, ones], dim=1)
    return logits, features


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
