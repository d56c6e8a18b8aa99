"""The queues that come with headgate, by the `kind` that a gate's file names."""

from headgate.labels.nouns import Queue
from headgate.registry import Slot

KINDS: dict[str, type] = {}
QUEUE = Slot("queue", Queue, KINDS)
