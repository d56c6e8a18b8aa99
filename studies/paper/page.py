"""A study as a page of Markdown: what it came to, how it was made, what differs from the paper, tables and figures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headgate.analysis.formatting import interval
from headgate.analysis.pages import Machine, bullets, figure, how_made, machine_table, page
from headgate.analysis.runs import Runs
from headgate.errors import DataError
from headgate.reading import read_object
from studies.paper.batches import RELEASED, SHARED_ORACLE, WRITTEN, about
from studies.paper.claims import ClaimRow
from studies.paper.outcomes import Outcomes
from studies.paper.scene import WORDS, Scenes, constants, prices, settings, training
from studies.paper.sections import (
    constants_section,
    equal_section,
    horizon_section,
    open_section,
    policy_table,
    rates_section,
)

PROSE, HEADINGS = WORDS["prose"], WORDS["headings"]
PRECISION = Path(__file__).parents[4] / "benchmarks" / "results" / "gpu_accuracy.json"
"""what bfloat16 does to accuracy beside float32; lies beside the sources, not in the installed package"""


def study_page(
    data: str,
    outcomes: Outcomes,
    scenes: Scenes,
    rows: Sequence[ClaimRow],
    facts: dict[str, Any],
    machines: Sequence[Machine],
) -> str:
    """The whole page; `facts` say how the runs were made."""
    target = about(data)["target"]
    parts = [
        PROSE["purpose"].format(title=about(data)["title"]),
        in_short(data, rows),
        how_made(facts),
        "What differs from the paper:",
        bullets(about(data)["differs"]),
        PROSE["curves"],
    ]
    for part in (WRITTEN, RELEASED):
        own = [outcome for (batch, _), outcome in outcomes.items() if batch == part]
        if own:
            parts += _flavour(own, scenes, part, target)
            if part == RELEASED and data in SHARED_ORACLE:
                parts.append("The oracle as released is the one as written: weights are equal there and no price moves it.")
    for kind, heading in HEADINGS.items():
        parts += [f"## {heading}", figure(heading, f"figures/{data}-{kind}.svg")]
    parts += horizon_section(data, outcomes, scenes, target)
    parts += equal_section(data, outcomes, scenes, target)
    parts += open_section(outcomes, scenes) + constants_section(outcomes, scenes)
    parts += rates_section(outcomes, scenes)
    parts += ["## Machines", machine_table(machines)]
    parts += [precision_check()] if any(each.dtype == "bfloat16" for each in machines) else []
    parts.append("What became of each claim of the paper is judged on the [page of all claims](claims.md).")
    return page(f"{about(data)['title']}, reproduced", *parts, quick=facts["quick"])


def _flavour(own: Sequence[Runs], scenes: Scenes, part: str, target: float) -> list[str]:
    scene = scenes[part]
    said = f"{training(scene)}; {prices(scene)}. {settings(scene)}. Constants: {constants(scene)}."
    return [f"## As {part}, {own[0].rounds} rounds", f"{PROSE[part]} Here: {said}", policy_table(own, target)]


def in_short(study: str, rows: Sequence[ClaimRow]) -> str:
    """The gain over constant admission in both flavours, what it cost, and what is left of it within budget and buffers."""
    by_key = {row.key.removeprefix(f"{study}-"): row for row in rows}
    said = []
    for flavour in (WRITTEN, RELEASED):
        found = {key: getattr(row, flavour) for key, row in by_key.items()}
        gain, cost, fair = found["gain-constant"], found["cost"], found.get("gain-fair")
        if gain.value is None or cost.value is None:
            continue
        text = f"As {flavour}, ACDPP gains {interval(gain.value, signs=True)} points on constant admission"
        text += f" for {cost.value.mean:.1f} % of the budget, as rehearsed"
        if fair is not None and fair.value is not None:
            text += f"; held to budget and buffers it gains {interval(fair.value, signs=True)}"
        said.append(f"{text}.")
    return " ".join([*said, *["These intervals are at 95 %."] * bool(said)])


def precision_check() -> str:
    """What bfloat16 changes, in a sentence; nothing where it was not measured here."""
    try:
        found = read_object(PRECISION)
        change = next(each for each in found["accuracy"] if "difference" in each)
        exact = next(each for each in found["accuracy"] if each.get("bfloat16") is False)
        points, error = (100 * float(change[key]) for key in ("difference", "standard_error"))
        seen = f"CIFAR-10, {exact['rounds']} rounds, {len(exact['accuracies'])} seeds, {found['gpu']}"
        return (
            f"bfloat16 beside float32 ({seen}): {points:+.2f} points of accuracy, standard error {error:.2f} "
            f"(`benchmarks/results/{PRECISION.name}`)."
        )
    except (DataError, ValueError, KeyError, StopIteration):
        return ""
