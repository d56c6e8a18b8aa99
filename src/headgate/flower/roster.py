"""Who is there: which client each node of the grid is.

In a deployment with keys a node is the client whose key it has. Without them every new node is asked once, and believed. A
client is one node for as long as that node is there: a later claim never takes its place.
"""

import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from flwr.app import Message, MessageType, RecordDict
from flwr.serverapp import Grid

from headgate.books.ledger_store import Event, LedgerStore, Node
from headgate.books.messages import NONCE, RECORD, Identity, from_wire
from headgate.errors import DataError
from headgate.flower.keys import read_keys
from headgate.flower.senders import nonce

IDENTITY = f"{MessageType.QUERY}.identity"
ANSWER_WITHIN = 120.0
"""seconds for a node to say who it is, where a round has as many"""
PAUSE = 1.0
"""seconds between two looks while clients are waited for"""
NEVER = 0.0
"""the turn of a node that claims a client and has not yet been it; nodes that have been it are counted in their order"""


class Roster:
    """The nodes that have said who they are; kept in the store, so that a restarted server need not ask again.

    `keys` is the file of the deployment's keys; None: there is none, and nodes are believed.
    """

    def __init__(
        self, store: LedgerStore, clients: int, keys: Path | None = None, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._store, self.clients, self._keys, self._sleep = store, clients, keys, sleep
        self._nodes: dict[int, Node] = {}
        self._turns: dict[int, float] = {}
        self._know(store.nodes())
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
        """Client → node of all who are there now."""
        self._looks += 1
        there = self._asked(grid, t, answer_within) if self._keys is None else self._by_key(grid, self._keys)
        claims: dict[int, list[Node]] = {}
        for node in there:
            claim = self._nodes.get(node)
            if claim is not None and claim.client < self.clients:
                claims.setdefault(claim.client, []).append(claim)
        return {client: self._holder(claims[client]).node for client in sorted(claims)}

    def _by_key(self, grid: Grid, keys: Path) -> list[int]:
        """The nodes with a client's key."""
        numbers = {key: client for client, key in read_keys(keys).items()}
        found = {info.node_id: numbers[info.public_key] for info in grid.get_nodes() if info.public_key in numbers}
        new = [Node(node, client, NEVER) for node, client in found.items() if self._client_of(node) != client]
        if new:
            self._remember(new)
        return sorted(found)

    def _asked(self, grid: Grid, t: int, answer_within: float) -> list[int]:
        """All nodes; those that are new are asked who they are."""
        there = sorted(set(grid.get_node_ids()))
        new = [node for node in there if node not in self._nodes and self._not_before.get(node, 0) <= self._looks]
        if new:
            self._ask(grid, t, new, answer_within)
        return there

    def _client_of(self, node: int) -> int | None:
        return self._nodes[node].client if node in self._nodes else None

    def _holder(self, claims: list[Node]) -> Node:
        """Of the nodes there that claim a client: the one that was it last, and from now on again."""
        holder = max(claims, key=lambda claim: claim.since)
        last = self._turns.get(holder.client, NEVER)
        if holder.since == NEVER or holder.since < last:
            holder = holder._replace(since=last + 1)
            self._remember([holder])
        return holder

    def _remember(self, nodes: Collection[Node]) -> None:
        self._store.remember_nodes(nodes)
        self._know(nodes)

    def _know(self, nodes: Collection[Node]) -> None:
        for node in nodes:
            self._nodes[node.node] = node
            self._turns[node.client] = max(self._turns.get(node.client, NEVER), node.since)

    def _ask(self, grid: Grid, t: int, nodes: Iterable[int], answer_within: float) -> None:
        asked = set(nodes)
        answer_within = min(answer_within, ANSWER_WITHIN)
        messages = [
            Message(RecordDict({NONCE: nonce()}), node, IDENTITY, ttl=answer_within, group_id=str(t)) for node in sorted(asked)
        ]
        found: dict[int, Node] = {}
        events = []
        for reply in grid.send_and_receive(messages, timeout=answer_within):
            node = reply.metadata.src_node_id
            if node not in asked or node in found or reply.has_error():
                continue
            try:
                found[node] = Node(node, self._claimed(reply.content), NEVER)
            except Exception as error:  # a stranger's bytes fail in many ways
                events.append(Event(t, -1, "unknown", f"node {node}: {error}"))
        for silent in asked - found.keys():  # asked again, but less and less often
            self._failures[silent] = self._failures.get(silent, 0) + 1
            self._not_before[silent] = self._looks + 2 ** self._failures[silent]
        if found:
            self._remember(found.values())
        if events:
            self._store.note(events)

    def _claimed(self, content: RecordDict) -> int:
        """Which client a node is by its answer."""
        client = from_wire(Identity, dict(content[RECORD])).client
        if client >= self.clients:
            raise DataError(f"identity.client = {client}: there are {self.clients} clients, from 0 on")
        return client
