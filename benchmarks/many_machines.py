"""What it costs to play the chunks of a study by slices on other machines, and how many
workers one owner of a run can keep busy.

    python benchmarks/many_machines.py                 # a minute
    python benchmarks/many_machines.py --rounds 3000   # two workers of Dask against
                                                       # --processes 2, for minutes

Bytes, preparation and the owner's own time are measured, slice by slice, all in
processor time, so that other work on the machine does not count. From these,
and a link of 1 Gb/s, studies with up to 1,000 workers are simulated: a worker is busy
with its slices, and owner, Dask's scheduler and link serve one slice after the other.
MNIST is read from HEADGATE_DATA. Prints tables in Markdown.
"""

import argparse
import heapq
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import psutil
from distributed import Client

from headgate.experiment import Experiment, load
from headgate.records.parcels import unpack
from headgate.simulation import cut, slices, workers
from headgate.simulation.pools import ONE_THREAD
from headgate.simulation.schedule import perform

LINK = 1e9 / 8
"""bytes a second between the owner and all workers"""
WORKERS = (1, 2, 10, 30, 100, 300, 1_000)
CHUNK_SECONDS, CHUNKS = 300.0, 4
"""the length of a chunk, and how many there are for each worker"""
STUDY = ["run.seeds=4", "run.policies=['headgate', 'constant']"]
CASES = {
    "logistic regression, 40 runs": [*STUDY, "run.seeds=20"],
    "LeNet, 2 runs": [*STUDY, "model.kind=lenet"],
}


@dataclass
class Seen(Executor):
    """An executor that does a task at once, and keeps what it has seen."""

    out: list[int] = field(default_factory=list)
    back: list[int] = field(default_factory=list)
    before: list[float] = field(default_factory=list)
    inside: float = 0.0

    def submit(self, function: Any, task: bytes) -> Future[bytes]:  # type: ignore[override]
        began = time.process_time()
        answer: bytes = function(task)
        self.inside += time.process_time() - began
        facts, _ = unpack(answer)
        if "before" in facts:
            self.out.append(len(task))
            self.back.append(len(answer))
            self.before.append(facts["before"])
        future: Future[bytes] = Future()
        future.set_result(answer)
        return future


@dataclass(frozen=True)
class Cost:
    """What a slice costs, beside the rounds that it plays."""

    out: float
    back: float
    before: float
    owner: float


def measured(experiment: Experiment, folder: Path) -> Cost:
    """The cost of a slice, the first one of each chunk left out."""
    seen = Seen()
    began = time.process_time()
    perform(experiment, folder, device="cpu", pool=seen)
    own = time.process_time() - began - seen.inside
    return Cost(
        median(seen.out),
        median(seen.back),
        median(seen.before[1:]),
        own / len(seen.out),
    )


# Dask


@contextmanager
def dask(many: int) -> Iterator[tuple[str, psutil.Process]]:
    """The address of a scheduler with so many workers of one core, and its process."""
    with ExitStack() as stack:

        def start(*words: str) -> subprocess.Popen[bytes]:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            own = subprocess.Popen(
                [sys.executable, "-m", "dask", *words, "--no-dashboard"],
                cwd=folder,
                env={**os.environ, **ONE_THREAD, "TMPDIR": folder},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            stack.callback(own.wait)
            stack.callback(own.kill)
            return own

        where = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "it.json"
        at = "--scheduler-file"
        main = start("scheduler", "--host", "127.0.0.1", "--port", "0", at, str(where))
        for _ in range(many):
            start("worker", at, str(where), "--nthreads", "1", "--no-nanny")
        while not where.exists():
            time.sleep(0.1)
        with Client(scheduler_file=str(where), set_as_default=False) as client:
            client.wait_for_workers(many)
        yield json.loads(where.read_text())["address"], psutil.Process(main.pid)


def passed_on(size: int, times: int = 50) -> float:
    """The scheduler's processor time for a task of so many bytes that come back."""
    with dask(1) as (address, process), Client(address, set_as_default=False) as client:
        began = sum(process.cpu_times()[:2])
        for number in range(times):
            content = number.to_bytes(4, "big") * (size // 4)
            client.submit(bytes, content, pure=False).result()
        return (sum(process.cpu_times()[:2]) - began) / times


# simulated


def efficiency(many: int, cost: Cost, scheduler: float) -> float:
    """The share of their time that workers play, of a study of CHUNKS chunks each."""
    moved = (cost.out + cost.back) / LINK
    lost = cost.before + (cost.out + cost.back) / slices.BANDWIDTH
    for_all = cost.owner * many / slices.BUSY
    each = max(slices.SLICE_SECONDS, lost / slices.SHARE, for_all)
    rounds = -(-CHUNK_SECONDS // each)
    left = [rounds] * CHUNKS * many
    owner = passing = link = 0.0
    free = [(0.0, number, 0.0) for number in range(many)]
    done = 0.0
    while free:
        now, worker, own = heapq.heappop(free)
        if not own and left:
            own = left.pop()
        if not own:
            continue
        # one slice after the other, each by the owner, Dask's scheduler and the link
        owner = max(now, owner) + cost.owner
        passing = max(owner, passing) + scheduler
        link = max(passing, link) + moved
        done = max(done, link + cost.before + each)
        heapq.heappush(free, (link + cost.before + each, worker, own - 1))
    return CHUNKS * rounds * each / done


# two workers, measured


def used() -> float:
    """The processor time of this process and of its children that have ended."""
    return sum(os.times()[:4])


def two_workers(rounds: int, folder: Path) -> None:
    words = [*CASES["LeNet, 2 runs"], f"run.rounds={rounds}"]
    experiment = load("mnist", words)
    clock = [(time.monotonic(), used())]
    perform(experiment, folder / "here", device="cpu", processes=2)
    clock.append((time.monotonic(), used()))
    with dask(2) as (address, _):
        began = time.monotonic()
        perform(experiment, folder / "there", device="cpu", pool=address)
        ended = time.monotonic()
    clock.append((ended, used()))
    here, there = clock[1][0] - clock[0][0], ended - began
    own, other = (clock[i + 1][1] - clock[i][1] for i in (0, 1))
    same = all(
        (folder / "here" / name).read_bytes() == (folder / "there" / name).read_bytes()
        for name in ("metrics.parquet", "clients.parquet")
    )
    print(
        f"LeNet on MNIST, 8 runs of {rounds} rounds: {here:.0f} s by --processes 2,"
        f" {there:.0f} s by two workers of Dask ({100 * here / there:.0f} %); processor"
        f" time with all starts {own:.0f} s and {other:.0f} s ({100 * own / other:.0f}"
        f" %); {'the same bytes' if same else 'OTHER BYTES'}"
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    for row in (head, ["---"] * len(head), *rows):
        print(f"| {' | '.join(row)} |")
    print()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, help="of the study by two workers")
    given = parser.parse_args()
    cut.LIGHT = 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if given.rounds:
            two_workers(given.rounds, folder)
            return
        seconds, slices.SLICE_SECONDS = slices.SLICE_SECONDS, 1.0
        vars(workers)["time"] = SimpleNamespace(monotonic=time.process_time)
        costs = {}
        for number, (case, words) in enumerate(CASES.items()):
            rounds = 10 if "lenet" in words[-1] else 40
            experiment = load("mnist", [*words, f"run.rounds={rounds}"])
            costs[case] = measured(experiment, folder / str(number))
        slices.SLICE_SECONDS = seconds
    passing = {case: passed_on(int(cost.out)) for case, cost in costs.items()}
    head = ["chunk", "out", "back", "preparation", "owner", "Dask's scheduler"]
    rows = [
        [
            case,
            *(f"{size / 1e3:,.0f} kB" for size in (cost.out, cost.back)),
            *(
                f"{1e3 * each:.0f} ms"
                for each in (cost.before, cost.owner, passing[case])
            ),
        ]
        for case, cost in costs.items()
    ]
    table(head, rows)
    head = ["workers", *(f"{number:,}" for number in WORKERS)]
    rows = [
        [
            case,
            *(
                f"{100 * efficiency(number, cost, passing[case]):.0f} %"
                for number in WORKERS
            ),
        ]
        for case, cost in costs.items()
    ]
    table(head, rows)


if __name__ == "__main__":
    main()
