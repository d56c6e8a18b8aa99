"""Whose answer a reply is: Flower's own errors are told apart by the message they answer, the others by their signature."""

from collections.abc import Iterable, Mapping, Sequence

from flwr.app import Message

from headgate.flower.keys import ClientKeys, take_signature
from headgate.flower.ledger_store import Event
from headgate.flower.messages import Order


def sorted_out(
    t: int, messages: Sequence[Message], sent: Mapping[int, Order], replies: Iterable[Message], keys: ClientKeys | None
) -> tuple[list[Message], list[Event]]:
    """The replies that may be heard, each with the node it is of, and what is to be told of the others.

    An error can be put into anybody's mouth, so errors come last: an answer that came as well counts before them.
    """
    asked = {message.metadata.message_id: message for message in messages if message.metadata.message_id}
    known = {} if keys is None else keys.current()
    answers, errors, events = [], [], []
    for reply in replies:
        if reply.has_error():
            question = asked.get(reply.metadata.reply_to_message_id)  # where a node is gone, Flower answers in its place
            errors.append(reply if question is None else Message(reply.error, reply_to=question))
            continue
        node = reply.metadata.src_node_id
        order = sent.get(node)
        if keys is not None and order is not None:
            reason = take_signature(reply.content, node, known.get(order.client))
            if reason is not None:
                events.append(Event(t, -1, "forged", f"an answer as client {order.client} (node {node}): {reason}"))
                continue
        answers.append(reply)
    return [*answers, *errors], events
