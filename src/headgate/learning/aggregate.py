"""How much each client's update weighs in the server's average."""

import numpy as np

from headgate.control.types import Floats, Ints
from headgate.errors import SettingError
from headgate.theory.labels import paper
from headgate.theory.recursion import memory_proportional_weight

RULES = ("memory", "alpha", "uniform")


@paper("eq:global-aggregation")
def aggregation_weights(rule: str, alpha: Floats, n: Ints) -> Floats:
    """w_m for every run (R, M): by α_m·n_m, by α_m alone, or equal; clients without a sample never count.

    Where only a cohort trains, `alpha` and `n` (R, cohort) are those of its clients, and the weights sum to one over it.

    A run in which nobody has a sample gets weights of zero, so its model stays as it is.
    """
    if rule not in RULES:
        raise SettingError(f"training.aggregation = {rule}: must be one of {', '.join(RULES)}")
    present = (n > 0).astype(np.float64)
    if rule == "memory":
        return memory_proportional_weight(alpha, n)
    return memory_proportional_weight(alpha if rule == "alpha" else np.ones_like(alpha), present)
