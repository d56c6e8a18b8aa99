"""The server's accounts of a run on Flower, on the journal on which `headgate.Books`
stands, too: orders before they are sent, answers of clients, and settlements.

This file needs no Flower.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from headgate.books.beginning import Opening
from headgate.books.course import Course, losses_table, mask_of, supply_table
from headgate.books.database import Tables
from headgate.books.journal import Journal
from headgate.books.moments import now
from headgate.books.nouns import Delivery, Event, Node, OrderState
from headgate.books.receipts import deliveries
from headgate.books.state import Change, Conduct, State, Told
from headgate.control.supply import Supply
from headgate.control.types import Floats, Ints, Ledger, Losses, Orders, System
from headgate.errors import DataError, LedgerError
from headgate.escaping import one_line
from headgate.experiment import Experiment
from headgate.flower.messages import NO_LIMIT, Ahead, Order, Receipt
from headgate.flower.playable import check_playable
from headgate.limits import LINE
from headgate.registry import SELECTION, table_of

if TYPE_CHECKING:
    from headgate.control.prices import PriceProcess

INITIAL = "initial model"
"""key of the hint that names the model before round 1"""


@dataclass(
    frozen=True,
    eq=False,
)
class OpenRound:
    """A round whose orders are on disk, and which is not settled."""

    orders: Orders
    before: Ledger
    """the ledger before the round"""
    kept_from: Ints
    limit: Ints | None
    under_way: Mapping[int, Mapping[int, OrderState]]
    """orders without an answer, client → round → order, with those of this round"""
    beyond: Mapping[int, int]
    """samples that clients have admitted and are not paid for"""
    why: str
    """why it bought what it bought"""

    @property
    def t(self) -> int:
        return self.orders.t

    def ordered(self, client: int) -> int:
        own = self.under_way.get(client, {}).get(self.t)
        return 0 if own is None else own.asked

    def known(self, client: int) -> int:
        """Return how many samples a client has admitted, as far as the server knows."""
        return int(self.before.admitted[0, client]) + self.beyond.get(client, 0)

    def first(self, client: int) -> int:
        """Return the number of the first admission that is not too old to be held."""
        oldest = max(self.before.dropped[0, client], self.kept_from[0, client])
        return int(oldest) + self.beyond.get(client, 0)

    def expected(self, client: int, admitted: int) -> int:
        """Return how many samples a client holds after it has admitted `admitted`
        samples more than the server knew of.
        """
        last, first = self.known(client) + admitted, self.first(client)
        if self.limit is not None:
            first = max(first, last - int(self.limit[client]))
        return last - first


@dataclass(
    frozen=True,
    slots=True,
)
class Answer:
    """The judgement of a client's answer, which is either accepted as a whole or
    rejected as a whole for a reason.
    """

    client: int
    receipt: Receipt | None = None
    """the receipt in the answer, if it agrees with the orders; None: it does not, or
    there is no receipt
    """
    deliveries: tuple[Delivery, ...] = ()
    reason: str | None = None
    offence: bool = False
    """whether the client is at fault for the rejection; for a lost message it is not"""
    ahead: int = 0
    """the last round of which the client has done an order, if it is this round or a
    later one; otherwise 0
    """


@dataclass(
    frozen=True,
    eq=False,
)
class Settlement:
    """The result of a round and its answers, ready to be written."""

    now: OpenRound
    body: dict[str, Any]
    """what is written"""
    change: Change
    course: Course
    losses: Losses | None

    @property
    def ledger(self) -> Ledger:
        """The ledger after the round."""
        return self.course.ledger

    @property
    def told(self) -> Mapping[int, Told]:
        """What all clients have told of themselves by now."""
        return self.change.state.told

    @property
    def paid(self) -> Floats:
        """What each client is paid in the round, (1, M); late samples count in it."""
        orders, own = self.now.orders, np.zeros_like(self.now.orders.admitted)
        for t, client, samples, _ in self.change.arrived:
            own[0, client] += samples * (t == orders.t)
        paid = orders.paid(own)
        for t, client, _, cost in self.change.arrived:
            paid[0, client] += float(cost) * (t != orders.t)
        return paid


class SettledRound(NamedTuple):
    """What is recorded of a settled round beside its accounts."""

    round: int
    metrics: dict[str, Any]
    clients: dict[str, Any] | None
    """row of the round in the table of clients"""
    parameters: str
    sha256: str
    spent: float


class FlowerAccounts:
    """The accounts of one policy and one seed. `fixed` holds the fields that are the
    same in all orders.
    """

    def __init__(
        self,
        journal: Journal,
        name: str,
        fixed: Mapping[str, Any],
    ) -> None:
        self.journal, self.policy = journal, name
        self.fixed = {"seed": journal.seed, **fixed}
        self._refused = sum(each.kind == "rejected" for each in journal.events())

    @classmethod
    def of(cls, experiment: Experiment, tables: Tables) -> Self:
        """Return the accounts of an experiment, which must have one policy and one
        seed.
        """
        from headgate.control.policies.references import held

        rules = check_playable(experiment)
        ((name, policy),) = experiment.policies.items()
        fixed = {
            **rules._asdict(),
            "losses": policy.hears or bool(experiment.training.losses),
            "late": experiment.data.late,
        }

        def describe() -> dict[str, Any]:
            system, seed = experiment.system, int(experiment.seeds[0])
            found = Opening(system, policy, seed).described()
            return found if held(policy) is policy else {**found, "keeps": False}

        journal = Journal.create_or_open(
            tables,
            experiment.system,
            policy,
            int(experiment.seeds[0]),
            describe,
            experiment.data.price_of_looks(policy.selection),
        )
        return cls(journal, name, fixed)

    # what there is

    @property
    def name(self) -> str:
        """The random name of the run, with which the id of every admission begins."""
        return self.journal.tables.account

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.journal.seed

    @property
    def course(self) -> Course:
        """The policy's side after the last entry."""
        assert self.journal.course is not None
        return self.journal.course

    @property
    def looks(self) -> float:
        """The part of the price that pays for looking at samples."""
        return self.journal.looks

    @property
    def ledger(self) -> Ledger:
        """The ledger after the last settled round."""
        return self.course.ledger

    @property
    def system(self) -> System:
        """The system with all amendments that hold."""
        return self.journal.state.system

    @property
    def t(self) -> int:
        """The last settled round."""
        return self.journal.state.settled

    @property
    def looks_at_samples(self) -> bool:
        """Whether clients need the model to decide which samples they drop or buy."""
        policy = self.course.controller.policy
        if policy.retention(self.system).scores:
            return True
        chosen = policy.selection if self.fixed["choice"] else None
        return chosen is not None and chosen.looks

    def newest(self) -> State:
        """Return the accounts with what other processes have written."""
        with self.journal.newest() as state:
            return state

    def named(self, client: int) -> str:
        """Return a client's name, or its number, as lines and errors name it."""
        return str(self.system.named(client))

    def refusals(self) -> dict[str, int]:
        """Return how many answers were rejected, and how many clients are in
        quarantine.
        """
        quarantined = len(self.journal.state.quarantined)
        return {"refused": self._refused, "quarantined": quarantined}

    def rest(
        self,
        prices: "PriceProcess",
        rounds: int | None = None,
    ) -> dict[str, tuple[float, float, float]]:
        """Simulate the remaining rounds, as `Books.rest`."""
        return self.course.forecast(self.newest(), prices, rounds)

    # begin, judge and settle a round

    def begin(self, price: Floats, present: Collection[int] | None) -> OpenRound:
        """Begin the next round and write its orders to the clients in `present`; after
        a crash, return the written round.

        None: all clients that there are when the round is written, also those that
        another process made join meanwhile.
        """

        def inputs(state: State) -> dict[str, Any]:
            there = state.there(present)
            supply = Supply(present=mask_of(there, state.system.clients))
            return {
                "price": np.ravel(price).tolist(),
                "supply": supply_table(supply),
                "clients": there,
                "expires": None,
                "delay": 0,  # an answer tells of samples that are there already
            }

        state = self.newest()
        if state.open is None:
            self.journal.decide(state.settled + 1, inputs, now())
        return self._open_round()

    def _open_round(self) -> OpenRound:
        state, course, decided = self.journal.state, self.course, self.course.decided
        assert decided is not None
        under_way: dict[int, dict[int, OrderState]] = {}
        for (t, client), order in sorted(state.orders.items()):
            under_way.setdefault(client, {})[t] = order
        buffers = course.controller.buffers
        return OpenRound(
            decided.orders,
            course.ledger,
            buffers.kept_from(course.ledger, decided.orders.t),
            buffers.limit,
            under_way,
            state.beyond,
            decided.why,
        )

    def order(
        self,
        now: OpenRound,
        client: int,
        train: bool = True,
    ) -> Order:
        """Return the order to one client; a client without a written order admits
        nothing and trains on what it holds.
        """
        known, unheard = now.known(client), now.under_way.get(client, {})
        order = Order(
            experiment=self.name,
            round=now.t,
            client=client,
            known=known,
            last=known + now.ordered(client),
            kept_from=int(now.kept_from[0, client]) + now.beyond.get(client, 0),
            limit=NO_LIMIT if now.limit is None else int(now.limit[client]),
            acknowledged=min(unheard, default=now.t) - 1,
            train=train,
            **self.fixed,
        )
        selection = self.course.controller.policy.selection
        if not order.choice or selection is None or not selection.listens:
            return order
        # a selection that uses losses states its rule for the present round
        looks = bool(selection.looking(now.before)[0, client])
        rule = table_of(SELECTION, selection.now(looks))
        choice = json.dumps({**json.loads(order.choice), "rule": rule})
        return replace(order, choice=choice)

    def judge(
        self,
        now: OpenRound,
        order: Order,
        receipt: Receipt | Ahead,
    ) -> Answer:
        """Return the judgement of a receipt; raise DataError or LedgerError if it does
        not agree with the orders.
        """
        # an answer to another order says nothing about this one
        for name in ("experiment", "round", "client"):
            found, wanted = getattr(receipt, name), getattr(order, name)
            if found != wanted:
                raise DataError(
                    f"answers as {name} {found}, was asked as {name} {wanted}"
                )
        if isinstance(receipt, Ahead):
            reason = (
                "did not do this order: it has done orders up to round"
                f" {receipt.newest}"
            )
            ahead = max(receipt.newest, now.t)
            return Answer(order.client, reason=reason, ahead=ahead)
        said = dict(zip(receipt.rounds, receipt.admitted, strict=True))
        orders = dict(now.under_way.get(order.client, {}))
        for t in said.keys() - orders.keys():
            closed = self.journal.tables.order(t, order.client)
            if closed is not None:
                orders[t] = closed
        found = deliveries(said, orders)
        admitted = sum(each.delivered for each in found)
        if receipt.position != order.known + admitted:
            raise DataError(
                f"has ever admitted {receipt.position} samples, by its answers"
                f" {order.known + admitted}"
            )
        check_held(receipt, order, now.expected(order.client, admitted))
        return Answer(order.client, receipt, tuple(found))

    def check_up_to_date(self, answers: Iterable[Answer]) -> None:
        """Stop the run if the ledger is an old copy, under which correct reports of
        clients would be rejected.

        This needs more than half of the clients that answer to report later rounds, so
        one false report cannot stop a run.
        """
        answered = [
            answer
            for answer in answers
            if answer.receipt or answer.offence or answer.ahead
        ]
        ahead = [answer.ahead for answer in answered if answer.ahead]
        if 2 * len(ahead) > len(answered):
            why = (
                f"{len(ahead)} of {len(answered)} clients that answer have done orders"
                f" up to round {max(ahead)}"
            )
            raise LedgerError(
                f"{self.journal.path}: is an old copy: {why}, it knows {self.t}; put"
                " the newest one in its place"
            )

    def settled(
        self,
        now: OpenRound,
        answers: Iterable[Answer],
        offences: int,
        losses: Losses | None = None,
    ) -> Settlement:
        """Compute the settlement of a round from its answers and the `losses` that
        clients report. Write nothing.
        """
        state, listed = self.journal.state, list(answers)
        refused: list[list[Any]] = [
            [each.client, one_line(each.reason or "", LINE)]
            for each in listed
            if each.offence
        ]
        rows: list[list[Any]] = [
            [each.client, own.round, own.delivered, [], own.cancelled, [], 0]
            for each in listed
            for own in each.deliveries
            if own.delivered or own.cancelled
        ]
        caught = [
            client
            for client, _ in refused
            if state.standing.get(client, Conduct()).offences + 1 >= offences
        ]
        body: dict[str, Any] = {
            "reports": sorted(rows),
            "round": now.t,
            "refused": sorted(refused),
            "all": False,
            "caught": sorted(caught),
            "known": self.journal.known(state, rows),
            "told": _told_by(listed),
        }
        if losses is not None:
            body["losses"] = losses_table(losses)
        change, course = self.journal.trial("settled", body)
        assert course is not None
        body["events"] = _events(state, now.t, listed, change)
        return Settlement(now, body, change, course, losses)

    def commit(
        self,
        done: Settlement,
        parameters: tuple[str, str],
        metrics: Mapping[str, Any],
        by_client: Mapping[str, Any] | None,
        events: Iterable[Event] = (),
    ) -> None:
        """Write a settled round with its rows, its model and further events."""
        notes = {
            "parameters": parameters[0],
            "sha256": parameters[1],
            "spent": float(done.ledger.spent[0]),
            "metrics": metrics,
            "clients": by_client,
        }
        said = [*done.body["events"], *_short(events)]
        asked = ("reports", "round", "refused", "all")

        def make(state: State) -> dict[str, Any]:
            rest = {name: done.body[name] for name in done.body if name not in asked}
            known = self.journal.known(state, done.body["reports"])
            return {**rest, "known": known, "events": said, "notes": notes}

        own = {name: done.body[name] for name in asked}
        self.journal.write("settled", own, make, f"settled {done.now.t}")
        self._refused += len(done.body["refused"])

    # what is recorded beside the accounts

    def nodes(self) -> list[Node]:
        """Return the nodes whose clients are known."""
        return self.journal.nodes()

    def remember_nodes(self, nodes: Iterable[Node]) -> None:
        """Write which clients these nodes are."""
        self.journal.tables.put_nodes(nodes)

    def note(self, events: Iterable[Event]) -> None:
        """Write events that belong to no settlement."""
        self.journal.write("noted", {"events": _short(events)})

    def evaluated(
        self,
        t: int,
        judged: Mapping[str, float],
        said: Mapping[str, float],
    ) -> None:
        """Write what clients measured of the model after round t, and what of it
        belongs into its row of the metrics.
        """
        self.journal.write("noted", {"round": t, "judged": judged, "said": said})

    def rounds(self, after: int = 0) -> list[SettledRound]:
        """Return the settled rounds after a round."""
        found, first = dict[int, SettledRound](), 0
        before = self.journal.tables.request(f"settled {after}")
        if before is not None:
            first = before.number
        for entry in self.journal.tables.entries(first):
            if entry.kind not in ("settled", "noted"):
                continue
            body = json.loads(entry.body)
            if "notes" in body:
                found[body["round"]] = SettledRound(body["round"], **body["notes"])
            if "judged" in body and body["round"] in found:
                found[body["round"]].metrics.update(body["judged"])
        return list(found.values())

    def evaluations(self) -> dict[int, dict[str, float]]:
        """Return what clients measured of the models, by round."""
        bodies = (
            json.loads(each.body) for each in self.journal.tables.of_kinds("noted")
        )
        return {body["round"]: body["said"] for body in bodies if "said" in body}

    def initial(self) -> tuple[str, str]:
        """Return the file of the parameters before round 1 and its SHA-256; both are
        empty if there is none yet.
        """
        upgraded = self.journal.state.opening.get("initial", "")
        known = str(self.journal.tables.meta(INITIAL) or upgraded)
        file, _, sha256 = known.partition(" ")
        return file, sha256

    def remember_initial(self, parameters: str, sha256: str) -> None:
        """Write the name and the SHA-256 of the file that holds the parameters before
        round 1.
        """
        self.journal.tables.remember(INITIAL, f"{parameters} {sha256}")


def _told_by(answers: Iterable[Answer]) -> list[list[int]]:
    """Return what accepted answers tell of their clients, without the round."""
    names = Told._fields[1:]
    return [
        [each.client, *(getattr(each.receipt, name) for name in names)]
        for each in answers
        if each.receipt is not None and each.reason is None
    ]


def _events(
    state: State,
    t: int,
    answers: Iterable[Answer],
    change: Change,
) -> list[Event]:
    """Return what happened beside the accounts, for the record."""
    found = list[Event]()
    for answer in answers:
        before = state.told.get(answer.client, Told())
        found += _reported(t, before, answer)
    for round_, client, samples, cost in change.arrived:
        if round_ < t:
            what = f"{samples} samples of round {round_}, {float(cost):g} in all"
            found.append(Event(t, client, "late", what))
    for (round_, client), order in change.orders.items():
        earlier = state.orders.get((round_, client))
        known = order.beyond if earlier is None else order.beyond - earlier.beyond
        if known > 0:
            what = f"{known} samples of round {round_}, which had been given up"
            found.append(Event(t, client, "beyond", f"{what}: not charged"))
    return _short(found)


def _reported(
    t: int,
    before: Told,
    answer: Answer,
) -> Iterable[Event]:
    """Yield the events that an answer reports; `before` is what the client has told
    before it.
    """
    client, receipt = answer.client, answer.receipt
    if answer.reason is not None:
        if not answer.offence:
            yield Event(t, client, "failed", answer.reason)
        return
    if receipt is None:
        return
    lost = receipt.lost - before.lost
    if lost > 0:
        yield Event(t, client, "lost", f"{lost} samples of a store that is gone")
    gone = max(receipt.withdrawn - before.withdrawn, receipt.erased - before.erased)
    if gone > 0:
        yield Event(t, client, "withdrawn", f"{gone} samples that it held")
    if receipt.note:
        yield Event(t, client, "short", receipt.note)


def _short(events: Iterable[Event]) -> list[Event]:
    return [each._replace(reason=one_line(each.reason, LINE)) for each in events]


def check_held(
    receipt: Receipt,
    order: Order,
    expected: int,
) -> None:
    """Refuse a receipt unless it holds `expected` samples less those withdrawn; a
    client that lost a store may hold fewer.
    """
    expected -= receipt.withdrawn
    too_few = receipt.occupancy < expected and receipt.lost == 0
    if too_few or receipt.occupancy > expected:
        raise DataError(
            f"holds {receipt.occupancy} samples, {expected} were to be held"
        )
    if receipt.trained and not order.train:
        raise DataError("trained without being asked to")
