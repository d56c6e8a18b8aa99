"""The connector with a real Label Studio: `make test-labels`."""

import json
import time
from collections import Counter
from contextlib import contextmanager
from threading import Event

import httpx
import psutil
import pytest

from headgate.labels.label_studio import LabelStudio
from headgate.labels.nouns import LabelTask
from headgate.labels.studio import TOKEN
from headgate.testing import check_queue
from tests.labels.scenario import CLIENTS, Labellers, play
from tests.labels.studio_play import INTERFACE, RECORDED, record
from tools.label_studio import Server, free_port

INTERFACE_OF_TEXT = """<View>
  <Text name="text" value="$text"/>
  <TextArea name="label" toName="text"/>
</View>
"""
MANY = 10_000


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    made = Server(tmp_path_factory.mktemp("label-studio"))
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def people(server):
    made = server.people()
    yield made
    made.close()


@pytest.fixture
def token(server, monkeypatch):
    monkeypatch.setenv(TOKEN, server.token)


def test_the_tape_is_what_the_real_one_answers(server):
    recorded, again = json.loads(RECORDED.read_text("utf-8")), record(server)
    assert again["version"] == recorded["version"], f"{RECORDED} is older"
    assert again["steps"] == recorded["steps"]
    for there, here in zip(recorded["calls"], again["calls"], strict=True):
        assert [there["asked"][name] for name in ("method", "body")] == [
            here["asked"][name] for name in ("method", "body")
        ]
        assert there["status"] == here["status"]


def test_a_poll_of_many_tasks_is_few_calls(server, people, token):
    queue = LabelStudio(server.url, str(INTERFACE), prefix="many")
    tasks = [LabelTask("west", f"k{n}", 1, {"text": f"{n}"}) for n in range(MANY)]
    known = {"west": {task.key: "waiting" for task in tasks}}
    calls = queue._studio.calls

    def counted(what, step):
        began, before = time.monotonic(), calls.count
        found = step()
        seconds, made = time.monotonic() - began, calls.count - before
        print(f"{what}: {made} calls, {seconds:.1f} s")
        return made, found

    made, _ = counted("release", lambda: queue.release(tasks))
    assert made <= 3 + MANY // 1_000
    time.sleep(65)  # what changed within a minute before is read again
    made, found = counted("first poll", lambda: list(queue.collect(known)))
    assert (made, found) == (1 + MANY // 1_000, [])
    made, _ = counted("poll", lambda: list(queue.collect(known)))
    assert made == 2
    project = people.projects()["many: west"]
    first = people.ask("GET", "/api/tasks", project=project, page_size=1)["tasks"][0]
    people.label(first["id"], "cat")
    made, found = counted("poll with one label", lambda: list(queue.collect(known)))
    assert (made, [answer.label for answer in found]) == (2, ["cat"])
    queue.close()


def test_a_webhook_wakes(server, people, token):
    queue = LabelStudio(
        server.url, str(INTERFACE), prefix="hooked", webhook=free_port()
    )
    queue.release([LabelTask("west", "k1", 1, {"text": "a"})])
    assert list(queue.collect({"west": {"k1": "waiting"}})) == []
    (task,) = people.tasks(people.projects()["hooked: west"])
    people.label(task["id"], "cat")
    began = time.monotonic()
    queue.wait(60.0, Event())
    assert time.monotonic() - began < 30.0
    queue.close()


def test_it_is_a_queue_as_queues_are_checked(server, people, token):
    queue = LabelStudio(server.url, str(INTERFACE), prefix="checked")

    def rows():
        projects = people.projects().items()
        own = [number for title, number in projects if title.startswith("checked: ")]
        return [row for number in own for row in people.tasks(number)]

    def act(fate, task):
        (row,) = [each for each in rows() if each["meta"]["key"] == task.key
                  and each["meta"]["client"] == task.client]  # fmt: skip
        if fate == "labelled":
            people.label(row["id"], "cat")
        elif fate == "skipped":
            people.skip(row["id"])
        else:
            for label in row["annotations"]:
                people.reject(label["id"])

    def seen():
        return [(row["meta"]["client"], row["meta"]["key"]) for row in rows()]

    check_queue(queue, act, seen)
    queue.close()


def test_nothing_goes_outside(server):
    """Telemetry is off: all connections of the server are to this machine."""
    parent = psutil.Process(server.process.pid)
    peers = {
        line.raddr.ip
        for process in (parent, *parent.children(recursive=True))
        for line in process.net_connections("inet")
        if line.raddr
    }
    assert peers <= {"127.0.0.1"}
    assert httpx.get(f"{server.url}/health").is_success


class Annotators(Labellers):
    """People who label in Label Studio."""

    def __init__(self, server, people, folder):
        self.server, self.people, self.folder = server, people, folder
        self.rows, self.ever = {}, Counter()

    def queue(self):
        (self.folder / "interface.xml").write_text(INTERFACE_OF_TEXT)
        section = f'kind = "label-studio"\nurl = "{self.server.url}"\n'
        return f'[queue]\n{section}interface = "interface.xml"\nprefix = "forty"\n'

    def tasks(self):
        projects, now = self.people.projects(), Counter()
        self.rows = {}
        for client in CLIENTS:
            if f"forty: {client}" in projects:
                for row in self.people.tasks(projects[f"forty: {client}"]):
                    place = client, row["meta"]["key"]
                    now[place] += 1
                    self.rows[place] = row["id"]
        self.ever |= now
        return list(self.ever.elements())

    def label(self, client, key, label):
        region = {"from_name": "label", "to_name": "text", "type": "textarea"}
        self.annotate(client, key, [{**region, "value": {"text": [label]}}])

    def skip(self, client, key):
        self.annotate(client, key, [], was_cancelled=True)

    def annotate(self, client, key, result, **more):
        """Label or skip a task, unless it was withdrawn."""
        if (client, key) in self.rows:
            path = f"/api/tasks/{self.rows[client, key]}/annotations"
            self.people.ask("POST", path, {"result": result, **more})

    def reject(self, client, key):
        if (client, key) in self.rows:
            path = f"/api/tasks/{self.rows[client, key]}/annotations"
            for label in self.people.ask("GET", path):
                self.people.reject(label["id"])

    @contextmanager
    def down(self):
        self.server.stop()
        try:
            yield
        finally:
            self.server.start()


def test_forty_rounds_with_kills_agree_to_the_sample_and_the_cent(
    server, people, tmp_path, token
):
    began = time.monotonic()
    made = play(tmp_path, Annotators(server, people, tmp_path))
    seconds = time.monotonic() - began
    print(f"forty rounds: {len(made.labels)} tasks labelled, {seconds:.0f} s")
    assert len(made.labels) > 300
