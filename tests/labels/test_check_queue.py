"""`check_queue` finds what is wrong with a queue."""

import sys
from dataclasses import dataclass, field
from types import ModuleType

import pytest

from headgate.errors import SettingError
from headgate.labels.folder import FolderQueue
from headgate.labels.nouns import LabelAnswer, Queue
from headgate.testing import check_queue
from tests.labels.test_folder import fill_in, seen_in


@dataclass
class InMemory(Queue):
    """A queue that is as it should be, or has one fault."""

    fault: str = ""
    truth: dict = field(default_factory=dict)
    tasks: list = field(default_factory=list)

    def release(self, tasks):
        there = {task.place for task in self.tasks}
        self.tasks += [
            task for task in tasks if self.fault == "twice" or task.place not in there
        ]
        if self.fault == "partly":
            del self.tasks[3:]

    def collect(self, known):
        found = [LabelAnswer(*place, *what) for place, what in self.truth.items()]
        if self.fault == "forgets" and not self.truth.pop("asked", None):
            self.truth.clear()
        if self.fault == "words":
            found = [each._replace(state="done") for each in found]
        if self.fault == "labels":
            found = [each._replace(label=None) for each in found]
        return found

    def withdraw(self, keys):
        if self.fault == "withdraw":
            keys["nobody"].remove("another key")

    def act(self, what, task):
        self.truth[task.place] = (what, "cat" if what == "labelled" else None)

    def seen(self):
        return [task.place for task in self.tasks]


def test_a_queue_that_keeps_its_promises_passes():
    queue = InMemory()
    check_queue(queue, queue.act, queue.seen)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("twice", "was released twice"),
        ("partly", "was not released"),
        ("forgets", "after a start"),
        ("words", "state 'done' is none of"),
        ("labels", "label and state differ"),
        ("withdraw", "not in list"),
    ],
)
def test_each_fault_is_named(fault, message):
    queue = InMemory(fault)
    with pytest.raises((AssertionError, ValueError), match=message):
        check_queue(queue, queue.act, queue.seen)


def test_the_folder_passes(tmp_path):
    queue = FolderQueue(str(tmp_path / "tasks"), str(tmp_path / "in"), settled=0)
    check_queue(
        queue,
        lambda what, task: fill_in(tmp_path / "in", what, task),
        lambda: seen_in(tmp_path / "tasks"),
    )


def test_a_queue_is_named_as_in_a_file(monkeypatch):
    module = ModuleType("own_queues")
    InMemory.__module__ = "tests.labels.test_check_queue"
    module.InMemory = InMemory
    monkeypatch.setitem(sys.modules, "own_queues", module)
    check_queue("own_queues:InMemory", fault="")
    with pytest.raises(SettingError, match=r"queue\.falt: unknown key"):
        check_queue("own_queues:InMemory", falt="")
    with pytest.raises(SettingError, match="no such queue"):
        check_queue("post office")
