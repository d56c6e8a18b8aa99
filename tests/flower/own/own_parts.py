"""A part of one's own of every kind, about ten lines each; recipe.toml beside it names them."""

from dataclasses import dataclass

import numpy as np
from torch import nn

from headgate.control.policies import BudgetedPolicy
from headgate.control.prices import PriceProcess
from headgate.control.retention import Retention
from headgate.learning.data import DataSource
from headgate.learning.models import Model
from headgate.learning.server import ServerUpdate


@dataclass(frozen=True, eq=False)
class EveryOther(Retention):
    """New samples come in; of the older ones those at positions that `step` divides stay longest."""

    step: int = 2

    def rank(self, candidates):
        group = np.where(candidates.new, 0, 1 + candidates.position % self.step)
        return group * 2.0**40 - candidates.position  # in each group the newest stay longest


@dataclass(frozen=True)
class Sawtooth(PriceProcess):
    """Rises from `low` by 1 a round for `teeth` rounds, then falls back; another start for every seed."""

    low: float
    teeth: int = 3

    def path(self, seeds, start, stop):
        return self.low + (np.asarray(seeds)[:, None] + np.arange(start, stop)[None, :]) % self.teeth

    def mean(self, rounds):
        return self.low + (self.teeth - 1) / 2


@dataclass(frozen=True, eq=False, kw_only=True)
class Share(BudgetedPolicy):
    """Renews the same share of the places every round, as long as the purse lasts."""

    share: float = 0.3

    def wanted(self, view, memory):
        return np.full_like(view.price, self.share), memory


@dataclass(frozen=True)
class Blobs(DataSource):
    """Images of 2x2 pixels in three classes."""

    images: int = 240

    def load(self):
        rng = np.random.default_rng(5)
        labels = np.arange(self.images) % 3
        images = (rng.normal(90 + 40 * labels[:, None, None, None], 25, (self.images, 1, 2, 2))).clip(0, 255).astype(np.uint8)
        half = self.images // 2
        return images[:half], labels[:half], images[half:], labels[half:]


@dataclass(frozen=True)
class Narrow(Model):
    """One hidden layer."""

    width: int = 4

    def build(self, shape, classes):
        return nn.Sequential(
            nn.Flatten(), nn.Linear(int(np.prod(shape)), self.width), nn.Tanh(), nn.Linear(self.width, classes)
        )


@dataclass(frozen=True)
class Halfway(ServerUpdate):
    """A share of the way to the mean, and a little of the last step again."""

    share: float = 0.5

    def start(self, model):
        return {"last": model * 0}

    def step(self, t, model, mean, state):
        moved = self.share * (mean - model) + 0.25 * state["last"]
        return model + moved, {"last": moved}
