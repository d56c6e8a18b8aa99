"""Makes docs/understand/benchmarks.md and its pictures from benchmarks/results/*.json.

python tools/benchmarks.py           writes them
python tools/benchmarks.py --check   exits with 1 if the page is not up to date
"""

import json
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "understand" / "benchmarks.md"
FIGURES = ROOT / "docs" / "figures"
KNOWN = {
    "executors": ("A round of local training on the CPU", "make bench"),
    "executors_x86_64": (
        "A round of local training on the CPU, on x86",
        "python benchmarks/executors.py --out benchmarks/results/executors_x86_64.json",
    ),
    "judging": ("Judging nets on the CPU", "make bench"),
    "vectors_aarch64": ("Inner loops beside plain numba, on ARM", "python benchmarks/vectors.py"),
    "vectors_x86_64": ("Inner loops beside plain numba, on x86", "python benchmarks/vectors.py"),
    "gpu": ("A round of local training on a GPU", "make bench-gpu"),
    "gpu_accuracy": (
        "Whether bfloat16 learns as well",
        "python benchmarks/gpu.py --accuracy --out benchmarks/results/gpu_accuracy.json",
    ),
    "peers": ("Beside other simulators", "make bench-peers"),
    "pfl": ("Beside pfl-research on the CPU", "make bench-peers"),
    "pfl_gpu": (
        "Beside pfl-research on a GPU",
        "python benchmarks/pfl_peer.py --device cuda --out benchmarks/results/pfl_gpu.json",
    ),
    "phases": ("Where the time of one run goes", "make bench"),
    "scoring": ("What it costs to look at samples", "make bench"),
    "study": ("The paper's whole MNIST study", "make bench"),
    "study_gpu": ("The paper's MNIST study on a GPU", "make bench-gpu"),
    "scale": ("A million clients", "make bench"),
    "million": ("Two seeds of two policies of a million clients", "make bench"),
    "soak": ("A hundred thousand rounds", "make bench"),
    "control": ("What control costs", "make bench"),
    "flower_overhead": ("What Flower costs", "make bench"),
    "flower_server": ("The server of ten thousand clients on Flower", "make bench"),
    "flower_soak": ("An hour of ten thousand clients on Flower", "make bench"),
    "page": ("The page with a thousand runs", "make bench"),
    "page_soak": ("An hour in front of the page", "make bench"),
}
"""What there is to measure: its heading on the page and the command that leaves its file."""
DRAWN = ("executors", "gpu", "peers", "pfl", "pfl_gpu")
HEAD = """\
# Benchmarks

How fast headgate is, at what, and beside whom.

Made by `python tools/benchmarks.py` from `benchmarks/results/*.json`; `make test` fails when it is out of date.
Every number was left there by the command it stands under, and counts for the machine named there. Ways that are
compared took turns in one run; times are medians, with the least and the most beside them. What each benchmark
does, and what it leaves out, is said at the top of its script.

- *× name*: how many times as fast as that way, the ratio of medians in the same run
- *of peak*: the share of the speed of a large matrix product, measured in the same run, at which a way does its
  arithmetic; for nets the arithmetic is nominal, all that the usual algorithm does, also what a way leaves out
  because a pool discards it; *really of peak* counts only what the way does
- *of floor*: the share of the time that the arithmetic would take at that speed, with data moved at the speed of a
  copy
- *MiB*: the most memory held at once by the way's processes
- *off*: the distance from the reference executor, or between a peer's model and headgate's, relative to the update
"""

Result = Mapping[str, Any]


def load(folder: Path) -> dict[str, Result]:
    """The results by name, in the page's order; what is not known comes last."""
    found = {path.stem: _shaped(json.loads(path.read_text("utf-8"))) for path in sorted(folder.glob("*.json"))}
    return {name: found[name] for name in (*KNOWN, *(found.keys() - KNOWN.keys())) if name in found}


# benchmarks/gpu.py runs on machines without the other scripts and keeps its own record


def _shaped(record: dict[str, Any]) -> Result:
    """The record of benchmarks/gpu.py in the shape of the others, which stay as they are."""
    if "cases" in record:
        return record
    peaks = {
        name: f"{value / 1e12:.3g} {'TB/s' if name == 'copy' else 'TFLOP/s'}" for name, value in record.get("peaks", {}).items()
    }
    checks = {(check["model"], check["way"], check["precision"]): check["off"] for check in record.get("checks", ())}
    cases: dict[str, dict[str, Any]] = {}
    for row in record.get("times", ()):
        runs = "" if row["model"] == "resnet9" else f", {row['runs']} runs together"
        case = cases.setdefault(row["model"], {"name": row["model"], "title": f"{row['model']}{runs}", "ways": []})
        case["columns"] = ["runs", "ms_a_run"]
        case["ways"].append(_gpu_way(row, checks))
    for row in record.get("evaluation", ()):
        case = cases.setdefault("evaluate", {"name": "evaluate", "title": "evaluation on 10,000 images", "ways": []})
        case["columns"] = ["runs"]
        case["ways"].append({"way": row["way"], "runs": row["runs"], "median_ms": row["ms"], "min_ms": row["ms_least"]})
    learnt = [row for row in record.get("accuracy", ()) if "accuracies" in row]
    if learnt:
        ways = [
            {
                "way": f"{row['executor']} in {'bfloat16' if row['bfloat16'] else 'float32'}",
                "accuracy %": 100 * sum(row["accuracies"]) / len(row["accuracies"]),
                "least": 100 * min(row["accuracies"]),
                "most": 100 * max(row["accuracies"]),
            }
            for row in learnt
        ]
        title = f"CIFAR-10 after {learnt[0]['rounds']} rounds, {len(learnt[0]['accuracies'])} seeds"
        cases["accuracy"] = {"name": "accuracy", "title": title, "columns": ["accuracy %", "least", "most"], "ways": ways}
    return {
        "machine": {"device": record["gpu"], **{key: record[key] for key in ("python", "torch", "triton")}, **peaks},
        "commit": record["commit"],
        "date": record["date"][:10],
        "command": f"python benchmarks/gpu.py{' --accuracy' if learnt else ''}",
        "cases": list(cases.values()),
        "targets": _gpu_targets(record),
    }


def _gpu_way(row: Mapping[str, Any], checks: Mapping[tuple[str, str, str], float]) -> dict[str, Any]:
    name, coarse, _ = row["way"].partition(" bfloat16")
    precision = "bfloat16" if coarse else "float32"
    fewer = f"timed on {row['timed_runs']} runs and scaled up" if row["timed_runs"] < row["runs"] else None
    return {
        "way": row["way"],
        "runs": row["runs"],
        "median_ms": row["ms_round"],
        "min_ms": row["ms_least"],
        "max_ms": row["ms_most"],
        "ms_a_run": row["ms_run"],
        "ratio_to": {"lean loop": row["times_lean"]},
        "share_of_peak": row["of_peak"],
        "peak_memory_mib": row["peak_memory_gb"] * 1e9 / 2**20,
        "off": checks.get((row["model"], name, precision)),
        "note": row.get("note") or fewer,
    }


def _gpu_targets(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = {(row["model"], row["way"]): row for row in record.get("times", ())}
    rows |= {("evaluation", row["way"]): row for row in record.get("evaluation", ())}
    asked = (
        ("lenet", "triton", "LeNet, 40 runs on a GPU: times as fast as the lean loop", "times_lean", 150, "x"),
        ("lenet", "triton", "LeNet, 40 runs on a GPU: milliseconds a round", "ms_round", 30, "ms"),
        ("resnet9", "streams bfloat16", "ResNet-9, torch alone: times as fast as the lean loop", "times_lean", 8, "x"),
        ("resnet9", "triton bfloat16, together", "ResNet-9, Triton kernels: times as fast, run by run", "times_lean", 18, "x"),
        ("resnet9", "triton bfloat16", "ResNet-9, 1 run on a GPU: milliseconds a round", "ms_round", 18, "ms"),
        ("resnet9", "triton bfloat16, together", "ResNet-9, 10 runs: milliseconds a round", "ms_round", 130, "ms"),
        ("evaluation", "evaluate lenet with triton", "LeNet, 40 runs on a GPU: milliseconds an evaluation", "ms", 40, "ms"),
    )
    found = [
        {"target": text, "required": required, "measured": rows[model, way][key], "unit": unit, "at_most": unit == "ms"}
        for model, way, text, key, required, unit in asked
        if (model, way) in rows
    ]
    for row in record.get("accuracy", ()):
        if "difference" in row:
            text = "bfloat16 against float32 over a whole CIFAR-10 run: difference of accuracies in standard errors"
            measured = abs(row["difference"]) / row["standard_error"]
            found.append({"target": text, "required": 2, "measured": measured, "unit": "", "at_most": True})
    return found


# the page


def page(results: Mapping[str, Result]) -> str:
    parts = [HEAD, *_targets(results)]
    for name, result in results.items():
        parts += _section(name, result)
    missing = [f"- {KNOWN[name][0]}: `{KNOWN[name][1]}`" for name in KNOWN if name not in results]
    if missing:
        parts += ["## Not measured yet", "", *missing, ""]
    return "\n".join(parts)


def _targets(results: Mapping[str, Result]) -> list[str]:
    rows = [
        [each["target"], required(each), measured(each), "yes" if met(each) else "**no**", name]
        for name, result in results.items()
        for each in result.get("targets", ())
    ]
    if not rows:
        return []
    return ["## What the project asks for", "", *_table(["", "required", "measured", "met", "from"], rows), ""]


def required(goal: Mapping[str, Any]) -> str:
    return f"{'≤' if goal['at_most'] else '≥'} {amount(goal['required'], goal['unit'])}"


def measured(goal: Mapping[str, Any]) -> str:
    """Not rounded where a goal that is missed would read as if it was met.

    >>> missed = {"required": 12, "measured": 12.04, "unit": "s", "at_most": True}
    >>> measured(missed), measured({**missed, "measured": 11.96}), measured({**missed, "measured": 14.04})
    ('12.04 s', '12 s', '14 s')
    """
    rounded = amount(goal["measured"], goal["unit"])
    as_asked = rounded == amount(goal["required"], goal["unit"])
    return f"{goal['measured']:g} {goal['unit']}" if as_asked and not met(goal) else rounded


def met(goal: Mapping[str, Any]) -> bool:
    return bool(goal["measured"] <= goal["required"] if goal["at_most"] else goal["measured"] >= goal["required"])


def amount(value: float, unit: str) -> str:
    """
    >>> amount(1234.5, "x"), amount(15, "%"), amount(0.99991, ""), amount(48.26, "s")
    ('1230×', '15 %', '0.99991', '48.3 s')
    """
    if unit == "":
        return f"{value:.6g}"
    digits = f"{float(f'{value:.3g}'):g}" if abs(value) < 1e6 else f"{value:.3g}"
    return digits + {"x": "×"}.get(unit, f" {unit}")


def _section(name: str, result: Result) -> list[str]:
    heading, _ = KNOWN.get(name, (name, ""))
    where = ", ".join(_said(key, value) for key, value in result["machine"].items())
    made = f"`{result['command']}` at commit {result['commit']}, {result['date']}. {where}."
    lines = [f"## {heading}", "", textwrap.fill(made, 118, break_long_words=False, break_on_hyphens=False), ""]
    if name in DRAWN:
        lines += [f"![{heading}](../figures/{_figure(name).name})", ""]
    for case in result["cases"]:
        told = [_said(key, value) for key, value in case.get("settings", {}).items()]
        lines += [f"### {_title(case)}", "", *([", ".join(told) + ".", ""] if told else []), *_ways(case), ""]
        lines += [f"{words(key)}: {_fit(fit)}." for key, fit in case.get("fit", {}).items()]
        lines += [""] if case.get("fit") else []
    return lines


def _said(key: str, value: Any) -> str:
    return str(value) if key in ("cpu", "os", "device") else f"{words(key)} {value}"


def _title(case: Mapping[str, Any]) -> str:
    return str(case.get("title", case["name"]))


def _fit(fit: Mapping[str, float]) -> str:
    return f"{fit['at_none']:g} + {fit['per_million']:g} for each million clients, R² {fit['r2']:g}"


def words(key: str) -> str:
    """
    >>> words("peak_memory_mib")
    'peak memory mib'
    """
    return key.replace("_", " ")


def _ways(case: Mapping[str, Any]) -> list[str]:
    """One row for each way, and only the columns that some way fills."""
    ways = case["ways"]
    against = list(dict.fromkeys(name for each in ways for name in each.get("ratio_to", {})))
    columns: list[tuple[str, Any]] = [
        ("median", lambda each: duration(each.get("median_ms"))),
        ("least – most", _spread),
        *((words(key), lambda each, key=key: _number(each.get(key))) for key in case.get("columns", ())),
        *((f"× {name}", lambda each, name=name: _number(each.get("ratio_to", {}).get(name))) for name in against),
        ("of peak", lambda each: _share(each.get("share_of_peak"))),
        ("of floor", lambda each: _share(each.get("share_of_floor"))),
        ("MiB", lambda each: _number(each.get("peak_memory_mib"))),
        ("off", lambda each: "" if each.get("off") is None else f"{each['off']:.1e}"),
        ("", lambda each: each.get("note") or ""),
    ]
    kept = [(head, cell) for head, cell in columns if any(cell(each) for each in ways)]
    return _table(["", *(head for head, _ in kept)], [[each["way"], *(cell(each) for _, cell in kept)] for each in ways])


def duration(ms: float | None) -> str:
    """
    >>> duration(0.6512), duration(48_123.0), duration(None)
    ('0.651 ms', '48.1 s', '')
    """
    if ms is None:
        return ""
    return f"{ms:.3g} ms" if ms < 999.5 else f"{_number(ms / 1e3)} s"


def _spread(each: Mapping[str, Any]) -> str:
    if each.get("min_ms") is None or each.get("max_ms") in (None, each["min_ms"]):
        return ""
    return f"{duration(each['min_ms'])} – {duration(each['max_ms'])}"


def _number(value: float | None) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows)]


# its pictures


def _figure(name: str) -> Path:
    return FIGURES / f"benchmarks-{name.replace('_', '-')}.svg"


def draw(result: Result, path: Path) -> None:
    """A row of bars for each case, on a logarithmic scale; grey is what others are compared with."""
    from headgate.analysis.curves import COLOURS
    from headgate.analysis.figures import STYLE, plt, save_figure

    cases = [case for case in result["cases"] if all("max_ms" in each for each in case["ways"])]
    with plt.rc_context(STYLE):
        heights = [len(case["ways"]) + 1.5 for case in cases]
        figure, panels = plt.subplots(
            len(cases), 1, figsize=(8, 0.32 * sum(heights)), height_ratios=heights, squeeze=False, layout="constrained"
        )
        for axes, case in zip(panels[:, 0], cases, strict=True):
            ways = case["ways"]
            times = [each["median_ms"] for each in ways]
            spread = [
                [each["median_ms"] - each["min_ms"] for each in ways],
                [each["max_ms"] - each["median_ms"] for each in ways],
            ]
            judged = {name for each in ways for name in each.get("ratio_to", {})}
            colours = ["#999999" if each["way"] in judged else COLOURS[0] for each in ways]
            axes.barh(range(len(ways)), times, xerr=spread, color=colours, ecolor="#555555")
            axes.set_yticks(range(len(ways)), [each["way"] for each in ways])
            axes.invert_yaxis()
            axes.set_xscale("log")
            axes.set_xlim(min(times) / 2, max(times) * 4)
            for place, ms in enumerate(times):
                axes.annotate(
                    duration(ms), (max(ms, ways[place]["max_ms"]), place), (4, 0), textcoords="offset points", va="center"
                )
            axes.set_title(_title(case), loc="left", fontsize=10)
            axes.grid(axis="y", visible=False)
        panels[-1, 0].set_xlabel("milliseconds, shorter is better")
        save_figure(figure, path)


def main() -> int:
    results = load(RESULTS)
    if "--check" in sys.argv[1:]:
        if not PAGE.is_file() or PAGE.read_text("utf-8") != page(results):
            print("docs/understand/benchmarks.md: out of date, run python tools/benchmarks.py")
            return 1
        return 0
    PAGE.write_text(page(results), "utf-8")
    for name in DRAWN:
        if name in results:
            draw(results[name], _figure(name))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
