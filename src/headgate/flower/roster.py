"""The connected nodes: which client each node of the grid is, and which node a reply
comes from.

In a deployment with keys, a node is the client whose key it has. Without keys, every
new node is asked once for its client, and trusted. A client stays with one node as long
as that node is connected: another node that claims it does not replace it.
"""

import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from flwr.app import ConfigRecord, Error, Message, MessageType, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.proto.runtime_pb2 import PullAppMessagesRequest, PullAppMessagesResponse
from flwr.serverapp import Grid

from headgate.books.nouns import Event, Node
from headgate.errors import DataError
from headgate.flower.accounts import FlowerAccounts
from headgate.flower.keys import read_keys
from headgate.flower.messages import NONCE, RECORD, Identity, from_wire

IDENTITY = f"{MessageType.QUERY}.identity"
ANSWER_WITHIN = 120.0
"""most seconds that a node has to state its client; the deadline of a round may leave
fewer
"""
PAUSE = 1.0
"""seconds between two checks while the server waits for clients"""
SETTLED = 2.0
"""seconds for which an inner strategy sees the same clients, and the least time that it
may wait for more clients
"""
NEVER = 0
"""turn of a node that claims a client but was never that client; nodes that were have
the turns 1, 2, …
"""


class Roster:
    """The nodes whose clients are known. They are kept in the accounts, so that a
    restarted server does not ask again.

    `keys` is the file of the deployment's keys. If it is None, each node is asked for
    its client, and trusted.
    """

    def __init__(
        self,
        accounts: FlowerAccounts,
        clients: int,
        keys: Path | None = None,
    ) -> None:
        self._accounts, self.clients, self._keys = accounts, clients, keys
        self._nodes: dict[int, Node] = {}
        self._turns: dict[int, int] = {}
        self._index(accounts.nodes())
        self._checks = 0
        self._failures: dict[int, int] = {}
        self._not_before: dict[int, int] = {}

    def gather(
        self,
        grid: Grid,
        t: int,
        wanted: int,
        seconds: float,
        answer_within: float,
    ) -> dict[int, int]:
        """Return the node of each connected client, once `wanted` clients are connected
        or `seconds` have passed.
        """
        end = time.monotonic() + seconds
        while True:
            there = self.connected(grid, t, answer_within)
            left = end - time.monotonic()
            if len(there) >= wanted or left <= 0:
                return there
            time.sleep(min(PAUSE, left))

    def connected(
        self,
        grid: Grid,
        t: int,
        answer_within: float,
    ) -> dict[int, int]:
        """Return the node of each client that is connected now."""
        self._checks += 1
        if self._keys is None:
            there = self._by_claim(grid, t, answer_within)
        else:
            there = self._by_key(grid, self._keys)
        claims: dict[int, list[Node]] = {}
        for node in there:
            claim = self._nodes.get(node)
            if claim is not None and claim.client < self.clients:
                claims.setdefault(claim.client, []).append(claim)
        return {client: self._holder(claims[client]).node for client in sorted(claims)}

    def _by_key(self, grid: Grid, keys: Path) -> list[int]:
        """Return the connected nodes that have the key of a client."""
        numbers = {key: client for client, key in read_keys(keys).items()}
        found = {
            info.node_id: numbers[info.public_key]
            for info in grid.get_nodes()
            if info.public_key in numbers
        }
        known = {each.node: each.client for each in self._nodes.values()}
        new = [
            Node(node, client, NEVER)
            for node, client in found.items()
            if known.get(node) != client
        ]
        if new:
            self._remember(new)
        return sorted(found)

    def _by_claim(
        self,
        grid: Grid,
        t: int,
        answer_within: float,
    ) -> list[int]:
        """Return all connected nodes, after asking new ones for their clients."""
        there = sorted(set(grid.get_node_ids()))
        new = [
            node
            for node in there
            if node not in self._nodes and self._not_before.get(node, 0) <= self._checks
        ]
        if new:
            self._ask(grid, t, new, answer_within)
        return there

    def _holder(self, claims: list[Node]) -> Node:
        """Return which of these connected nodes is the client that they claim: the one
        that was it last. Record its turn.
        """
        holder = max(claims, key=lambda claim: claim.since)
        last = self._turns.get(holder.client, NEVER)
        if holder.since == NEVER or holder.since < last:
            holder = holder._replace(since=last + 1)
            self._remember([holder])
        return holder

    def _remember(self, nodes: Collection[Node]) -> None:
        self._accounts.remember_nodes(nodes)
        self._index(nodes)

    def _index(self, nodes: Collection[Node]) -> None:
        for node in nodes:
            self._nodes[node.node] = node
            self._turns[node.client] = max(
                self._turns.get(node.client, NEVER), node.since
            )

    def _ask(
        self,
        grid: Grid,
        t: int,
        nodes: Iterable[int],
        answer_within: float,
    ) -> None:
        asked = set(nodes)
        answer_within = min(answer_within, ANSWER_WITHIN)
        messages = [
            addressed({}, node, IDENTITY, t, answer_within) for node in sorted(asked)
        ]
        found: dict[int, Node] = {}
        events = []
        for reply in grid.send_and_receive(messages, timeout=answer_within):
            node = reply.metadata.src_node_id
            if node not in asked or node in found or reply.has_error():
                continue
            try:
                found[node] = Node(node, self._claimed(reply.content), NEVER)
            except Exception as error:  # untrusted bytes can fail in many ways
                events.append(Event(t, -1, "unknown", f"node {node}: {error}"))
        for silent in asked - found.keys():  # asked again after 2, 4, 8, … checks
            self._failures[silent] = self._failures.get(silent, 0) + 1
            self._not_before[silent] = self._checks + 2 ** self._failures[silent]
        if found:
            self._remember(found.values())
        if events:
            self._accounts.note(events)

    def _claimed(self, content: RecordDict) -> int:
        """Return the client that a node states in its reply."""
        client = from_wire(Identity, dict(content[RECORD])).client
        if client >= self.clients:
            raise DataError(
                f"identity.client = {client}: there are {self.clients} clients, from"
                " 0 on"
            )
        return client


# the grid


class TooFewNodes(Exception):
    """An inner strategy has waited too long for more clients than are connected."""


class ClientGrid:
    """The grid as an inner strategy sees it: it has only the nodes of clients in good
    standing, and limits every wait.

    `connected` returns the node of each connected client. Flower's strategies ask for
    nodes until there are enough; after `patience` seconds they get a `TooFewNodes`
    error.
    """

    def __init__(
        self,
        grid: Grid,
        connected: Callable[[], Mapping[int, int]],
        patience: float,
    ) -> None:
        self._grid, self._connected = grid, connected
        self._began = time.monotonic()
        self._patience = max(patience, SETTLED)
        self.clients: dict[int, int] | None = None
        """client of each node; None before the first check"""

    def get_node_ids(self) -> list[int]:
        waited = time.monotonic() - self._began
        if waited > self._patience:
            raise TooFewNodes(
                f"waited {waited:.0f} s for more than {len(self.clients or ())} clients"
            )
        if self.clients is None or waited > SETTLED:
            self.clients = {node: client for client, node in self._connected().items()}
        return list(self.clients)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)


def addressed(
    content: Mapping[str, Any],
    node: int,
    kind: str,
    t: int,
    seconds: float,
) -> Message:
    """Return a message of round t to a node, which may be answered for some seconds.

    A random record makes the id of the message, its hash, impossible to guess: a reply
    is accepted by that id.
    """
    nonce = ConfigRecord({"nonce": secrets.token_hex(16)})
    records = RecordDict({**content, NONCE: nonce})
    return Message(
        records,
        node,
        kind,
        ttl=seconds,
        group_id=str(t),
    )


def guarded(grid: Grid) -> Grid:
    """Change the grid so that a reply is attributed to the node that was asked, and an
    unreadable one is its failure alone.

    The SuperLink accepts a reply only from a node that knows the id of the message, and
    sends the id only to the node that was asked. But Flower's grid passes on what a
    reply states about itself, passes on messages that reply to nothing, and parses the
    bytes of all nodes at once, without handling errors. Here the reply to each message
    is pulled separately and attributed to the node that was asked. A reply that is
    never complete counts as missing.
    """
    # takes two seconds to import, and clients do not need it
    from flwr.superlink.grid import HttpGrid

    if not isinstance(grid, HttpGrid) or "pull_messages" in vars(grid):
        return grid
    push, pull, sent = grid.push_messages, grid.pull_messages, dict[str, Message]()

    def push_messages(messages: Iterable[Message]) -> Iterable[str]:
        messages = list(messages)
        ids = list(push(messages))
        for each in messages:
            sent[each.metadata.message_id] = remove_content_from_message(each)
        return [each for each in ids if each]  # a disconnected node has none

    def pull_messages(message_ids: Iterable[str]) -> list[Message]:
        link, replies = grid._runtime_client, list[Message]()
        if "PullMessages" not in vars(link):
            vars(link)["PullMessages"] = partial(_pull_replies, link.PullMessages)
        for asked in sorted(message_ids):
            found: list[RecordDict | Error]
            try:
                found = [
                    each.error if each.has_error() else each.content
                    for each in pull([asked])
                ]
            except httpx.HTTPError:  # the connection to the SuperLink has failed
                raise
            except Exception as error:  # untrusted bytes can fail in many ways
                reason = f"its answer cannot be read ({type(error).__name__})"
                found = [Error(0, reason)]
            replies += [Message(each, reply_to=sent[asked]) for each in found]
        return replies

    vars(grid).update(
        push_messages=push_messages,
        pull_messages=pull_messages,
    )
    return grid


def _pull_replies(
    pull: Callable[[PullAppMessagesRequest], PullAppMessagesResponse],
    request: PullAppMessagesRequest,
) -> PullAppMessagesResponse:
    """Pull the replies to the requested messages, without others: nodes can also send
    messages that reply to nothing.
    """
    found = pull(request)
    both = zip(found.messages_list, found.message_object_trees, strict=True)
    kept = [
        each
        for each in both
        if each[0].metadata.reply_to_message_id in request.message_ids
    ]
    return PullAppMessagesResponse(
        messages_list=[each for each, _ in kept],
        message_object_trees=[tree for _, tree in kept],
    )
