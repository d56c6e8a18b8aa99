"""What headgate gains or loses without each of its parts and with each of its settings:
the same seeds with and without it.
"""

from collections import ChainMap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headgate.analysis.formatting import DASH, grouped
from headgate.analysis.intervals import Difference
from headgate.analysis.savings import Row, needed, paired, savings
from headgate.escaping import code
from headgate.escaping import markdown as escape
from studies.comparisons import at, budget, clear, rows_of, said, title
from studies.pages import SAID, StudyContent, intervals, table

_SAID = SAID["simplest"]
CHANGES: Mapping[str, str] = _SAID["changes"]
"""what each policy changes, in words"""
KEYS: Mapping[str, str] = _SAID["keys"]
"""the measures, in words"""
FRONTS = tuple(f"simplest-{name}" for name in _SAID["fronts"])
MONEY = ("simplest-digits", "simplest-digits-2", "simplest-digits-8")
"""the money for constant admission's accuracy, by the model that is judged"""
SIMPLEST = (*FRONTS, *MONEY)
OURS = "headgate"
KINDS = ("linear models", "networks")
NETS = ("LeNet", "ResNet")
Gaps = Mapping[str, Difference | None]
"""what each change gains, in points"""


class Front(NamedTuple):
    """A model under one kind of price."""

    study: str
    called: str
    gaps: Mapping[str, Gaps]
    """by measure"""

    @property
    def models(self) -> str:
        return KINDS[any(net in title(self.study) for net in NETS)]


def simplest_content(folder: Path) -> StudyContent:
    fronts = _fronts(rows_of(FRONTS, folder))
    by_kind = grouped(fronts, lambda front: front.models)
    together = {
        (kind, key): _means([each.gaps[key] for each in own])
        for kind, own in by_kind.items()
        for key in KEYS
    }
    lines = [
        [
            f"{code(name)}: {text}",
            *(_cell(own.get(name)) for own in together.values()),
            _counts(fronts, name),
        ]
        for name, text in CHANGES.items()
    ]
    series = {
        f"{kind}, {key}": [own.get(name) for name in CHANGES]
        for (kind, key), own in together.items()
        if key != "best"
    }
    draw = intervals(list(CHANGES.values()), series, _SAID["shows"])
    more = "\n\n".join(_details(own, key) for own in by_kind.values() for key in KEYS)
    ends = [_ends(own, kind) for kind, own in by_kind.items()]
    numbers = dict(ChainMap({"fronts": len(fronts)}, _of_money(folder), *ends))
    return StudyContent(lines, numbers, draw, more=more)


def _fronts(found: Mapping[str, Sequence[Row]]) -> list[Front]:
    made = []
    for study, rows in found.items():
        by_prices = grouped(rows, lambda row: str(row["prices"]))
        for prices, own in by_prices.items():
            called = title(study) + (f", {prices}" if len(by_prices) > 1 else "")
            made.append(Front(study, called, {key: _gaps(own, key) for key in KEYS}))
    return made


def _gaps(rows: Sequence[Row], key: str) -> Gaps:
    ours = at(rows, OURS)
    return {row["policy"]: paired(row, ours, key) for row in rows if row is not ours}


def _means(fronts: Sequence[Gaps]) -> dict[str, Difference]:
    """Return the mean over the fronts that tried a change, all of one weight."""
    made = {}
    for name in CHANGES:
        tried = [gap for own in fronts if (gap := own.get(name)) is not None]
        if tried:
            mean = float(np.mean([gap.mean for gap in tried]))
            halves = [gap.half or 0.0 for gap in tried]
            half = float(np.linalg.norm(halves)) / len(tried)
            made[name] = Difference(mean, mean - half, mean + half)
    return made


def _cell(gap: Difference | None) -> str:
    return DASH if gap is None else said(gap, bold=clear(gap) != 0)


def _known(fronts: Sequence[Front], name: str, key: str) -> list[Difference]:
    return [gap for one in fronts if (gap := one.gaps[key].get(name)) is not None]


def _counts(fronts: Sequence[Front], name: str) -> str:
    """Return on how many fronts a change is clearly worse, and better, by measure."""
    counted = []
    for key in KEYS:
        signs = [clear(gap) for gap in _known(fronts, name, key)]
        counted.append(f"{signs.count(-1)} · {signs.count(1)}")
    return ", ".join(counted) + f" of {len(signs)}"


def _ends(fronts: Sequence[Front], kind: str) -> dict[str, Any]:
    """Return the least and the most that each change gains on a front, by measure."""
    ends = {}
    for name in CHANGES:
        for key in KEYS:
            gains = sorted(gap.mean for gap in _known(fronts, name, key))
            called = f"{name}_{key}_{kind.split()[0]}".replace("-", "_")
            if gains:
                text = f"{gains[0]:+.1f} to {gains[-1]:+.1f}"
                ends[called] = text.replace("-", "−")
    return ends


def _details(fronts: Sequence[Front], key: str) -> str:
    """Return a table of all fronts of one kind of model, with its heading."""
    tried = [name for name in CHANGES if _known(fronts, name, key)]
    lines = [
        [escape(one.called), *(_cell(one.gaps[key].get(name)) for name in tried)]
        for one in fronts
    ]
    heading = f"## {fronts[0].models.capitalize()}, {KEYS[key]}"
    return f"{heading}\n\n{table(['front', *map(code, tried)], lines)}"


def _of_money(folder: Path) -> dict[str, str]:
    """Return what headgate needs of constant admission's money at the recipe's own
    budget.
    """
    made = {}
    for name, rows in rows_of(MONEY, folder).items():
        wanted = OURS, budget(name)
        found = {(one.policy, one.budget): one for one in savings(rows, "constant")}
        made[name.replace("-", "_")] = needed(found[wanted])[1]
    return made
