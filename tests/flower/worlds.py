"""A small federation in one process: clients that count, a server, and an audit that
nothing is lost or paid for twice.
"""

import json
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from decimal import Decimal
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from grids import FakeGrid, Node, ServerDied

from headgate.books.database import LEDGER
from headgate.books.in_file import FileTables
from headgate.books.journal import Journal
from headgate.control import Retention
from headgate.control.types import Contents
from headgate.experiment import build
from headgate.flower.accounts import FlowerAccounts
from headgate.flower.buffer_store import BufferStore
from headgate.flower.client import headgate_client
from headgate.flower.rounds import Discipline
from headgate.flower.sources import CallableSource, Sample, pack
from headgate.flower.strategy import AdmissionStrategy


@dataclass(frozen=True, eq=False)
class Unsure(Retention):
    """A rule that looks: what the model is least sure of stays."""

    scores = ("loss",)

    def rank(self, candidates):
        return (
            candidates.draw() if candidates.scores is None else -candidates.scores.loss
        )


POLICIES = {
    "fifo": {"kind": "headgate"},
    "reservoir": {"kind": "headgate", "rule": "reservoir"},
    "kstep": {"kind": "acdpp", "K": 2, "rate": 4.0},
    "both": {"kind": "constant", "K": 2, "rate": 5.0, "capacity": "buffer"},
}
LISTENING = {"kind": "studies.zoo.listening:Listening"}
WITHIN_BUDGET = ("fifo", "reservoir")
"""policies that never spend more than C·T"""


def an_experiment(policy="fifo", rounds=6, clients=3, budget=9.0, **more):
    recipe = {
        "system": {"buffers": [3, 2, 4], "clients": clients, "budget": budget},
        "prices": {"kind": "uniform", "low": 1.0, "high": 4.0},
        "run": {"rounds": rounds, "seeds": 1, "policies": [policy]},
        "policies": {
            policy: (
                LISTENING
                if policy == "listening"
                else POLICIES.get(policy, {"kind": policy})
            )
        },
        **more,
    }
    return build("small", recipe, Path())


def start():
    return ArrayRecord(
        {"w": Array(np.zeros(2)), "steps": Array(np.zeros((), np.int64))}
    )


def added(message, model, samples):
    return {"w": model["w"] + samples.mean(axis=0), "steps": model["steps"] + 1}


def counting_app(
    store,
    broken=frozenset(),
    limit=None,
    loop=10**9,
    mods=(),
    learn=added,
    supply=lambda client: 10**9,
):
    """Sample i of a client is the array [i, 1]; training adds the mean of what is held.
    `broken` names (round, client)s in which the client breaks off after admission; no
    stream gives more than `limit` samples, nor now more than `supply(client)`, and it
    begins again after `loop`."""
    app = ClientApp()

    def source(context):
        client = context.node_config["partition-id"]

        def sample(i):
            at = i % loop
            return (
                None
                if i >= supply(client) or (limit is not None and i >= limit)
                else Sample(f"{client}/{at}", pack([float(at), 1.0]), i % 3)
            )

        return CallableSource(sample)

    @headgate_client(app, source=source, store=store, mods=mods)
    def train(message, context, held):
        if (held.order.round, held.order.client) in broken:
            raise RuntimeError("broke off")
        (arrays,) = message.content.array_records.values()
        after = learn(
            message,
            {name: array.numpy() for name, array in arrays.items()},
            held.arrays()[0],
        )
        record = ArrayRecord(
            {name: Array(np.asarray(array)) for name, array in after.items()}
        )
        metrics = MetricRecord({"train_loss": 1.0, "num-examples": len(held)})
        return Message(
            RecordDict({"arrays": record, "metrics": metrics}), reply_to=message
        )

    return app


class Written(FlowerAccounts):
    """What is written in the ledger of a run, for whoever knows no policy."""

    def __init__(self, path, writes=True):
        super().__init__(Journal(FileTables(path, writes)), "", {})

    state = property(lambda self: self.newest())

    def orders(self, t=None):
        found = list(self.journal.tables.orders())
        return [order for order in found if t in (None, order.round)]

    def outstanding(self):
        return [order for order in self.orders() if order.under_way]

    def beyond(self):
        return [order for order in self.orders() if order.beyond]

    def clients(self):
        return self.journal.clients()

    def events(self):
        return self.journal.events()

    def lift(self, client):
        return self.journal.lift(client)

    def close(self):
        self.journal.close()


def accounts_of(experiment, path):
    """The accounts, which are replayed, to be closed."""
    accounts = FlowerAccounts.of(experiment, FileTables(path))
    accounts.journal.audit()
    return accounts


@contextmanager
def closing_of(accounts):
    try:
        yield accounts
    finally:
        accounts.journal.close()


class World:
    """The federation of an experiment, in a folder."""

    def __init__(self, folder, experiment, discipline=None, limit=None, prices=None):
        self.folder, self.experiment, self.prices = Path(folder), experiment, prices
        self.discipline = discipline or Discipline(gather=0.0, deadline=5.0)
        self.broken = set()
        self.clients, self.grid = range(experiment.system.clients), FakeGrid({})
        self.use(counting_app(self.folder / "stores", self.broken, limit))

    def use(self, app):
        self.grid.nodes = {100 + m: Node(app, m) for m in self.clients}

    def play(self, until=None, **more):
        """Rounds up to `until` by a new server process, as it were; False where it died
        on the way.
        """
        with closing(self.strategy()) as strategy:
            try:
                strategy.start(self.grid, start(), num_rounds=until, **more)
            except ServerDied:
                return False
            return True

    def strategy(self):
        return AdmissionStrategy(
            self.experiment,
            self.folder / "run",
            discipline=self.discipline,
            prices=self.prices,
        )

    def store(self):
        return closing(Written(self.folder / "run" / LEDGER))

    def accounts(self):
        """The accounts of a new server process."""
        accounts = accounts_of(self.experiment, self.folder / "run" / LEDGER)
        return closing_of(accounts)

    def store_of(self, client):
        return self.folder / "stores" / f"client-{client:05d}.sqlite"

    def buffer(self, client):
        return closing(BufferStore(self.store_of(client), client))

    def events(self, *kinds):
        with self.store() as store:
            return [
                event for event in store.events() if event.kind in kinds or not kinds
            ]

    def name(self):
        """The experiment's, in the stores."""
        with self.store() as store:
            return store.name

    def orders(self, t=None):
        with self.store() as store:
            return store.orders(t)

    def outstanding(self):
        with self.store() as store:
            return store.outstanding()

    def rounds(self):
        with self.store() as store:
            return store.rounds()

    def offered(self):
        """The prices of each round: one for all, or one for each client."""
        with self.store() as store:
            begun = store.journal.tables.of_kinds("begun")
            return [json.loads(entry.body)["price"] for entry in begun]

    def row(self, client):
        """What the server knows of a client."""
        with self.store() as store:
            return store.clients()[client]

    def held_by(self, client):
        with self.buffer(client) as buffer:
            return buffer.held(self.name())

    def admitted_by(self, client):
        """Round → samples, by the client's own file."""
        with self.buffer(client) as buffer:
            return {one.round: one.admitted for one in buffer.admissions(self.name())}

    def audit(
        self, behind=frozenset(), forgetful=frozenset(), gone=None, within_budget=True
    ):
        """Everything adds up. Returns the replayed ledger.

        `behind` are clients that have hidden what they did, `forgetful` ones have lost
        their file, and `gone` is what such files said: client → round → samples.
        """
        with self.accounts() as accounts, self.store() as store:
            ledger, name = accounts.ledger, store.name
            limit = accounts.course.controller.buffers.limit
            owing, rows, settled = 0.0, store.clients(), store.state.open is None
            for m in self.clients:
                orders = {row.round: row for row in store.orders() if row.client == m}
                with self.buffer(m) as buffer:
                    state, positions = buffer.state(name), buffer.positions(name)
                    own = Counter(
                        {one.round: one.admitted for one in buffer.admissions(name)}
                    )
                assert own.total() == state.cursor, (
                    "a sample was skipped or taken twice"
                )
                assert own.total() + state.lost == state.position
                assert limit is None or len(positions) <= limit[m], (
                    "more is held than there is room for"
                )
                done, exact = (
                    own + Counter((gone or {}).get(m)),
                    m not in behind and m not in forgetful,
                )
                for t, admitted in done.items():
                    asked = (
                        orders[t].asked if t in orders else 0
                    )  # a store that is lost amid a round may buy for it again
                    assert admitted <= asked or m in forgetful, (
                        "admitted more than was ordered"
                    )
                    if t in orders and orders[t].under_way:
                        owing += float(orders[t].price) * admitted
                known = 0
                for t, row in orders.items():
                    if row.under_way:
                        continue
                    told = row.delivered + row.beyond
                    known += told
                    assert told <= done[t], (
                        f"client {m}, round {t}: charged for what was not admitted"
                    )
                    assert told == done[t] or not exact, (
                        f"client {m}, round {t}: admitted, told, and not charged"
                    )
                delivered = sum(row.delivered for row in orders.values())
                assert delivered == ledger.admitted[0, m]
                beyond = sum(row.beyond for row in orders.values())
                if (
                    settled
                    and exact
                    and not state.erased
                    and m in rows
                    and rows[m].heard == store.t
                ):
                    assert ledger.admitted[0, m] + beyond == state.position
                    assert beyond or positions == self.held(ledger, m)
            charged = sum(row.paid(Decimal(0)) for row in store.orders())
            assert charged == store.state.spent
            assert np.isclose(float(charged), ledger.spent[0], rtol=1e-12, atol=0)
            if within_budget and next(iter(self.experiment.policies)) in WITHIN_BUDGET:
                limit = accounts.system.money(accounts.t)
                assert ledger.spent[0] + owing <= limit * (1 + 1e-12), (
                    "more was spent than there is"
                )
            return ledger

    @staticmethod
    def held(ledger, m):
        """The places of the samples that a client holds by the server's ledger."""
        if ledger.places is None:
            return list(range(ledger.dropped[0, m], ledger.admitted[0, m]))
        return sorted(ledger.places[0, m][ledger.places[0, m] >= 0].tolist())


def same_ledgers(one, other):
    """Bit for bit."""
    for field in fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        a, b = (
            each._asdict() if isinstance(each, Contents) else each for each in (a, b)
        )
        if isinstance(a, dict):
            assert a.keys() == b.keys()
            assert all(np.array_equal(a[name], b[name]) for name in a), field.name
        else:
            assert np.array_equal(a, b), field.name


def same_runs(one, other):
    """The ledgers, the rounds with their models, and the tables of two worlds, bit for
    bit.
    """
    same_ledgers(one.audit(), other.audit())
    assert [(past.metrics, past.sha256) for past in one.rounds()] == [
        (past.metrics, past.sha256) for past in other.rounds()
    ]
    for name in ("metrics.parquet", "clients.parquet"):
        assert (one.folder / "run" / name).read_bytes() == (
            other.folder / "run" / name
        ).read_bytes(), name
