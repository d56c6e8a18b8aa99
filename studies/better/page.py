"""The page over all comparisons, made from the numbers that lie beside it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from headgate.analysis.comparison import share
from headgate.analysis.curves import COLOURS
from headgate.analysis.figures import STYLE, save_figure
from headgate.analysis.formatting import percent
from headgate.analysis.intervals import Estimate, means
from headgate.analysis.pages import as_json, beside, filled, read_numbers, table, write
from headgate.errors import DataError
from headgate.experiment import load
from headgate.experiment.recipes import study_table
from studies import recipe
from studies.better import every_price
from studies.better.age import age_table, least_table
from studies.better.response import draw_response, response_table
from studies.better.seed_by_seed import Row, gap
from studies.better.studies import GRIDS, NAMES, OBJECTIVES, RESPONSES, SERVERS, study, title
from studies.better.worth import COMMAND, OBJECTIVE, SERVER, worth_said, worth_table
from studies.leaderboard.results import MEASURES
from studies.theory.regret import regret_table

EARLY = {"headgate": "0", "early-10": "0.1", "early-25": "0.25", "early-50": "0.5", "early-100": "1"}
OTHERS = {"released": COLOURS[1], "cheapest-first": COLOURS[2], "constant": "black"}
PAGE, FRONT, RESPONSE, REGRET = "README.md", "front.svg", "response.svg", "regret.json"
PACES = {
    "headgate": "the default",
    "smooth-0": "whole buffers, `smooth` = 0",
    "smooth-25": "`smooth` = 0.25",
    "smooth-50": "`smooth` = 0.5",
    "ahead-any": "no limit to `ahead`",
    "early-10": "`early` = 0.1",
    "early-25": "`early` = 0.25",
    "early-50": "`early` = 0.5",
    "early-100": "`early` = 1",
    "turnover-70": "at most 70 % of the places a round",
    "turnover-50": "at most half of the places a round",
    "fill-0": "round 1 like any other, `fill` = 0",
    "fill-all": "round 1 fills all places, for up to half of the money",
    "cheapest-first": "all prices known, cheapest first",
}
Found = Mapping[str, Sequence[Row]]
"""the rows of each comparison"""


def conclude_regret(folder: Path, quick: bool, tick: Callable[[int, int], None]) -> None:
    """regret.json, where it is not there yet: what `python -m studies theory regret --format json` says."""
    if not (folder / REGRET).is_file():
        e = load("mnist", ["run.rounds=40", "run.seeds=2"] if quick else ["run.rounds=1000", "run.seeds=10"])
        rows = regret_table(e.system, e.bound, e.seeds, e.rounds, tick=tick)
        write(folder, {REGRET: as_json([asdict(row) for row in rows])})


def conclude_page(folder: Path, quick: bool) -> list[Path]:
    """README.md, front.svg and response.svg from NAME.json and regret.json beside them. What was not run is left out."""
    found, helped, minimised = (
        {name: rows for name in names if (rows := read_numbers(folder / f"{name}.json").get("rows"))}
        for names in (NAMES, SERVERS, OBJECTIVES)
    )
    regret = json.loads((folder / REGRET).read_text("utf-8"))
    written = write(folder, {PAGE: page(found, helped, minimised, regret, quick)})
    draw_front({name: found[name] for name in ("ablations", "logistic-helped", "lenet")}, folder / FRONT, quick)
    draw_response(found, folder / RESPONSE, quick)
    return [*written, folder / FRONT, folder / RESPONSE]


def page(found: Found, helped: Found, minimised: Found, regret: Sequence[Row], quick: bool = False) -> str:
    pairs = every_price.pairs_in(found)
    return filled(
        beside(__file__, "page.md"),
        quick,
        closed=_closed(found),
        left_out=_left_out({**found, **helped, **minimised}),
        servers=worth_table(helped, SERVER),
        servers_said=worth_said(helped, SERVER),
        objectives=worth_table(minimised, OBJECTIVE),
        objectives_said=worth_said(minimised, OBJECTIVE),
        released=_released(found["mnist"]),
        rivals=_rivals(found),
        beside_oracle=_beside_oracle(found),
        ablations=_ablations(found["ablations"]),
        response=response_table(found),
        by_age=age_table(found),
        least_age=least_table(found),
        paces=_paces(found),
        regret=_regret(regret),
        above=_above(regret),
        every_price=every_price.prices_table(pairs),
        exceptions=every_price.exceptions(pairs),
        **_said(found),
    )


def at(rows: Sequence[Row], policy: str, budget: float | None = None) -> Row:
    return next(row for row in rows if row["policy"] == policy and budget in (None, row["budget"]))


def _share(closed: Any) -> str:
    """What is closed of a gap, with its interval."""
    return share(None if closed is None else Estimate(*closed))


def seeds_said(row: Row) -> str:
    lost = row["diverged"]
    return f"{row['seeds']}, {lost} more broke down" if lost else str(row["seeds"])


def _points(row: Row, key: str = "best") -> str:
    return f"{100 * row[key][0]:.2f}"


def _closed(found: Found) -> str:
    closed = [f"closed, {key}" for key in MEASURES]
    header = ["study", "seeds", "best: constant / headgate / oracle (%)", *closed, "money a round"]
    lines = []
    left_out = ("ablations", *GRIDS, "prices", "prices-lenet", *RESPONSES)
    for name, rows in ((name, rows) for name, rows in found.items() if name not in left_out):
        own = [row for row in rows if row["budget"] == (55.0 if name == "mnist" else row["budget"])]
        headgate, constant, oracle = (at(own, policy) for policy in ("headgate", "constant", "oracle"))
        lines.append(
            [
                f"[{title(name)}]({name}.md)",
                seeds_said(headgate),
                " / ".join(map(_points, (constant, headgate, oracle))),
                *(_share(headgate[f"closed_{key}"]) for key in MEASURES),
                f"{headgate['spend']:.1f} of {headgate['budget']:g}",
                f"{headgate['overspent_runs']} runs, {max(headgate['worst_excess'], 0)} samples",
            ]
        )
    return table([*header, "over its limits"], lines)


def _left_out(found: Found) -> str:
    """Which comparisons have no numbers, and what would make them."""
    names = [name for name in (*NAMES, *SERVERS, *OBJECTIVES) if name not in found]
    said = "; ".join(f"{title(name)} (`{COMMAND if name not in NAMES else study(name).command}`)" for name in names)
    return f"Not run yet with these recipes: {said}.\n\n" if names else ""


def _released(rows: Sequence[Row]) -> str:
    released = at(rows, "released", 55.0)
    ours = [row for row in rows if row["policy"] == "headgate" and row["best"][0] >= released["best"][0]]
    said = (
        f"The released policy ends at {_points(released)} % for {released['spend']:.2f} a round of a budget of 55, "
        f"holding up to {released['peak_n']} samples where there is room for 100."
    )
    if not ours:
        return f"{said} `headgate` does not get there with any of these budgets."
    least = min(ours, key=lambda row: row["spend"])
    part = percent(least["spend"] / released["spend"])
    return (
        f"{said} `headgate` with a budget of {least['budget']:g} ends at {_points(least)} % for {least['spend']:.2f}, "
        f"**{part} of that money**, within its buffers."
    )


def _rivals(found: Found) -> str:
    """headgate beside the best that ACDPP comes to with any of the settings tried, held to the same limits."""
    lines = []
    for name in (name for name in (*GRIDS, "cifar10") if name in found):
        ours, rivals = at(found[name], "headgate"), [row for row in found[name] if row["policy"].startswith("K")]
        tried = f"{len(rivals)}, {sum(row['spend'] > 0.9 * row['budget'] for row in rivals)}"
        for key in MEASURES:
            best = max(rivals, key=lambda row: row[key][0])
            lost = f", {best['diverged']} of {best['seeds'] + best['diverged']} runs broke down" if best["diverged"] else ""
            theirs = f"`{best['policy']}` {_points(best, key)} for {best['spend']:.1f}{lost}"
            own = f"{_points(ours, key)} for {ours['spend']:.1f}"
            lines.append([title(name).partition(", ACDPP")[0], tried, key, own, theirs, gap(ours, best, key)])
    return table(["study", "tried", "by", "headgate (%)", "best ACDPP in the limits (%)", "ahead (points)"], lines)


def _beside_oracle(found: Found) -> str:
    """headgate with help beside the oracle without: what help is worth in money."""
    lines = []
    for helped, plain in ((name, name.removesuffix("-helped")) for name in found if name.endswith("-helped")):
        if plain not in found:
            continue  # logistic regression's plain runs are a sweep over budgets
        ours, oracle = at(found[helped], "headgate"), at(found[plain], "oracle")
        spent = [f"{_points(row)} for {row['spend']:.0f}" for row in (ours, oracle)]
        lines.append([title(plain), *spent, *(gap(ours, oracle, key) for key in MEASURES)])
    ahead = [f"ahead, {key} (points)" for key in MEASURES]
    return table(["study", "headgate with help (best, %, money a round)", "oracle without", *ahead], lines)


def _ablations(rows: Sequence[Row]) -> str:
    ours = at(rows, "headgate")
    lines = [["**headgate**", "", *(f"{_points(ours, key)} %" for key in MEASURES), *_taken(ours)]]
    for part, change, policy in study_table(recipe("better/ablations"))["parts"]:
        row = at(rows, policy)
        if not row["kept_limits"]:
            raise DataError(f"better/ablations: {policy} broke a limit, so it cannot stand beside headgate")
        lines.append([part, change, *(gap(row, ours, key) for key in MEASURES), *_taken(row)])
    return table(["headgate does", "instead", *(f"{key} (points)" for key in MEASURES), "N", "money a round"], lines)


def _paces(found: Found) -> str:
    """What is closed with each pace and way to renew, by study."""
    lines = [
        [title(name), said, *(_share(row[f"closed_{key}"]) for key in MEASURES), f"{row['N']:.0f}"]
        for name, rows in found.items()
        if name not in ("mnist", *GRIDS, "ercot", "brent", "prices", "prices-lenet")
        for policy, said in PACES.items()
        for row in rows
        if row["policy"] == policy
    ]
    return table(["study", "headgate with", *(f"closed, {key}" for key in MEASURES), "N"], lines)


def _taken(row: Row) -> list[str]:
    return [f"{row['N']:.0f}", f"{row['spend']:.1f}"]


def _regret(rows: Sequence[Row]) -> str:
    wanted = ("headgate", "resolving", "pacing", "threshold", "constant")
    ratio = {(row["prices"], row["policy"]): row for row in rows}
    lines = [
        [name, *(f"{ratio[name, policy]['ratio']:.3f}" for policy in wanted), f"{ratio[name, 'headgate']['worst']:.3f}"]
        for name in dict.fromkeys(row["prices"] for row in rows)
    ]
    return table(["prices", *(f"`{name}`" for name in wanted), "headgate's worst run"], lines)


def _above(rows: Sequence[Row]) -> dict[str, str]:
    """By how much Σ p(t) exceeds the clairvoyant bound, by policy and kind of prices, the worst of a kind."""
    kinds = {"uniform": ("uniform",), "drifting": ("drift up", "drift down")}
    return {
        f"{policy} {kind}": percent(max(row["ratio"] for row in rows if row["policy"] == policy and row["prices"] in own) - 1)
        for policy in dict.fromkeys(row["policy"] for row in rows)
        for kind, own in kinds.items()
    }


def _said(found: Found) -> dict[str, Any]:
    """Numbers inside sentences."""
    parts, helped = found["ablations"], found["logistic-helped"]
    gains = {policy: at(helped, policy)["best"][0] - at(parts, policy)["best"][0] for policy in ("constant", "headgate")}
    foresight = {key: gap(at(parts, "headgate"), at(parts, "cheapest-first"), key) for key in MEASURES}
    return {
        "help": {policy: f"{100 * gain:.1f}" for policy, gain in gains.items()},
        "foresight": foresight,
    }


def draw_front(found: Mapping[str, Sequence[Row]], path: Path, quick: bool = False) -> None:
    """The front between early and late money: last models against the mean over rounds, a panel for each comparison."""
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(1, len(found), figsize=(12, 4), layout="constrained")
        for axes, (name, rows) in zip(grid, found.items(), strict=True):
            named = {row["policy"]: row for row in rows}
            ours = {text: named[policy] for policy, text in EARLY.items() if policy in named}
            _line(axes, ours, COLOURS[0], "headgate, by early")
            for policy, colour in OTHERS.items():
                over = "" if named[policy]["kept_limits"] else " (over its limits)"
                _line(axes, {"": named[policy]}, colour, f"{policy}{over}")
            shown = title(name).replace(", every part by itself", "")
            axes.set(title=shown, xlabel="accuracy in the last tenth of the rounds (%)", ylabel="mean over rounds (%)")
        if quick:
            figure.suptitle("trial run: these numbers mean nothing", color="#B00020")
        handles = dict(zip(*reversed(grid[0].get_legend_handles_labels()), strict=True))
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4)
        save_figure(figure, path)


def _line(axes: Axes, points: Mapping[str, Row], colour: str, label: str) -> None:
    x, dx, y, dy = (
        np.array([float(means(100 * np.array(row[f"{key}_by_seed"]))[part]) for row in points.values()])
        for key in ("last", "mean")
        for part in (0, 1)
    )
    axes.errorbar(x, y, dy, dx, "o-", color=colour, label=label, linewidth=1.2, capsize=2, markersize=5)
    for text, px, py in zip(points, x, y, strict=True):
        axes.annotate(text, (px, py), xytext=(5, 5), textcoords="offset points", fontsize=9)
