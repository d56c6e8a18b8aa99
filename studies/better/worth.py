"""What a part of learning is worth to each policy at equal spend, its settings chosen on data that nobody trains on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headgate.analysis import comparison as compared
from headgate.analysis.formatting import DASH, listed
from headgate.analysis.pages import as_json, facts_of, how_made, machine, page, table, write
from headgate.analysis.runs import read_finished
from headgate.records.reader import RunFolder
from studies.better.seed_by_seed import Row, gap, paired
from studies.better.studies import OBJECTIVES, SERVERS, title

COMMAND = "python -m studies reproduce better"
POLICIES = ("headgate", "constant", "oracle")
MEASURES = ("best", "last", "mean", "chosen")
PURPOSE = "What {said} adds to each policy at equal money, with every setting that was tried."
WORDS = (
    "In brackets: on the tenth of the training images that is held out, the highest so far at the end; settings are chosen "
    "by it. Accuracy in %, means over seeds; *best*, *last* and *mean* as elsewhere, *chosen* is the test accuracy of the "
    "model that is best on what is held out. *Lost* are runs whose model broke down; they are left out of the means."
)


@dataclass(frozen=True)
class LearningPart:
    """A section of a recipe whose kinds are compared."""

    section: str
    plain: str
    """the kind that the others are held against"""
    said: str
    settings: Mapping[str, Sequence[str]]
    """of each kind, which of its settings differ here"""


SERVER = LearningPart("server", "average", "the server's step", {"momentum": ("momentum",), "adam": ("lr",), "yogi": ("lr",)})
OBJECTIVE = LearningPart(
    "objective",
    "plain",
    "another objective",
    {"fresh": ("share",), "fedlc": ("tau",), "fedrs": ("alpha",), "fedntd": ("beta",)},
)


def part_of(name: str) -> LearningPart:
    """Which part a study is about."""
    return {**dict.fromkeys(SERVERS, SERVER), **dict.fromkeys(OBJECTIVES, OBJECTIVE)}[name]


def conclude_worth(folders: Sequence[Path], pages: Path, name: str, quick: bool = False) -> None:
    """Writes NAME.md and NAME.json: one run folder for each setting of the part."""
    opened, part = [RunFolder.open(folder) for folder in folders], part_of(name)
    rows = [row for run in opened for row in _rows(run, part)]
    facts = facts_of(COMMAND, [machine(run) for run in opened], quick)
    parts = [PURPOSE.format(said=part.said), how_made(facts), WORDS, all_table(rows, part)]
    text = page(f"{name}: what {part.said} is worth", *parts, quick=quick)
    write(pages, {f"{name}.md": text, f"{name}.json": as_json({**facts, "rows": rows})})


def _rows(run: RunFolder, part: LearningPart) -> list[dict[str, Any]]:
    found = read_finished([run.path])
    own = run.config.get(part.section, {"kind": part.plain})
    said = [f"{own[name]:g}" if name == own["kind"] else f"{name} {own[name]:g}" for name in part.settings.get(own["kind"], ())]
    return [
        {
            "kind": own["kind"],
            "setting": ", ".join(said),
            **row,
            "held_out_by_seed": [round(float(value), 6) for value in one.held_out],
        }
        for row, one in zip(compared.rows(found), found, strict=True)
    ]


def all_table(rows: Sequence[Row], part: LearningPart) -> str:
    lines = []
    for row in rows:
        known = bool(row["learnt"])
        held = f"{_mean(row, 'best')} ({_mean(row, 'held_out')})" if known else DASH
        rest = [_mean(row, key) if known else DASH for key in MEASURES[1:]]
        money = f"{row['spend']:.1f} of {row['budget']:g}"
        lines.append([_named(row), f"`{row['policy']}`", held, *rest, money, str(row["diverged"])])
    return table([part.section, "policy", "best (held out)", *MEASURES[1:], "money a round", "lost"], lines)


def _named(row: Row) -> str:
    return f"{row['kind']} {row['setting']}".strip()


def _mean(row: Row, key: str) -> str:
    return f"{100 * np.mean(row[f'{key}_by_seed']):.2f}"


def chosen(rows: Sequence[Row]) -> dict[str, str]:
    """The setting of each kind with which `headgate` is best on what is held out and loses no run."""
    best: dict[str, tuple[float, str]] = {}
    for row in (row for row in rows if row["policy"] == "headgate" and not row["diverged"]):
        held = float(np.mean(row["held_out_by_seed"]))
        best[row["kind"]] = max(best.get(row["kind"], (-1.0, "")), (held, row["setting"]))
    return {kind: setting for kind, (_, setting) in best.items()}


def worth_table(found: Mapping[str, Sequence[Row]], part: LearningPart) -> str:
    """For each study and kind of the part: what it adds to each policy, and headgate with it beside the plain oracle."""
    lines = []
    for name, rows in found.items():
        at = {(row["kind"], row["setting"], row["policy"]): row for row in rows}
        for kind, setting in chosen(rows).items():
            if kind == part.plain:
                continue
            adds = [
                gap(at[kind, setting, policy], at[part.plain, "", policy], key)
                for policy in POLICIES
                for key in ("best", "last")
            ]
            beside = gap(at[kind, setting, "headgate"], at[part.plain, "", "oracle"], "best")
            lines.append([f"[{title(name)}]({name}.md)", f"{kind} {setting}".strip(), *adds, beside])
    header = [f"{policy}: {key}" for policy in POLICIES for key in ("best", "last")]
    beside = "headgate with it, less the plain oracle: best"
    return table(["study", f"{part.section}, as chosen", *header, beside], lines)


def worth_said(found: Mapping[str, Sequence[Row]], part: LearningPart) -> str:
    """By which kinds headgate's best models gain or lose, clear of zero at 95 %, by which neither, and what broke down."""
    said = []
    for name, rows in found.items():
        at = {(row["kind"], row["setting"]): row for row in rows if row["policy"] == "headgate"}
        kinds: dict[str, list[str]] = {"gain": [], "lose": [], "neither": []}
        for kind, setting in chosen(rows).items():
            if kind != part.plain:
                gap = paired(at[kind, setting], at[part.plain, ""], "best")
                low, high = gap.low or 0.0, gap.high or 0.0  # one seed tells nothing
                verdict = "gain" if low > 0 else "lose" if high < 0 else "neither"
                kinds[verdict].append(f"`{kind}`")
        gain, lose, neither = (listed(each) if each else "none of them" for each in kinds.values())
        verdict = f"clearly gain by {gain}, clearly lose by {lose}, neither by {neither}."
        said.append(f"- {title(name)}: headgate's best models {verdict}{_broken(rows)}")
    return "\n".join(said)


def _broken(rows: Sequence[Row]) -> str:
    """Kinds of which no setting can be chosen, because with each of them a model of headgate's broke down."""
    kept, own = chosen(rows), [row for row in rows if row["policy"] == "headgate"]
    said = []
    for kind in dict.fromkeys(row["kind"] for row in own if row["kind"] not in kept):
        tried = [row for row in own if row["kind"] == kind]
        lost, learnt = sum(row["diverged"] for row in tried), sum(len(row["learnt"]) for row in tried)
        said.append(f" With `{kind}` {lost} of headgate's {lost + learnt} runs broke down, so there is no line for it.")
    return "".join(said)
