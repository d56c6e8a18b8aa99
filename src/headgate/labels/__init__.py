"""Queues of labels, and the gate in front of them: what a round buys becomes tasks for
people who label, and their labels become deliveries in the accounts.
"""

__all__ = ["nouns", "queues"]
