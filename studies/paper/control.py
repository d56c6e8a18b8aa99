"""Money, debt and memory of the policies that claims are about. The paper's constraints are on expectations and control needs
no learning, so they are judged on thousands of rehearsed runs, never on the few prices that the models met."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from headgate.analysis.intervals import Difference, Floats, from_error
from headgate.analysis.pages import write
from headgate.control.rehearse import rehearse
from headgate.experiment import Experiment, sweep_points
from studies.pages import compact, read_numbers
from studies.paper.batches import EQUAL, OURS, QUICK, RELEASED, WRITTEN, recipes_of

FILE = "control.json"
RUNS, QUICK_RUNS = 4000, 4
AT_ONCE = 2000
"""runs that are rehearsed together"""
LONGER = (2, 4)
"""times T, for the rule that goes by the name of ACDPP"""
JUDGED = {WRITTEN: None, RELEASED: None, EQUAL: ("released_fair",)}
"""which policies of a run folder; None: all of them"""


@dataclass(frozen=True)
class Control:
    """What a policy does with money and memory over one horizon. Pairs are a mean over runs and its standard error."""

    batch: str
    policy: str
    rounds: int
    budget: float
    runs: int
    spend: tuple[float, float]
    """money a round"""
    growth: tuple[float, float] | None
    """of the debt, from the third to the last quarter of the rounds, in money a round; None: there are too few rounds"""
    debts: tuple[float, float]
    """mean debt in the third and in the last quarter"""
    fullest: tuple[float, float]
    """the mean over rounds of n_m/B_m of the client for which that is largest"""
    peak_share: float
    """the largest n_m(t)/B_m of any client, round and run"""
    peak_n: int
    memory: int
    settings: str
    """changes whenever what was rehearsed does"""

    def above(self, name: str, line: float = 0.0, scale: float = 1.0) -> Difference:
        """`scale` times one of the pairs, less a line."""
        mean, error = getattr(self, name)
        return from_error(scale * mean - line, scale * error, self.runs)


Controls = Mapping[tuple[str, str], Sequence[Control]]
"""by run folder and policy, the shortest horizon first"""


def rehearse_study(data: str, pages: Path, quick: bool, tick: Callable[[int, int], None]) -> None:
    """Rehearse what control.json does not know yet, or knows with other settings, and write it there."""
    known = read_numbers(pages / FILE)
    before = {each["settings"]: each for each in known.get(data, [])}
    wanted, runs, made = list(_wanted(data, quick)), QUICK_RUNS if quick else RUNS, []
    for batch, policy, experiment in wanted:
        settings = _settings(batch, policy, experiment, runs)
        made.append(before.get(settings) or asdict(_rehearsed(batch, policy, experiment, runs, settings)))
        tick(len(made), len(wanted))
    write(pages, {FILE: compact({**known, data: made})})


def read_control(pages: Path, data: str) -> dict[tuple[str, str], list[Control]]:
    """What was rehearsed for a data set."""
    found: dict[tuple[str, str], list[Control]] = {}
    for raw in read_numbers(pages / FILE).get(data, []):
        plain: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in raw.items()}
        one = Control(**plain)
        found.setdefault((one.batch, one.policy), []).append(one)
    return found


def _wanted(data: str, quick: bool) -> Iterator[tuple[str, str, Experiment]]:
    trial = QUICK if quick else ()
    for batch, recipe in ((part, recipe) for part, recipe in recipes_of(data) if part in JUDGED):
        ((_, experiment),) = sweep_points(recipe, trial)
        for policy in JUDGED[batch] or experiment.policies:
            yield batch, policy, experiment
            for times in LONGER if policy == OURS.get(batch) else ():
                ((_, longer),) = sweep_points(recipe, [*trial, f"run.rounds={times * experiment.rounds}"])
                yield batch, policy, longer


def _settings(batch: str, policy: str, experiment: Experiment, runs: int) -> str:
    tables = experiment.tables()
    told = [batch, policy, tables["policies"].get(policy), *(tables[name] for name in ("system", "prices", "bound"))]
    return sha256(json.dumps([*told, experiment.rounds, runs], sort_keys=True).encode()).hexdigest()[:12]


def _rehearsed(batch: str, policy: str, experiment: Experiment, runs: int, settings: str) -> Control:
    system, T = experiment.system, experiment.rounds
    spend, debts, held, peaks, most = [], [], [], [], 0
    for first in range(0, runs, AT_ONCE):
        seeds = np.arange(first, min(first + AT_ONCE, runs))
        found = rehearse(system, experiment.policies[policy], experiment.prices, seeds, T)
        quarter = max(T // 4, 1)
        spend.append(found.spend.mean(axis=1))
        debts.append([found.debt[:, -k * quarter : (-(k - 1) * quarter) or None].mean(axis=1) for k in (2, 1)])
        held.append(found.occupancy / T / system.buffer)
        peaks.append((found.peak_occupancy / system.buffer).max())
        most = max(most, int(found.n.max()))
    third, last = np.concatenate(debts, axis=1)
    shares = np.concatenate(held)
    return Control(
        batch=batch,
        policy=policy,
        rounds=T,
        budget=system.budget,
        runs=runs,
        spend=_pair(np.concatenate(spend)),
        growth=_pair((last - third) / (T // 4)) if T // 4 >= 2 else None,
        debts=(round(float(third.mean()), 3), round(float(last.mean()), 3)),
        fullest=_pair(shares[:, shares.mean(axis=0).argmax()]),
        peak_share=round(float(max(peaks)), 5),
        peak_n=most,
        memory=int(system.memory),
        settings=settings,
    )


def _pair(values: Floats) -> tuple[float, float]:
    return round(float(values.mean()), 6), round(float(values.std(ddof=1) / np.sqrt(values.size)), 6)
