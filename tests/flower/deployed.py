"""An app with places at which it says that it was there and waits while a file is in
its way, deployed on this machine.

A process can be killed at the place that is meant, however slow the machine is.
SuperNodes of these tests give a sign of life every four seconds, not every thirty: a
killed one is missed after eight, not after a minute. Flower gives apps half a minute to
start by the same number, so all others keep it: where an app takes longer than that to
start, Flower starts it anew, for ever. SuperNodes and the server look for messages
twice a second, not every three seconds.
"""

import json
import os
import threading
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from worlds import World, Written, accounts_of, closing_of

from headgate.books.database import LEDGER
from headgate.experiment import load
from headgate.flower.app.write import write_app
from headgate.flower.buffer_store import stores_in
from headgate.flower.deploy.deployment import Loopback
from headgate.records.reader import CONFIG
from headgate.records.tables import STATE

PATIENCE = 900
PASSING = '''
import os
import time
from pathlib import Path

POINTS = Path(os.environ["HEADGATE_TEST_POINTS"])


def by(point):
    """Say that this place was reached, and wait while a file of its name exists."""
    (POINTS / f"{point}.reached").write_text(str(os.getpid()))
    while (POINTS / point).exists():
        time.sleep(0.1)
'''
CLIENT = """
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from headgate.flower import headgate_client
from headgate.flower.sources import CallableSource, Sample, pack

from .passing import by

app = ClientApp()


def sample(i):
    return Sample(str(i), pack([float(i)]), 0)


@headgate_client(app, source=CallableSource(sample))
def train(message, context, held):
    by(f"client-{held.order.client}-{held.order.round}")
    metrics = MetricRecord({"num-examples": len(held)})
    arrays = ArrayRecord([held.arrays()[0].mean(axis=0)])
    answer = RecordDict({"arrays": arrays, "metrics": metrics})
    return Message(answer, reply_to=message)
"""
SERVER = """
from contextlib import closing
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, MetricRecord
from flwr.serverapp import ServerApp

from headgate.flower import AdmissionStrategy, Discipline

from .passing import by

app = ServerApp()


@app.main()
def main(grid, context):
    plain, said = grid.send_and_receive, context.run_config

    def send_and_receive(messages, **more):
        orders = [each for each in messages if each.metadata.message_type == "train"]
        for message in orders[:1]:
            by(f"ordered-{message.metadata.group_id}")
        replies = list(plain(messages, **more))
        for message in orders[:1]:
            by(f"heard-{message.metadata.group_id}")
        return replies

    grid.send_and_receive = send_and_receive
    recipe = str(Path(__file__).with_name("recipe.toml"))
    discipline = Discipline(deadline=float(said["deadline"]))
    first = ArrayRecord([np.zeros(1)])
    with closing(AdmissionStrategy(recipe, said["out"], discipline=discipline)) as own:
        own.start(grid, first, evaluate_fn=lambda *_: MetricRecord({"accuracy": 0.5}))
"""
LIVELY = """
import sys
import time

if any(word.endswith(("flower-supernode", "flwr-serverapp")) for word in sys.orig_argv):
    plain = time.sleep
    time.sleep = lambda seconds: plain(0.5 if seconds == 3 else seconds)

if any(word.endswith("flower-supernode") for word in sys.orig_argv):
    import flwr.supercore.heartbeat
    import flwr.supernode.fleet_http_connection

    for module in (flwr.supercore.heartbeat, flwr.supernode.fleet_http_connection):
        assert module.HEARTBEAT_DEFAULT_INTERVAL == 30
        module.HEARTBEAT_DEFAULT_INTERVAL = 4
    # the pause between two signs is the interval without this; with Flower's five
    # seconds there would be none
    flwr.supercore.heartbeat.HEARTBEAT_CALL_TIMEOUT = 1
if any(word.endswith("flower-superlink") for word in sys.orig_argv):
    import flwr.superlink.servicer.fleet.fleet_handlers as handlers

    assert handlers.HEARTBEAT_MIN_INTERVAL == 10
    handlers.HEARTBEAT_MIN_INTERVAL = 4
"""


@dataclass
class Stage:
    """An app with places, and the folder in which they are."""

    nodes: int
    app: Path
    out: Path
    points: Path
    failed: list = field(default_factory=list)
    """why the run ended before its end"""

    @property
    def environment(self):
        return {"HEADGATE_TEST_POINTS": str(self.points), "HEADGATE_KEEP": "true"}

    def hold(self, *points):
        for point in points:
            (self.points / point).touch()

    @contextmanager
    def at(self, point):
        """While the run waits at this place."""
        patiently(
            lambda: (self.points / f"{point}.reached").exists() or self.failed, point
        )
        assert not self.failed, self.failed
        yield
        (self.points / point).unlink()


def patiently(condition, what):
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, f"{what}: not within {PATIENCE} s"
        time.sleep(0.1)


def stage(folder, nodes, rounds):
    app = folder / "staged"
    write_app(
        app,
        "digits",
        [f"run.rounds={rounds}", "prices.low=1", "prices.high=2"],
        "constant",
        nodes,
    )
    for name, text in (
        ("passing", PASSING),
        ("client_app", CLIENT),
        ("server_app", SERVER),
    ):
        (app / "staged" / f"{name}.py").write_text(text)
    points = folder / "points"
    points.mkdir()
    return Stage(nodes, app, app / "runs" / "digits", points)


@contextmanager
def brought_up(folder, staged):
    said, first = [], folder / "first"
    first.mkdir()
    (first / "sitecustomize.py").write_text(
        LIVELY
    )  # what every Python imports before anything else
    more = staged.environment | {
        "PYTHONPATH": os.pathsep.join(
            [str(first), *filter(None, [os.environ.get("PYTHONPATH")])]
        )
    }
    with Loopback(
        staged.app / "deployment", staged.nodes, said.append, more
    ) as deployment:
        deployment.bring_up()
        deployment.said = said
        yield deployment


@contextmanager
def playing(deployment, staged):
    """The run, followed in a thread, which starts again what dies; in the end it must
    have come to its end.
    """

    def follow():
        try:
            # a SuperNode that is back before Flower misses it is waited for until then
            deployment.run(staged.app, staged.out, {"deadline": 150.0})
        except BaseException as error:
            staged.failed.append(error)

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield
    finally:
        for point in staged.points.iterdir():
            if point.suffix != ".reached":
                point.unlink()
        thread.join(PATIENCE)
    assert not thread.is_alive(), deployment.said
    assert not staged.failed, (staged.failed, deployment.said)


class Deployed(World):
    """What is left of a run in a deployment: its folder, and the stores of its
    clients.
    """

    def __init__(self, out, folders):
        self.folder, self.experiment = out, load(out / CONFIG)
        self.paths = dict(each for folder in folders for each in stores_in(folder))
        self.clients = range(self.experiment.system.clients)

    def store(self):
        return closing(Written(self.folder / LEDGER))

    def accounts(self):
        accounts = accounts_of(self.experiment, self.folder / LEDGER)
        return closing_of(accounts)

    def store_of(self, client):
        return self.paths[client]


def audit(out, folders):
    """The run, which has come to its end, and whose accounts are those of a replay of
    what its clients wrote.
    """
    found = Deployed(out, folders)
    ledger = found.audit()
    assert sorted(found.paths) == list(found.clients)
    assert [past.round for past in found.rounds()] == list(
        range(1, found.experiment.rounds + 1)
    )
    assert found.outstanding() == []
    for client in found.clients:
        assert sum(found.admitted_by(client).values()) == ledger.admitted[0, client], (
            "lost, or not charged"
        )
        assert len(found.held_by(client)) == ledger.occupancy[0, client]
    state = json.loads((out / STATE).read_text())
    assert (state["round"], state["state"]) == (found.experiment.rounds, "finished")
    return found
