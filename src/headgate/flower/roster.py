"""Who is there: which client each node of the grid is.

Flower tells the server nothing but node ids, so every new node is asked once. Where two nodes claim to be one client, after
a restart without a key say, the newer one is taken and the other gets no orders.
"""

import time
from collections.abc import Callable, Iterable

from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid

from headgate.errors import DataError
from headgate.flower.ledger_store import Event, LedgerStore, Node
from headgate.flower.messages import RECORD, Identity, from_wire

IDENTITY = f"{MessageType.QUERY}.identity"
ANSWER_WITHIN = 120.0
"""seconds for a node to say who it is, where a round has as many"""
PAUSE = 1.0
"""seconds between two looks while clients are waited for"""


class Roster:
    """The nodes that have said who they are; kept in the store, so that a restarted server need not ask again."""

    def __init__(self, store: LedgerStore, clients: int, sleep: Callable[[float], None] = time.sleep) -> None:
        self._store, self._clients, self._sleep = store, clients, sleep
        self._nodes = {node.node: node for node in store.nodes()}
        self._looks = 0
        self._failures: dict[int, int] = {}
        self._not_before: dict[int, int] = {}

    def gather(self, grid: Grid, t: int, wanted: int, seconds: float, answer_within: float) -> dict[int, int]:
        """Client → node, as soon as `wanted` clients are there, or after so many seconds."""
        end = time.monotonic() + seconds
        while True:
            there = self.look(grid, t, answer_within)
            left = end - time.monotonic()
            if len(there) >= wanted or left <= 0:
                return there
            self._sleep(min(PAUSE, left))

    def look(self, grid: Grid, t: int, answer_within: float) -> dict[int, int]:
        """Client → node of all who are there now; nodes that are new are asked who they are."""
        self._looks += 1
        there = sorted(set(grid.get_node_ids()))
        new = [node for node in there if node not in self._nodes and self._not_before.get(node, 0) <= self._looks]
        if new:
            self._ask(grid, t, new, answer_within)
        claims = [self._nodes[node] for node in there if node in self._nodes]
        newest = {claim.client: claim.node for claim in sorted(claims, key=lambda claim: (claim.since, claim.node))}
        return dict(sorted(newest.items()))

    def _ask(self, grid: Grid, t: int, nodes: Iterable[int], answer_within: float) -> None:
        asked = set(nodes)
        answer_within = min(answer_within, ANSWER_WITHIN)
        messages = [
            Message(RecordDict({RECORD: ConfigRecord({})}), node, IDENTITY, ttl=answer_within, group_id=str(t))
            for node in sorted(asked)
        ]
        found, events = [], []
        for reply in grid.send_and_receive(messages, timeout=answer_within):
            node = reply.metadata.src_node_id
            if node not in asked or reply.has_error():
                continue
            try:
                identity = from_wire(Identity, dict(reply.content[RECORD]))
                if identity.client >= self._clients:
                    raise DataError(f"identity.client = {identity.client}: there are {self._clients} clients, from 0 on")
            except (DataError, KeyError, TypeError) as error:
                events.append(Event(t, -1, "unknown", f"node {node}: {error}"))
                continue
            found.append(Node(node, identity.client, identity.since))
        for silent in asked - {node.node for node in found}:  # asked again, but less and less often
            self._failures[silent] = self._failures.get(silent, 0) + 1
            self._not_before[silent] = self._looks + 2 ** self._failures[silent]
        if found:
            self._store.remember_nodes(found)
            self._nodes |= {node.node: node for node in found}
        if events:
            self._store.note(events)
