"""The replies of a round: how they are checked, and which of them are averaged."""

import io
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from numpy.lib import format as npy
from numpy.typing import NDArray

from headgate.books.nouns import Event
from headgate.books.updates import HUGE, NamedArrays, check_update
from headgate.control.checks import amount, whole_number
from headgate.control.types import Floats, Losses
from headgate.errors import DataError, HeadgateError
from headgate.escaping import one_line
from headgate.flower.accounts import Answer, FlowerAccounts, OpenRound
from headgate.flower.messages import (
    HELD_LOSS,
    NEW_LOSS,
    NEW_RIGHT,
    RECORD,
    Ahead,
    Order,
    Receipt,
    from_wire,
)
from headgate.limits import LARGEST, LINE, TINY

HEADER = 4_096
"""largest header of an array, in bytes"""
LONGEST = 2**28
"""largest array whose shape may differ from the model's, in bytes"""
READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
METRICS = 100
"""largest number of metrics in a reply"""


@dataclass(frozen=True)
class Discipline:
    """How long a round waits for clients, and which replies it accepts.

    Parameters
    ----------
    deadline : float, optional
        Seconds after the orders within which a reply counts.
    quorum : int, optional
        Number of valid replies that a new model needs. Admitted samples count in any
        case.
    gather : float, optional
        Seconds that a round waits at its beginning until `quorum` clients are
        connected.
    norm_cap : float, optional
        Length of the longest update that is accepted; a longer one is an offence; left
        out: any length.
    norm_multiple : float, optional
        Multiple of the median length beyond which an update is shortened to the median
        length; 0: never.
    offences : int, optional
        Number of invalid replies after which a client gets no more orders.

    Examples
    --------
    >>> Discipline(deadline=120.0, quorum=6).offences
    3
    """

    deadline: float = 600.0
    quorum: int = 1
    gather: float = 300.0
    norm_cap: float | None = None
    norm_multiple: float = 10.0
    offences: int = 3

    def __post_init__(self) -> None:
        """Turn all fields into plain numbers, as the state file holds them, and refuse
        what is no number.
        """
        plain: dict[str, float | None] = {
            "deadline": amount("discipline.deadline", self.deadline, TINY),
            "quorum": whole_number("discipline.quorum", self.quorum, 1),
            "gather": amount("discipline.gather", self.gather),
            "norm_multiple": amount("discipline.norm_multiple", self.norm_multiple),
            "offences": whole_number("discipline.offences", self.offences, 1),
        }
        if self.norm_cap is not None:
            plain["norm_cap"] = amount("discipline.norm_cap", self.norm_cap, TINY)
        for name, value in plain.items():
            object.__setattr__(self, name, value)


@dataclass(
    frozen=True,
    eq=False,
)
class Update:
    """A client's model that has passed all checks and will be averaged."""

    client: int
    n: int
    model: NamedArrays
    metrics: Mapping[str, float]
    reply: Message | None = None
    """the reply that the model was part of"""


@dataclass(
    frozen=True,
    eq=False,
)
class CheckedReplies:
    """The checked replies of a round: answers and updates, both sorted by client."""

    answers: list[Answer]
    updates: list[Update]
    events: list[Event]

    @property
    def valid(self) -> int:
        return sum(answer.reason is None for answer in self.answers)

    def losses(self, clients: int) -> Losses:
        """Return the losses of samples that clients reported, NaN for clients that
        reported none.
        """
        reported = Losses(*(np.full((1, clients), np.nan) for _ in Losses._fields))
        for update in self.updates:
            for name, each in zip(
                (NEW_LOSS, HELD_LOSS, NEW_RIGHT), reported.arrays, strict=True
            ):
                each[0, update.client] = update.metrics.get(name, np.nan)
        return reported


def check_replies(
    accounts: FlowerAccounts,
    now: OpenRound,
    sent: Mapping[int, Order],
    replies: Iterable[Message],
    model: NamedArrays,
    discipline: Discipline,
    fixed_shapes: bool = True,
) -> CheckedReplies:
    """Check the replies to the orders in `sent`, which has the order of each node. The
    result is sorted by client.

    Without `fixed_shapes`, a client's arrays may have other shapes than the model's,
    like those of trees stored as bytes.
    """
    silent = f"no answer within {discipline.deadline:g} s"
    answers = {
        order.client: Answer(order.client, reason=silent) for order in sent.values()
    }
    replied, updates, events = set[int](), dict[int, Update](), list[Event]()
    for reply in replies:
        node = reply.metadata.src_node_id
        order = sent.get(node)
        if order is None:
            events.append(Event(now.t, -1, "unknown", f"node {node} was not asked"))
            continue
        if order.client in replied:
            why = "answered twice; the first answer counts"
            events.append(Event(now.t, order.client, "again", why))
            continue
        replied.add(order.client)
        answers[order.client], update = _judge(
            accounts, now, order, reply, model, discipline, fixed_shapes
        )
        if update is not None:
            updates[order.client] = update
    return CheckedReplies(
        [answers[client] for client in sorted(answers)],
        [updates[client] for client in sorted(updates)],
        events,
    )


def _judge(
    accounts: FlowerAccounts,
    now: OpenRound,
    order: Order,
    reply: Message,
    model: NamedArrays,
    discipline: Discipline,
    fixed_shapes: bool,
) -> tuple[Answer, Update | None]:
    """Read and check one reply. Any failure in this is an offence of the client, and
    the run continues.
    """
    answer = Answer(order.client)
    if reply.has_error():
        why = (reply.error.reason or "").strip() or "no reason given"
        reason = one_line(f"error {reply.error.code}: {why}")
        return replace(answer, reason=reason), None
    try:
        receipt = _receipt(reply.content)
        answer = accounts.judge(now, order, receipt)
        if isinstance(receipt, Ahead) or not receipt.trained or receipt.n == 0:
            return answer, None
        records = list(reply.content.array_records.values())
        if len(records) != 1:
            raise DataError(f"its answer has {len(records)} sets of arrays, expected 1")
        arrays = read_arrays(records[0], model, fixed_shapes)
        if fixed_shapes:
            check_update(arrays, model, discipline.norm_cap)
        metrics = numbers(reply.content.metric_records.values())
        if order.losses:
            _check_losses(metrics)
        return answer, Update(order.client, receipt.n, arrays, metrics, reply)
    except HeadgateError as error:
        reason = str(error)
    except Exception as error:  # untrusted bytes can fail in many ways
        reason = f"its answer cannot be read ({type(error).__name__}: {error})"
    return replace(
        answer,
        reason=one_line(reason),
        offence=True,
    ), None


def _receipt(content: RecordDict) -> Receipt | Ahead:
    record = content.get(RECORD)
    if not isinstance(record, ConfigRecord):
        raise DataError(f"its answer has no record {RECORD}")
    if "newest" in record:
        return from_wire(Ahead, dict(record))
    return from_wire(Receipt, dict(record))


def _check_losses(metrics: Mapping[str, float]) -> None:
    """Refuse losses below 0, and a share that is not between 0 and 1."""
    for name, most in ((NEW_LOSS, np.inf), (HELD_LOSS, np.inf), (NEW_RIGHT, 1.0)):
        value = metrics.get(name, 0.0)
        if not 0 <= value <= most:
            limit = ", and at most 1" if name == NEW_RIGHT else ""
            raise DataError(f"{name} = {value:g}: must be 0 or more{limit}")


def for_any_strategy(
    t: int,
    updates: Iterable[Update],
    weight: str,
) -> tuple[list[Message], list[Event]]:
    """Return the replies in a form that all strategies of Flower accept, and events for
    the ledger.

    Strategies fail if the records of two replies have different names, so that one
    client could end the run. Replies with other names than most are therefore left out.
    Some strategies identify arrays by position, so arrays are in the model's order. The
    metric `weight` is at most the number of samples that the client trained on.
    """
    forms = [
        (each, each.reply, _form(each.reply.content))
        for each in updates
        if each.reply is not None
    ]
    usual = Counter(form for *_, form in forms).most_common(1)
    replies, events = list[Message](), list[Event]()
    for each, reply, form in forms:
        if form != usual[0][0]:
            why = "the names in its answer differ from those of most clients"
            events.append(Event(t, each.client, "left out", why))
            continue
        for name, arrays in reply.content.array_records.items():
            reply.content[name] = ArrayRecord({key: arrays[key] for key in each.model})
        stated = each.metrics.get(weight, 0.0)
        for record in reply.content.metric_records.values():
            if weight in record and not 0 < stated <= each.n:
                record[weight] = each.n
                why = f"{weight} = {stated:g} counts as {each.n}: it trained on these"
                events.append(Event(t, each.client, "weight", why))
        replies.append(reply)
    return replies, events


def _form(content: RecordDict) -> frozenset[tuple[str, frozenset[str]]]:
    """Return the names of the arrays and metrics of a reply, by record."""
    records: list[tuple[str, Any]] = [
        *content.array_records.items(),
        *content.metric_records.items(),
    ]
    return frozenset((name, frozenset(record)) for name, record in records)


def evaluations(
    replies: Iterable[Message],
    asked: Mapping[int, int],
    weight: str = "num-examples",
) -> list[Update]:
    """Return what clients measured. `asked` has the client of each node; replies that
    cannot be read are left out.
    """
    found: dict[int, Update] = {}
    for reply in replies:
        client = asked.get(reply.metadata.src_node_id)
        if client is None or client in found or reply.has_error():
            continue
        try:
            metrics = numbers(reply.content.metric_records.values())
            n = int(metrics.get(weight, 0))
        except Exception:  # untrusted bytes can fail in many ways
            continue
        if 0 < n <= LARGEST:
            found[client] = Update(client, n, {}, metrics, reply)
    return [found[client] for client in sorted(found)]


def mean_metrics(
    updates: Iterable[Update], weight: Floats | None = None
) -> MetricRecord:
    """Return the mean of each metric over the clients that report it, weighted by
    `weight` or by their numbers of samples.
    """
    sums: dict[str, float] = {}
    counts: dict[str, float] = {}
    for update in updates:
        share = update.n if weight is None else float(weight[update.client])
        for name, value in update.metrics.items():
            sums[name] = sums.get(name, 0.0) + share * value
            counts[name] = counts.get(name, 0.0) + share
    return MetricRecord(
        {name: sums[name] / counts[name] for name in sorted(sums) if counts[name]}
    )


# arrays and metrics from untrusted clients


def read_arrays(
    packed: Mapping[str, Array],
    model: NamedArrays,
    fixed_shapes: bool = True,
) -> dict[str, NDArray[Any]]:
    """Return the arrays of a reply, without copies. Names, shapes and dtypes that
    differ from the model's are refused.

    Without `fixed_shapes`, an array may have any shape with at most `LONGEST` bytes.
    """
    if packed.keys() != model.keys():
        missing = _few(model.keys() - packed.keys())
        extra = _few(packed.keys() - model.keys())
        raise DataError(f"names differ: {missing} missing, {extra} too many")
    return {
        name: read_array(name, packed[name], model[name], fixed_shapes)
        for name in model
    }


def _few(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)[:3]) or "none"


def read_array(
    name: str,
    packed: Array,
    expected: NDArray[Any],
    fixed_shape: bool = True,
) -> NDArray[Any]:
    """Return one array, which must be in numpy's format for a single array. Its size is
    checked before it is parsed.
    """
    data = packed.data
    is_numpy = packed.stype == "numpy.ndarray" and isinstance(data, bytes)
    if not is_numpy or not data.startswith(npy.MAGIC_PREFIX):
        raise DataError(
            f"{name} cannot be read: it is not in numpy's form for one array"
        )
    most = (expected.nbytes if fixed_shape else LONGEST) + HEADER
    if len(data) > most:
        raise DataError(f"{name} has {len(data)} bytes, expected at most {most}")
    file = io.BytesIO(data[:HEADER])
    try:
        read = READERS[npy.read_magic(file)]
        shape, by_column, dtype = read(file, max_header_size=HEADER)
    except Exception as error:
        # numpy parses a header as a Python literal, which can fail in many ways
        raise DataError(
            f"{name} cannot be read ({type(error).__name__} in its header)"
        ) from None
    if fixed_shape and shape != expected.shape:
        raise DataError(f"{name} has shape {shape}, expected {expected.shape}")
    if dtype != expected.dtype or dtype.hasobject:
        raise DataError(f"{name} is {dtype}, expected {expected.dtype}")
    nbytes = math.prod(shape) * dtype.itemsize
    if len(data) != file.tell() + nbytes:
        raise DataError(
            f"{name} cannot be read: it has {len(data) - file.tell()} bytes of numbers,"
            f" not {nbytes}"
        )
    flat = np.frombuffer(data, dtype, offset=file.tell())
    return flat.reshape(shape, order="F" if by_column else "C")


def numbers(records: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return the metrics of a reply that are single numbers of at most `HUGE`; other
    metrics are left out.
    """
    found: dict[str, float] = {}
    for record in records:
        if len(found) + len(record) > METRICS:
            raise DataError(f"its answer has more than {METRICS} metrics")
        for name, value in record.items():
            if len(name) > LINE or not name.isprintable():
                raise DataError(
                    f"a metric's name is not one line of at most {LINE} printable"
                    " characters"
                )
            if (
                isinstance(value, int | float)
                and not isinstance(value, bool)
                and abs(value) <= HUGE
            ):
                found[name] = float(value)
    return found
