"""How far headgate stays below what nobody can exceed: the numbers of studies/theory/theorem.md.

python -m studies.theory.shortfall
python -m studies.theory.shortfall wander ROUNDS SEEDS
python -m studies.theory.shortfall rounding ROUNDS
python -m studies.theory.shortfall learning ROUNDS SEEDS
python -m studies.theory.shortfall ages
python -m studies.theory.shortfall shipped
python -m studies.theory.shortfall series FILE.csv COLUMN

Prices are even from 1 to 10, ten clients have 100 places, the budget is 55 a round. The distance to T·B̄·F(θ*) is measured by
the identity (I), whose parts do not depend on whether the prices of a seed were lucky. A second table compares with the most
that anybody who knows all prices could buy, also where prices take few values. It takes about ten minutes.
"""

import csv
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from headgate.analysis.formatting import plus_minus
from headgate.analysis.intervals import student
from headgate.analysis.runs import read_finished
from headgate.control import AdmissionPolicy, System
from headgate.control.policies import Below, Clairvoyant, Headgate
from headgate.control.policies.budgeted import headgate as limits
from headgate.control.policy import PolicyContext
from headgate.control.prices import Markov, PriceProcess, Uniform, UniformInteger
from headgate.control.prices.recorded import Market
from headgate.control.rehearse import Rehearsal, rehearse
from headgate.experiment import sweep_points
from headgate.simulation.schedule import perform
from headgate.theory.bound import BoundConstants
from studies import recipe
from studies.zoo import windows
from studies.zoo.age import Age
from studies.zoo.hindsight import Hindsight

LOW, HIGH = 1.0, 10.0
HORIZONS, SEEDS = (100, 1000, 10_000), 100
BUFFERS, BUDGET = np.array([8, 9, 10, 11, 12] * 2), 55.0


class Ceiling(NamedTuple):
    """The fixed limit that spends the budget on average, and what it buys a round."""

    limit: float
    samples: float


def ceiling(places: float, budget: float, low: float = LOW, high: float = HIGH) -> Ceiling:
    """For prices even from `low` to `high`: m(θ) = (θ² − low²)/2(high − low)."""
    limit = float(np.sqrt(low**2 + 2 * (high - low) * budget / places))
    assert low < limit < high, "money is not short"
    return Ceiling(limit, places * (limit - low) / (high - low))


def proven(places: float, budget: float, low: float = LOW, high: float = HIGH) -> tuple[float, int]:
    """κ₁ of the theorem, and the T from which κ₁·log T is less than all that can be bought."""
    limit, rate = ceiling(places, budget, low, high)
    kappa = 18 * places * (high - low) * high**2 / (limit * low**2)  # f₊/f₋² = high − low
    T = np.arange(2, 10**6)
    return kappa, int(T[kappa * np.log(T) < rate * T][0])


def sharp(places: float, budget: float, low: float = LOW, high: float = HIGH) -> float:
    """κ of the theorem's third part: the variance of what a place costs, over θ*³·f(θ*)."""
    limit = ceiling(places, budget, low, high).limit
    variance = (limit**3 - low**3) / (3 * (high - low)) - (budget / places) ** 2
    return float(places * variance * (high - low) / limit**3)


def short(price: NDArray[np.float64], bought: NDArray[np.int64], places: float, budget: float) -> NDArray[np.float64]:
    """What each run is short of the ceiling, (R,), by the identity (I): wrong purchases, and money left."""
    limit = ceiling(places, budget).limit
    worth = 1 - price / limit
    wrong = (places * np.maximum(worth, 0.0) - bought * worth).sum(axis=-1)
    return np.asarray(wrong + (budget * price.shape[-1] - (price * bought).sum(axis=-1)) / limit)


def played(policy: AdmissionPolicy, prices: PriceProcess, budget: float, rounds: int, seeds: int) -> Rehearsal:
    system, runs = System(BUFFERS, budget, rounds), np.arange(seeds)
    return rehearse(
        system, policy.resolved(PolicyContext(system, prices, BoundConstants(), runs, rounds)), prices, runs, rounds
    )


def measured(policy: AdmissionPolicy, rounds: int, seeds: int, places: float | None = None) -> NDArray[np.float64]:
    """Of the ceiling of all places, or of those that a round may renew."""
    found = played(policy, Uniform(LOW, HIGH), BUDGET, rounds, seeds)
    return short(found.price, found.admitted, float(BUFFERS.sum()) if places is None else places, BUDGET)


def behind(policy: AdmissionPolicy, prices: PriceProcess, budget: float, rounds: int, seeds: int) -> NDArray[np.float64]:
    """How many samples fewer than the most that the prices of each seed allow, (R,)."""
    runs = (played(each, prices, budget, rounds, seeds) for each in (Clairvoyant(aim="samples"), policy))
    most, own = (run.admitted.sum(axis=-1) for run in runs)
    return np.asarray(most - own)


ATOMS: dict[str, tuple[PriceProcess, float]] = {
    "even from 1 to 10, C = 55": (Uniform(LOW, HIGH), 55.0),
    "whole numbers 1 to 10, C = 55": (UniformInteger(1, 10), 55.0),
    "whole numbers 1 to 10, C = 60": (UniformInteger(1, 10), 60.0),
    "1 and 9, C = 20": (Markov((1.0, 9.0), ((0.5, 0.5), (0.5, 0.5))), 20.0),
    "1 and 9, C = 50": (Markov((1.0, 9.0), ((0.5, 0.5), (0.5, 0.5))), 50.0),
    "1, 2 and 9, C = 30": (Markov((1.0, 2.0, 9.0), ((0.05, 0.5, 0.45),) * 3), 30.0),
}


POLICIES: dict[str, AdmissionPolicy] = {
    "headgate, all prices": Headgate(early=0.0),
    "the latest 256": Headgate(early=0.0, remember=256),
    "the latest 64": Headgate(early=0.0, remember=64),
    "all prices known": Clairvoyant(aim="samples", fill=8.0),
}


KNOWN = "all prices known"
WANDER: dict[str, AdmissionPolicy] = {
    "headgate": Headgate(smooth=0.0),
    "windows": windows.Windows(smooth=0.0),
    "headgate, the latest 8": Headgate(smooth=0.0, remember=8),
    "headgate for nets": Headgate(smooth=0.25, ahead=5.0),
    "windows for nets": windows.Windows(smooth=0.25, ahead=5.0),
    "the same money every round": Below(quantile=1.0),
    "below the median": Below(),
    KNOWN: Clairvoyant(aim="samples"),
}


def false_alarms(rounds: int, seeds: int, at_once: int = 100) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The seeds in which `windows` takes even prices for prices that wander, and how many samples that costs each."""
    system, won = System(BUFFERS, BUDGET, rounds), np.zeros(seeds, dtype=np.bool_)
    for first in range(0, seeds, at_once):
        own = np.arange(first, min(first + at_once, seeds))
        memory, path = windows.unseen(len(own)), Uniform(LOW, HIGH).path(own, 1, rounds + 1)
        for t in range(1, rounds + 1):
            memory = windows.observe(memory, path[:, t - 1].copy(), t, system)
        won[own] = memory["wander"]
    wrong = np.flatnonzero(won)
    bought = [
        rehearse(system, WANDER[each], Uniform(LOW, HIGH), wrong, rounds).admitted.sum(axis=-1)
        for each in ("headgate", "windows")
        if wrong.size
    ]
    return wrong, np.asarray(bought[0] - bought[1], dtype=np.float64) if bought else np.zeros(0)


def wander(rounds: str, seeds: str) -> None:
    wrong, fewer = false_alarms(int(rounds), int(seeds))
    mean, least, most = fewer.sum() / int(seeds), fewer.min(initial=0.0), fewer.max(initial=0.0)
    print(f"windows under even prices, {rounds} rounds: {wrong.size} false alarms in {seeds} seeds")
    print(f"samples fewer than headgate: {mean:.2f} on average, from {least:.0f} to {most:.0f}")


@dataclass(frozen=True)
class Series(Market):
    """Recorded prices, of mean 5.5; every seed begins at another one."""

    values: tuple[float, ...] = ()

    @property
    def _prices(self) -> NDArray[np.float64]:
        return np.asarray(self.values) * 5.5 / np.mean(self.values)


def mean_ages(admitted: NDArray[np.int64], places: int) -> NDArray[np.float64]:
    """Rounds since they were bought, of the samples held after each round, (R, T): first in, first out of one buffer."""
    after, older = np.cumsum(admitted, axis=-1), np.zeros(admitted.shape)
    for k in range(1, after.shape[1]):
        older[:, k:] += np.maximum(places - (after[:, k:] - after[:, :-k]), 0)
    return older / places


def compare(name: str, system: System, prices: PriceProcess, rounds: int) -> None:
    """Samples, mean age and money left, 200 seeds from 5000 on."""
    runs = np.arange(5000, 5200)
    context = PolicyContext(system, prices, BoundConstants(), runs, rounds)
    first: NDArray[np.int64] | None = None
    print(f"{name}: samples; more than headgate, seed by seed; their mean age in rounds; money left (%)")
    for kind, policy in WANDER.items():
        if kind != KNOWN or prices.path(runs[:1], 1, 2).ndim == 2:
            found = rehearse(system, policy.resolved(context), prices, runs, rounds)
            left = 100 - 100 * found.spend.sum(axis=-1) / (system.budget * rounds)
            samples, age = found.admitted.sum(axis=-1), mean_ages(found.admitted, system.memory).mean()
            first = samples if first is None else first
            print(f"  {kind}: {cell(samples)}; {cell(samples - first)}; {age:.1f}; {left.mean():.1f}", flush=True)


def series(file: str, column: str) -> None:
    with open(file, newline="", encoding="utf-8") as lines:
        values = tuple(float(row[column]) for row in csv.DictReader(lines) if row[column])
    compare(f"{len(values)} prices", System(BUFFERS, BUDGET, 100), Series(values=values), 100)


def shipped() -> None:
    for name in ("ercot", "brent", "prices"):
        for point, experiment in sweep_points(recipe(f"better/{name}"), ()):
            compare(point or name, experiment.system, experiment.prices, experiment.rounds)


AGES: dict[str, AdmissionPolicy] = {
    "hindsight, least age": Hindsight(),
    "hindsight, power 0.5": Hindsight(power=0.5),
    "hindsight, most samples": Hindsight(power=0.0),
    **{f"age, power {power:g}": Age(power=power) for power in (1.0, 0.5, 0.25)},
    "headgate for nets": WANDER["headgate for nets"],
    "headgate for linear models": WANDER["headgate"],
    "an even spend": WANDER["the same money every round"],
    "below the running median": WANDER["below the median"],
}


def ages() -> None:
    """The tables of studies/theory/age.md."""
    offers: dict[str, tuple[System, PriceProcess, NDArray[np.int64]]] = {
        "even from 1 to 10": (System(BUFFERS, BUDGET, 100), Uniform(LOW, HIGH), np.arange(200))
    }
    for name in ("brent", "ercot", "cifar10"):
        ((_, own),) = sweep_points(recipe(f"better/{name}"), ())
        offers[f"better/{name}"] = own.system, own.prices, own.seeds
    for name, (system, prices, seeds) in offers.items():
        print(f"{name}, {len(seeds)} seeds: samples; paid for one; mean age in rounds; the same in the last tenth")
        rounds, one_price = system.horizon or 0, prices.path(seeds[:1], 1, 2).ndim == 2
        context = PolicyContext(system, prices, BoundConstants(), seeds, rounds)
        for called, policy in AGES.items():
            if one_price or not isinstance(policy, Age):
                found = rehearse(system, policy.resolved(context), prices, seeds, rounds)
                samples, old = found.admitted.sum(axis=-1), mean_ages(found.admitted, system.memory)
                paid = found.spend.sum() / samples.sum()
                mean = plus_minus(student(old.mean(axis=-1)), 2)
                print(
                    f"  {called}: {samples.mean():,.0f}; {paid:.2f}; {mean}; {old[:, -rounds // 10 :].mean():.1f}", flush=True
                )


def main() -> None:
    print(f"samples short of T·B̄·F(θ*), mean of {SEEDS} seeds ± standard error, by T")
    for name, policy in POLICIES.items():
        print(f"{name}: " + "; ".join(f"{T:,}: {cell(measured(policy, T, SEEDS))}" for T in HORIZONS), flush=True)
    print("κ₁ = {:,.0f}; κ₁·log T is less than all that can be bought from T = {:,} on".format(*proven(BUFFERS.sum(), BUDGET)))
    print(f"κ = {sharp(BUFFERS.sum(), BUDGET):.1f}")
    print("samples of headgate short of the most that all prices known would buy, by T")
    for name, offer in ATOMS.items():
        cells = (f"{T:,}: {cell(behind(Headgate(early=0.0), *offer, T, SEEDS))}" for T in HORIZONS)
        print(f"{name}: " + "; ".join(cells), flush=True)


def rounding(rounds: str) -> None:
    """What is lost where shares are bought as they are, or all rounded at a half, or where round 1 does not fill."""
    print(f"samples of headgate short of the most that all prices known would buy, {rounds} rounds, {SEEDS} seeds")
    rules: dict[str, Callable[..., NDArray[np.float64]]] = {
        "as it is": limits._all_or_nothing,
        "shares": lambda share, *_: share,
        "at a half": lambda share, again, *_: np.where(again, np.where(share >= 0.5, 1.0, 0.0), share),
    }
    for called, offer in ATOMS.items():
        cells = [f"without filling: {cell(behind(Headgate(early=0.0, fill=0.0), *offer, int(rounds), SEEDS))}"]
        for name, rule in rules.items():
            with mock.patch.object(limits, "_all_or_nothing", rule):
                cells.append(f"{name}: {cell(behind(Headgate(early=0.0), *offer, int(rounds), SEEDS))}")
        print(f"{called}: {'; '.join(cells)}", flush=True)


def learning(rounds: str, seeds: str) -> None:
    """What whole purchases at repeated prices do to accuracy: logistic regression on MNIST, seeds from 5000 on."""
    asked = [f"run.rounds={rounds}", f"run.seeds={seeds}", "run.first_seed=5000", 'run.policies=["headgate"]', "sweep={}"]
    night = "levels=[0.001207, 0.0003], lengths=[16, 8], repeat=true}"
    offers = {
        "whole numbers 1 to 10, C = 55": ('{kind="integer", low=1, high=10}', 55.0),
        "whole numbers 1 to 10, C = 60": ('{kind="integer", low=1, high=10}', 60.0),
        "1 and 9, C = 50": ('{kind="markov", levels=[1.0, 9.0], transition=[[0.5, 0.5], [0.5, 0.5]]}', 50.0),
        "a labelling tariff, C = 0.009": ('{kind="switches", ' + night, 0.009),
    }
    print(f"headgate less the same without whole purchases, {rounds} rounds, {seeds} seeds, in points")
    for name, (prices, budget) in offers.items():
        own = sweep_points(recipe("better/mnist"), (*asked, f"prices={prices}", f"system.budget={budget}"))
        scores = []
        for short_run in (limits.SHORT, int(rounds)):
            with mock.patch.object(limits, "SHORT", short_run), TemporaryDirectory() as folder:
                (runs,) = read_finished([run.path for run in perform(own, Path(folder) / "run", processes=1)])
                scores.append({key: runs.measure(key) for key in ("best", "last")})
        gaps = {key: plus_minus(student(100 * (scores[0][key] - scores[1][key])), 2, signs=True) for key in scores[0]}
        print(f"{name}: best {gaps['best']}; last {gaps['last']}", flush=True)


def cell(found: NDArray[np.float64]) -> str:
    return f"{found.mean():,.0f} ± {found.std(ddof=1) / np.sqrt(len(found)):.0f}"


if __name__ == "__main__":
    asked = sys.argv[1:]
    commands: dict[str, Callable[..., None]] = {
        "ages": ages,
        "learning": learning,
        "rounding": rounding,
        "series": series,
        "shipped": shipped,
        "wander": wander,
    }
    commands[asked[0]](*asked[1:]) if asked else main()
