"""Makes benchmarks/README.md and its pictures from benchmarks/results/*.json:
python -m tools.benchmarks
"""

import json
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "benchmarks" / "README.md"
FIGURES = ROOT / "docs" / "figures"
DRAWN = {
    "executors": "A round of local training on the CPU",
    "gpu": "A round of local training on a GPU",
    "peers": "Beside other simulators",
    "pfl": "Beside pfl-research on the CPU",
    "pfl_gpu": "Beside pfl-research on a GPU",
}
"""The results that have a figure, with its heading."""
HEAD = """\
# Benchmarks

How fast headgate is, at what, and beside whom.

`python -m tools.benchmarks` makes this page from `benchmarks/results/*.json`, which
hold every number with its spread, machine, command and commit. `make bench`,
`make bench-gpu` and `make bench-peers` measure them. Ways that are compared took turns
in one run; times are medians. The docstring of each script in `benchmarks/` states what
it does and leaves out.

## Targets
"""

Result = Mapping[str, Any]


def load(folder: Path) -> dict[str, Result]:
    """Read the results by name."""
    return {
        path.stem: _shaped(json.loads(path.read_text("utf-8")))
        for path in sorted(folder.glob("*.json"))
    }


# benchmarks/gpu.py runs on machines without the other scripts and keeps its own record


def _shaped(record: dict[str, Any]) -> Result:
    """The record of benchmarks/gpu.py in the shape of the others, which stay as they
    are.
    """
    if "cases" in record:
        return record
    peaks = {
        name: f"{value / 1e12:.3g} {'TB/s' if name == 'copy' else 'TFLOP/s'}"
        for name, value in record.get("peaks", {}).items()
    }
    cases: dict[str, dict[str, Any]] = {}
    for row in record.get("times", ()):
        runs = "" if row["model"] == "resnet9" else f", {row['runs']} runs together"
        case = cases.setdefault(
            row["model"],
            {"name": row["model"], "title": f"{row['model']}{runs}", "ways": []},
        )
        times = {
            "median_ms": row["ms_round"],
            "min_ms": row["ms_least"],
            "max_ms": row["ms_most"],
        }
        case["ways"].append(
            {"way": row["way"], **times, "ratio_to": {"lean loop": row["times_lean"]}}
        )
    return {
        "machine": {
            "device": record["gpu"],
            **{key: record[key] for key in ("python", "torch", "triton")},
            **peaks,
        },
        "commit": record["commit"],
        "date": record["date"][:10],
        "command": "python benchmarks/gpu.py",
        "cases": list(cases.values()),
        "targets": _gpu_targets(record),
    }


def _gpu_targets(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = {(row["model"], row["way"]): row for row in record.get("times", ())}
    rows |= {("evaluation", row["way"]): row for row in record.get("evaluation", ())}
    asked = (
        (
            "lenet",
            "triton",
            "LeNet, 40 runs on a GPU: times as fast as the lean loop",
            "times_lean",
            150,
            "x",
        ),
        (
            "lenet",
            "triton",
            "LeNet, 40 runs on a GPU: milliseconds a round",
            "ms_round",
            30,
            "ms",
        ),
        (
            "resnet9",
            "streams bfloat16",
            "ResNet-9, torch alone: times as fast as the lean loop",
            "times_lean",
            8,
            "x",
        ),
        (
            "resnet9",
            "triton bfloat16, together",
            "ResNet-9, Triton kernels: times as fast, run by run",
            "times_lean",
            18,
            "x",
        ),
        (
            "resnet9",
            "triton bfloat16",
            "ResNet-9, 1 run on a GPU: milliseconds a round",
            "ms_round",
            18,
            "ms",
        ),
        (
            "resnet9",
            "triton bfloat16, together",
            "ResNet-9, 10 runs: milliseconds a round",
            "ms_round",
            130,
            "ms",
        ),
        (
            "evaluation",
            "evaluate lenet with triton",
            "LeNet, 40 runs on a GPU: milliseconds an evaluation",
            "ms",
            40,
            "ms",
        ),
    )
    found = [
        {
            "target": text,
            "required": required,
            "measured": rows[model, way][key],
            "unit": unit,
            "at_most": unit == "ms",
        }
        for model, way, text, key, required, unit in asked
        if (model, way) in rows
    ]
    for row in record.get("accuracy", ()):
        if "difference" in row:
            text = (
                "bfloat16 against float32 over a whole CIFAR-10 run: difference of"
                " accuracies in standard errors"
            )
            measured = abs(row["difference"]) / row["standard_error"]
            found.append(
                {
                    "target": text,
                    "required": 2,
                    "measured": measured,
                    "unit": "",
                    "at_most": True,
                }
            )
    return found


# the page


def page(results: Mapping[str, Result]) -> str:
    """Return the page: what is asked for and measured, then the figures."""
    rows = [
        [
            each["target"],
            required(each),
            measured(each),
            "yes" if met(each) else "**no**",
            name,
        ]
        for name, result in results.items()
        for each in result.get("targets", ())
    ]
    parts = [HEAD, *_table(["", "required", "measured", "met", "from"], rows), ""]
    for name, heading in DRAWN.items():
        if name in results:
            parts += [
                f"## {heading}",
                "",
                _made(results[name]),
                "",
                f"![{heading}](../docs/figures/{_figure(name).name})",
                "",
            ]
    return "\n".join(parts)


def _made(result: Result) -> str:
    where = ", ".join(
        f"{value}" if key in ("cpu", "os", "device") else f"{key} {value}"
        for key, value in result["machine"].items()
    )
    made = (
        f"`{result['command']}` at commit {result['commit']}, {result['date']}."
        f" {where}."
    )
    return textwrap.fill(made, 118, break_long_words=False, break_on_hyphens=False)


def required(goal: Mapping[str, Any]) -> str:
    return f"{'≤' if goal['at_most'] else '≥'} {amount(goal['required'], goal['unit'])}"


def measured(goal: Mapping[str, Any]) -> str:
    """Not rounded where a goal that is missed would read as if it was met.

    >>> goal = {"required": 12, "unit": "s", "at_most": True}
    >>> [measured({**goal, "measured": value}) for value in (12.04, 11.96, 14.04)]
    ['12.04 s', '12 s', '14 s']
    """
    rounded = amount(goal["measured"], goal["unit"])
    as_asked = rounded == amount(goal["required"], goal["unit"])
    return (
        f"{goal['measured']:g} {goal['unit']}"
        if as_asked and not met(goal)
        else rounded
    )


def met(goal: Mapping[str, Any]) -> bool:
    return bool(
        goal["measured"] <= goal["required"]
        if goal["at_most"]
        else goal["measured"] >= goal["required"]
    )


def amount(value: float, unit: str) -> str:
    """
    >>> amount(1234.5, "x"), amount(15, "%"), amount(0.99991, ""), amount(48.26, "s")
    ('1230×', '15 %', '0.99991', '48.3 s')
    """
    if unit == "":
        return f"{value:.6g}"
    digits = f"{float(f'{value:.3g}'):g}" if abs(value) < 1e6 else f"{value:.3g}"
    return digits + {"x": "×"}.get(unit, f" {unit}")


def duration(ms: float | None) -> str:
    """
    >>> duration(0.6512), duration(48_123.0), duration(None)
    ('0.651 ms', '48.1 s', '')
    """
    if ms is None:
        return ""
    return f"{ms:.3g} ms" if ms < 999.5 else f"{ms / 1e3:.3g} s"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows)]


# its pictures


def _figure(name: str) -> Path:
    return FIGURES / f"benchmarks-{name.replace('_', '-')}.svg"


def draw(result: Result, path: Path) -> None:
    """A row of bars for each case, on a logarithmic scale; grey is what others are
    compared with.
    """
    from headgate.analysis.curves import COLOURS
    from studies.figures import STYLE, plt, save_figure

    cases = [
        case
        for case in result["cases"]
        if all("max_ms" in each for each in case["ways"])
    ]
    with plt.rc_context(STYLE):
        heights = [len(case["ways"]) + 1.5 for case in cases]
        figure, panels = plt.subplots(
            len(cases),
            1,
            figsize=(8, 0.32 * sum(heights)),
            height_ratios=heights,
            squeeze=False,
            layout="constrained",
        )
        for axes, case in zip(panels[:, 0], cases, strict=True):
            ways = case["ways"]
            times = [each["median_ms"] for each in ways]
            spread = [
                [each["median_ms"] - each["min_ms"] for each in ways],
                [each["max_ms"] - each["median_ms"] for each in ways],
            ]
            judged = {name for each in ways for name in each.get("ratio_to", {})}
            colours = [
                "#999999" if each["way"] in judged else COLOURS[0] for each in ways
            ]
            axes.barh(
                range(len(ways)), times, xerr=spread, color=colours, ecolor="#555555"
            )
            axes.set_yticks(range(len(ways)), [each["way"] for each in ways])
            axes.invert_yaxis()
            axes.set_xscale("log")
            axes.set_xlim(min(times) / 2, max(times) * 4)
            for place, ms in enumerate(times):
                axes.annotate(
                    duration(ms),
                    (max(ms, ways[place]["max_ms"]), place),
                    (4, 0),
                    textcoords="offset points",
                    va="center",
                )
            axes.set_title(case.get("title", case["name"]), loc="left", fontsize=10)
            axes.grid(axis="y", visible=False)
        panels[-1, 0].set_xlabel("milliseconds, shorter is better")
        save_figure(figure, path)


if __name__ == "__main__":
    found = load(RESULTS)
    PAGE.write_text(page(found), "utf-8")
    for name in DRAWN:
        if name in found:
            draw(found[name], _figure(name))
