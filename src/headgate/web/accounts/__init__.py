"""Accounts over HTTP: many accounts of `headgate.Books` in one service.

Its modules are imported one by one.
"""

__all__ = [
    "answers",
    "doing",
    "events",
    "gate",
    "keeper",
    "requests",
    "routes",
    "telling",
    "tokens",
]
