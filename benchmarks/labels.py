"""What a gate's step and its status cost, with many order lines and many tasks.

    python benchmarks/labels.py [--clients 1000] [--rounds 100] [--tasks 10000]

Every client orders one sample in every round, from a queue that labels at once. The
times are those of the processor: the median of the last ten steps, of `headgate labels
status` without the start of Python, and of a step that takes back so many labels from
the files of the folder queue.
"""

import argparse
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from statistics import median
from tempfile import mkdtemp

import headgate.books.durable
from headgate.labels.gate import Gate
from headgate.labels.nouns import LabelAnswer, LabelTask, Queue
from headgate.labels.settings import accounts_of
from headgate.labels.status import lines, read_status

GATE = """
price = 1.0
[money]
budget = {budget}
[orders]
in_all = {clients}
{orders}
[queue]
{queue}
"""
FOLDER = 'kind = "folder"\ntasks = "tasks"\nlabels = "in"\nsettled = 0'


@dataclass
class AtOnce(Queue):
    """A queue in which everything is labelled at once."""

    tasks: list[LabelTask] = field(default_factory=list, init=False)

    def release(self, tasks: Sequence[LabelTask]) -> None:
        self.tasks += tasks

    def collect(self, known: object) -> list[LabelAnswer]:
        found = [LabelAnswer(*task.place, "labelled", "cat") for task in self.tasks]
        self.tasks.clear()
        return found

    def withdraw(self, keys: object) -> None:
        """Nothing waits."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--tasks", type=int, default=10_000)
    given = parser.parse_args()
    headgate.books.durable.SYNCHRONOUS = "OFF"  # the disk is not measured
    os.fsync = lambda descriptor: None
    folder = Path(mkdtemp())
    try:
        many_lines(folder / "lines", given.clients, given.rounds)
        many_tasks(folder / "tasks", given.tasks)
    finally:
        rmtree(folder)


def written(
    folder: Path, queue: str, clients: int, samples: int, orders: str = ""
) -> Path:
    """Write a gate's file and its samples."""
    folder.mkdir()
    own = clients * samples
    text = GATE.format(budget=float(own), clients=own, queue=queue, orders=orders)
    for number in range(clients):
        name = f"c{number:04}"
        rows = (json.dumps({"key": f"{name}-{n}", "text": "x"}) for n in range(samples))
        (folder / f"{name}.jsonl").write_text("\n".join(rows) + "\n")
        text += f'[clients.{name}]\nsamples = "{name}.jsonl"\nplaces = {samples}\n'
    gate = folder / "gate.toml"
    gate.write_text(text)
    return gate


def many_lines(folder: Path, clients: int, rounds: int) -> None:
    queue = f'kind = "{Path(__file__).stem}:AtOnce"'
    gate = written(folder, queue, clients, rounds, "under_way = 1")
    (folder / Path(__file__).name).write_bytes(Path(__file__).read_bytes())
    steps = []
    with Gate(gate, str) as own:
        for _ in range(rounds):
            before = time.process_time()
            own.step(begin=True)
            steps.append(time.process_time() - before)
        own.step(begin=False)
        found = own.books.statement().lines
    before = time.process_time()
    with Gate(gate, str) as own:
        opened = time.process_time() - before
    status = []
    for _ in range(10):
        before = time.process_time()
        text = "\n".join(lines(read_status(accounts_of(gate))))
        status.append(time.process_time() - before)
    assert text.startswith(f"round {rounds} of open")
    print(f"{len(found):,} order lines of {clients:,} clients")
    print(f"  a step with {clients:,} new orders: {1e3 * median(steps[-10:]):,.0f} ms")
    print(f"  opening the gate: {1e3 * opened:,.0f} ms")
    print(f"  status: {1e3 * median(status):,.1f} ms")


def many_tasks(folder: Path, tasks: int) -> None:
    gate = written(folder, FOLDER, 1, tasks)
    with Gate(gate, str) as own:
        before = time.process_time()
        own.step(begin=True)
        released = time.process_time() - before
        rows = (json.dumps({"key": f"c0000-{n}", "label": "cat"}) for n in range(tasks))
        (folder / "in" / "c0000" / "all.jsonl").write_text("\n".join(rows) + "\n")
        before = time.process_time()
        own.step(begin=False)
        collected = time.process_time() - before
        before = time.process_time()
        own.step(begin=False)
        idle = time.process_time() - before
        assert own.books.balance().spent == tasks
    print(f"{tasks:,} tasks of one order")
    print(f"  released in {released:,.2f} s, paid and written in {collected:,.2f} s")
    print(f"  a step without news: {1e3 * idle:,.0f} ms")


if __name__ == "__main__":
    main()
