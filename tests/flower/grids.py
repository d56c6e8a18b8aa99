"""A grid in one process: it hands each message to the ClientApp of its node, through
the bytes of Flower's wire.

What goes wrong is told beforehand, by (round, client): a message or a reply is lost,
comes twice, comes later than newer ones, is changed on the way, or the client breaks
off in the midst of it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

SERVER = 1
DELAYED = ("message delayed", "message overtaken")
"""it comes right before the next message to its node, or right after it"""


class ServerDied(Exception):
    """The server's process ends here."""


@dataclass
class Node:
    app: Any
    client: int
    config: dict[str, Any] = field(default_factory=dict)
    key: bytes = b""

    def context(self, node: int, run_config: dict[str, Any]) -> Context:
        config = {"partition-id": self.client, "headgate-keep": True, **self.config}
        return Context(
            run_id=1,
            node_id=node,
            node_config=config,
            state=RecordDict(),
            run_config=run_config,
        )


class FakeGrid(Grid):
    """`faults` maps (round, client) to the name of what goes wrong with that train
    message.
    """

    def __init__(
        self, nodes: dict[int, Node], run_config: dict[str, Any] | None = None
    ) -> None:
        self.nodes, self.run_config = nodes, run_config or {}
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = (
            1,
            1,
            SERVER,
        )  # messages want to know who sends them
        self.faults: dict[tuple[int, int], str] = {}
        self.tamper: Callable[[Message], Message] = lambda reply: reply
        self.delayed: list[Message] = []
        self.trained: list[tuple[int, int]] = []
        self.queries = 0
        self.said: list[tuple[Message, Message]] = []
        self.server_dies = ""

    def get_node_ids(self) -> list[int]:
        return list(self.nodes)

    def get_nodes(self) -> list[NodeInfo]:
        return [
            NodeInfo(node_id=node, public_key=own.key)
            for node, own in self.nodes.items()
        ]

    def send_and_receive(
        self, messages: Any, *, timeout: float | None = None
    ) -> list[Message]:
        replies: list[Message] = []
        messages = list(messages)
        training = any(message.metadata.message_type == "train" for message in messages)
        if training and self.server_dies == "before sending":
            raise ServerDied
        for message in messages:
            node = message.metadata.dst_node_id
            if node in self.nodes:
                replies += self._send(message, node)
        if training and self.server_dies == "after sending":
            raise ServerDied
        return replies

    def _send(self, message: Message, node: int) -> list[Message]:
        if message.metadata.message_type != "train":
            self.queries += message.metadata.message_type == "query.identity"
            return [self.deliver(message)]
        fault = self._fault_of(message)
        if fault == "message lost":
            return []
        if fault in DELAYED:
            self.delayed.append(message)
            return []
        waiting = [one for one in self.delayed if one.metadata.dst_node_id == node]
        self.delayed = [one for one in self.delayed if one.metadata.dst_node_id != node]
        for late in waiting:
            if self._fault_of(late) == "message delayed":
                self.deliver(late)
        reply = self.deliver(message)
        for late in waiting:
            if self._fault_of(late) == "message overtaken":
                self.deliver(late)
        if fault == "message twice":
            return [reply, self.deliver(message)]
        if fault == "reply lost":
            return []
        if fault == "reply twice":
            return [reply, reply]
        return [self.tamper(reply) if fault == "reply changed" else reply]

    def _fault_of(self, message: Message) -> str:
        node = self.nodes[message.metadata.dst_node_id]
        return self.faults.get((int(message.metadata.group_id), node.client), "")

    def orders(self) -> list[Message]:
        """The train messages that were delivered."""
        return [
            message
            for message, _ in self.said
            if message.metadata.message_type == "train"
        ]

    def deliver(self, message: Message) -> Message:
        reply = self._answered(message)
        self.said.append((message, reply))
        return reply

    def _answered(self, message: Message) -> Message:
        """The client's answer; an exception in it comes back as an error, as Flower's
        engines do it.
        """
        node = message.metadata.dst_node_id
        own = self.nodes[node]
        content = over_the_wire(message.content)
        arrived = Message(content=content, metadata=message.metadata)
        try:
            reply = own.app(arrived, own.context(node, self.run_config))
        except Exception as error:
            return Message(
                Error(code=2, reason=f"{type(error).__name__}: {error}"),
                reply_to=message,
            )
        if reply.has_error():
            return Message(reply.error, reply_to=message)
        if message.metadata.message_type == "train":
            self.trained.append((int(message.metadata.group_id), own.client))
        return Message(over_the_wire(reply.content), reply_to=message)


FakeGrid.__abstractmethods__ = frozenset()  # nothing else of a grid is asked for here


def over_the_wire(content: RecordDict) -> RecordDict:
    return recorddict_from_proto(recorddict_to_proto(content))
