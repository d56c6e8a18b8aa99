"""What happens between the connector and a Label Studio, from the first release to a
restart: played with the real one, and with the tape of it.

python -m tests.labels.studio_play   # records the tape; `make labels` installs it
"""

import json
import os
import re
import sys
import tempfile
from pathlib import Path

from headgate.labels.label_studio import LabelStudio
from headgate.labels.nouns import LabelTask
from headgate.labels.studio import TOKEN
from tests.labels.tape import Tape
from tools.label_studio import People, Server, free_port

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
INTERFACE = HERE / "interface.xml"
RECORDED = HERE / "recorded" / "label_studio.json"
NORTH, SOUTH = "clinic-north", "clinic-süd"


def pinned():
    """The version of Label Studio that is pinned."""
    pins = (ROOT / "pins" / "labels.txt").read_text("utf-8")
    return re.search(r"^label-studio==(\S+)", pins, re.MULTILINE)[1]


def tasks(client, *numbers):
    return [LabelTask(client, f"k{n}", 1, {"text": f"sample {n}"}) for n in numbers]


def play(url, port, people):
    """Yield what each step is about, and the answers after it."""

    def queue():
        made = LabelStudio(url, str(INTERFACE), webhook=port)
        made._bell.secret = "the same each time"
        return made

    def collected():
        return [tuple(answer) for answer in first.collect(known)]

    first = queue()
    known = {NORTH: {f"k{n}": "waiting" for n in range(8)}, SOUTH: {"k0": "waiting"}}
    first.release(tasks(NORTH, *range(8)) + tasks(SOUTH, 0))
    yield "released", collected()
    first.release(tasks(NORTH, *range(8)) + tasks(SOUTH, 0))
    number = people.projects()[f"headgate: {NORTH}"]
    there = people.tasks(number)
    yield "released twice", sorted(task["meta"]["key"] for task in there)

    at = {task["meta"]["key"]: task["id"] for task in there}
    vanishing = people.label(at["k0"], "cat")
    people.label(at["k1"], "dog")
    people.label(at["k1"], "cat")
    people.skip(at["k2"])
    yield "labelled, labelled twice, skipped", collected()

    known[NORTH] |= {"k0": "labelled", "k1": "labelled", "k2": "skipped"}
    people.reject(vanishing)
    people.label(at["k2"], "dog")
    yield "rejected, and labelled after it was skipped", collected()

    del known[NORTH]["k0"]
    people.ask("DELETE", f"/api/tasks/{at['k1']}")
    people.ask("DELETE", f"/api/tasks/{at['k3']}")
    yield "two tasks deleted", collected()

    del known[NORTH]["k1"], known[NORTH]["k3"]
    again = {"data": {"text": "x"}, "meta": {"client": NORTH, "key": "k4"}}
    others = [{"data": {"text": "y"}}, {"data": {"text": "z"}, "meta": {"key": "k4"}}]
    people.ask("POST", f"/api/projects/{number}/import", [again, *others])
    collected()
    own = [task["meta"] for task in people.tasks(number)]
    yield "a task imported twice", [meta for meta in own if meta and len(meta) > 1]

    people.label(at["k5"], "cat")
    people.skip(at["k6"])
    first.withdraw({NORTH: ["k4", "k5", "k6", "k9"], SOUTH: ["k0"], "nobody": ["k1"]})
    left = {task["id"] for task in people.tasks(number)}
    yield "withdrawn", sorted(key for key, task in at.items() if task in left)

    known[NORTH] |= dict.fromkeys(["k4", "k5", "k6"], "withdrawn")
    known[SOUTH]["k0"] = "withdrawn"
    yield "after it", collected()
    first.close()

    first = queue()
    yield "after a restart", collected()
    before = first._studio.calls.count
    collected()
    yield "calls of a poll", first._studio.calls.count - before
    first.close()


def record(server):
    """Return the tape of what the real one answers."""
    people = server.people()
    token, port = people.access_token(), free_port()
    names = {"TOKEN": token, "LEGACY": server.token}
    version = people.ask("GET", "/api/version")["label-studio-os-package"]["version"]
    people.close()
    names["127.0.0.1:PORT/"] = f"127.0.0.1:{port}/"
    tape = Tape(passed_to=server.url, names=names)
    steps = played(tape, token, server.token, port)
    return {"version": version, "steps": steps, "calls": tape.calls}


def replayed(recorded):
    """Return what came of each step, and the calls that are not as they were."""
    names = {"TOKEN": "a.b.c", "LEGACY": "older", "ACCESS": "d.e.f"}
    port = free_port()
    names["127.0.0.1:PORT/"] = f"127.0.0.1:{port}/"
    tape = Tape(recorded["calls"], names=names)
    steps = played(tape, names["TOKEN"], names["LEGACY"], port)
    return steps, tape.wrong, len(tape.calls) - tape.answered


def played(tape, token, legacy, port):
    """Play with a tape; return what came of each step, as JSON has it."""
    before = os.environ.get(TOKEN)
    os.environ[TOKEN] = token
    try:
        with tape.played() as url:
            people = People(url, legacy)
            steps = json.loads(json.dumps(list(play(url, port, people))))
            people.close()
    finally:
        os.environ.pop(TOKEN)
        if before is not None:
            os.environ[TOKEN] = before
    return steps


def main():
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder))
        print("starting Label Studio: the first start takes about a minute")
        try:
            server.start()
            recorded = record(server)
        finally:
            server.stop()
    text = json.dumps(recorded, indent=1, ensure_ascii=False)
    RECORDED.write_text(text + "\n", "utf-8")
    print(f"{len(recorded['calls'])} calls, {len(text) / 2**10:.0f} KiB in {RECORDED}")


if __name__ == "__main__":
    sys.exit(main())
