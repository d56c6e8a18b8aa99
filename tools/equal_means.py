"""What the released policy takes, and which settings bring it down to its budget or constant admission up to it.

python -m tools.equal_means           says what the recipes paper/mnist/equal-means and paper/cifar10/equal-means state
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from headgate.control.policies import Constant, Released
from headgate.control.policy import AdmissionPolicy
from headgate.control.rehearse import Rehearsal, rehearse
from headgate.experiment import load
from studies import recipe

TEXT_K = 10
"""Corollary 2's K on all three systems"""


@dataclass(frozen=True)
class EqualMeans:
    spend: float
    memory: float
    V: float
    """about the largest with which it keeps the budget once it need not buy in every round, in hindsight of these prices"""
    rate: float
    """of constant admission that spends as much"""
    K_within: int
    """keeps this rate within the buffers"""
    K_beyond: int
    """holds as many samples as the released policy does on average"""


def equal_means(data: str) -> EqualMeans:
    """Found by rehearsing control on the prices of the study's own seeds; no learning is needed for it."""
    e = load(recipe(f"paper/{data}/equal-means"), ['run.policies=["released", "constant"]'])

    def played(policy: AdmissionPolicy) -> Rehearsal:
        return rehearse(e.system, policy, e.prices, e.seeds, e.rounds)

    released, constant = e.policies["released"], e.policies["constant"]
    assert isinstance(released, Released)
    assert isinstance(constant, Constant)
    taken, usual = played(released), played(constant)
    spend, memory = float(taken.spend.mean()), float(taken.n.mean())

    def keeps_budget(V: float) -> bool:
        fair = replace(released, V=V, least=0, K=TEXT_K, capacity=e.system.buffer)
        return bool(played(fair).spend.mean() <= e.system.budget)

    rate = round(float(constant.rate or 0.0) * spend / float(usual.spend.mean()), 2)
    return EqualMeans(
        spend=spend,
        memory=memory,
        V=largest(keeps_budget, released.V),
        rate=rate,
        K_within=max(int(e.system.memory / rate), 1),
        K_beyond=max(round(memory / rate), 1),
    )


def largest(fits: Callable[[float], bool], top: float) -> float:
    """About the largest number of two digits up to `top` that fits, by halving; the smallest tried where none does.

    Exact if everything below a number that fits fits too; spend as a function of V is so only roughly.
    """
    grid = sorted({float(f"{top * 10 ** (-step / 24):.1e}") for step in range(24 * 4 + 1)})
    low, high = 0, len(grid)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(grid[middle]) else (low, middle)
    return grid[low]


if __name__ == "__main__":
    for name in ("mnist", "cifar10"):
        print(name, equal_means(name))
