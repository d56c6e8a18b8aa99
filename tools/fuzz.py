"""Runs the fuzzers, two at a time, and prints what they tried and found; exits with 1 where one found something.

    python tools/fuzz.py [--seconds 60] [--seed 0] [--only NAME ...]

A fuzzer is a function `main(seconds, seed)`; it returns {"cases": {kind: times}, "failures": [{"seed", "error", ...}]}, or
both as a tuple. `FUZZERS` is where they are named. Every case has a seed of its own, which a failure tells.
"""

import argparse
import json
import os
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
FUZZERS = {
    "recipes": ("tests/fuzz/recipes.py", "main", "recipes, `--set` and sweeps in which any setting has any value"),
    "folders": ("tests/trust/fuzz_folders.py", "main", "run folders that are damaged or foreign, read in every way"),
    "machine": ("tests/flower/federation.py", "main", "a federation in which anything happens, step by step"),
}
"""name: (file, function, what it tries)"""
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0"}
Found = dict[str, Any]


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each fuzzer")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=sorted(FUZZERS), metavar="NAME", help=", ".join(FUZZERS))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--run", choices=sorted(FUZZERS), help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    if given.run:
        given.out.write_text(json.dumps(run(given.run, given.seconds, given.seed)), "utf-8")
        return 0
    names = given.only or list(FUZZERS)
    with ThreadPoolExecutor(given.processes) as pool:
        found = dict(zip(names, pool.map(lambda name: in_a_process(name, given.seconds, given.seed), names), strict=True))
    for name, one in found.items():
        print(f"{name} ({FUZZERS[name][2]}): {sum(one['cases'].values()):,} cases, {len(one['failures'])} failures")
        for failure in one["failures"]:
            print(f"{name}: {json.dumps(failure)[:1000]}", file=sys.stderr)
    return int(any(one["failures"] for one in found.values()))


def run(name: str, seconds: float, seed: int) -> Found:
    """In this process."""
    path, function, _ = FUZZERS[name]
    sys.path.insert(0, str((ROOT / path).parent))
    said = runpy.run_path(str(ROOT / path))[function](seconds, seed)
    if isinstance(said, tuple):
        kinds, failures = said
        cases = {kind if isinstance(kind, str) else " ".join(map(str, kind)): times for kind, times in kinds.items()}
        said = {"cases": cases, "failures": [{"error": str(each)} for each in failures]}
    return {**said, "seconds": round(seconds), "seed": seed}


def in_a_process(name: str, seconds: float, seed: int) -> Found:
    """A fuzzer that ends the process, or does not end, has found something too."""
    began = time.monotonic()
    print(f"{name}: {seconds:g} s ...", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.json"
        command = [sys.executable, __file__, "--run", name, "--seconds", str(seconds), "--seed", str(seed), "--out", str(out)]
        try:
            done = subprocess.run(
                command, cwd=ROOT, env={**os.environ, **QUIET}, capture_output=True, text=True, check=False,
                timeout=3 * seconds + 300,
            )  # fmt: skip
            lost = "" if done.returncode == 0 and out.exists() else f"exit {done.returncode}: {done.stderr[-500:]}"
        except subprocess.TimeoutExpired:
            lost = "did not end"
        nothing: Found = {"cases": {}, "failures": [{"error": lost}], "seconds": round(seconds), "seed": seed}
        found = nothing if lost else json.loads(out.read_text("utf-8"))
    print(f"{name}: {time.monotonic() - began:.0f} s, {len(found['failures'])} failures", file=sys.stderr, flush=True)
    return found


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
