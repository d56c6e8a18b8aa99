"""Models that can be trained. The `build` of a model makes its torch module; nothing
else in this file needs torch.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from headgate.registry import Search, Slot, call_outside, fill, find_outside, shown_kind

if TYPE_CHECKING:
    from torch import nn

Shape = tuple[int, int, int]
"""channels, height and width of an image"""


class Model(ABC):
    """Base class of models. The fields are the settings."""

    linear: ClassVar[bool] = False
    """whether the outputs are linear in the parameters, so that every local optimum is
    global
    """

    @property
    def kind(self) -> str:
        return shown_kind(MODEL, self)

    @abstractmethod
    def build(self, shape: Shape, classes: int) -> "nn.Module":
        """Return a module that maps images `(n, *shape)` to outputs `(n, classes)`."""


class ShippedModel(Model):
    """A model that headgate knows by name."""

    def build(self, shape: Shape, classes: int) -> "nn.Module":
        from headgate.learning.architectures import SHIPPED

        return SHIPPED[self.kind](shape, classes)


@dataclass(frozen=True)
class Logistic(ShippedModel):
    """Multinomial logistic regression, initialised with zeros."""

    linear: ClassVar[bool] = True


@dataclass(frozen=True)
class LeNet(ShippedModel):
    """LeNet-5 with ReLU and max-pooling, for images of 28x28 or more."""


@dataclass(frozen=True)
class ResNet9(ShippedModel):
    """ResNet-9 with GroupNorm and Mish, for images of 8x8 or more."""


@dataclass(frozen=True)
class OwnModel(Model):
    """A user's `module:Class`, imported when the model is built.

    The class is a `Model`, or a torch module, which is called with (shape, classes) if
    it takes two arguments, else with none.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    folder: Path | None = None

    @property
    def kind(self) -> str:
        return self.name

    def build(self, shape: Shape, classes: int) -> "nn.Module":
        from torch import nn

        made_by = find_outside("model.kind", self.name, (Model, nn.Module), self.folder)
        if issubclass(made_by, Model):
            part: Model = fill(made_by, self.settings, "model", Search(self.folder))
            return part.build(shape, classes)
        given = (shape, classes) if _takes_two(made_by) else ()
        made: nn.Module = call_outside(
            "model.kind",
            self.name,
            made_by,
            *given,
            folder=self.folder,
            **self.settings,
        )
        return made


def _takes_two(made_by: Any) -> bool:
    try:
        inspect.signature(made_by).bind(None, None)
    except (TypeError, ValueError):
        return False
    return True


MODEL = Slot(
    "model", Model, {"logistic": Logistic, "lenet": LeNet, "resnet9": ResNet9}, OwnModel
)
