"""A server update of one's own: what becomes of the model, given the mean of the
clients' models.
"""

from dataclasses import dataclass

from headgate.learning.server import ServerUpdate


@dataclass(frozen=True)
class Halfway(ServerUpdate):
    """Goes a part of the way to the clients' mean."""

    part: float = 0.5

    def step(self, t, model, mean, state):
        return model + self.part * (mean - model), state
