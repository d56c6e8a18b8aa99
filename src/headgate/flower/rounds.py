"""One round over a grid: messages with orders go out, replies come in and are checked."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict

from headgate.control.checks import positive, zero_or_more
from headgate.errors import DataError, SettingError
from headgate.flower.accounts import Accounts, Answer, OpenRound
from headgate.flower.ledger_store import Event
from headgate.flower.messages import RECORD, Order, Told, from_wire, to_wire
from headgate.flower.validation import NamedArrays, unfit


@dataclass(frozen=True)
class Discipline:
    """What a round waits for and what it accepts."""

    deadline: float = 600.0
    """seconds from the orders to the last answer that counts"""
    quorum: int = 1
    """valid answers that a new model needs; what was admitted counts in any case"""
    gather: float = 300.0
    """seconds a round waits at its beginning for that many clients to be there"""
    norm_cap: float | None = None
    """the longest update that is accepted"""
    offences: int = 3
    """invalid answers after which a client gets no more orders"""

    def __post_init__(self) -> None:
        positive("discipline.deadline", self.deadline)
        zero_or_more("discipline.gather", self.gather)
        if self.norm_cap is not None:
            positive("discipline.norm_cap", self.norm_cap)
        for name in ("quorum", "offences"):
            if getattr(self, name) < 1:
                raise SettingError(f"discipline.{name} = {getattr(self, name)}: must be at least 1")


@dataclass(frozen=True, eq=False)
class Update:
    """A client's model that passed all checks, to be averaged."""

    client: int
    n: int
    model: NamedArrays
    metrics: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Heard:
    """The replies of a round, checked: the answers and the updates, both sorted by client."""

    answers: list[Answer]
    updates: list[Update]
    events: list[Event]

    @property
    def valid(self) -> int:
        return sum(answer.reason is None for answer in self.answers)


def order_messages(orders: Mapping[int, Order], arrays: ArrayRecord, config: ConfigRecord, ttl: float) -> list[Message]:
    """One message for each node: the model, which is the same for all, and the node's own order."""
    messages = []
    for node, order in orders.items():
        own = ConfigRecord({**config, "server-round": order.round})
        content = RecordDict({"arrays": arrays, "config": own, RECORD: ConfigRecord(to_wire(order))})
        messages.append(Message(content, node, MessageType.TRAIN, ttl=ttl, group_id=str(order.round)))
    return messages


def hear(
    accounts: Accounts,
    now: OpenRound,
    sent: Mapping[int, Order],
    replies: Iterable[Message],
    model: NamedArrays,
    discipline: Discipline,
) -> Heard:
    """Check every reply to the orders in `sent` (node → order). The result is sorted by client, in whatever order they came."""
    answers: dict[int, Answer] = {}
    updates: dict[int, Update] = {}
    events: list[Event] = []
    for reply in replies:
        order = sent.get(reply.metadata.src_node_id)
        if order is None:
            events.append(Event(now.t, -1, "unknown", f"node {reply.metadata.src_node_id} was not asked"))
            continue
        if order.client in answers:
            events.append(Event(now.t, order.client, "again", "answered twice; the first answer counts"))
            continue
        if reply.has_error():
            reason = f"error {reply.error.code}: {(reply.error.reason or '').strip() or 'no reason given'}"
            answers[order.client] = Answer(order.client, None, reason.splitlines()[0][:200])
            continue
        answers[order.client], update = _judge(accounts, now, order, reply.content, model, discipline)
        if update is not None:
            updates[order.client] = update
    for order in sent.values():
        if order.client not in answers:
            answers[order.client] = Answer(order.client, None, f"no answer within {discipline.deadline:g} s")
    return Heard([answers[client] for client in sorted(answers)], [updates[client] for client in sorted(updates)], events)


def _judge(
    accounts: Accounts, now: OpenRound, order: Order, content: RecordDict, model: NamedArrays, discipline: Discipline
) -> tuple[Answer, Update | None]:
    record = content.get(RECORD)
    if not isinstance(record, ConfigRecord):
        return Answer(order.client, None, f"its answer has no record {RECORD}", offence=True), None
    try:
        told = from_wire(Told, dict(record))
    except DataError as error:
        return Answer(order.client, None, str(error), offence=True), None
    answer = accounts.judge(now, order, told)
    if answer.reason is not None or not told.trained or told.n == 0:
        return answer, None
    reason, update = _update(order, told, content, model, discipline)
    if reason is not None:
        return Answer(order.client, told, reason, offence=True), None
    return answer, update


def _update(
    order: Order, told: Told, content: RecordDict, model: NamedArrays, discipline: Discipline
) -> tuple[str | None, Update | None]:
    records = list(content.array_records.values())
    if len(records) != 1:
        return f"its answer has {len(records)} sets of arrays, expected 1", None
    try:
        arrays = {name: array.numpy() for name, array in records[0].items()}
    except Exception as error:  # bytes that are no array fail in many ways
        return f"its arrays cannot be read ({str(error).splitlines()[0] if str(error) else type(error).__name__})", None
    reason = unfit(arrays, model, discipline.norm_cap)
    if reason is not None:
        return reason, None
    metrics: dict[str, Any] = {}
    for record in content.metric_records.values():
        metrics |= dict(record)
    return None, Update(order.client, told.n, arrays, metrics)


def mean_metrics(updates: Iterable[Update]) -> MetricRecord:
    """The numbers that all clients gave, each the mean over samples."""
    updates = list(updates)
    total = sum(update.n for update in updates)
    if not total:
        return MetricRecord()
    shared = set.intersection(*({name for name, value in each.metrics.items() if _is_number(value)} for each in updates))
    return MetricRecord({name: sum(each.n * float(each.metrics[name]) for each in updates) / total for name in sorted(shared)})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
