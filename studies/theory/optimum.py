"""θ*: the population's best model inside a ball, to a stated accuracy.

Without a bound on θ there is none: the images that clients own can be separated by a linear model, so the infimum of the risk
is 0 and nobody attains it. The theorem wants a bounded parameter set anyway. A small ridge gives both at once: the minimiser of
F + ridge/2·‖θ‖² is exactly the minimiser of F over the ball around 0 whose radius is its own norm (0 is where runs start).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from headgate.errors import HeadgateError
from studies.theory.population import Population, as_matrix, as_vector

RIDGE = 1e-4
"""small enough for the ball to hold every run of the recipes: at 3e-4 some on MNIST leave it"""
GAP = 1e-4
"""how far the regularised risk may be above its minimum, by a certificate"""
PASSES, STEPS = 60, 20


@dataclass(frozen=True, eq=False)
class Optimum:
    theta: Tensor
    """(P,) float64"""
    risk: float
    """F(θ*)"""
    radius: float
    """‖θ*‖: the radius of Θ"""
    ridge: float
    gradient: float
    """‖∇F(θ*) + ridge·θ*‖"""
    accuracy: float
    """share of the population (by weight) that θ* labels right"""

    @property
    def gap(self) -> float:
        """The regularised risk is strongly convex, so its gradient bounds how far it is above its minimum."""
        return self.gradient**2 / (2 * self.ridge)


def minimiser(population: Population, ridge: float = RIDGE, gap: float = GAP, start: Tensor | None = None) -> Optimum:
    """L-BFGS in coordinates in which the second moments of the images are nearly the identity (far fewer steps).

    `start` may be the best model of a similar population: it saves steps and changes nothing else.
    """
    features = population.features.double()
    moments, axes = torch.linalg.eigh((features.T * population.weight) @ features)
    seen = moments > 1e-10 * moments[-1]  # directions that no image has stay at zero, as in every run
    scale = (moments[seen] + 0.01 * moments[-1]).rsqrt()
    turned = features @ (axes[:, seen] * scale)
    wanted = torch.nn.functional.one_hot(population.labels, population.classes).double()
    weight = population.weight[:, None]
    point = torch.nn.Parameter(torch.zeros(population.classes, int(seen.sum()), dtype=torch.float64))
    if start is not None:
        point.data = as_matrix(start[None].double(), population.classes)[0] @ axes[:, seen] / scale

    def value() -> Tensor:
        logits = turned @ point.data.T
        total = torch.logsumexp(logits, dim=1, keepdim=True)
        own = point.data * scale
        point.grad = ((torch.exp(logits - total) - wanted) * weight).T @ turned + ridge * own * scale
        loss: Tensor = ((total - (logits * wanted).sum(dim=1, keepdim=True)) * weight).sum() + ridge / 2 * own.square().sum()
        return loss

    solver = torch.optim.LBFGS(
        [point], max_iter=STEPS, tolerance_grad=0.0, tolerance_change=0.0, history_size=10, line_search_fn="strong_wolfe"
    )
    for _ in range(PASSES):
        solver.step(value)  # type: ignore[no-untyped-call]
        value()
        gradient = float((point.grad / scale).norm())
        if gradient**2 <= 2 * ridge * gap:
            break
    else:
        raise HeadgateError(f"ridge = {ridge:g}: the population's best model is not found to {gap:g} in {PASSES * STEPS} steps")
    matrix = (point.data * scale) @ axes[:, seen].T
    logits = features @ matrix.T
    loss = torch.logsumexp(logits, dim=1) - logits.gather(1, population.labels[:, None]).squeeze(1)
    right = (logits.argmax(dim=1) == population.labels).double()
    return Optimum(
        theta=as_vector(matrix[None])[0],
        risk=float(population.weight @ loss),
        radius=float(matrix.norm()),
        ridge=ridge,
        gradient=gradient,
        accuracy=float(population.weight @ right),
    )
