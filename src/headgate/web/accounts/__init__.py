"""Accounts over HTTP: many accounts of `headgate.Books` in one service.

Its modules are imported one by one.
"""

__all__ = [
    "answers",
    "deployment",
    "doing",
    "events",
    "gate",
    "keeper",
    "requests",
    "routes",
    "service",
    "telling",
    "tokens",
]
