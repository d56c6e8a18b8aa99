"""How far headgate stays below what nobody can exceed: the numbers of
studies/theory/theorem.md.

python -m studies.theory.shortfall
python -m studies.theory.shortfall wander ROUNDS SEEDS
python -m studies.theory.shortfall rounding ROUNDS
python -m studies.theory.shortfall learning ROUNDS SEEDS
python -m studies.theory.shortfall ages
python -m studies.theory.shortfall shipped

Prices are even from 1 to 10, ten clients have 100 places, the budget is 55 a round. The
distance to T·B̄·F(θ*) is measured by the identity (I), whose parts do not depend on
whether the prices of a seed were lucky. A second table compares with the most that
anybody who knows all prices could buy, also where prices take few values. It takes
about ten minutes.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from headgate.analysis.formatting import plus_minus
from headgate.analysis.intervals import student
from headgate.control import AdmissionPolicy, System
from headgate.control.policies import Clairvoyant, Headgate
from headgate.control.policies.budgeted import headgate as limits
from headgate.control.policy import PolicyContext
from headgate.control.prices import Markov, PriceProcess, Uniform
from headgate.control.rehearse import Rehearsal, rehearse
from headgate.experiment import sweep_points
from headgate.simulation.schedule import perform
from headgate.theory.bound import BoundConstants
from studies import recipe
from studies.comparisons import read_finished
from studies.zoo.age import Age
from studies.zoo.prices import Integer

LOW, HIGH = 1.0, 10.0
HORIZONS, SEEDS = (100, 1000, 10_000), 100
BUFFERS, BUDGET = np.array([8, 9, 10, 11, 12] * 2), 55.0


def ceiling(
    places: float, budget: float, low: float = LOW, high: float = HIGH
) -> tuple[float, float]:
    """The fixed limit that spends the budget on average, and what it buys a round, for
    prices even from `low` to `high`: m(θ) = (θ² − low²)/2(high − low)."""
    limit = float(np.sqrt(low**2 + 2 * (high - low) * budget / places))
    assert low < limit < high, "money is not short"
    return limit, places * (limit - low) / (high - low)


def proven(
    places: float, budget: float, low: float = LOW, high: float = HIGH
) -> tuple[float, int]:
    """κ₁ of the theorem, and the T from which κ₁·log T is less than all that can be
    bought.
    """
    limit, rate = ceiling(places, budget, low, high)
    kappa = (
        18 * places * (high - low) * high**2 / (limit * low**2)
    )  # f₊/f₋² = high − low
    T = np.arange(2, 10**6)
    return kappa, int(T[kappa * np.log(T) < rate * T][0])


def sharp(places: float, budget: float, low: float = LOW, high: float = HIGH) -> float:
    """κ of the theorem's third part: the variance of what a place costs, over
    θ*³·f(θ*).
    """
    limit, _ = ceiling(places, budget, low, high)
    variance = (limit**3 - low**3) / (3 * (high - low)) - (budget / places) ** 2
    return float(places * variance * (high - low) / limit**3)


def short(
    price: NDArray[np.float64], bought: NDArray[np.int64], places: float, budget: float
) -> NDArray[np.float64]:
    """What each run is short of the ceiling, (R,), by the identity (I): wrong
    purchases, and money left.
    """
    limit, _ = ceiling(places, budget)
    worth = 1 - price / limit
    wrong = (places * np.maximum(worth, 0.0) - bought * worth).sum(axis=-1)
    return np.asarray(
        wrong + (budget * price.shape[-1] - (price * bought).sum(axis=-1)) / limit
    )


def played(
    policy: AdmissionPolicy,
    prices: PriceProcess,
    budget: float,
    rounds: int,
    runs: NDArray[np.int64],
) -> Rehearsal:
    system = System(BUFFERS, budget, rounds)
    context = PolicyContext(system, prices, BoundConstants(), runs, rounds)
    return rehearse(system, policy.resolved(context), prices, runs, rounds)


def measured(
    policy: AdmissionPolicy, rounds: int, seeds: int, places: float | None = None
) -> NDArray[np.float64]:
    """Of the ceiling of all places, or of those that a round may renew."""
    found = played(policy, Uniform(LOW, HIGH), BUDGET, rounds, np.arange(seeds))
    return short(
        found.price,
        found.admitted,
        float(BUFFERS.sum()) if places is None else places,
        BUDGET,
    )


def behind(
    policy: AdmissionPolicy,
    prices: PriceProcess,
    budget: float,
    rounds: int,
    seeds: int,
) -> NDArray[np.float64]:
    """How many samples fewer than the most that the prices of each seed allow, (R,)."""
    runs = (
        played(each, prices, budget, rounds, np.arange(seeds))
        for each in (Clairvoyant(), policy)
    )
    most, own = (run.admitted.sum(axis=-1) for run in runs)
    return np.asarray(most - own)


ATOMS: dict[str, tuple[PriceProcess, float]] = {
    "even from 1 to 10, C = 55": (Uniform(LOW, HIGH), 55.0),
    "whole numbers 1 to 10, C = 55": (Integer(1, 10), 55.0),
    "whole numbers 1 to 10, C = 60": (Integer(1, 10), 60.0),
    "1 and 9, C = 20": (Markov((1.0, 9.0), ((0.5, 0.5), (0.5, 0.5))), 20.0),
    "1 and 9, C = 50": (Markov((1.0, 9.0), ((0.5, 0.5), (0.5, 0.5))), 50.0),
    "1, 2 and 9, C = 30": (Markov((1.0, 2.0, 9.0), ((0.05, 0.5, 0.45),) * 3), 30.0),
}

POLICIES, WANDER, AGES = (
    {name: stated for name, (stated, _) in own.stated.items()}
    for _, own in sweep_points(recipe("theory/shortfall"))
)
"""of the theorem, where prices wander, and by age"""


def wander(rounds: str, seeds: str) -> None:
    """In how many seeds `windows` takes even prices for prices that wander, and how
    many samples that costs each.
    """
    runs = np.arange(int(seeds))
    alone, own = (
        played(WANDER[each], Uniform(LOW, HIGH), BUDGET, int(rounds), runs)
        for each in ("headgate for linear models", "windows")
    )
    fewer = (alone.admitted - own.admitted)[own.ledger.memory["wander"]].sum(axis=-1)
    print(
        f"windows under even prices, {rounds} rounds: {fewer.size} false alarms in"
        f" {seeds} seeds"
    )
    ends = f"from {fewer.min(initial=0.0):.0f} to {fewer.max(initial=0.0):.0f}"
    print(
        f"samples fewer than headgate: {fewer.sum() / len(runs):.2f} on average, {ends}"
    )


def mean_ages(admitted: NDArray[np.int64], places: int) -> NDArray[np.float64]:
    """Rounds since they were bought, of the samples held after each round, (R, T):
    first in, first out of one buffer.
    """
    after, older = np.cumsum(admitted, axis=-1), np.zeros(admitted.shape)
    for k in range(1, after.shape[1]):
        older[:, k:] += np.maximum(places - (after[:, k:] - after[:, :-k]), 0)
    return older / places


def compare(
    name: str,
    policies: dict[str, AdmissionPolicy],
    system: System,
    prices: PriceProcess,
    runs: NDArray[np.int64],
) -> None:
    """Print what each policy buys and how old it grows; what takes one price alone is
    left out where clients have their own.
    """
    rounds, first = system.horizon or 0, None
    context = PolicyContext(system, prices, BoundConstants(), runs, rounds)
    print(
        f"{name}, {len(runs)} seeds: samples; more than the first rule, seed by seed;"
        " paid for one; money left (%);"
    )
    print("  their mean age in rounds; the same in the last tenth")
    for called, policy in policies.items():
        if prices.path(runs[:1], 1, 2).ndim == 2 or type(policy) not in (
            Age,
            Clairvoyant,
        ):
            found = rehearse(system, policy.resolved(context), prices, runs, rounds)
            samples, spend = found.admitted.sum(axis=-1), found.spend.sum(axis=-1)
            first = samples if first is None else first
            ages, left = (
                mean_ages(found.admitted, system.all_places),
                100 - 100 * spend.mean() / (system.budget * rounds),
            )
            age, late = (
                plus_minus(student(ages.mean(axis=-1)), 2),
                ages[:, -rounds // 10 :].mean(),
            )
            paid = f"{spend.sum() / samples.sum():.2f}; {left:.1f}"
            print(
                f"  {called}: {cell(samples)}; {cell(samples - first)}; {paid}; {age};"
                f" {late:.1f}",
                flush=True,
            )


def shipped() -> None:
    """Print the table of prices that wander, of studies/theory/theorem.md."""
    for name in ("ercot", "brent", "prices"):
        for point, own in sweep_points(recipe(f"better/{name}"), ()):
            compare(
                point or name, WANDER, own.system, own.prices, np.arange(5000, 5200)
            )


def ages() -> None:
    """Print the tables of studies/theory/age.md."""
    compare(
        "even from 1 to 10",
        AGES,
        System(BUFFERS, BUDGET, 100),
        Uniform(LOW, HIGH),
        np.arange(200),
    )
    for name in ("brent", "ercot", "cifar10"):
        ((_, own),) = sweep_points(recipe(f"better/{name}"), ())
        compare(f"better/{name}", AGES, own.system, own.prices, own.seeds)


def main() -> None:
    print(f"samples short of T·B̄·F(θ*), mean of {SEEDS} seeds ± standard error, by T")
    for name, policy in POLICIES.items():
        print(
            f"{name}: "
            + "; ".join(f"{T:,}: {cell(measured(policy, T, SEEDS))}" for T in HORIZONS),
            flush=True,
        )
    factor, rounds = proven(BUFFERS.sum(), BUDGET)
    print(
        f"κ₁ = {factor:,.0f}; κ₁·log T is less than all that can be bought"
        f" from T = {rounds:,} on"
    )
    print(f"κ = {sharp(BUFFERS.sum(), BUDGET):.1f}")
    print("samples of headgate short of the most that all prices known would buy, by T")
    for name, offer in ATOMS.items():
        cells = (
            f"{T:,}: {cell(behind(Headgate(), *offer, T, SEEDS))}" for T in HORIZONS
        )
        print(f"{name}: " + "; ".join(cells), flush=True)


def rounding(rounds: str) -> None:
    """What is lost where shares are bought as they are, or all rounded at a half, or
    where round 1 does not fill.
    """
    print(
        "samples of headgate short of the most that all prices known would buy,"
        f" {rounds} rounds, {SEEDS} seeds"
    )
    rules: dict[str, Callable[..., NDArray[np.float64]]] = {
        "as it is": limits._all_or_nothing,
        "shares": lambda share, *_: share,
        "at a half": lambda share, again, *_: np.where(
            again, np.where(share >= 0.5, 1.0, 0.0), share
        ),
    }
    for called, offer in ATOMS.items():
        unfilled = Headgate(fill=0.0)
        cells = [
            f"without filling: {cell(behind(unfilled, *offer, int(rounds), SEEDS))}"
        ]
        for name, rule in rules.items():
            with mock.patch.object(limits, "_all_or_nothing", rule):
                cells.append(
                    f"{name}: {cell(behind(Headgate(), *offer, int(rounds), SEEDS))}"
                )
        print(f"{called}: {'; '.join(cells)}", flush=True)


def learning(rounds: str, seeds: str) -> None:
    """What whole purchases at repeated prices do to accuracy, with the filling of short
    runs: logistic regression on MNIST.
    """
    asked = [
        f"run.rounds={rounds}",
        f"run.seeds={seeds}",
        "run.first_seed=5000",
        'run.policies=["headgate"]',
        "sweep={}",
    ]
    night = "levels=[0.001207, 0.0003], lengths=[16, 8], repeat=true}"
    offers = {
        "whole numbers 1 to 10, C = 55": (
            '{kind="studies.zoo.prices:Integer", low=1, high=10}',
            55.0,
        ),
        "whole numbers 1 to 10, C = 60": (
            '{kind="studies.zoo.prices:Integer", low=1, high=10}',
            60.0,
        ),
        "1 and 9, C = 50": (
            '{kind="markov", levels=[1.0, 9.0], transition=[[0.5, 0.5], [0.5, 0.5]]}',
            50.0,
        ),
        "a labelling tariff, C = 0.009": ('{kind="switches", ' + night, 0.009),
    }
    print(
        f"headgate less the same without whole purchases, {rounds} rounds, {seeds}"
        " seeds, in points"
    )
    for name, (prices, budget) in offers.items():
        own = sweep_points(
            recipe("better/mnist"),
            (*asked, f"prices={prices}", f"system.budget={budget}"),
        )
        scores = []
        for short_run in (limits.SHORT, int(rounds)):
            with (
                mock.patch.object(limits, "SHORT", short_run),
                TemporaryDirectory() as folder,
            ):
                (runs,) = read_finished(
                    [
                        run.path
                        for run in perform(own, Path(folder) / "run", processes=1)
                    ]
                )
                scores.append({key: runs.measure(key) for key in ("best", "last")})
        gaps = {
            key: plus_minus(
                student(100 * (scores[0][key] - scores[1][key])), 2, signs=True
            )
            for key in scores[0]
        }
        print(f"{name}: best {gaps['best']}; last {gaps['last']}", flush=True)


def cell(found: NDArray[np.float64]) -> str:
    return f"{found.mean():,.0f} ± {found.std(ddof=1) / np.sqrt(len(found)):.0f}"


if __name__ == "__main__":
    asked = sys.argv[1:]
    commands: dict[str, Callable[..., None]] = {
        each.__name__: each for each in (ages, learning, rounding, shipped, wander)
    }
    commands[asked[0]](*asked[1:]) if asked else main()
