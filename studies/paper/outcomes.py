"""What policies learnt, spent and held, as the results of a study keep it for its
claims.

Money, debt and memory, which the paper limits in expectation, are judged on thousands
of rehearsed runs.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from headgate.analysis.curves import thinned
from headgate.analysis.intervals import (
    Difference,
    Estimate,
    Floats,
    estimate,
    from_error,
)
from headgate.analysis.pages import write
from headgate.analysis.runs import Runs
from headgate.control.rehearse import rehearse
from headgate.experiment import Experiment, sweep_points
from studies.pages import compact, read_numbers
from studies.paper.batches import (
    EQUAL,
    HORIZON,
    OURS,
    QUICK,
    RELEASED,
    WRITTEN,
    recipes_of,
)

FILE = "control.json"
RUNS, QUICK_RUNS = 4000, 4
CURVES = ("batch", "policy", "round", "accuracy", "low", "high", "spent", "n", "debt")
JUDGED = {WRITTEN: None, RELEASED: None, EQUAL: ("released_fair",)}
"""which policies of a run folder; None: all of them"""


@dataclass(frozen=True)
class Control:
    """What a policy does with money and memory over one horizon. Pairs are a mean over
    runs and its standard error.
    """

    batch: str
    policy: str
    rounds: int
    budget: float
    runs: int
    spend: Sequence[float]
    """money a round"""
    growth: Sequence[float] | None
    """of the debt, from the third to the last quarter of the rounds, in money a round;
    None: there are too few rounds
    """
    debts: Sequence[float]
    """mean debt in the third and in the last quarter"""
    fullest: Sequence[float]
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


def rehearse_study(
    data: str, pages: Path, quick: bool, tick: Callable[[int, int], None]
) -> None:
    """Rehearse what control.json does not know yet, or knows with other settings, and
    write it there.
    """
    known = read_numbers(pages / FILE)
    before = {each["settings"]: each for each in known.get(data, [])}
    wanted, runs, made = list(_wanted(data, quick)), QUICK_RUNS if quick else RUNS, []
    for batch, policy, experiment in wanted:
        settings = _settings(batch, policy, experiment, runs)
        made.append(
            before.get(settings)
            or asdict(_rehearsed(batch, policy, experiment, runs, settings))
        )
        tick(len(made), len(wanted))
    write(pages, {FILE: compact({**known, data: made})})


def read_control(pages: Path, data: str) -> dict[tuple[str, str], list[Control]]:
    """What was rehearsed for a data set."""
    found: dict[tuple[str, str], list[Control]] = {}
    for raw in read_numbers(pages / FILE).get(data, []):
        found.setdefault((raw["batch"], raw["policy"]), []).append(Control(**raw))
    return found


def _wanted(data: str, quick: bool) -> Iterator[tuple[str, str, Experiment]]:
    trial = QUICK if quick else ()
    for batch, recipe in (
        (part, recipe) for part, recipe in recipes_of(data) if part in JUDGED
    ):
        ((_, experiment),) = sweep_points(recipe, trial)
        for policy in JUDGED[batch] or experiment.policies:
            yield batch, policy, experiment
            for times in (2, 4) if policy == OURS.get(batch) else ():
                ((_, longer),) = sweep_points(
                    recipe, [*trial, f"run.rounds={times * experiment.rounds}"]
                )
                yield batch, policy, longer


def _settings(batch: str, policy: str, experiment: Experiment, runs: int) -> str:
    tables = experiment.tables()
    told = [
        batch,
        policy,
        tables["policies"].get(policy),
        *(tables[name] for name in ("system", "prices", "bound")),
    ]
    return sha256(
        json.dumps([*told, experiment.rounds, runs], sort_keys=True).encode()
    ).hexdigest()[:12]


def _rehearsed(
    batch: str, policy: str, experiment: Experiment, runs: int, settings: str
) -> Control:
    system, T = experiment.system, experiment.rounds
    found, quarter = (
        rehearse(
            system, experiment.policies[policy], experiment.prices, np.arange(runs), T
        ),
        max(T // 4, 1),
    )
    third, last = (
        found.debt[:, T - k * quarter : T - (k - 1) * quarter].mean(axis=1)
        for k in (2, 1)
    )
    shares = found.occupancy / T / system.buffer
    return Control(
        batch=batch,
        policy=policy,
        rounds=T,
        budget=system.budget,
        runs=runs,
        spend=_pair(found.spend.mean(axis=1)),
        growth=_pair((last - third) / (T // 4)) if T // 4 >= 2 else None,
        debts=(round(float(third.mean()), 3), round(float(last.mean()), 3)),
        fullest=_pair(shares[:, shares.mean(axis=0).argmax()]),
        peak_share=round(float((found.peak_occupancy / system.buffer).max()), 5),
        peak_n=int(found.n.max()),
        memory=int(system.all_places),
        settings=settings,
    )


def _pair(values: Floats) -> tuple[float, float]:
    return round(float(values.mean()), 6), round(
        float(values.std(ddof=1) / np.sqrt(values.size)), 6
    )


# what was learnt

POINTS = 50
"""of a curve that are kept"""
STEP = 5
"""targets for which the first rounds are kept are multiples of so many %"""


@dataclass(frozen=True, eq=False)
class Side:
    """A policy of a study, as claims ask for it: accuracies by seed from learning,
    money and memory from rehearsals.
    """

    policy: str
    rounds: int
    lost: int
    """runs whose model diverged"""
    best: Mapping[int, float]
    """by seed that has learnt: the running best at the end"""
    first: Mapping[int, Sequence[int | None]] | None
    """by target in %, for these seeds: the round in which each is there; None: not
    published
    """
    control: Sequence[Control]
    """the shortest horizon first; empty: not rehearsed"""

    @property
    def mean(self) -> float:
        return float(np.mean(list(self.best.values())))

    def reached(self, target: int, seeds: Iterable[int]) -> Floats:
        """Rounds up to the target in %, by seed; NaN where it never gets there."""
        rounds = dict(
            zip(
                self.best,
                (self.first or {}).get(target, [None] * len(self.best)),
                strict=True,
            )
        )
        return np.array([rounds[seed] for seed in seeds], dtype=np.float64)


Sides = Mapping[tuple[str, str], Side]
"""by (run folder's own name, policy)"""


def sides_of(
    numbers: Mapping[str, Any], control: Controls
) -> dict[tuple[str, str], Side]:
    """From the numbers of a study and what was rehearsed for it."""
    return {
        (raw["batch"], raw["policy"]): side_of(raw, control)
        for raw in numbers.get("policies", [])
    }


def side_of(raw: Mapping[str, Any], control: Controls) -> Side:
    first = raw.get("rounds_by_seed")
    longer = (
        control.get((WRITTEN, raw["policy"]), ())
        if raw["batch"].startswith(HORIZON)
        else ()
    )  # the same rule for longer
    known = control.get((raw["batch"], raw["policy"])) or sorted(
        longer, key=lambda one: one.rounds != raw["rounds"]
    )
    return Side(
        policy=raw["policy"],
        rounds=raw["rounds"],
        lost=raw["diverged"],
        best=dict(zip(raw["learnt"], raw["final_by_seed"], strict=True)),
        first=(
            None
            if first is None
            else {int(target): rounds for target, rounds in first.items()}
        ),
        control=known,
    )


def policy_numbers(one: Runs) -> dict[str, Any]:
    """What a policy came to; the seeds one by one where claims are judged by them."""
    assert one.held is not None
    shares = one.held / one.buffers
    asked = one.folder.startswith((WRITTEN, RELEASED, HORIZON)) and one.learnt
    judged = {"rounds_by_seed": _first_rounds(one)} if asked else {}
    return {
        "batch": one.folder,
        "policy": one.policy,
        "seeds": len(one.learnt),
        "diverged": one.lost_runs,
        "rounds": one.rounds,
        "budget": one.budget,
        "accuracy": _plain(estimate(one.best)) if one.learnt else None,
        "spend": _plain(estimate(one.spend)),
        "fullest_mean": round(float(shares.mean(axis=(0, 1)).max()), 5),
        "fullest_peak": round(float(shares.max()), 5),
        "learnt": list(one.learnt),
        "final_by_seed": [round(float(value), 5) for value in one.best],
        **judged,
    }


def _first_rounds(one: Runs) -> dict[str, list[int | None]]:
    """By each multiple of `STEP` % that any run reaches: the evaluated round in which
    it is there first; None: never.
    """
    found = {}
    for target in range(STEP, 101, STEP):
        there = one.curve >= target / 100 - 1e-9
        if not there.any():
            break
        found[str(target)] = [
            int(one.t[row.argmax()]) if row.any() else None for row in there
        ]
    return found


def _plain(value: Estimate) -> list[float | None]:
    return [None if each is None else round(each, 5) for each in value.three]


def curve_rows(outcomes: Sequence[Runs]) -> list[list[str]]:
    """Mean and interval at the evaluated rounds of every policy, thinned evenly where
    there are many.
    """
    rows = []
    for one in (one for one in outcomes if one.learnt):
        means = [
            values.mean(axis=0)
            for values in (one.spent, one.column("n"), one.column("debt"))
        ]
        for place in thinned(len(one.t), POINTS):
            t, best = one.t[place], estimate(one.curve[:, place])
            values = [*best.three, *(float(each[t - 1]) for each in means)]
            numbers = ["" if value is None else f"{value:.6g}" for value in values]
            rows.append([one.folder, one.policy, str(t), *numbers])
    return rows
