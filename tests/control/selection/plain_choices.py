"""Buying rules once more, slow and plain, one client at a time: written from their sources, with embeddings that are built."""

import numpy as np


def most_unsure(entropies, count):
    """The places of the highest, the earlier of equals first."""
    return sorted(sorted(range(len(entropies)), key=lambda i: (-entropies[i], i))[:count])


def vessal(guesses, features, draws, count, ridge):
    """Saran et al., algorithm 1, on gradient embeddings; whoever would come to be short takes what is left."""
    x = [np.outer(g, f).ravel() for g, f in zip(guesses, features, strict=True)]
    inverse, covariance, taken = np.eye(x[0].size) / ridge, np.zeros((x[0].size, x[0].size)), []
    for i, own in enumerate(x):
        covariance = i / (i + 1) * covariance + np.outer(own, own) / (i + 1)
        rate, trace = (count - len(taken)) / (len(x) - i), np.trace(inverse @ covariance)
        chance = rate * (own @ inverse @ own) / trace if trace > 0 else rate
        short = count - len(taken) >= len(x) - i
        if len(taken) < count and (draws[i] < chance or short):
            taken.append(i)
            inverse = np.linalg.inv(ridge * np.eye(own.size) + sum(np.outer(x[j], x[j]) for j in taken))
    return taken


def farthest(features, held, count):
    """Sener and Savarese, k-Center-Greedy; without anything held the first comes first."""
    centres, taken = list(held), []
    for _ in range(count):
        best, at = -1.0, None
        for i, own in enumerate(features):
            away = min((float(((own - centre) ** 2).sum()) for centre in centres), default=np.inf)
            if i not in taken and away > best:
                best, at = away, i
        taken.append(at)
        centres.append(features[at])
    return sorted(taken)
