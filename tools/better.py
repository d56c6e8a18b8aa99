"""Makes docs/better/README.md and docs/better/front.svg from the results beside them.

python tools/better.py           writes them
python tools/better.py --check   exits with 1 if the page is not up to date
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from headgate.analysis.intervals import means, t_quantile
from headgate.analysis.markdown import percent, table

FOLDER = Path(__file__).parent.parent / "docs" / "better"
PAGE = FOLDER / "README.md"
FRONT = FOLDER / "front.svg"
TEMPLATE = Path(__file__).parent / "better.md"
Row = Mapping[str, Any]
STUDIES = {
    "mnist": "MNIST, logistic regression, six budgets",
    "ablations": "MNIST, logistic regression, every part by itself",
    "acdpp-grid": "MNIST, logistic regression, ACDPP with 36 settings",
    "logistic-helped": "MNIST, logistic regression, with help for all",
    "lenet": "MNIST, LeNet",
    "lenet-helped": "MNIST, LeNet, with help for all",
    "cifar10": "CIFAR-10, ResNet-9",
    "imagenette": "ImageNette, ResNet-9",
}
PARTS = [
    ("lean to early rounds", "none: an even pace", "early-0"),
    ("", "0.1", "early-10"),
    ("", "0.5", "early-50"),
    ("", "all the way", "early-100"),
    ("fill the buffers in round 1", "do not", "no-fill"),
    ("first in, first out at capacity", "K-step as well, K = 4", "k-step-4"),
    ("", "K-step as well, K = 10", "k-step-10"),
    ("", "reservoir", "reservoir"),
    ("", "class-balanced", "class-balanced"),
    ("", "static ratio 0.5", "static"),
    ("", "dynamic ratio", "dynamic"),
    ("prices learnt online", "distribution known, fixed limit", "known-prices"),
    ("", "all prices known, cheapest first", "cheapest-first"),
    ("", "all prices known, least Σ p(t)", "least-bound"),
    ("no interval around a rate, purchases follow the price", "ACDPP's interval, held to the limits", "acdpp-capped"),
    ("", "drift-plus-penalty without interval, held to the limits", "dpp-capped"),
    ("", "constant admission, held to the limits", "constant-purse"),
]
"""what headgate does, what it is changed to, and the policy of ablations.toml that does it"""


def load() -> dict[str, list[Row]]:
    return {name: json.loads((FOLDER / f"{name}.json").read_text("utf-8"))["rows"] for name in STUDIES}


def at(rows: list[Row], policy: str, budget: float | None = None) -> Row:
    return next(row for row in rows if row["policy"] == policy and budget in (None, row["budget"]))


def gap(one: Row, other: Row, key: str) -> str:
    """Seed by seed, in points, with its 95 % interval."""
    gaps = 100 * (np.array(one[f"{key}_by_seed"]) - np.array(other[f"{key}_by_seed"]))
    half = t_quantile(gaps.size - 1, 0.95) * gaps.std(ddof=1) / np.sqrt(gaps.size)
    return f"{gaps.mean():+.2f} ± {half:.2f}".replace("-", "−")


def share(value: float) -> str:
    return percent(value).replace("-", "−")


def closed_table(found: dict[str, list[Row]]) -> str:
    lines = []
    for name, title in STUDIES.items():
        own = [row for row in found[name] if row["budget"] == (55.0 if name == "mnist" else row["budget"])]
        headgate, constant, oracle = (at(own, policy) for policy in ("headgate", "constant", "oracle"))
        lines.append(
            [
                f"[{title}]({name}.md)",
                str(headgate["seeds"]),
                " / ".join(f"{100 * row['best'][0]:.2f}" for row in (constant, headgate, oracle)),
                share(headgate["closed_best"]),
                share(headgate["closed_mean"]),
                f"{headgate['spend']:.1f} of {headgate['budget']:g}",
                f"{headgate['overspent_runs']} runs, {max(headgate['worst_excess'], 0)} samples",
            ]
        )
    header = [
        "study",
        "seeds",
        "best: constant / headgate / oracle (%)",
        "closed, best",
        "closed, mean",
        "money a round",
        "over its limits",
    ]
    return table(header, lines)


def released_line(rows: list[Row]) -> str:
    released = at(rows, "released", 55.0)
    ours = [row for row in rows if row["policy"] == "headgate" and row["best"][0] >= released["best"][0]]
    least = min(ours, key=lambda row: row["spend"])
    part = share(least["spend"] / released["spend"])
    return (
        f"The released policy ends at {100 * released['best'][0]:.2f} % for {released['spend']:.2f} a round of a budget "
        "of 55, "
        f"holding up to {released['peak_n']} samples where there is room for 100. `headgate` with a budget of "
        f"{least['budget']:g} ends at {100 * least['best'][0]:.2f} % for {least['spend']:.2f}, **{part} of that money**, "
        "within its buffers."
    )


def rival_table(found: dict[str, list[Row]]) -> str:
    """headgate beside the best that ACDPP comes to with any of the settings tried, held to the same limits."""
    lines = []
    for name in ("acdpp-grid", "cifar10", "imagenette"):
        rows = found[name]
        rivals = [row for row in rows if row["policy"].startswith("K")]
        for key in ("best", "mean"):
            best = max(rivals, key=lambda row: row[key][0])
            ours = at(rows, "headgate")
            lines.append(
                [
                    STUDIES[name],
                    key,
                    f"{100 * ours[key][0]:.2f} for {ours['spend']:.1f}",
                    f"`{best['policy']}` {100 * best[key][0]:.2f} for {best['spend']:.1f}",
                    gap(ours, best, key),
                ]
            )
    return table(["study", "by", "headgate (%)", "best ACDPP in the limits (%)", "ahead (points)"], lines)


def ablation_table(rows: list[Row]) -> str:
    ours = at(rows, "headgate")
    lines = [
        [
            "**headgate**",
            "",
            f"{100 * ours['best'][0]:.2f} %",
            f"{100 * ours['mean'][0]:.2f} %",
            f"{ours['N']:.0f}",
            f"{ours['spend']:.1f}",
        ]
    ]
    for part, change, policy in PARTS:
        row = at(rows, policy)
        assert row["kept_limits"], policy
        lines.append([part, change, gap(row, ours, "best"), gap(row, ours, "mean"), f"{row['N']:.0f}", f"{row['spend']:.1f}"])
    return table(["headgate does", "instead", "best (points)", "mean (points)", "N", "money a round"], lines)


def regret_table(rows: list[Row]) -> str:
    prices = dict.fromkeys(row["prices"] for row in rows)
    wanted = ("headgate", "resolving", "pacing", "threshold", "constant")
    ratio = {(row["prices"], row["policy"]): row for row in rows}
    lines = [
        [name, *(f"{ratio[name, policy]['ratio']:.3f}" for policy in wanted), f"{ratio[name, 'headgate']['worst']:.3f}"]
        for name in prices
    ]
    return table(["prices", *(f"`{name}`" for name in wanted), "headgate's worst run"], lines)


def page() -> str:
    found = load()
    regret = json.loads((FOLDER / "regret.json").read_text("utf-8"))
    return TEMPLATE.read_text("utf-8").format(
        closed=closed_table(found),
        released=released_line(found["mnist"]),
        rivals=rival_table(found),
        ablations=ablation_table(found["ablations"]),
        regret=regret_table(regret),
        **said(found),
    )


def said(found: dict[str, list[Row]]) -> dict[str, str]:
    """Numbers inside sentences."""
    lenet, helped = found["lenet"], found["lenet-helped"]
    return {
        "lenet_best": share(at(lenet, "headgate")["closed_best"]),
        "lenet_mean": share(at(lenet, "headgate")["closed_mean"]),
        "lenet_even": share(at(lenet, "early-0")["closed_best"]),
        "lenet_known": share(at(lenet, "cheapest-first")["closed_best"]),
        "lenet_released": share(at(lenet, "released")["closed_best"]),
        "helped_best": share(at(helped, "headgate")["closed_best"]),
        "helped_mean": share(at(helped, "headgate")["closed_mean"]),
        "helped_even": share(at(helped, "early-0")["closed_best"]),
        "foresight": gap(at(found["ablations"], "headgate"), at(found["ablations"], "cheapest-first"), "best"),
        "foresight_mean": gap(at(found["ablations"], "headgate"), at(found["ablations"], "cheapest-first"), "mean"),
        "help": _gain(found, "constant"),
        "help_ours": _gain(found, "headgate"),
    }


def _gain(found: dict[str, list[Row]], policy: str) -> str:
    """What the help is worth to a policy in the end, in points."""
    with_it, without = (at(found[name], policy)["best"][0] for name in ("logistic-helped", "ablations"))
    return f"{100 * (with_it - without):.1f}"


def draw(found: dict[str, list[Row]]) -> None:
    import matplotlib.pyplot as plt

    from headgate.analysis.figures import COLOURS, STYLE, save_figure

    early = {"early-0": "0", "early-10": "0.1", "headgate": "0.25", "early-50": "0.5", "early-100": "1"}
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
        for axes, (name, title) in zip(
            grid, {n: STUDIES[n] for n in ("ablations", "logistic-helped", "lenet")}.items(), strict=True
        ):
            points = [
                (text, at(found[name], policy))
                for policy, text in early.items()
                if any(r["policy"] == policy for r in found[name])
            ]
            _line(axes, points, COLOURS[0], "headgate, by early")
            for policy, colour in (("released", COLOURS[1]), ("cheapest-first", COLOURS[2]), ("constant", "black")):
                row = at(found[name], policy)
                _line(axes, [("", row)], colour, policy if row["kept_limits"] else f"{policy} (over its limits)")
            axes.set(
                title=title.replace(", every part by itself", ""), xlabel="best accuracy (%)", ylabel="mean over rounds (%)"
            )
        handles = dict(zip(*reversed(grid[0].get_legend_handles_labels()), strict=True))
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4)
        save_figure(figure, FRONT)


def _line(axes: Any, points: list[tuple[str, Row]], colour: str, label: str) -> None:
    x, dx, y, dy = (
        np.array([float(means(100 * np.array(row[f"{key}_by_seed"]))[part]) for _, row in points])
        for key in ("best", "mean")
        for part in (0, 1)
    )
    axes.errorbar(x, y, dy, dx, "o-", color=colour, label=label, linewidth=1.2, capsize=2, markersize=5)
    for (text, _), px, py in zip(points, x, y, strict=True):
        axes.annotate(text, (px, py), xytext=(5, 5), textcoords="offset points", fontsize=9)


if __name__ == "__main__":
    text = page()
    if "--check" in sys.argv:
        sys.exit(PAGE.read_text("utf-8") != text and "docs/better/README.md is not up to date: run python tools/better.py")
    PAGE.write_text(text, "utf-8")
    draw(load())
