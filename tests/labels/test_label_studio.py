"""The connector to Label Studio against what a real one answered, and settings that
cannot be.
"""

import json
from threading import Event

import httpx
import pytest

from headgate.errors import DataError, SettingError
from headgate.labels.label_studio import LabelStudio
from headgate.labels.nouns import LabelTask, Later
from headgate.labels.studio import PAGE, TOKEN
from tests.cluster import free_port
from tests.labels.studio_play import INTERFACE, RECORDED, pinned, replayed
from tests.labels.tape import Tape

NORTH = "clinic-north"


@pytest.fixture(scope="module")
def recorded():
    return json.loads(RECORDED.read_text("utf-8"))


@pytest.fixture(scope="module")
def replay(recorded):
    return replayed(recorded)


@pytest.fixture
def studio(monkeypatch):
    """Make a queue at an address; it is closed in the end."""
    monkeypatch.setenv(TOKEN, "4f2b")
    made = []

    def make(url, **settings):
        made.append(LabelStudio(url, str(INTERFACE), **settings))
        return made[-1]

    yield make
    for queue in made:
        queue.close()


def test_the_tape_is_of_the_pinned_version(recorded):
    assert recorded["version"] == pinned(), (
        "record it anew: python -m tests.labels.studio_play"
    )


def test_the_calls_and_what_came_of_them_are_as_recorded(recorded, replay):
    steps, wrong, left = replay
    assert wrong == []
    assert left == 0
    assert steps == recorded["steps"]


def states(answers):
    return {key: (state, label, extra) for _, key, state, label, _, extra in answers}


def test_every_turn_of_a_task_is_told(replay):
    came = dict(replay[0])
    assert came["released"] == []
    assert came["released twice"] == [f"k{n}" for n in range(8)]
    assert states(came["labelled, labelled twice, skipped"]) == {
        "k0": ("labelled", "cat", 0),
        "k1": ("labelled", "dog", 1),
        "k2": ("skipped", None, 0),
    }
    rejected = states(came["rejected, and labelled after it was skipped"])
    assert rejected["k0"] == ("rejected", None, 0)
    assert rejected["k2"] == ("labelled", "dog", 0)
    deleted = states(came["two tasks deleted"])
    assert deleted["k1"] == ("rejected", None, 0)
    assert deleted["k3"] == ("skipped", None, 0)
    keys = [meta["key"] for meta in came["a task imported twice"]]
    assert sorted(keys) == ["k0", "k2", "k4", "k5", "k6", "k7"]
    # a task that was labelled or skipped by then is not taken back
    assert came["withdrawn"] == ["k0", "k2", "k5", "k6", "k7"]
    assert states(came["after it"])["k5"] == ("labelled", "cat", 0)
    assert came["after a restart"] == came["after it"]


def test_a_poll_is_one_call_for_each_project_and_one_for_all(replay):
    assert dict(replay[0])["calls of a poll"] == 3


def test_the_tape_has_no_token(recorded):
    text = json.dumps(recorded)
    assert "eyJ" not in text
    used = {call["asked"]["authorization"] for call in recorded["calls"]}
    assert used == {"", "Bearer ACCESS", "Token LEGACY"}


class Tasks(Tape):
    """A Label Studio with one project of so many tasks, those in `labelled` with a
    label, which tells of no change by its time.
    """

    def __init__(self, count):
        super().__init__()
        self.count = count
        self.labelled = set()
        self.lost = False
        self.pages = []

    def answer(self, method, path, headers, body):
        if method == "POST":
            found = {}
        elif path.startswith("/api/projects"):
            project = {"id": 1, "title": f"headgate: {NORTH}"}
            numbers = {
                "task_number": self.count,
                "total_annotations_number": len(self.labelled),
                "skipped_annotations_number": 0,
            }
            found = {"count": 1, "results": [{**project, **numbers}]}
        else:
            found = self.page(path)
        headers = {"Date": "Thu, 19 Nov 2026 23:07:04 GMT"}
        return 200, headers, json.dumps(found).encode()

    def page(self, path):
        asked = json.loads(httpx.URL(path).params["query"])["filters"]["items"]
        last, *since = [item["value"] for item in asked]
        self.pages.append((last, *since))
        left = range(last + 1, self.count + 1) if not since else []
        rows = [self.row(number) for number in left[:PAGE]]
        return {"total": len(left), "tasks": rows}

    def row(self, number):
        label = {"id": number, "was_cancelled": False, "result": []}
        there = number in self.labelled and not self.lost
        meta = {"client": NORTH, "key": f"k{number}", "round": 1}
        return {"id": number, "meta": meta, "annotations": [label] if there else []}


def test_ten_thousand_tasks_are_two_calls_once_they_were_seen(studio):
    tape = Tasks(10_000)
    known = {NORTH: {f"k{n}": "waiting" for n in range(1, 10_001)}}
    with tape.played() as url:
        queue = studio(url)
        calls = queue._studio.calls
        assert list(queue.collect(known)) == []
        assert calls.count == 11
        assert list(queue.collect(known)) == []
        assert calls.count == 13
    # pages follow the tasks' numbers; the second look is of what changed, with overlap
    assert [page[0] for page in tape.pages] == [*range(0, 10_000, PAGE), 0]
    assert tape.pages[-1] == (0, "2026-11-19T23:06:04.000000Z")


def test_a_label_that_vanished_unseen_is_missed_by_its_number(studio):
    """Labels that are deleted in bulk get the local time of the server. Whichever call
    notices it first, the next poll tells.
    """
    tape = Tasks(3)
    tape.labelled = {1, 2}
    known = {NORTH: {"k1": "labelled", "k2": "labelled", "k3": "waiting"}}
    with tape.played() as url:
        queue = studio(url)
        assert [answer.state for answer in queue.collect(known)] == ["labelled"] * 2
        tape.labelled = {2}
        queue.release([LabelTask(NORTH, "k3", 1, {})])
        told = {answer.key: answer.state for answer in queue.collect(known)}
        assert told == {"k1": "rejected", "k2": "labelled"}
        assert list(queue.collect(known)) == []


def test_labels_that_are_counted_and_not_given_are_not_rejected(studio):
    tape = Tasks(2)
    tape.labelled, tape.lost = {1, 2}, True
    known = {NORTH: {"k1": "labelled", "k2": "labelled"}}
    with tape.played() as url:
        queue = studio(url)
        with pytest.raises(Later, match=r"gives \(2, 0, 0\) .* and counts \(2, 2, 0\)"):
            list(queue.collect(known))
        tape.lost = False
        assert [answer.state for answer in queue.collect(known)] == ["labelled"] * 2


class NoHooks(Tasks):
    """A Label Studio that may not call addresses of this machine."""

    def answer(self, method, path, headers, body):
        if not path.startswith("/api/webhooks"):
            return super().answer(method, path, headers, body)
        if method == "GET":
            return 200, {}, b"[]"
        return 403, {}, b'{"detail": "URL resolves to a reserved network address"}'


def test_polls_go_on_where_webhooks_are_refused(studio, caplog):
    tape = NoHooks(3)
    tape.labelled = {2}
    with tape.played() as url:
        queue = studio(url, webhook=free_port())
        for _ in range(2):
            found = list(queue.collect({NORTH: {"k2": "waiting"}}))
            assert [answer.key for answer in found] == ["k2"]
            tape.labelled = {2}
            queue._studio._seen.clear()
    (said,) = caplog.records
    assert "no webhook, so that only polls" in said.getMessage()
    assert "reserved network address" in said.getMessage()


def test_a_project_that_vanished_is_no_rejection(studio):
    tape = Tasks(3)
    with tape.played() as url:
        queue = studio(url, prefix="other")
        with pytest.raises(DataError, match="no project of clinic-north any more"):
            list(queue.collect({NORTH: {"k1": "labelled"}}))
        assert list(queue.collect({NORTH: {}})) == []


def test_answers_that_are_not_taken_are_told_again(studio):
    tape = Tasks(2)
    known = {NORTH: {"k1": "labelled", "k2": "labelled"}}
    with tape.played() as url:
        queue = studio(url)
        assert next(iter(queue.collect(known))).key == "k1"
        assert [answer.key for answer in queue.collect(known)] == ["k1", "k2"]
        assert list(queue.collect(known)) == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"url": "ftp://labels"}, "url = ftp://labels: must be an http address"),
        ({"url": "http://me:word@labels"}, "without user and password"),
        ({"timeout": 0.0}, "timeout = 0"),
        ({"webhook": 70_000}, "webhook = 70000: must be a port, or 0"),
    ],
)
def test_a_setting_that_cannot_be_is_named(settings, said):
    with pytest.raises(SettingError) as caught:
        LabelStudio(**settings)
    assert said in str(caught.value)


def test_a_name_that_is_too_long_for_a_project_is_named(studio):
    with Tasks(0).played() as url:
        queue = studio(url)
        with pytest.raises(SettingError, match="at most 50 characters"):
            queue.release([LabelTask("x" * 60, "k", 1, {})])
        queue.interface = ""
        with pytest.raises(SettingError, match=r"interface = .*: must be"):
            queue.release([LabelTask("west", "k", 1, {})])


def test_without_a_token_its_variable_is_named(monkeypatch):
    monkeypatch.delenv(TOKEN, raising=False)
    with pytest.raises(SettingError, match=f"{TOKEN}: is not set"):
        list(LabelStudio().collect({NORTH: {"k": "waiting"}}))


def test_a_server_that_is_down_is_asked_later(studio, monkeypatch):
    monkeypatch.setattr("headgate.labels.calls.PAUSES", (0.0, 0.0))
    with Tasks(2).played() as url:
        pass
    queue = studio(url)
    for ask in (
        lambda: queue.release([LabelTask(NORTH, "k1", 1, {})]),
        lambda: list(queue.collect({NORTH: {"k1": "waiting"}})),
        lambda: queue.withdraw({NORTH: ["k1"]}),
    ):
        with pytest.raises(Later, match="does not answer"):
            ask()
    stop = Event()
    stop.set()
    queue.wait(60.0, stop)
