"""Clients on Flower whose labels come from a queue: what a gate has paid for is what
they admit, whoever is killed meanwhile.
"""

import json
import random
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="the extra flower is not installed")
sys.path.insert(0, str(Path(__file__).parent))

from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from worlds import World, added, an_experiment

from headgate.books.statement import opened, statement
from headgate.errors import DataError, SettingError
from headgate.flower import headgate_client
from headgate.flower.sources import unpack
from headgate.labels.gate import Gate
from headgate.labels.sources import LabelledSource
from tests.labels.scenario import audit, killed, step

ROUNDS, NAMES = 12, ("north", "south", "west")
GATE = """
[price]
kind = "uniform"
low = 0.5
high = 1.5
[money]
budget = 6.0
rounds = 12
[queue]
kind = "folder"
tasks = "tasks"
labels = "in"
settled = 0
"""


def new_gate(folder):
    text = GATE
    for name in NAMES:
        rows = [{"key": f"{name}-{n}", "at": n} for n in range(60)]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines)
        text += f'[clients.{name}]\nsamples = "{name}.jsonl"\nplaces = 60\n'
    (folder / "gate.toml").write_text(text)
    return folder / "gate.toml"


def labelling_app(folder):
    """Clients that admit what was labelled for them, and add up its means."""
    app = ClientApp()

    def source(context):
        name = NAMES[context.node_config["partition-id"]]
        return LabelledSource(folder / "labelled" / f"{name}.jsonl")

    @headgate_client(app, source=source, store=folder / "stores")
    def train(message, context, held):
        (arrays,) = message.content.array_records.values()
        model = {name: array.numpy() for name, array in arrays.items()}
        samples = np.array([[float(unpack(each.payload)), 1.0] for each in held])
        if len(held):
            model = added(message, model, samples)
        record = ArrayRecord({name: Array(np.asarray(a)) for name, a in model.items()})
        metrics = MetricRecord({"num-examples": len(held)})
        answer = RecordDict({"arrays": record, "metrics": metrics})
        return Message(answer, reply_to=message)

    return app


class People:
    """They label half of what waits in each round, and skip some."""

    def __init__(self, folder):
        self.folder, self.rng, self.done, self.number = folder, random.Random(2), {}, 0

    def work(self):
        self.number += 1
        for name in NAMES:
            rows = []
            for path in sorted((self.folder / "tasks" / name).glob("round-*.csv")):
                for line in path.read_text("utf-8-sig").splitlines()[1:]:
                    key = line.partition(",")[0]
                    if key in self.done or self.rng.random() < 0.5:
                        continue
                    self.done[key] = label = self.rng.randrange(3)
                    skip = {"key": key, "state": "skipped"}
                    rows.append({"key": key, "label": label} if label else skip)
            path = self.folder / "in" / name / f"{self.number}.jsonl"
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_clients_admit_what_was_paid_for_in_its_order_and_once(tmp_path):
    gate, people, rng = new_gate(tmp_path), People(tmp_path), random.Random(3)
    world = World(tmp_path, an_experiment("fifo", ROUNDS, clients=3, budget=12.0))
    world.use(labelling_app(tmp_path))
    for t in range(1, ROUNDS + 1):
        if t % 3 == 0:
            killed(gate, t, rng.uniform(0, 0.2))
            audit(gate)
        step(gate, t)
        people.work()
        world.grid.server_dies = "after sending" if t % 4 == 0 else ""
        if not world.play(until=t):
            world.grid.server_dies = ""
            assert world.play(until=t)
    with opened(tmp_path / "run") as store:
        lines = statement(store).lines
    with Gate(gate, str) as own:
        own.books.audit()
        delivered = own.status(None)["clients"]
    admitted = 0
    for client, name in enumerate(NAMES):
        text = (tmp_path / "labelled" / f"{name}.jsonl").read_text()
        paid = [json.loads(line) for line in text.splitlines()]
        assert len(paid) == delivered[name]["delivered"]
        had = sum(world.admitted_by(client).values())
        held = [(each.key, each.label) for each in world.held_by(client)]
        wanted = [(line["key"], line["label"]) for line in paid[:had]]
        assert held == wanted[len(wanted) - len(held) :]
        admitted += had
    assert admitted == sum(line.delivered for line in lines) > 20


def test_a_source_reads_whole_lines_and_leaves_out_what_was_rejected(tmp_path):
    file = tmp_path / "team.jsonl"
    source = LabelledSource(file)
    assert source.read(0, 5).samples == []
    lines = [
        {"key": "a", "round": 1, "text": "x", "label": "cat"},
        {"key": "b", "round": 1, "text": "y", "at": 2, "label": ["dog", "cat"]},
        {"key": "c", "round": 2, "text": "z", "label": 3},
        {"key": "a", "round": 1, "rejected": "blurred"},
    ]
    whole = "".join(json.dumps(line) + "\n" for line in lines)
    file.write_text(whole + '{"key": "d", "ro')
    first = source.read(0, 1)
    assert [(each.key, each.label) for each in first.samples] == [
        ("b", '["dog", "cat"]')
    ]
    assert unpack(first.samples[0].payload) == {"text": "y", "at": 2}
    rest = source.read(first.cursor, 5)
    assert [(each.key, each.label) for each in rest.samples] == [("c", 3)]
    assert rest.cursor == len(whole)
    assert source.read(rest.cursor, 5) == ([], rest.cursor)


def test_a_source_says_what_is_no_labelled_file(tmp_path):
    file = tmp_path / "team.jsonl"
    file.write_text("key,label\n")
    with pytest.raises(DataError, match="byte 0 begins no line of a labelled file"):
        LabelledSource(file).read(0, 1)
    with pytest.raises(SettingError, match="LabelledSource: file = 3"):
        LabelledSource(3)
    link = tmp_path / "link.jsonl"
    with suppress(FileExistsError):
        link.symlink_to(file)
    with pytest.raises(DataError, match="it is a link"):
        LabelledSource(link).read(0, 1)
