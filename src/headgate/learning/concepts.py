"""Concepts: what a data set looks like while the world is in one state. `changes` says who is in which concept when."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headgate.control.types import Floats
from headgate.errors import SettingError
from headgate.learning.sea import above
from headgate.registry import Slot

if TYPE_CHECKING:  # polars, which reads some of the formats, is not needed to plan
    from headgate.learning.formats import Labels, Pixels


class Concept:
    """A frozen value whose fields are its settings: how images look, what they are called, and which of them come by."""

    def images(self, images: "Pixels") -> "Pixels":
        """The images as they look now, of the same shape."""
        return images

    def labels(self, images: "Pixels", labels: "Labels") -> "Labels":
        """What the images, as they are in the data set, are called now."""
        return labels

    def shares(self, classes: int) -> Floats | None:
        """Which share of the images of each class comes by, (classes,); None: all."""
        return None

    @property
    def untouched(self) -> bool:
        """Whether images and labels are those of the data set."""
        own = type(self)
        return own.images is Concept.images and own.labels is Concept.labels


@dataclass(frozen=True)
class Same(Concept):
    """The data as they are."""


@dataclass(frozen=True)
class Rotated(Concept):
    """Images turned to the left by quarters of a circle: exact, no pixel is lost."""

    quarters: int = 1

    def __post_init__(self) -> None:
        if self.quarters not in (1, 2, 3):
            raise SettingError(f"quarters = {self.quarters}: must be 1, 2 or 3")

    def images(self, images: "Pixels") -> "Pixels":
        height, width = images.shape[2:]
        if self.quarters != 2 and height != width:
            raise SettingError(f"quarters = {self.quarters}: images of {height} x {width} pixels can only be turned by 2")
        return np.ascontiguousarray(np.rot90(images, self.quarters, axes=(2, 3)))


@dataclass(frozen=True)
class Swapped(Concept):
    """Class c is called to[c]: a permutation of the classes."""

    to: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.to or sorted(self.to) != list(range(len(self.to))):
            raise SettingError(f"to = {list(self.to)[:20]}: must name each class once, by its number from 0 on")

    def labels(self, images: "Pixels", labels: "Labels") -> "Labels":
        if labels.max(initial=0) >= len(self.to):
            raise SettingError(f"to: names {len(self.to)} classes, the data set has class {labels.max()}")
        return np.array(self.to, dtype=np.int64)[labels]


@dataclass(frozen=True)
class OfClasses(Concept):
    """Images of these classes alone come by."""

    classes: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.classes or min(self.classes) < 0:
            raise SettingError(f"classes = {list(self.classes)[:20]}: must be numbers of classes, from 0 on")

    def shares(self, classes: int) -> Floats:
        if max(self.classes) >= classes:
            raise SettingError(f"classes: there is no class {max(self.classes)}, the data set has {classes}")
        return np.isin(np.arange(classes), self.classes).astype(np.float64)


@dataclass(frozen=True)
class Prior(Concept):
    """Of the images of class c the share weights[c] comes by, so that classes are more or less frequent than in the data."""

    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.weights or not all(0 <= weight <= 1 for weight in self.weights) or not any(self.weights):
            raise SettingError(f"weights = {list(self.weights)[:20]}: must be shares from 0 to 1, not all of them 0")

    def shares(self, classes: int) -> Floats:
        if len(self.weights) != classes:
            raise SettingError(f"weights: has {len(self.weights)} shares, the data set has {classes} classes")
        return np.array(self.weights)


@dataclass(frozen=True)
class SeaThreshold(Concept):
    """Of the data set `sea`: class 1 is where the first two features add up to more than this."""

    threshold: float

    def labels(self, images: "Pixels", labels: "Labels") -> "Labels":
        if images.shape[1:] != (1, 1, 3):
            raise SettingError("kind = threshold: is a concept of the data set sea")
        return above(images, self.threshold)


CONCEPT = Slot(
    "concept",
    Concept,
    {"same": Same, "rotated": Rotated, "swapped": Swapped, "classes": OfClasses, "prior": Prior, "threshold": SeaThreshold},
)
