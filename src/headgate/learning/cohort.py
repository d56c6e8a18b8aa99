"""Who trains in a round, where not everybody does."""

import numpy as np

from headgate.control.randomness import Purpose, uniform
from headgate.control.types import Ints


def draw_cohort(seed: int, t: int, clients: int, size: int) -> Ints:
    """`size` different ones of `clients` clients, ascending: the same for a seed and a round, each set equally likely.

    Clients are drawn one after the other and one who comes again is passed over, so that a small cohort takes few draws
    however many clients there are. Of a cohort larger than half of them, those who stay out are drawn.

    >>> draw_cohort(seed=7, t=1, clients=1_000_000, size=3).tolist()
    [52094, 510552, 773480]
    """
    out = size > clients - size
    wanted = clients - size if out else size
    drawn: Ints = np.empty(0, dtype=np.int64)
    chosen = drawn
    while chosen.size < wanted:
        index = (t << 32) + np.arange(drawn.size, drawn.size + 2 * (wanted - chosen.size))
        drawn = np.concatenate([drawn, (uniform(seed, Purpose.COHORT, index) * clients).astype(np.int64)])
        distinct, first_time = np.unique(drawn, return_index=True)
        chosen = distinct[np.argsort(first_time)][:wanted]
    if out:
        return np.setdiff1d(np.arange(clients), chosen, assume_unique=True)
    return np.sort(chosen)
