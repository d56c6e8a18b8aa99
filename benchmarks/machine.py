"""What every benchmark says about where and how it was measured, and the JSON it
leaves.

`benchmarks/results/NAME.json` is what tools/benchmarks.py draws
benchmarks/README.md from. Its shape:

    benchmark, machine, commit, date, command, settings
    cases     [{name, title?, settings?, columns?,
                ways: [{way, median_ms, min_ms, max_ms, ratio_to?, share_of_peak?,
                        share_of_floor?, peak_memory_mib?, off?, note?}]}]
    targets   [{target, required, measured, unit, at_most}]:
              what the project asks for and what came out

ratio_to says how many times as fast as another way. `columns` names further keys of the
ways that are shown.
"""

import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"


# where


def facts(**more: Any) -> dict[str, Any]:
    """The machine and the versions that matter."""
    packages = {name: _version(name) for name in ("torch", "numpy", "numba")}
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gib": round(
            os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1
        ),
        "os": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: found for name, found in packages.items() if found},
        **more,
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu() -> str:
    """The name by which lscpu knows it: /proc/cpuinfo has none on ARM."""
    try:
        told = subprocess.run(
            ["lscpu"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "LC_ALL": "C"},
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return platform.processor() or platform.machine()
    names = [
        line.partition(":")[2].strip()
        for line in told.splitlines()
        if line.startswith("Model name:")
    ]
    return names[0] if names else platform.machine()


def commit() -> str:
    """The commit that was measured, marked where the code has changes that are not in
    it.
    """
    try:
        name = _git("rev-parse", "--short", "HEAD")
        changed = _git("status", "--porcelain", "--", "src", "benchmarks/*.py")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{name}+changes" if changed else name


def _git(*args: str) -> str:
    return subprocess.run(
        ["git", *args], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


# how fast


def seconds(function: Callable[[], object], at_least: float = 0.05) -> float:
    """For one call: the mean of as many as fit into `at_least`."""
    calls, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < at_least or calls == 0:
        function()
        calls += 1
    return passed / calls


def gemm_peak(side: int = 1024) -> float:
    """Operations a second of a square float32 product in torch, with the threads that
    torch has.
    """
    import torch

    a = torch.randn(side, side)
    return 2 * side**3 / seconds(lambda: a @ a)


def bandwidth(mib: int = 256) -> float:
    """Bytes a second of a copy that no cache holds, read and written counted."""
    import torch

    a = torch.ones(mib * 2**18)
    b = a.clone()  # touched, so that no page is first made while the clock runs
    return 2 * a.nbytes / seconds(lambda: b.copy_(a))


def peak_memory_mib() -> float:
    """The most that this process has held at once."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def resident_mib() -> float:
    """What the process holds now."""
    for row in Path("/proc/self/status").read_text("ascii").splitlines():
        if row.startswith("VmRSS:"):
            return int(row.split()[1]) / 1024
    raise RuntimeError("/proc/self/status has no VmRSS")


def say(text: str) -> None:
    """Progress, beside the results."""
    print(text, file=sys.stderr, flush=True)


# the record


def way(name: str, times: Sequence[float], **more: Any) -> dict[str, Any]:
    """A way to do it and its times, given in seconds."""
    spread = {"median_ms": median(times), "min_ms": min(times), "max_ms": max(times)}
    return {
        "way": name,
        **{key: rounded(1e3 * value) for key, value in spread.items()},
        **more,
    }


def ratios(
    ways: Sequence[Mapping[str, Any]], judged: Mapping[str, Any], against: Iterable[str]
) -> dict[str, float]:
    """How many times as fast as each of the named ways."""
    middle = {each["way"]: each["median_ms"] for each in ways}
    return {
        name: rounded(middle[name] / judged["median_ms"])
        for name in against
        if name in middle
    }


def rounded(value: float) -> float:
    """Four digits: more are noise, and make every new result a large difference."""
    return float(f"{value:.4g}")


def target(
    text: str, required: float, measured: float, unit: str = "x", at_most: bool = False
) -> dict[str, Any]:
    return {
        "target": text,
        "required": required,
        "measured": rounded(measured),
        "unit": unit,
        "at_most": at_most,
    }


def command(words: Sequence[str]) -> str:
    """How to measure it again; where the result went is nobody else's business.

    >>> command(["/home/me/benchmarks/gpu.py", "--quick", "--out", "/home/me/gpu.json"])
    'python benchmarks/gpu.py --quick'
    """
    kept = [
        word
        for place, word in enumerate(words[1:])
        if not {"--out", "--folder"} & {*words[place : place + 2]}
    ]
    return " ".join(["python", f"benchmarks/{Path(words[0]).name}", *kept])


def write(
    path: Path,
    benchmark: str,
    settings: Mapping[str, Any],
    cases: Sequence[Mapping[str, Any]],
    targets: Sequence[Mapping[str, Any]] = (),
    known_commit: str | None = None,
    **more_facts: Any,
) -> None:
    """`known_commit` is for machines without git."""
    record = {
        "benchmark": benchmark,
        "machine": facts(**more_facts),
        "commit": known_commit or commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "command": command(sys.argv),
        "settings": dict(settings),
        "cases": list(cases),
        "targets": list(targets),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    say(f"written: {path}")
