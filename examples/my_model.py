"""A model of one's own: `build` makes a torch module. torch is imported there, so
planning does not need it.
"""

from dataclasses import dataclass

from headgate.learning.models import Model


@dataclass(frozen=True)
class TwoLayers(Model):
    """One hidden layer with a smooth activation."""

    width: int = 32

    def build(self, shape, classes):
        from torch import nn

        features = shape[0] * shape[1] * shape[2]
        return nn.Sequential(
            nn.Flatten(),
            nn.Linear(features, self.width),
            nn.Tanh(),
            nn.Linear(self.width, classes),
        )
