"""The gate in front of a label queue: it buys by the price, releases tasks, collects
labels, pays for them and writes them to files.

Each step can be repeated, and the order of the steps is what makes a kill harmless:

1. answers are noted in the table of tasks;
2. the report to the accounts is noted, then made, then noted as finished;
3. the accounts write the orders of a round (`Books.begin`);
4. the table of tasks notes for which samples they are;
5. the queue gets these tasks, and gets them again if it is not sure that it did;
6. the labelled files follow from what the accounts say was delivered.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple, Self

from headgate.books.books import Books, journal_of
from headgate.books.moments import now
from headgate.books.nouns import Delivery, Purchase
from headgate.books.saved import money_text
from headgate.errors import DataError, LedgerError
from headgate.escaping import one_line
from headgate.labels.existing import opening_system
from headgate.labels.labelled import append_new
from headgate.labels.nouns import LABELLED, REJECTED, LabelAnswer, Later
from headgate.labels.pool import take_new
from headgate.labels.prices import Price, price_of
from headgate.labels.settings import load
from headgate.labels.status import METRICS, STATUS, exposed, status_of
from headgate.labels.tasks import (
    CANCELLED,
    DELIVERED,
    OPEN,
    TASKS,
    BoughtTask,
    Pending,
    Tasks,
)
from headgate.limits import LINE
from headgate.writing import json_bytes, replace_file

WRITING = 1.0
"""seconds to wait for a service that writes to the accounts"""
AT_ONCE = 1_000
"""answers that are written at a time"""
SLOT = "slot"
"""name of the setting with the beginning of the last round by the schedule"""


class Released(NamedTuple):
    """What one step did, as the line about it says."""

    released: int = 0
    labelled: int = 0
    skipped: int = 0
    rejected: int = 0


class Gate:
    """A gate that is open: its accounts, its tasks and its queue.

    Parameters
    ----------
    file : Path
        The file with its settings.
    say : callable
        Function that takes each line of the log.

    Raises
    ------
    SettingError, DataError, LedgerError
        If the settings are not what they must be, the accounts are in use by another
        gate, or the accounts and the tasks do not belong together.
    """

    def __init__(self, file: Path, say: Callable[[str], object]) -> None:
        self.file, self.say = file, say
        self.settings, self.search = load(file)
        own = self.settings
        folder = Path(own.accounts)
        self._doing, self._down, self._queue_down = Released(), "", False
        self._price: Price | None = None
        with ExitStack() as stack:
            stack.callback(own.queue.close)
            system = opening_system(own)
            self.books = Books(folder, system, own.policy, own.seed, wait=WRITING)
            stack.callback(self.books.close)
            self.journal = journal_of(self.books)
            self._check_tasks(folder / TASKS)
            self.tasks = Tasks(folder / TASKS)
            stack.callback(self.tasks.close)
            self._check_accounts()
            self._open = stack.pop_all()

    def close(self) -> None:
        """Close the files and the queue."""
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # steps

    def step(self, begin: bool | None = None) -> None:
        """Finish what a killed process began, begin a round if one is due, and do all
        that can be done now.

        Parameters
        ----------
        begin : bool, optional
            Whether to begin a round; left out: if the schedule says so.
        """
        self._doing, self._down, self._queue_down = Released(), "", False
        self.resume()
        self._take_samples()
        t = self.journal.open_round
        if t is None:
            self._ask_queue(self._collect)
            self._book(None)
            t = self._begin_if_due(begin)
        else:
            self._begin(0.0)  # the recorded round, whatever is stated
        self._note_expired()
        self._ask_queue(self._withdraw)
        self._ask_queue(self._release)
        if t is not None:
            self._book(t)
        self._write_labelled()
        self._report(t)

    def resume(self) -> None:
        """Finish the report to the accounts that a killed process began."""
        pending = self.tasks.pending()
        if pending is not None:
            self._finish(pending)

    def over(self) -> bool:
        """Return whether there is nothing left to do: all rounds are settled and
        nothing is under way.
        """
        return self._all_begun() and not self.books.under_way()

    def due(self) -> bool:
        """Return whether a round is due by the schedule."""
        return not self._all_begun() and self.tasks.meta(SLOT) != self._slot()[0]

    def wait(self, stop: Event) -> None:
        """Wait until the next look at the queue or the next round."""
        _, until = self._slot()
        seconds = min(until.total_seconds(), self.settings.schedule.poll_seconds)
        self.settings.queue.wait(max(seconds, 1.0), stop)

    # parts of a step

    def _all_begun(self) -> bool:
        horizon = self.books.system.horizon
        return horizon is not None and self.books.balance().rounds >= horizon

    def _names(self) -> list[str]:
        """Return the clients that take part; one that joins does from the next round
        on.
        """
        return list(self.books.system.names or ())

    def _slot(self) -> tuple[str, timedelta]:
        """Return the beginning of the present round by the schedule, and the time until
        the next one.
        """
        every, time = self.settings.schedule.round_seconds, datetime.now(UTC)
        began = int(time.timestamp()) // every * every
        until = timedelta(seconds=began + every - time.timestamp())
        return datetime.fromtimestamp(began, UTC).isoformat(), until

    def _take_samples(self) -> None:
        for client, own in self.settings.clients.items():
            _, refused = take_new(self.tasks, client, Path(own.samples))
            if refused:
                self.say(
                    f"{own.samples}: {refused} rows were refused; the report beside it"
                    " says why"
                )

    def _begin_if_due(self, begin: bool | None) -> int | None:
        """Begin a round if one is due and its price is known; return it."""
        wanted = self.due() if begin is None else begin
        if not wanted or self._all_begun():
            return None
        own, t = self.settings, self.books.balance().rounds + 1
        try:
            price = price_of(own.price, self.search, t, own.seed, self._names())
        except Later as error:
            self._later(f"round {t} waits for its price", error)
            return None
        return self._begin(price)

    def _begin(self, price: Price) -> int:
        orders = self.settings.orders
        purchases = self.books.begin(
            price,
            most=self.tasks.unsold(self._names()),
            in_all=orders.in_all,
            lot=orders.lot,
            under_way=orders.under_way,
            expires=orders.expires,
        )
        t = self.journal.open_round
        assert t is not None
        self.tasks.assign(t, {str(each.client): each.samples for each in purchases})
        self.tasks.note(SLOT, self._slot()[0])
        self._price = _stated(purchases)
        return t

    def _ask_queue(self, what: Callable[[], None]) -> None:
        """Do what the queue is needed for, or later if it does not answer now."""
        if self._queue_down:
            return
        try:
            what()
        except Later as error:
            self._queue_down = True
            self._later("the queue does not answer", error)

    def _release(self) -> None:
        tasks = self.tasks.unreleased()
        if tasks:
            self.settings.queue.release(tasks)
            self.tasks.set_released(tasks)
        self._doing = self._doing._replace(released=len(tasks))

    def _withdraw(self) -> None:
        gone = self.tasks.withdrawn()
        if gone:
            self.settings.queue.withdraw(gone)
            self.tasks.set_withdrawn(gone)

    def _note_expired(self) -> None:
        """Note the tasks whose orders the accounts do not wait for any more."""
        waiting = self.books.under_way()
        expired = [
            (client, t)
            for client, t in self.tasks.waiting()
            if t not in waiting.get(client, {})
        ]
        self.tasks.withdrawn_now(expired)

    def _collect(self) -> None:
        some = list[LabelAnswer]()
        try:
            for answer in self.settings.queue.collect(self.tasks.known()):
                some.append(answer)
                if len(some) == AT_ONCE:
                    self._note(some)
        finally:  # the answers before an error count
            self._note(some)

    def _note(self, some: list[LabelAnswer]) -> None:
        with self.tasks.transaction():
            self.tasks.answer(some)
        some.clear()

    def _later(self, what: str, error: Later) -> None:
        self._down = one_line(error)
        self.say(f"later: {what}: {self._down}")

    # reports to the accounts

    def _book(self, t: int | None) -> None:
        """Report all new answers to the accounts; this settles round `t`, if it is
        stated.
        """
        marks, rejected = dict[int, str](), dict[int, str]()
        for task in self.tasks.unbooked():
            if task.booked == DELIVERED:
                rejected[task.number] = REJECTED
            else:
                found = DELIVERED if task.state == LABELLED else CANCELLED
                marks[task.number] = found
        self._count(marks, rejected)
        if marks or t is not None:
            self._finish(self.tasks.prepare(t, marks))
        if rejected:
            self._finish(self.tasks.prepare(None, rejected))

    def _count(self, marks: Mapping[int, str], rejected: Mapping[int, str]) -> None:
        found, before = list(marks.values()), self._doing
        self._doing = before._replace(
            labelled=before.labelled + found.count(DELIVERED),
            skipped=before.skipped + found.count(CANCELLED),
            rejected=before.rejected + len(rejected),
        )

    def _finish(self, report: Pending) -> None:
        """Make a report to the accounts, also if it may have been made already."""
        bought = self.tasks.of_numbers(report.marks)
        reports = _deliveries(bought, report.marks)
        if report.round is not None:
            self._cancel_missing(report.round, reports)
        key = f"report {report.number}" if report.round is None else None
        try:
            self.books.settle(reports, round=report.round, key=key)
        except LedgerError as error:
            self._refused(report, error)
            return
        self.tasks.finish(report, self._found(bought, report.marks))

    def _refused(self, report: Pending, error: LedgerError) -> None:
        """Go on after the accounts refuse rejections, as of an order that is refunded
        already; what else they refuse is an error.
        """
        if set(report.marks.values()) != {REJECTED}:
            raise error
        if len(report.marks) == 1:
            self.say(f"no refund: {error}")
            self.tasks.finish(report, report.marks)
            return
        self.tasks.finish(report, {})
        for number in report.marks:
            self._finish(self.tasks.prepare(None, {number: REJECTED}))

    def _cancel_missing(self, t: int, reports: dict[str, list[Delivery]]) -> None:
        """Cancel what was ordered in a round beyond the samples that there are."""
        there = self.tasks.assigned(t)
        for client in self._names():
            order = self.books.order(t, client)
            missing = 0 if order is None else order.asked - there.get(client, 0)
            if missing > 0:
                cancelled = Delivery(cancelled=missing, round=t)
                reports.setdefault(client, []).append(cancelled)

    def _found(
        self, bought: Iterable[BoughtTask], marks: Mapping[int, str]
    ) -> dict[int, str]:
        """Return what the accounts know of tasks now."""
        found, delivered = dict(marks), dict[str, dict[str, int]]()
        for task in bought:
            if marks[task.number] == DELIVERED:
                delivered.setdefault(task.client, {})[task.key] = task.number
        for client, numbers in delivered.items():
            known = self.journal.samples(client, numbers)
            for key, number in numbers.items():
                found[number] = known[key].state
        return found

    # what others read

    def _write_labelled(self) -> None:
        for client in self.settings.clients:
            append_new(self.tasks, Path(self.settings.labelled), client)

    def _report(self, t: int | None) -> None:
        """Write the status and the metrics, and say what was done and why."""
        found = self.status(t)
        folder = Path(self.settings.accounts)
        replace_file(folder / STATUS, json_bytes(found))
        replace_file(folder / METRICS, exposed(found).encode())
        if t is not None or any(self._doing):
            self.say(self._line(found, t))

    def status(self, t: int | None) -> dict[str, Any]:
        """Return the state of money and tasks as JSON holds it."""
        before = _read_status(Path(self.settings.accounts) / STATUS)
        price = before.get("price") if self._price is None else self._price
        why = before.get("why", "") if t is None else self.books.why
        _, until = self._slot()
        at = datetime.now(UTC)
        coming = at if self.due() else at + until
        return {
            "at": now(),
            "round": self.books.balance().rounds,
            "price": price,
            "why": why,
            "down": self._down,
            "next": "" if self._all_begun() else coming.isoformat(timespec="seconds"),
            **status_of(self.books, self.tasks),
        }

    def _line(self, found: Mapping[str, Any], t: int | None) -> str:
        did = ", ".join(f"{name} {n}" for name, n in self._doing._asdict().items() if n)
        under_way = sum(each["under_way"] for each in found["clients"].values())
        spent = money_text(float(found["spent"]), found["currency"])
        money = f"spent {spent} of {money_text(float(found['approved']))}"
        parts = [did or "no news", f"under way {under_way}", money]
        if t is not None:
            parts.insert(0, self.books.why or f"price {found['price']}")
        return f"round {found['round']}: {'; '.join(parts)}"

    # checks

    def _check_tasks(self, path: Path) -> None:
        if self.books.balance().rounds and not path.exists():
            raise DataError(
                f"{path}: is missing, and the accounts beside it have come to round"
                f" {self.books.balance().rounds}; restore both from one backup"
            )

    def _check_accounts(self) -> None:
        begun = self.journal.open_round or self.books.balance().rounds
        if self.tasks.latest() > begun:
            raise LedgerError(
                f"{self.tasks.path}: has come to round {self.tasks.latest()}, the"
                f" accounts beside it to round {begun}; restore both from one backup"
            )


def _deliveries(
    bought: Iterable[BoughtTask], marks: Mapping[int, str]
) -> dict[str, list[Delivery]]:
    """Return what is reported on each order, by client."""
    orders = dict[tuple[str, int], dict[str, list[BoughtTask]]]()
    for task in bought:
        own = orders.setdefault((task.client, task.round), {})
        own.setdefault(marks[task.number], []).append(task)
    found = dict[str, list[Delivery]]()
    for (client, t), own in sorted(orders.items()):
        delivered = [task.key for task in own.get(DELIVERED, ())]
        cancelled = [task for task in own.get(CANCELLED, ()) if task.booked == OPEN]
        rejected = {task.key: _reason(task) for task in own.get(REJECTED, ())}
        report = Delivery(len(delivered), delivered, len(cancelled), rejected, t)
        found.setdefault(client, []).append(report)
    return found


def _reason(task: BoughtTask) -> str:
    return one_line(task.why, LINE) or "rejected"


def _stated(purchases: Iterable[Purchase]) -> Price | None:
    """Return the price of a round, one number if all clients have the same."""
    prices = {str(each.client): each.price for each in purchases}
    same = set(prices.values())
    return same.pop() if len(same) == 1 else prices or None


def _read_status(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def run(
    file: Path,
    say: Callable[[str], object],
    once: bool = False,
    now: bool = False,
) -> None:
    """Keep a gate going until all rounds are over and all labels are there.

    Parameters
    ----------
    file : Path
        The gate's file.
    say : callable
        Function that takes each line of the log.
    once : bool, default False
        Whether to end after one step.
    now : bool, default False
        Whether to begin a round at once, whatever the schedule says.
    """
    stop = Event()
    with Gate(file, say) as gate:
        gate.step(begin=True if now else None)
        while not once and not gate.over():
            gate.wait(stop)
            gate.step()
        if gate.over():
            say("all rounds are over, and nothing is under way")
