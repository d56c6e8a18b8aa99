"""Every objective as its paper states it: a loss of one sample, number by number, for torch to differentiate."""

import math


def plain(z, received, y, held):
    return -(z[y] - _log_sum(z))


def fedlc(z, received, y, held, tau=1.0, vacant=1.0):
    """−log of exp(z_y − τ·n_y^(−1/4)) over the sum of the same for all classes; without samples, n is `vacant`."""
    counts = [n if n else vacant for n in held]
    own = {c: z[c] - tau * n**-0.25 for c, n in enumerate(counts) if n}
    return -(own[y] - _log_sum(list(own.values())))


def fedrs(z, received, y, held, alpha=0.5):
    own = [z[c] if n else alpha * z[c] for c, n in enumerate(held)]
    return -(own[y] - _log_sum(own))


def fedntd(z, received, y, held, beta=1.0, tau=3.0):
    """Σ over the classes but y of q_g·log(q_g/q_l), times β·τ²."""
    others = [c for c in range(len(z)) if c != y]
    ours, theirs = ([logits[c] / tau for c in others] for logits in (z, received))
    divergence = 0.0
    for mine, its in zip(ours, theirs, strict=True):
        log_l, log_g = mine - _log_sum(ours), its - _log_sum(theirs)
        divergence = divergence + log_g.exp() * (log_g - log_l)
    return plain(z, received, y, held) + beta * tau**2 * divergence


def share_of_fresh(new, share):
    """Each sample's weight in its client's mean, times how many there are."""
    fresh, old, n = sum(new), len(new) - sum(new), len(new)
    if not fresh or not old:
        return [1.0] * n
    return [share * n / fresh if is_new else (1 - share) * n / old for is_new in new]


def _log_sum(values):
    most = max(float(value.detach()) for value in values)
    return sum((value - most).exp() for value in values).log() + (most if math.isfinite(most) else 0.0)
