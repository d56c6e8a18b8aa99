"""Durable accounts of a run for any framework: orders written before they are sent,
receipts of clients, and the ledger.
"""

__all__ = [
    "books",
    "journal",
    "statement",
]
