"""What looking at samples took, as a run's state tells it: how many were looked at, and in how many seconds."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

SCORED = "scored"
"""its name in a state"""


class Scored(NamedTuple):
    """Samples of which a model was asked something, counted as often as it was asked."""

    samples: int = 0
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return it for a state; nothing where no model was asked."""
        return {SCORED: {"samples": self.samples, "seconds": round(self.seconds, 3)}} if self.samples else {}


def read_scored(states: Iterable[Mapping[str, Any]]) -> Scored:
    """Of all these states together; what cannot be meant counts as nothing."""
    samples, seconds = 0, 0.0
    for state in states:
        said = state.get(SCORED)
        own = [said.get(key) if isinstance(said, dict) else None for key in Scored._fields]
        if all(isinstance(each, int | float) and math.isfinite(each) and 0 <= each < 2**63 for each in own):
            samples, seconds = samples + int(own[0] or 0), seconds + float(own[1] or 0.0)
    return Scored(samples, seconds)
