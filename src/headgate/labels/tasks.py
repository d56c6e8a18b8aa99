"""The tasks of a gate on disk: samples that wait to be bought, what was released for
which order, and what became of it.

The accounts say what was bought and paid for; here stands which samples that was. What
is reported to the accounts is written down here first, so that after a kill the same
report is made again, which counts once.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from headgate.books.durable import Durable, statements
from headgate.books.moments import now
from headgate.labels.nouns import (
    LABELLED,
    REJECTED,
    SKIPPED,
    WAITING,
    LabelAnswer,
    LabelTask,
)

TASKS = "tasks.sqlite"
"""name of the file, beside the ledger"""
OPEN, DELIVERED, CANCELLED, WITHDRAWN, BEYOND = (
    "open",
    "delivered",
    "cancelled",
    "withdrawn",
    "beyond",
)
"""what the accounts know of a task, with REJECTED: its order waits for it; paid for;
given up; its order has expired; or arrived too late, and so not paid for
"""
SCHEMA = """
CREATE TABLE IF NOT EXISTS tasks (
    number INTEGER PRIMARY KEY,
    client TEXT NOT NULL,
    key TEXT NOT NULL,
    data TEXT NOT NULL,
    round INTEGER CHECK (round > 0),
    released TEXT,
    state TEXT NOT NULL DEFAULT 'waiting',
    label TEXT,
    why TEXT NOT NULL DEFAULT '',
    extra INTEGER NOT NULL DEFAULT 0 CHECK (extra >= 0),
    booked TEXT NOT NULL DEFAULT 'open',
    gone INTEGER NOT NULL DEFAULT 0 CHECK (gone IN (0, 1)),
    line INTEGER CHECK (line > 0),
    line_back INTEGER CHECK (line_back > line),
    UNIQUE (client, key)
) STRICT;
CREATE INDEX IF NOT EXISTS of_order ON tasks (round, client);
CREATE INDEX IF NOT EXISTS by_booked ON tasks (booked, client, round);
CREATE INDEX IF NOT EXISTS by_state ON tasks (state, booked);
CREATE INDEX IF NOT EXISTS by_line ON tasks (client, line);
CREATE INDEX IF NOT EXISTS by_line_back ON tasks (client, line_back);
CREATE TABLE IF NOT EXISTS reports (
    number INTEGER PRIMARY KEY,
    round INTEGER,
    marks TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS files (
    name TEXT PRIMARY KEY NOT NULL,
    mark TEXT NOT NULL
) STRICT;
"""
BOUGHT = "number, client, key, round, state, label, why, booked"
NEXT = {
    WAITING: (LABELLED, SKIPPED, REJECTED),
    LABELLED: (REJECTED,),
    SKIPPED: (),
    REJECTED: (),
}
"""which answers change the state of a task; all others were given before, or are extra
labels
"""


class BoughtTask(NamedTuple):
    """A task of an order.

    Parameters
    ----------
    number : int
        Its number among all samples that were read.
    client, key, round : str, str, int
        Client and key of the sample, and round of its order.
    state : str
        The latest answer: "waiting", "labelled", "skipped" or "rejected".
    label : str or None
        The label as JSON.
    why : str
        Reason of the answer.
    booked : str
        What the accounts know of it.
    """

    number: int
    client: str
    key: str
    round: int
    state: str
    label: str | None
    why: str
    booked: str


class FileLine(NamedTuple):
    """A line of a labelled file.

    Parameters
    ----------
    place : int
        Its number in the file of the client, from 1 on.
    key, round : str, int
        Key of the sample, and round of its order.
    data, label : str or None
        The sample and its label as JSON, if the line is that of a label.
    why : str or None
        Reason of a rejection, if it is that.
    """

    place: int
    key: str
    round: int
    data: str | None
    label: str | None
    why: str | None


class Pending(NamedTuple):
    """A report to the accounts that may have been made or not.

    Parameters
    ----------
    number : int
        Its number, which never comes a second time.
    round : int or None
        Round that it settles; None: it is made between rounds.
    marks : dict of int to str
        What the accounts will know of each task, by number.
    """

    number: int
    round: int | None
    marks: dict[int, str]


class Tasks(Durable):
    """The tasks of one gate in one file."""

    format = "headgate label tasks 1"
    schema = statements(SCHEMA)

    def __init__(self, path: Path, writes: bool = True) -> None:
        super().__init__(path, writes)

    def note(self, key: str, value: str) -> None:
        """Write a setting of the gate itself, such as the time of its last round."""
        with self.transaction():
            self._run("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    # samples that wait to be bought

    def mark_of(self, name: str) -> str | None:
        """Return how a file was when it was last read."""
        rows = self._rows("SELECT mark FROM files WHERE name = ?", (name,))
        return rows[0][0] if rows else None

    def take(
        self,
        name: str,
        mark: str,
        client: str,
        samples: Iterable[tuple[str, Mapping[str, Any]]],
    ) -> int:
        """Take the samples of a file, key and data each, as far as they are new; return
        how many are.
        """
        rows = [(client, key, json.dumps(data)) for key, data in samples]
        with self.transaction():
            new = self._run_each(
                "INSERT OR IGNORE INTO tasks (client, key, data) VALUES (?, ?, ?)", rows
            )
            self.keep_mark(name, mark)
        return new

    def keep_mark(self, name: str, mark: str) -> None:
        """Write how a file is now, in a transaction of the caller."""
        self._run("INSERT OR REPLACE INTO files VALUES (?, ?)", (name, mark))

    def unsold(self, clients: Iterable[str]) -> dict[str, int]:
        """Return how many samples of each client were not bought yet."""
        rows = self._rows(
            "SELECT client, count(*) FROM tasks WHERE round IS NULL GROUP BY client"
        )
        return {client: dict(rows).get(client, 0) for client in clients}

    # orders

    def assign(self, t: int, wanted: Mapping[str, int]) -> None:
        """Note for which samples the orders of a round are, the oldest first. Orders
        that have theirs already keep them.
        """
        with self.transaction():
            there = self.assigned(t)
            for client, samples in wanted.items():
                self._run(
                    "UPDATE tasks SET round = ? WHERE number IN (SELECT number FROM"
                    " tasks WHERE client = ? AND round IS NULL ORDER BY number LIMIT"
                    " ?)",
                    (t, client, max(samples - there.get(client, 0), 0)),
                )

    def latest(self) -> int:
        """Return the latest round for which samples were bought; 0: none were."""
        ((t,),) = self._rows("SELECT max(round) FROM tasks")
        return t or 0

    def assigned(self, t: int) -> dict[str, int]:
        """Return how many samples the orders of a round are for, by client."""
        return dict(
            self._rows(
                "SELECT client, count(*) FROM tasks WHERE round = ? GROUP BY client",
                (t,),
            )
        )

    def waiting(self) -> set[tuple[str, int]]:
        """Return client and round of the orders with tasks that are not booked."""
        rows = self._rows(
            "SELECT DISTINCT client, round FROM tasks WHERE booked = ? AND round > 0",
            (OPEN,),
        )
        return {(client, t) for client, t in rows}

    def unreleased(self) -> list[LabelTask]:
        """Return the tasks of orders that are not known to be released."""
        rows = self._rows(
            "SELECT client, key, round, data FROM tasks WHERE round IS NOT NULL AND"
            " released IS NULL AND booked = ? ORDER BY number",
            (OPEN,),
        )
        return [
            LabelTask(client, key, t, json.loads(data)) for client, key, t, data in rows
        ]

    def set_released(self, tasks: Sequence[LabelTask]) -> None:
        """Note that tasks are released."""
        at = now()
        with self.transaction():
            self._run_each(
                "UPDATE tasks SET released = ? WHERE client = ? AND key = ?",
                [(at, *task.place) for task in tasks],
            )

    # answers

    def known(self) -> dict[str, dict[str, str]]:
        """Return the state of every released task that may still change, by client and
        key.
        """
        found = dict[str, dict[str, str]]()
        for client, key, state, booked in self._rows(
            "SELECT client, key, state, booked FROM tasks WHERE released IS NOT NULL"
            " AND state != ?",
            (REJECTED,),
        ):
            gone = booked == WITHDRAWN and state == WAITING
            found.setdefault(client, {})[key] = WITHDRAWN if gone else state
        return found

    def answer(self, answers: Iterable[LabelAnswer]) -> None:
        """Write what became of tasks. An answer that was given before changes nothing,
        and a label on a task that has one or is given up is an extra one.
        """
        for answer in answers:
            rows = self._rows(
                "SELECT number, state, label, extra FROM tasks WHERE client = ? AND key"
                " = ? AND round IS NOT NULL",
                answer[:2],
            )
            if rows:
                self._answer(rows[0], answer)

    def _answer(
        self, row: tuple[int, str, str | None, int], answer: LabelAnswer
    ) -> None:
        number, state, label, extra = row
        given = None
        if answer.state == LABELLED:
            given = json.dumps(answer.label)
        if answer.state in NEXT[state]:
            self._run(
                "UPDATE tasks SET state = ?, label = coalesce(?, label), why = ?, extra"
                " = max(extra, ?), released = coalesce(released, ?) WHERE number = ?",
                (answer.state, given, answer.why, answer.extra, now(), number),
            )
            return
        another = given is not None and given != label
        more = max(answer.extra, int(another))
        if more > extra:
            self._run("UPDATE tasks SET extra = ? WHERE number = ?", (more, number))

    # reports to the accounts

    def unbooked(self) -> list[BoughtTask]:
        """Return the tasks with an answer that the accounts do not have."""
        rows = self._rows(
            f"SELECT {BOUGHT} FROM tasks WHERE state != ? AND booked IN (?, ?) OR state"
            " = ? AND booked = ? ORDER BY number",
            (WAITING, OPEN, WITHDRAWN, REJECTED, DELIVERED),
        )
        return [BoughtTask(*row) for row in rows]

    def withdrawn_now(self, orders: Iterable[tuple[str, int]]) -> None:
        """Note that the tasks of orders that have expired are withdrawn."""
        with self.transaction():
            self._run_each(
                "UPDATE tasks SET booked = ? WHERE client = ? AND round = ? AND booked"
                " = ? AND state = ?",
                [(WITHDRAWN, *order, OPEN, WAITING) for order in orders],
            )

    def withdrawn(self) -> dict[str, list[str]]:
        """Return the keys of withdrawn tasks that the queue may still have, by
        client.
        """
        found = dict[str, list[str]]()
        for client, key in self._rows(
            "SELECT client, key FROM tasks WHERE state = ? AND booked = ? AND gone = 0",
            (WAITING, WITHDRAWN),
        ):
            found.setdefault(client, []).append(key)
        return found

    def set_withdrawn(self, keys: Mapping[str, Iterable[str]]) -> None:
        """Note that the queue has withdrawn tasks."""
        with self.transaction():
            for client, own in keys.items():
                self._run_each(
                    "UPDATE tasks SET gone = 1 WHERE client = ? AND key = ?",
                    [(client, key) for key in own],
                )

    def prepare(self, t: int | None, marks: Mapping[int, str]) -> Pending:
        """Write a report down before it is made."""
        with self.transaction():
            self._run(
                "INSERT INTO reports (round, marks) VALUES (?, ?)",
                (t, json.dumps(list(marks.items()))),
            )
        found = self.pending()
        assert found is not None
        return found

    def pending(self) -> Pending | None:
        """Return the report that was written down and not finished."""
        rows = self._rows(
            "SELECT number, round, marks FROM reports WHERE marks != '' ORDER BY number"
        )
        if not rows:
            return None
        number, t, marks = rows[0]
        return Pending(number, t, dict(json.loads(marks)))

    def of_numbers(self, numbers: Iterable[int]) -> list[BoughtTask]:
        """Return tasks by their numbers."""
        found = list[BoughtTask]()
        for number in numbers:
            rows = self._rows(f"SELECT {BOUGHT} FROM tasks WHERE number = ?", (number,))
            found += [BoughtTask(*row) for row in rows]
        return found

    def finish(self, report: Pending, marks: Mapping[int, str]) -> None:
        """Note what the accounts know of tasks after a report was made."""
        with self.transaction():
            self._run_each(
                "UPDATE tasks SET booked = ? WHERE number = ?",
                [(booked, number) for number, booked in marks.items()],
            )
            self._run(
                "UPDATE reports SET marks = '' WHERE number = ?", (report.number,)
            )

    # labelled files

    def number_lines(self, client: str) -> None:
        """Give a line of the client's file to each label that was paid for, and to each
        one that was rejected after it had a line.
        """
        with self.transaction():
            ((first, second),) = self._rows(
                "SELECT (SELECT max(line) FROM tasks WHERE client = ?), (SELECT"
                " max(line_back) FROM tasks WHERE client = ?)",
                (client, client),
            )
            last = max(first or 0, second or 0)
            for booked, column, before in (
                (DELIVERED, "line", "line IS NULL"),
                (REJECTED, "line_back", "line > 0 AND line_back IS NULL"),
            ):
                rows = self._rows(
                    f"SELECT number FROM tasks WHERE client = ? AND booked = ? AND"
                    f" {before} ORDER BY number",
                    (client, booked),
                )
                self._run_each(
                    f"UPDATE tasks SET {column} = ? WHERE number = ?",
                    [(last + n, number) for n, (number,) in enumerate(rows, 1)],
                )
                last += len(rows)

    def lines(self, client: str, after: int) -> list[FileLine]:
        """Return the lines of a client's file after a number, in their order."""
        rows = self._rows(
            "SELECT line AS place, key, round, data, label, NULL FROM tasks WHERE"
            " client = ? AND line > ? UNION ALL SELECT line_back, key, round, NULL,"
            " NULL, why FROM tasks WHERE client = ? AND line_back > ? ORDER BY place",
            (client, after, client, after),
        )
        return [FileLine(*row) for row in rows]

    def set_written(self, name: str, mark: str) -> None:
        """Note what a client's file has now."""
        with self.transaction():
            self.keep_mark(name, mark)

    # status

    def summary(self) -> list[tuple[str, str, str, int, int, str | None]]:
        """Return for each client, state and booked state the number of tasks, of extra
        labels, and the time at which the oldest was released.
        """
        return self._rows(
            "SELECT client, CASE WHEN round IS NULL THEN 'unsold' ELSE booked END AS"
            " is_now, state, count(*), sum(extra), min(released) FROM tasks GROUP BY"
            " client, is_now, state ORDER BY client"
        )
