"""Forty rounds of a gate in front of a queue in which people take their time, skip, err
and repeat themselves, whose server is down at times, and whose gate is killed.

`play` needs the labellers of a queue, which act as people do and know what the queue
has; what must agree at the end is the same for all queues.
"""

import json
import os
import random
import signal
import time
from abc import ABC, abstractmethod
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

from headgate.labels.gate import Gate

CLIENTS = ("clinic-north", "clinic-south", "lab 7", "harbour", "wald")
CLIENTS = tuple(name.replace(" ", "-") for name in CLIENTS)
ROUNDS, KILLS, LONGEST_DELAY, EXPIRES = 40, 20, 15, 12
DOWN = range(11, 13), range(26, 29)
"""rounds in which the server is down"""
GATE = """
[price]
kind = "uniform"
low = 0.05
high = 0.15
[money]
budget = {budget}
rounds = {rounds}
currency = "EUR"
[orders]
expires = {expires}
under_way = 30
"""


class Fate(NamedTuple):
    """What labellers do with a task: when, and how often."""

    delay: int
    skipped: bool
    rejected_after: int | None
    repeated: bool
    over: bool


class Labellers(ABC):
    """People who label in a queue, and what the queue shows them."""

    @abstractmethod
    def queue(self) -> str:
        """The section [queue] of the gate's file."""

    @abstractmethod
    def tasks(self) -> list[tuple[str, str]]:
        """Client and key of every task that was ever released, also of withdrawn ones,
        as often as the queue has it."""

    @abstractmethod
    def label(self, client: str, key: str, label: str) -> None: ...

    @abstractmethod
    def skip(self, client: str, key: str) -> None: ...

    @abstractmethod
    def reject(self, client: str, key: str) -> None:
        """Give a label back."""

    @abstractmethod
    def down(self) -> AbstractContextManager[object]:
        """The queue does not answer inside."""

    def flush(self) -> None:  # noqa: B027  # most show it at once
        """What was done by now becomes visible."""


def fate(seed: int, client: str, key: str) -> Fate:
    """The same for the same task, whatever happens meanwhile."""
    rng = random.Random(f"{seed} {client} {key}")
    skipped = rng.random() < 0.1
    rejected = None if skipped or rng.random() >= 0.1 else rng.randrange(1, 6)
    return Fate(
        delay=rng.randrange(LONGEST_DELAY + 1),
        skipped=skipped,
        rejected_after=rejected,
        repeated=not skipped and rng.random() < 0.1,
        over=not skipped and rng.random() < 0.1,
    )


def write_gate(
    folder: Path,
    labellers: Labellers,
    rounds: int = ROUNDS,
    samples: int = 200,
    budget: float = 2.0,
) -> Path:
    """Write a gate's file and unlabelled samples."""
    text = GATE.format(budget=budget, rounds=rounds, expires=EXPIRES)
    for client in CLIENTS:
        own = folder / f"{client}.jsonl"
        rows = [{"key": f"{client}-{n}", "text": f"sample {n}"} for n in range(samples)]
        own.write_text("".join(json.dumps(row) + "\n" for row in rows))
        text += f'[clients.{client}]\nsamples = "{own.name}"\nplaces = {samples}\n'
    gate = folder / "gate.toml"
    gate.write_text(text + labellers.queue())
    return gate


def step(gate: Path, t: int) -> None:
    """One step, as `headgate labels run --once` makes it, up to round `t`."""
    with Gate(gate, lambda line: None) as own:
        own.resume()
        own.step(begin=own.books.balance().rounds < t)


def killed(gate: Path, t: int, after: float) -> bool:
    """Begin the step in a process of its own, and kill it after so many seconds; return
    whether it had not ended by itself.
    """
    child = os.fork()
    if not child:
        code = 1
        try:
            step(gate, t)
            code = 0
        finally:
            os._exit(code)
    deadline = time.monotonic() + after
    while time.monotonic() < deadline:
        done, code = os.waitpid(child, os.WNOHANG)
        if done:
            assert code == 0, "the step failed"
            return False
        time.sleep(0.0005)
    os.kill(child, signal.SIGKILL)
    _, code = os.waitpid(child, 0)
    return os.WIFSIGNALED(code)


def audit(gate: Path) -> None:
    with Gate(gate, lambda line: None) as own:
        own.books.audit()


class Play:
    """What the labellers did, and what must agree with it."""

    def __init__(self, gate: Path, labellers: Labellers, seed: int) -> None:
        self.gate, self.labellers, self.seed = gate, labellers, seed
        self.seen: dict[tuple[str, str], int] = {}
        self.labels: dict[tuple[str, str], str] = {}
        self.skipped: set[tuple[str, str]] = set()
        self.rejected: set[tuple[str, str]] = set()

    def work(self, t: int) -> None:
        """What people do in round t: all that is due by then."""
        for place in self.labellers.tasks():
            began = self.seen.setdefault(place, t)
            own = fate(self.seed, *place)
            if t < began + own.delay:
                continue
            if own.skipped:
                if place not in self.skipped:
                    self.skipped.add(place)
                    self.labellers.skip(*place)
            elif place not in self.labels:
                self.labels[place] = f"label of {place[1]}"
                self.labellers.label(*place, self.labels[place])
                if own.repeated:
                    self.labellers.label(*place, self.labels[place])
                if own.over:
                    self.labellers.label(*place, "another opinion")
            elif self.to_reject(place, t):
                self.rejected.add(place)
                self.labellers.reject(*place)
        self.labellers.flush()

    def to_reject(self, place: tuple[str, str], t: int) -> bool:
        own = fate(self.seed, *place)
        if place in self.rejected or own.rejected_after is None:
            return False
        return t >= self.seen[place] + own.delay + own.rejected_after


def play(
    folder: Path,
    labellers: Labellers,
    rounds: int = ROUNDS,
    kills: int = KILLS,
    seed: int = 1,
) -> Play:
    """Play all rounds with kills; audit after each, and check at the end that tasks,
    labelled files, ledger and export agree.
    """
    gate = write_gate(folder, labellers, rounds)
    made, rng = Play(gate, labellers, seed), random.Random(seed)
    to_kill = Counter(rng.randrange(1, rounds + 1) for _ in range(kills))
    longest, hit = 1.0, 0
    for t in range(1, rounds + 1):
        is_down = any(t in each for each in DOWN)
        with labellers.down() if is_down else nullcontext():
            for _ in range(to_kill[t]):
                hit += killed(gate, t, rng.uniform(0, longest))
                audit(gate)
            began = time.monotonic()
            step(gate, t)
            longest = time.monotonic() - began
        made.work(t)
    assert hit >= kills // 2, "most kills came after the step"
    for t in range(rounds + 1, rounds + 2 * LONGEST_DELAY):
        made.work(t)
        step(gate, rounds)
    check(made)
    return made


def check(made: Play) -> None:
    """Tasks, labels, ledger and export agree to the sample and to the cent."""
    placed = made.labellers.tasks()
    assert max(Counter(placed).values()) == 1, "a task was released twice"
    with Gate(made.gate, lambda line: None) as own:
        assert own.over()
        statement = own.books.audit()
        status = own.status(None)
        folder = Path(own.settings.labelled)
    assert len(placed) == sum(line.asked for line in statement.lines)
    assert statement.reserved == 0
    cost, delivered, rejected = Decimal(0), 0, 0
    of_order = Counter[tuple[int, str]]()
    for client in CLIENTS:
        text = (folder / f"{client}.jsonl").read_text("utf-8")
        lines = [json.loads(line) for line in text.splitlines()]
        labels = {line["key"]: line for line in lines if "label" in line}
        back = {line["key"] for line in lines if "rejected" in line}
        assert len(labels) + len(back) == len(lines), "a line stands there twice"
        assert back <= labels.keys()
        assert back <= {key for c, key in made.rejected if c == client}
        for key, line in labels.items():
            assert line["label"] == made.labels[client, key]
            assert line["text"] == f"sample {key.rpartition('-')[2]}"
            of_order[line["round"], client] += key not in back
        own_status = status["clients"][client]
        assert own_status["delivered"] == len(labels) - len(back)
        assert own_status["rejected"] == len(back)
        delivered, rejected = delivered + len(labels), rejected + len(back)
    for line in statement.lines:
        count = of_order.pop((line.round, line.client), 0)
        assert line.delivered - line.rejected == count, line
        assert line.under_way == 0
        cost += line.price * count
    assert not +of_order
    assert statement.spent == cost
    assert delivered > 300
    assert rejected > 20
    check_fates(made, status)


def check_fates(made: Play, status: dict) -> None:
    """What people did is found in the numbers: nothing was lost."""
    clients = status["clients"].values()
    counted = {name: sum(own[name] for own in clients) for name in next(iter(clients))
               if name != "oldest"}  # fmt: skip
    gone = counted["withdrawn"] + counted["too_late"] + counted["cancelled"]
    paid = counted["delivered"] + counted["rejected"]
    assert gone + paid == len(made.labellers.tasks())
    assert paid + counted["too_late"] <= len(made.labels)
    assert counted["too_late"] > 0
    assert counted["cancelled"] > 0
    assert counted["extra"] > 0
