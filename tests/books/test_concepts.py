"""What a loop of one's own has to learn of Books. A name more is a decision, which is
made here.
"""

import inspect
import re
from dataclasses import fields
from pathlib import Path

from headgate import Amendment, Books, Delivery, Purchase
from headgate.books.remote import RemoteBooks

LEAST = [
    "Books",
    "System",
    "buffer",
    "budget",
    "horizon",
    "policy",
    "folder",
    "begin",
    "Purchase",
    "settle",
    "statement",
]
"""what the shortest loop takes"""
WORDS = [
    "present",
    "most",
    "in_all",
    "lot",
    "when",
    "under_way",
    "expires",
    "client",
    "round",
    "samples",
    "price",
    "keep",
    "last",
    "drop",
    "delivered",
    "keys",
    "cancelled",
    "rejected",
    "erased",
    "money",
    "month",
    "join",
    "name",
    "weight",
    "leave",
    "suspend",
    "adjust",
]
"""the other arguments of `begin`, fields of a purchase and of a delivery, and terms
that change, each word once
"""
NAMES = [
    "ledger",
    "name",
    "system",
    "why",
    "quarantined",
    "rounds_left",
    "begin",
    "settle",
    "check",
    "order",
    "under_way",
    "amend",
    "adjust",
    "rest",
    "balance",
    "statement",
    "audit",
    "backup",
    "close",
]
"""the public methods and properties of Books"""
NOUNS = [
    "System",
    "AdmissionPolicy",
    "Ledger",
    "Purchase",
    "Delivery",
    "OrderState",
    "Balance",
    "Statement",
    "PriceProcess",
]
"""the classes that Books takes and returns"""


def public(kind):
    return {name for name in vars(kind) if not name.startswith("_")}


def nouns(kind):
    """Return the classes of headgate that the signatures of a class name."""
    found = set()
    for name in public(kind) | {"__init__"}:
        each = vars(kind)[name]
        call = each.fget if isinstance(each, property) else each
        for given in inspect.get_annotations(call).values():
            text = inspect.formatannotation(given)
            found |= set(re.findall(r"headgate\.[a-z_.]+\.([A-Z]\w+)", text))
            found |= {given} if isinstance(given, str) else set()
    return found


def test_books_has_these_names_and_no_others_also_at_a_service():
    assert public(Books) == set(NAMES)
    assert public(RemoteBooks) == set(NAMES)


def test_the_arguments_at_a_service_are_the_same():
    for name in public(Books):
        call = vars(Books)[name]
        if not isinstance(call, property):
            given = inspect.signature(call).parameters
            assert inspect.signature(vars(RemoteBooks)[name]).parameters == given, name


def test_books_takes_and_returns_these_nouns_and_no_others():
    assert nouns(Books) - {"Address"} == set(NOUNS)
    assert "Address" not in Books.__doc__, "a place in PostgreSQL is given as text"


def test_the_words_of_a_round_are_these_and_as_many_as_the_design_says():
    taken = set(inspect.signature(Books.begin).parameters) - {"self"}
    taken |= set(Purchase._fields) | set(Delivery._fields)
    taken |= {field.name for field in fields(Amendment)}
    assert taken - set(LEAST) == set(WORDS)
    design = Path(__file__).parents[2] / "contributing" / "design.md"
    said = design.read_text("utf-8").split("## How much there is to learn")[1]
    row = re.search(r"\| words of a round: .*\| \*\*(\d+)\*\* \|", said)
    names = re.search(r"\| public names of `Books` .*\| \*\*(\d+)\*\* \|", said)
    assert int(row[1]) == len(set(LEAST) | taken)
    assert int(names[1]) == len(NAMES)
