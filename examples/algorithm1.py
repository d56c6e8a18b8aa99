"""Algorithm 1 of the paper, slow and plain: one run, symbols as in the paper, nothing
batched.

This is the judge of the fast engine: `tests/simulation/test_algorithm1.py` compares
every admission exactly and every parameter to rounding. The penalty is printed as in
the paper, which has no value for N < Pdim/e and falls with N below Pdim
(studies/paper/errata.md, erratum 3); so N(0), one of the algorithm's inputs, is at
least Pdim, as in the released scripts. Run it to see ACDPP learn the digits: python
examples/algorithm1.py
"""

from fractions import Fraction

import numpy as np

from headgate.control.controller import debt_update
from headgate.theory.bound import BoundConstants
from headgate.theory.comparison import admission_interval


def p(n, N, k):
    """eq:penalty-dpp, to the letter; B is the bound on the loss."""
    uneven = 1 / n - 1 / N
    of_class = 10 * k.loss * np.sqrt(k.pdim / N) * np.sqrt(1 + np.log(N / k.pdim))
    return (
        k.D * k.sigma * np.sqrt(uneven)
        + k.penalty_step * k.sigma**2 * uneven
        + of_class
    )


def argmin(J, lo, hi):
    """The Λ in [lo, hi] with the least J, the larger of equals: a grid, then ever finer
    grids around its best points.
    """
    for _ in range(14):
        grid = np.linspace(lo, hi, 4001)
        values = J(grid)
        best = len(grid) - 1 - int(np.argmin(values[::-1]))
        lo, hi = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    return grid[best]


def share_out(Lambda, owed, B):
    """Whole samples per client: one at a time to the client, among those entitled to
    part of one, whose next is due first.
    """
    B_bar, lam = int(B.sum()), np.zeros(len(B), dtype=int)
    for m in range(len(B)):
        owed[m] += Fraction(Lambda * int(B[m]), B_bar)
    for m in range(len(B)):  # what is owed in full
        whole = max(int(owed[m] // 1), 0)
        lam[m] += whole
        owed[m] -= whole
    while lam.sum() < Lambda:
        entitled = [m for m in range(len(B)) if owed[m] > 0]
        m = min(entitled, key=lambda m: ((1 - owed[m]) / int(B[m]), m))
        lam[m] += 1
        owed[m] -= 1
    return lam


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def gradient(theta, x, y):
    """∇F̂ of eq:local-gradient for multinomial logistic regression; theta is (classes,
    features + 1), the last column a bias.
    """
    x1 = np.hstack([x, np.ones((len(x), 1))])
    p = softmax(x1 @ theta.T)
    p[np.arange(len(y)), y] -= 1
    return p.T @ x1 / len(x)


def algorithm1(
    stream, c, B, C, K, V, rho, Lambda_bar, k, eta, E, alpha, theta, N0, n0=0
):
    """ACDPP over T = len(c) rounds. `stream(m, i)` is the i-th sample (x, y) of client
    m. Yields (t, λ(t), Z(t+1), θ^(t+1)).

    N0 and n0 are N(0) and n(0): samples counted before round 1; n0 of them as admitted
    in round 0, so until round K − 1.
    """
    M, Z, carry = len(B), 0.0, 0.0
    owed = [Fraction(0)] * M
    Q = [
        [] for _ in range(M)
    ]  # Q[m]: (index, age) of every sample in client m's buffer
    generated, N = [0] * M, N0
    for t in range(1, len(c) + 1):
        # The server observes c(t) and what is left in the buffers, and solves
        # eq:dpp-policy.
        Q = [[(i, A) for i, A in Q[m] if A < K] for m in range(M)]  # eq:kstep-drop
        kept = sum(map(len, Q)) + (n0 if t < K else 0)
        lo, hi = admission_interval(t, Lambda_bar, rho)  # eq:lambda-min-max

        def J(Lam, c_t=c[t - 1], Z=Z, kept=kept, N=N):  # eq:dpp-upper-2
            return Z * (c_t * Lam - C) + V * p(kept + Lam, N + Lam, k)

        wanted = argmin(J, float(lo), float(hi)) + carry
        Lambda = int(np.floor(wanted + 2.0**-30))
        carry = wanted - Lambda
        lam = share_out(Lambda, owed, B)
        Z = float(debt_update(Z, c[t - 1] * Lambda, C))  # eq:Z-update
        N += Lambda

        # Each client admits, trains on its whole buffer and returns its change.
        Delta, n = [None] * M, np.zeros(M)
        for m in range(M):
            Q[m] = [(i, A + 1) for i, A in Q[m]] + [
                (generated[m] + j, 1) for j in range(lam[m])
            ]  # eq:age-evolution
            generated[m] += lam[m]
            n[m] = len(Q[m])
            if not Q[m]:
                continue
            x, y = (
                np.array(part)
                for part in zip(*(stream(m, i) for i, _ in Q[m]), strict=True)
            )
            theta_m = theta.copy()
            for _ in range(E):
                theta_m = theta_m - eta * gradient(theta_m, x, y)  # eq:local-gd
            Delta[m] = theta_m - theta  # eq:local-update

        # The server averages; a round in which nobody holds a sample leaves θ as it is.
        total = (alpha * n).sum()
        for m in range(M):
            if Delta[m] is not None:
                theta = (
                    theta + alpha[m] * n[m] / total * Delta[m]
                )  # eq:global-aggregation, eq:memory-proportional-weight
        yield t, lam, Z, theta


def digits(seed):
    """(stream, test images, test labels) of the digits, two classes a client, pixels
    normalised.
    """
    from headgate.learning.datasets import load_dataset
    from headgate.learning.partition import Pairs
    from headgate.learning.streams import Stream

    data = load_dataset("digits")

    def pixels(images):
        return ((images.reshape(len(images), -1) / 255.0) - data.mean[0]) / data.std[0]

    x, y = pixels(data.train_images), data.train_labels
    owners = Stream(Pairs().split(y, 10, seed, {}), seed)

    def stream(m, i):
        (row,) = owners.at(np.array([m]), np.array([i])).rows
        return x[row], y[row]

    return stream, pixels(data.test_images), data.test_labels


if __name__ == "__main__":
    from headgate.control.prices import Uniform

    B, T = np.array([8, 9, 10, 11, 12] * 2), 30
    stream, test_x, test_y = digits(seed=0)
    c = Uniform(1, 10).path(np.array([0]), 1, T + 1)[0]
    start, alpha, k = np.zeros((10, 65)), np.full(10, 0.1), BoundConstants()
    for t, lam, Z, theta in algorithm1(
        stream,
        c,
        B,
        55.0,
        10,
        T**0.5,
        1 - T**-0.5,
        10.0,
        k,
        0.5,
        10,
        alpha,
        start,
        N0=k.pdim,
    ):
        accuracy = np.mean(
            np.argmax(test_x @ theta[:, :-1].T + theta[:, -1], axis=1) == test_y
        )
        print(
            f"t = {t:2}  c = {c[t - 1]:5.2f}  Λ = {lam.sum():3}  Z = {Z:7.2f}  accuracy"
            f" {accuracy:.3f}"
        )
