"""Where numbers come from: the runs' own commits, dates, machines, time and memory, and those of the page."""

import json
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headgate import __version__
from headgate.analysis.markdown import table
from headgate.analysis.summary import duration
from headgate.errors import DataError
from headgate.records.reader import RunFolder, part_folders

COMMAND = "headgate reproduce"
UNRECORDED = "not recorded"
PRECISION = Path(__file__).parents[4] / "benchmarks" / "results" / "gpu_accuracy.json"
"""what bfloat16 does to accuracy beside float32; lies beside the sources, not in the installed package"""


@dataclass(frozen=True)
class Machine:
    """What one run folder says about how it was played.

    Device memory is `peak_device_mib` of environment.json, or of a gpu.json beside it that came with the run.
    """

    batch: str
    device: str
    executor: str
    dtype: str
    commit: str
    date: str
    seconds: float
    """of computing, all parts together"""
    rounds: int
    models: int
    peak_device_mib: float | None


def machine(run: RunFolder) -> Machine:
    beside = run.path / "gpu.json"
    said = (_object(beside) if beside.is_file() else {}) | run.environment
    parts = [_object(part / "state.json") for part in part_folders(run.path)]
    seconds = said.get("seconds") or sum(float(part.get("elapsed_s", 0.0)) for part in parts)
    peak = said.get("peak_device_mib")
    return Machine(
        batch=run.name,
        device=str(said.get("device", "cpu")),
        executor=str(said.get("executor")),
        dtype=str(said.get("dtype")),
        commit=str(said.get("commit") or UNRECORDED),
        date=str(said.get("started", ""))[:10],
        seconds=round(float(seconds), 1),
        rounds=run.rounds,
        models=len(run.state["policies"]) * len(run.state["seeds"]),
        peak_device_mib=None if peak is None else float(peak),
    )


def _object(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from None


def facts_of(name: str, quick: bool, machines: Sequence[Machine]) -> dict[str, Any]:
    """Command, the runs' commits and dates, machines and computing time, and the commit the page was made from."""
    commits, dates = (sorted({getattr(each, key) for each in machines}) for key in ("commit", "date"))
    return {
        "command": f"{COMMAND} {name}" + (" --quick" if quick else ""),
        "quick": quick,
        "page_commit": commit(),
        "commits": commits,
        "dates": dates,
        "devices": list(dict.fromkeys(f"{each.device}, {each.executor}, {each.dtype}" for each in machines)),
        "computing_s": round(sum(each.seconds for each in machines), 1),
    }


def facts_of_now(name: str, quick: bool, took_s: float) -> dict[str, Any]:
    """The same for what was computed just now, on this machine."""
    now = commit()
    return {
        "command": f"{COMMAND} {name}" + (" --quick" if quick else ""),
        "quick": quick,
        "page_commit": now,
        "commits": [now],
        "dates": [time.strftime("%Y-%m-%d")],
        "devices": ["cpu"],
        "computing_s": round(took_s, 1),
    }


def how_made(facts: dict[str, Any]) -> str:
    """Two sentences, and a warning where the runs are not all of one clean commit."""
    wall = f" ({duration(facts['elapsed_s'])} from start to end where they were made)" if facts.get("elapsed_s") else ""
    said = (
        f"Made by `{facts['command']}`. Runs: {runs_of(facts)}; {'; '.join(facts['devices'])}; "
        f"{duration(facts['computing_s'])} of computing in all{wall}. Page and verdicts: commit {facts['page_commit']}."
    )
    doubts = doubts_about(facts["commits"])
    return said + (f" **{doubts}**" if doubts else "")


def runs_of(facts: dict[str, Any]) -> str:
    commits, dates = facts["commits"], facts["dates"]
    days = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return f"commit{'s' if len(commits) > 1 else ''} {', '.join(commits)}, {days}"


def doubts_about(commits: Sequence[str]) -> str:
    """
    >>> doubts_about(["abc"]), doubts_about(["abc-dirty"])
    ('', 'Some runs were made with uncommitted changes.')
    """
    doubts = []
    if len({each.removesuffix("-dirty").removesuffix("+changes") for each in commits}) > 1:
        doubts.append("The runs come from different commits.")
    if any(each.endswith(("-dirty", "+changes")) for each in commits):
        doubts.append("Some runs were made with uncommitted changes.")
    if UNRECORDED in commits:
        doubts.append("Some runs do not say from which commit they are.")
    return " ".join(doubts)


def machine_table(machines: Sequence[Machine]) -> str:
    header = ["runs", "device, executor, arithmetic", "commit", "date", "models", "rounds", "computing", "a round and model"]
    lines = []
    for each in machines:
        where = f"{each.device}, {each.executor}, {each.dtype}"
        per = 1000 * each.seconds / each.rounds / each.models
        counts = (str(each.models), str(each.rounds), f"{each.seconds:.0f} s", f"{per:.1f} ms")
        memory = "–" if each.peak_device_mib is None else f"{each.peak_device_mib:,.0f} MiB"
        lines.append([each.batch, where, each.commit, each.date, *counts, memory])
    return table([*header, "device memory, peak"], lines)


def precision_check() -> str:
    """What bfloat16 changes, in a sentence; nothing where it was not measured here."""
    if not PRECISION.is_file():
        return ""
    try:
        found = json.loads(PRECISION.read_text("utf-8"))
        change = next(each for each in found["accuracy"] if "difference" in each)
        exact = next(each for each in found["accuracy"] if each.get("bfloat16") is False)
        points, error = (100 * float(change[key]) for key in ("difference", "standard_error"))
        seen = f"CIFAR-10, {exact['rounds']} rounds, {len(exact['accuracies'])} seeds, {found['gpu']}"
        return (
            f"bfloat16 beside float32 ({seen}): {points:+.2f} points of accuracy, standard error {error:.2f} "
            f"(`benchmarks/results/{PRECISION.name}`)."
        )
    except (ValueError, KeyError, StopIteration):
        return ""


def commit() -> str:
    """The commit this code is at, or its version where it is no checkout."""
    words = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=7", "--exclude=*"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return f"headgate {__version__}"
    return done.stdout.strip()
