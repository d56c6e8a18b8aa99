"""The state of a gate, as its page, `headgate labels status` and Prometheus show it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headgate.books.books import Books
from headgate.books.saved import money_text
from headgate.errors import DataError
from headgate.escaping import exposition
from headgate.labels.nouns import REJECTED
from headgate.labels.tasks import BEYOND, CANCELLED, DELIVERED, OPEN, WITHDRAWN, Tasks
from headgate.reading import read_object

STATUS, METRICS = "status.json", "metrics.prom"
"""names of the files in the folder of the accounts"""
STATES = {
    "unsold": "unsold",
    OPEN: "under_way",
    DELIVERED: "delivered",
    CANCELLED: "cancelled",
    WITHDRAWN: "withdrawn",
    REJECTED: "rejected",
    BEYOND: "too_late",
}
HELP = {
    "unsold": "samples that were not bought yet",
    "under_way": "tasks that are not labelled yet",
    "delivered": "labels that were paid for",
    "cancelled": "tasks that were skipped",
    "withdrawn": "tasks whose order has expired",
    "rejected": "labels that were given back and refunded",
    "too_late": "labels that came after their order had expired, not paid for",
    "extra": "further labels of tasks that have one, not paid for",
}
MONEY = {
    "round": "rounds finished",
    "spent": "money spent",
    "reserved": "price of what is under way",
    "left": "money that is neither spent nor reserved",
}


def status_of(books: Books, tasks: Tasks) -> dict[str, Any]:
    """Return the money and the number of tasks in each state, by client."""
    balance = books.balance()
    clients = {
        str(name): {**dict.fromkeys(HELP, 0), "oldest": None}
        for name in books.system.names or ()
    }
    for client, booked, state, samples, extra, oldest in tasks.summary():
        if client not in clients:  # it joins with the next round
            continue
        own: dict[str, Any] = clients[client]
        own[STATES[booked]] += samples
        own["extra"] += extra
        if booked == OPEN and state == "waiting" and oldest is not None:
            own["oldest"] = min(filter(None, (own["oldest"], oldest)))
    return {
        "horizon": books.system.horizon,
        "currency": books.system.currency,
        "approved": f"{balance.approved:f}",
        "spent": f"{balance.spent:f}",
        "reserved": f"{balance.reserved:f}",
        "left": f"{balance.left:f}",
        "clients": clients,
    }


def read_status(accounts: Path) -> dict[str, Any]:
    """Return the state that a gate wrote after its last step."""
    path = accounts / STATUS
    if not path.exists():
        raise DataError(
            f"{path}: is missing; `headgate labels run` writes it in its first step"
        )
    return read_object(path)


COLUMNS = ("unsold", "under_way", "delivered", "rejected", "cancelled", "oldest")


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the state as lines for people."""
    unit, horizon = found["currency"], found["horizon"] or "open"
    yield f"round {found['round']} of {horizon}, as of {found['at']}"
    names = ("approved", "spent", "reserved", "left")
    yield ", ".join(f"{each} {money_text(float(found[each]), unit)}" for each in names)
    if found["why"]:
        yield f"last round: {found['why']}"
    if found["down"]:
        yield f"waiting: {found['down']}"
    yield f"next round: {found['next'] or 'none, all rounds have begun'}"
    yield ""
    width = max(map(len, ("client", *found["clients"])))
    yield "  ".join(["client".ljust(width), *(each.rjust(9) for each in COLUMNS)])
    for name, own in found["clients"].items():
        cells = [str(own[each] or 0) for each in COLUMNS[:-1]]
        oldest = (own["oldest"] or "-")[:16].replace("T", " ")
        yield "  ".join([name.ljust(width), *(each.rjust(9) for each in cells), oldest])


def exposed(found: Mapping[str, Any]) -> str:
    """Return the state in the text format of Prometheus."""
    samples = dict[str, list[tuple[Mapping[str, str], float]]]()
    for name in MONEY:
        samples[name] = [({}, float(found[name]))]
    samples["down"] = [({}, float(bool(found["down"])))]
    for name in HELP:
        samples[name] = [
            ({"client": client}, own[name]) for client, own in found["clients"].items()
        ]
    help_ = {**MONEY, "down": "1 if the queue or the price did not answer", **HELP}
    named = {f"labels_{name}": each for name, each in samples.items()}
    return exposition({f"labels_{name}": text for name, text in help_.items()}, named)
