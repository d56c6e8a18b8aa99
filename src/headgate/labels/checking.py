"""The check of a label queue, for `headgate.testing.check_queue`."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import is_dataclass, replace
from threading import Event
from typing import Any

from headgate.errors import SettingError
from headgate.labels.nouns import (
    LABELLED,
    REJECTED,
    SKIPPED,
    WAITING,
    LabelAnswer,
    LabelTask,
    Queue,
)
from headgate.labels.settings import QUEUE
from headgate.registry import OWN, make

FATES = (LABELLED, SKIPPED, REJECTED)
TASKS = [
    LabelTask(client, f"{client} key {number}", t, {"text": f"sample {number}"})
    for client in ("north", "south")
    for t, numbers in ((1, range(4)), (2, range(4, 9)))
    for number in numbers
]
"""two orders of two clients"""
Known = dict[str, dict[str, str]]
Wanted = dict[tuple[str, str], str]
Act = Callable[[str, LabelTask], Any]


def check(
    queue: Queue | str,
    act: Act | None,
    seen: Callable[[], Iterable[tuple[str, str]]] | None,
    **settings: Any,
) -> None:
    """Check a queue, as `headgate.testing.check_queue` states."""
    own: Queue = make(QUEUE, _described(queue, settings), "queue", OWN)
    answers = _answers(own, _known([]))
    _need(not _of_ours(answers), "it has answers before anything is released")
    own.release([])
    own.release(TASKS[:5])
    own.release(TASKS)  # as after a kill, of which nobody knows how far it came
    again = _reopened(own)
    again.release(TASKS)
    if seen is not None:
        counted = Counter(list(seen()))
        missing = [task.place for task in TASKS if not counted[task.place]]
        _need(not missing, f"task {missing[:1]} was not released")
        twice = [task.place for task in TASKS if counted[task.place] > 1]
        _need(not twice, f"task {twice[:1]} was released twice")
    _check_truth(own)
    if act is not None:
        _check_acts(own, act)
    _check_withdraw(own)
    stop = Event()
    stop.set()
    own.wait(60.0, stop)  # it returns at once
    for each in (own, again):
        each.close()


def _described(queue: Queue | str, settings: dict[str, Any]) -> Any:
    if isinstance(queue, str):
        return {"kind": queue, **settings}
    if settings:
        raise SettingError("check_queue: settings are for a queue that is named")
    return queue


def _reopened(queue: Queue) -> Queue:
    """Return the same queue as after a start of the program."""
    own: Any = queue
    kind: Any = type(queue)
    again: Queue = replace(own) if is_dataclass(kind) else kind()
    return again


def _check_truth(queue: Queue) -> None:
    """Check that answers are well-formed, and that a start changes none."""
    known = _known(TASKS)
    answers = _of_ours(_answers(queue, known))
    _of_ours(_answers(queue, known))
    with closing(_reopened(queue)) as opened:
        again = _of_ours(_answers(opened, known))
    missing = answers.keys() - again.keys()
    _need(not missing, f"after a start, the answer on {sorted(missing)[:1]} is gone")


def _check_acts(queue: Queue, act: Act) -> None:
    """Check that what labellers do arrives, and arrives again after a start."""
    rejected = TASKS[5]
    wanted: Wanted = {TASKS[0].place: LABELLED, TASKS[1].place: SKIPPED}
    wanted[rejected.place] = LABELLED
    for task in TASKS:
        if task.place in wanted:
            act(wanted[task.place], task)
    known = _known(TASKS)
    _expect(queue, known, wanted)
    for (client, key), state in wanted.items():
        known[client][key] = state
    act(REJECTED, rejected)
    _expect(queue, known, {rejected.place: REJECTED})
    queue.release(TASKS)  # what has an answer is not released again
    del wanted[rejected.place]
    with closing(_reopened(queue)) as again:
        _expect(again, _known(TASKS), wanted)


def _expect(queue: Queue, known: Known, wanted: Wanted) -> None:
    with closing(_reopened(queue)) as again:
        for asked, when in ((queue, "at once"), (again, "after a start")):
            found = _of_ours(_answers(asked, known))
            for place, state in wanted.items():
                got = found.get(place, set())
                _need(
                    state in got,
                    f"task {place} was {state}, and collect says {sorted(got)} {when}",
                )


def _check_withdraw(queue: Queue) -> None:
    last = TASKS[-1]
    for _ in range(2):
        queue.withdraw({last.client: [last.key, "no such key"], "nobody": ["no key"]})
    queue.withdraw({})
    _answers(queue, _known(TASKS))


def _known(tasks: Iterable[LabelTask]) -> Known:
    found: Known = {}
    for task in tasks:
        found.setdefault(task.client, {})[task.key] = WAITING
    return found


def _answers(queue: Queue, known: Known) -> list[LabelAnswer]:
    """Return the answers, each of which must be well-formed."""
    found = list(queue.collect(known))
    for each in found:
        _need(isinstance(each, LabelAnswer), f"collect gave {each!r}, no LabelAnswer")
        _need(each.state in FATES, f"state {each.state!r} is none of {FATES}")
        texts = (each.client, each.key, each.why)
        _need(all(isinstance(text, str) for text in texts), f"{each}: must be text")
        _need(isinstance(each.extra, int) and each.extra >= 0, f"{each}: extra")
        try:
            json.dumps(each.label)
        except (TypeError, ValueError):
            raise AssertionError(f"{each}: the label is not JSON") from None
        has_label = each.label is not None
        _need(has_label == (each.state == LABELLED), f"{each}: label and state differ")
    return found


def _of_ours(answers: Iterable[LabelAnswer]) -> dict[tuple[str, str], set[str]]:
    """Return the states that were answered, of the tasks of this check."""
    places, found = {task.place for task in TASKS}, dict[tuple[str, str], set[str]]()
    for each in answers:
        if each[:2] in places:
            found.setdefault(each[:2], set()).add(each.state)
    return found


def _need(fits: bool, message: str) -> None:
    if not fits:
        raise AssertionError(message)
