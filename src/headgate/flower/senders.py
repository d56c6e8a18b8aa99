"""Whose answer a reply is, and the grid as strategies see it.

An error of Flower's own names the message that it answers, any other reply is signed.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import httpx
from flwr.app import ConfigRecord, Error, Message, MessageType, Metadata
from flwr.app.message import make_message
from flwr.serverapp import Grid

from headgate.books.ledger_store import Event
from headgate.flower.keys import NONCE, ClientKeys, take_signature

SETTLED = 2.0
"""seconds for which an inner strategy sees the same clients, and the least that it may wait for more"""


class TooFewNodes(Exception):
    """An inner strategy has waited for more clients than are there."""


class ClientGrid:
    """The grid as an inner strategy sees it: only nodes that are clients in good standing, and no wait without an end.

    Parameters
    ----------
    grid
        The grid itself.
    look
        Client → node of those that are there now.
    patience
        Seconds after which `TooFewNodes` is raised, for Flower's strategies ask again and again.
    """

    def __init__(self, grid: Grid, look: Callable[[], Mapping[int, int]], patience: float) -> None:
        self._grid, self._look, self._began, self._patience = grid, look, time.monotonic(), max(patience, SETTLED)
        self.clients: dict[int, int] | None = None
        """node → client"""

    def get_node_ids(self) -> list[int]:
        waited = time.monotonic() - self._began
        if waited > self._patience:
            raise TooFewNodes(f"waited {waited:.0f} s for more than {len(self.clients or ())} clients")
        if self.clients is None or waited > SETTLED:
            self.clients = {node: client for client, node in self._look().items()}
        return list(self.clients)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)


def sorted_out(
    t: int, messages: Sequence[Message], sent: Mapping[int, int], replies: Iterable[Message], keys: ClientKeys | None
) -> tuple[list[Message], list[Event]]:
    """The replies that may be heard, each with the node it is of, and what is to be told of the others.

    `sent` says which client each node is that was asked. An error can be put into anybody's mouth, so errors come last: an
    answer that came as well counts before them.
    """
    asked = {message.metadata.message_id: message for message in messages if message.metadata.message_id}
    questions = {message.metadata.dst_node_id: message for message in messages}
    known = {} if keys is None else keys.current()
    answers, errors, events = [], [], []
    for reply in replies:
        if reply.has_error():
            question = asked.get(reply.metadata.reply_to_message_id)  # where a node is gone, Flower answers in its place
            errors.append(reply if question is None else Message(reply.error, reply_to=question))
            continue
        node = reply.metadata.src_node_id
        client = sent.get(node)
        if keys is not None and client is not None:
            reason = take_signature(reply.content, node, known.get(client))
            if reason is None and not _answers(reply, questions[node]):
                reason = "answers another question"
            if reason is not None:
                events.append(Event(t, -1, "forged", f"an answer as client {client} (node {node}): {reason}"))
                continue
        answers.append(reply)
    return [*answers, *errors], events


def _answers(reply: Message, question: Message) -> bool:
    """Whether it says that it is to this question; what clients tell of an order names its round, and may leave that to it."""
    said = reply.content.pop(NONCE, None)
    if said is None:
        return question.metadata.message_type != MessageType.EVALUATE
    return isinstance(said, ConfigRecord) and dict(said) == dict(question.content.config_records[NONCE])


def guarded(grid: Grid) -> Grid:
    """The grid, in which an answer that cannot be read is an error of its sender and not the end of the run.

    Flower builds messages from the bytes that nodes sent while it pulls them, all at once and unguarded. Here each is pulled
    by itself. An answer that never comes whole is one that does not come.
    """
    from flwr.superlink.grid import HttpGrid  # the SuperLink's half of Flower: two seconds, which no client needs

    if not isinstance(grid, HttpGrid):
        return grid
    plain = grid.pull_messages

    def pull_messages(message_ids: Iterable[str]) -> list[Message]:
        replies: list[Message] = []
        for asked in sorted(message_ids):
            try:
                replies += plain([asked])
            except httpx.HTTPError:  # between us and the SuperLink
                raise
            except Exception as error:  # a stranger's bytes fail in many ways
                replies.append(_unreadable(asked, error))
        return replies

    grid.pull_messages = pull_messages  # type: ignore[method-assign]
    return grid


def _unreadable(asked: str, error: Exception) -> Message:
    metadata = Metadata(
        run_id=0,
        message_id="",
        src_node_id=0,
        dst_node_id=0,
        reply_to_message_id=asked,
        group_id="",
        created_at=time.time(),
        ttl=1.0,
        message_type=MessageType.QUERY,
    )
    return make_message(metadata, error=Error(0, f"its answer cannot be read ({type(error).__name__})"))
