"""The page under load: a thousand run folders, ten of them live, and the planner.

    python benchmarks/page.py [--folders 1000] [--live 10] [--out FILE]

One small run is made by `headgate run` and copied; the live ones get a round of fifty
rows each between two loads. The server is a process of its own, asked over HTTP as a
browser would: the list right after the start (a page of 100 rows, then all), again with
nothing changed, and with ten runs that have grown. The planner is asked for ten clients
and 500 rounds as if a slider were dragged: the budget changes with every question, so
that nothing is known from the one before; then K or the policy alone. `cpu_ms` is the
processor time that the server took (median).
"""

import argparse
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from machine import RESULTS, rounded, say, target, way, write

PAGE_MS, PLAN_MS = 1000.0, 300.0
SYSTEM = {"buffers": [8, 9, 10, 11, 12, 8, 9, 10, 11, 12], "budget": 55.0}
PRICES = {"kind": "uniform", "low": 1.0, "high": 10.0}
KEPT = (
    "config.toml",
    "environment.json",
    "state.json",
    "metrics.parquet",
    "clients.parquet",
    "summary.json",
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folders", type=int, default=1000)
    parser.add_argument("--live", type=int, default=10)
    parser.add_argument("--times", type=int, default=9)
    parser.add_argument("--out", type=Path, default=RESULTS / "page.json")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        runs = Path(place) / "runs"
        say("making the run folders")
        live = make_folders(runs, given.folders, given.live)
        ways = measure_list(runs, live, given.times)
        plans = measure_plans(runs, given.times)
    loads = {each["way"]: each for each in ways}
    cases = [
        {
            "name": "list",
            "title": f"{given.folders} run folders, {given.live} of them live",
            "columns": ["cpu_ms"],
            "ways": ways,
        },
        {
            "name": "plan",
            "title": "a plan for 10 clients and 500 rounds, 5 seeds",
            "columns": ["cpu_ms"],
            "ways": plans,
        },
    ]
    by_way = {each["way"]: each for each in plans}
    targets = [
        target(text, most, among[name]["median_ms"], "ms", at_most=True)
        for text, most, among, name in (
            (
                "a page load with 1,000 run folders and 10 live runs",
                PAGE_MS,
                loads,
                "first load, 100 rows",
            ),
            (
                "the same when the live runs have grown",
                PAGE_MS,
                loads,
                "live runs have grown, 100 rows",
            ),
            ("a plan from scratch, with oracle", PLAN_MS, by_way, "from scratch"),
        )
    ]
    write(
        given.out,
        "page",
        {"folders": given.folders, "live": given.live, "seeds": 5},
        cases,
        targets,
    )


# folders


def make_folders(runs: Path, folders: int, live: int) -> list[Path]:
    """All of them copies of one real run; the live ones as they were half-way, in the
    name of this process.
    """
    command = [
        sys.executable,
        "-m",
        "headgate.cli",
        "run",
        "digits",
        "--processes",
        "1",
        "--progress",
        "none",
    ]
    one = runs.parent / "one"
    subprocess.run([*command, "--out", str(one)], check=True, stdout=subprocess.DEVNULL)
    runs.mkdir()
    for number in range(folders - live):
        folder = runs / f"run-{number:04d}"
        folder.mkdir()
        for name in KEPT:
            shutil.copy(one / name, folder / name)
    return [_live(one, runs / f"live-{number:02d}") for number in range(live)]


def _live(one: Path, folder: Path) -> Path:
    import polars as pl

    folder.mkdir()
    for name in ("config.toml", "environment.json"):
        shutil.copy(one / name, folder / name)
    state = json.loads((one / "state.json").read_text("utf-8"))
    (folder / "state.json").write_text(
        json.dumps({**state, "state": "running", "round": 30, "pid": os.getpid()}),
        "utf-8",
    )
    for table in ("metrics", "clients"):
        frame = pl.read_parquet(one / f"{table}.parquet").sort("t", maintain_order=True)
        half = frame.height // 2
        (folder / table).mkdir()
        frame[:half].write_parquet(folder / table / "part-00001.parquet")
        frame[half:].write_parquet(folder / f"rest-{table}")
    return folder


def grow(folder: Path, rows: int = 50) -> None:
    """A round lands."""
    import polars as pl

    for table in ("metrics", "clients"):
        waiting = pl.read_parquet(folder / f"rest-{table}")
        number = len(list((folder / table).iterdir())) + 1
        (folder / table / f"part-{number:05d}.json").write_text(
            json.dumps(waiting[:rows].to_dicts())
        )
        waiting[rows:].write_parquet(folder / f"rest-{table}")


# questions


class Took(NamedTuple):
    wall: float
    cpu: float


Ask = Callable[..., tuple[Any, Took]]


def timed(name: str, took: Sequence[Took]) -> dict[str, Any]:
    return way(
        name,
        [each.wall for each in took],
        cpu_ms=rounded(1e3 * median(each.cpu for each in took)),
    )


def processor_seconds(pid: int) -> float:
    """Of all threads of a process, alive or gone by."""
    return (
        sum(
            int(path.read_text("ascii").split()[0])
            for path in Path(f"/proc/{pid}/task").glob("*/schedstat")
        )
        / 1e9
    )


@contextmanager
def serving(runs: Path) -> Iterator[Ask]:
    """A way to ask a fresh server: the answer, and what it took."""
    process = subprocess.Popen(
        [sys.executable, "-m", "headgate.cli", "serve", str(runs), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    port = next(
        int(found.group(1))
        for line in process.stdout
        if (found := re.search(r"http://127\.0\.0\.1:(\d+)/", line))
    )

    def ask(path: str, body: Any = None) -> tuple[Any, Took]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        busy, began = processor_seconds(process.pid), time.perf_counter()
        headers = {} if body is None else {"Content-Type": "application/json"}
        connection.request(
            "GET" if body is None else "POST",
            path,
            None if body is None else json.dumps(body),
            headers,
        )
        answer = connection.getresponse()
        content = answer.read()
        took = Took(time.perf_counter() - began, processor_seconds(process.pid) - busy)
        connection.close()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {content[:200]!r}")
        return json.loads(content), took

    try:
        yield ask
    finally:
        process.terminate()
        process.communicate(timeout=30)


def measure_list(runs: Path, live: list[Path], times: int) -> list[dict[str, Any]]:
    page, every = "/api/runs?limit=100", "/api/runs?limit=1000"
    first, first_all = list[Took](), list[Took]()
    for path, took in ((page, first), (every, first_all)):
        for _ in range(3):
            with serving(runs) as ask:
                took.append(ask(path)[1])
    with serving(runs) as ask:
        total = ask(every)[0]["total"]
        say(f"{total} runs listed")
        again = [ask(page)[1] for _ in range(times)]
        sorted_ = [ask("/api/runs?limit=100&sort=accuracy")[1] for _ in range(times)]
        again_all = [ask(every)[1] for _ in range(times)]
        grown = list[Took]()
        for _ in range(times):
            for folder in live:
                grow(folder)
            grown.append(ask(page)[1])
        curves = [ask("/api/runs/live-00/curves")[1] for _ in range(times)]
        detail = [ask("/api/runs/live-00")[1] for _ in range(times)]
    return [
        timed("first load, 100 rows", first),
        timed("first load, all rows", first_all),
        timed("nothing has changed, 100 rows", again),
        timed("nothing has changed, sorted by accuracy", sorted_),
        timed("nothing has changed, all rows", again_all),
        timed("live runs have grown, 100 rows", grown),
        timed("curves of a run", curves),
        timed("settings and results of a run", detail),
    ]


def measure_plans(runs: Path, times: int) -> list[dict[str, Any]]:
    def asked(number: int, **more: Any) -> dict[str, Any]:
        system = {**SYSTEM, "budget": 50.0 + number}
        return {
            "system": system,
            "prices": PRICES,
            "rounds": 500,
            "seeds": 5,
            "policy": "acdpp",
            **more,
        }

    with serving(runs) as ask:
        ask("/api/plan", asked(0))
        scratch, again, others = (
            [],
            [],
            {name: list[Took]() for name in ("constant", "headgate")},
        )
        for number in range(1, times + 1):
            told, took = ask("/api/plan", asked(number))
            if not told["candidates"]:
                raise RuntimeError("no candidates")
            scratch.append(took)
            again.append(ask("/api/plan", asked(number, K=5 + number % 5))[1])
            for name, took_by in others.items():
                took_by.append(ask("/api/plan", asked(number, policy=name))[1])
            say(
                f"plan {number}: {1e3 * took.wall:.0f} ms, {1e3 * took.cpu:.0f} ms of a"
                " processor"
            )
    return [
        timed("from scratch", scratch),
        timed("acdpp, another K", again),
        *(timed(f"{name}, same system", took) for name, took in others.items()),
    ]


if __name__ == "__main__":
    main()
