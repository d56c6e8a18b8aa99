"""Whose answer a reply is, and the grid as strategies see it."""

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import httpx
from flwr.app import ConfigRecord, Error, Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.proto.runtime_pb2 import PullAppMessagesRequest, PullAppMessagesResponse
from flwr.serverapp import Grid

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


def nonce() -> ConfigRecord:
    """A record that makes the id of a message, its hash, one that nobody can guess: whoever knows the id may answer."""
    return ConfigRecord({"nonce": secrets.token_hex(16)})


def guarded(grid: Grid) -> Grid:
    """The grid, changed so that a reply is by the node that was asked, and one that cannot be read is that node's failure.

    The SuperLink takes an answer only from who knows the id of the question, and only the node that was asked is told it. But
    Flower's grid hands on what a message says of itself, also such as answer nothing, and builds all of them at once from the
    bytes that nodes sent, unguarded. Here the answer to each question is pulled by itself and becomes a reply to it. An answer
    that never comes whole is one that does not come.
    """
    from flwr.superlink.grid import HttpGrid  # the SuperLink's half of Flower: two seconds, which no client needs

    if not isinstance(grid, HttpGrid) or "pull_messages" in vars(grid):
        return grid
    push, pull, questions = grid.push_messages, grid.pull_messages, dict[str, Message]()

    def push_messages(messages: Iterable[Message]) -> Iterable[str]:
        messages = list(messages)
        ids = push(messages)
        questions.update({each.metadata.message_id: remove_content_from_message(each) for each in messages})
        return ids

    def pull_messages(message_ids: Iterable[str]) -> list[Message]:
        link, replies = grid._runtime_client, list[Message]()
        if "PullMessages" not in vars(link):
            vars(link)["PullMessages"] = partial(_answers_alone, link.PullMessages)
        for asked in sorted(message_ids):
            found: list[RecordDict | Error] = []
            try:
                found += [each.error if each.has_error() else each.content for each in pull([asked])]
            except httpx.HTTPError:  # between us and the SuperLink
                raise
            except Exception as error:  # a stranger's bytes fail in many ways
                found.append(Error(0, f"its answer cannot be read ({type(error).__name__})"))
            replies += [Message(each, reply_to=questions[asked]) for each in found]
        return replies

    vars(grid).update(push_messages=push_messages, pull_messages=pull_messages)
    return grid


def _answers_alone(
    pull: Callable[[PullAppMessagesRequest], PullAppMessagesResponse], request: PullAppMessagesRequest
) -> PullAppMessagesResponse:
    """What was asked for: nodes can also put messages there that answer nothing."""
    found = pull(request)
    both = zip(found.messages_list, found.message_object_trees, strict=True)
    kept = [each for each in both if each[0].metadata.reply_to_message_id in request.message_ids]
    return PullAppMessagesResponse(messages_list=[each for each, _ in kept], message_object_trees=[tree for _, tree in kept])
