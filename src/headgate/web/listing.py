"""The list of runs: searched, sorted, a page at a time. Only what is shown, or sorted by, is read."""

from typing import Any

from headgate.web.runs import Head, Library

ORDERS = ("asc", "desc")
BY_HEAD = {
    "started": lambda head: head.started,
    "name": lambda head: head.name,
    "state": lambda head: head.state,
    "progress": lambda head: head.run.state["round"] / max(1, head.run.rounds),
}
BY_ROW = {"spend": "spend_share", "accuracy": "best_accuracy"}
SORTS = (*BY_HEAD, *BY_ROW)
UNREADABLE = 20
"""folders that are named although they cannot be read"""


def listing(library: Library, search: str, sort: str, order: str, limit: int, offset: int) -> dict[str, Any]:
    heads = library.heads()
    found = [head for head in heads.values() if _matches(head, search)]
    found.sort(key=lambda head: head.name)
    if sort in BY_HEAD:
        found.sort(key=BY_HEAD[sort], reverse=order == "desc")
    else:
        found = _by_result(library, found, BY_ROW[sort], order == "desc")
    return {
        "total": len(heads),
        "matching": len(found),
        "offset": offset,
        "limit": limit,
        "rows": library.rows([head.name for head in found[offset : offset + limit]]),
        "unreadable": [{"name": name, "problem": why} for name, why in list(library.unreadable().items())[:UNREADABLE]],
    }


def _matches(head: Head, search: str) -> bool:
    text = " ".join([head.name, head.state, *head.run.state["policies"]]).lower()
    return all(word in text for word in search.lower().split())


def _by_result(library: Library, heads: list[Head], key: str, falling: bool) -> list[Head]:
    """Runs without a result come last either way."""
    results = {row["name"]: row[key] for row in library.rows([head.name for head in heads])}
    known = [head for head in heads if results[head.name] is not None]
    return [
        *sorted(known, key=lambda head: results[head.name], reverse=falling),
        *(head for head in heads if results[head.name] is None),
    ]
