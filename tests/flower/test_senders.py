"""Bytes of a node that Flower cannot build a message from are that node's failure, and the others are heard."""

import hashlib

import httpx
import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common.serde import message_to_proto
from flwr.proto.message_pb2 import ConfirmMessageReceivedResponse, ObjectTree, PullObjectResponse
from flwr.proto.runtime_pb2 import PullAppMessagesResponse
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.superlink.grid import HttpGrid
from grids import FakeGrid

from headgate.books.ledger_store import Event
from headgate.books.messages import RECORD
from headgate.flower.senders import guarded, sorted_out

HOSTILE = [
    b"Message  5\x00hello",
    b"ArrayRecord  2\x00{}",
    b"Message  0\x00",
    b"RecordDict  9\x00[[[[[[[[[",
    b"ConfigRecord  4\x00\xff\xff\xff\xff",
    b"Array  3\x00abc",
]


class Paper:
    """The SuperLink's side: for each question, bytes that a node has sent."""

    def __init__(self, replies):
        self.replies, self.objects, self.confirmed = replies, {}, []
        for reply in replies.values():
            if isinstance(reply, Message):
                self.objects |= {name: one.deflate() for name, one in get_all_nested_objects(reply).items()}
            else:
                self.objects[hashlib.sha256(reply).hexdigest()] = reply

    def PullMessages(self, request):
        said = PullAppMessagesResponse()
        for asked in request.message_ids:
            reply = self.replies[asked]
            readable = isinstance(reply, Message)
            name = reply.object_id if readable else hashlib.sha256(reply).hexdigest()
            proto = message_to_proto(reply if readable else next(iter(self.good())))
            proto.metadata.message_id = name
            said.messages_list.append(proto)
            said.message_object_trees.append(get_object_tree(reply) if readable else ObjectTree(object_id=name))
        return said

    def good(self):
        return (reply for reply in self.replies.values() if isinstance(reply, Message))

    def PullObject(self, request):
        return PullObjectResponse(object_found=True, object_available=True, object_content=self.objects[request.object_id])

    def ConfirmMessageReceived(self, request):
        self.confirmed.append(request.message_object_id)
        return ConfirmMessageReceivedResponse()


@pytest.fixture
def questions():
    FakeGrid({})
    asked = [Message(RecordDict({RECORD: ConfigRecord({"n": n})}), 100 + n, "train", group_id="1") for n in range(2)]
    for message in asked:
        message.metadata.__dict__["_message_id"] = message.object_id
    return asked


def a_grid(client):
    class Run:
        run_id = 1

    grid = HttpGrid(token="t")
    grid._client, grid._run = client, Run()
    return grid


@pytest.mark.parametrize("sent", HOSTILE)
def test_an_answer_that_cannot_be_read_is_its_senders_failure(questions, sent):
    honest = Message(RecordDict({RECORD: ConfigRecord({"n": 1})}), reply_to=questions[1])
    replies = {questions[0].object_id: sent, questions[1].object_id: honest}
    ids = sorted(replies)
    with pytest.raises(Exception, match=r"."):  # Flower's own, in whatever way
        list(a_grid(Paper(replies)).pull_messages(ids))
    heard = list(guarded(a_grid(Paper(replies))).pull_messages(ids))
    found, events = sorted_out(1, questions, {}, heard, None)
    assert events == list[Event]()
    answer, error = found
    assert answer.content[RECORD]["n"] == 1
    assert error.metadata.src_node_id == 100
    assert "its answer cannot be read" in error.error.reason


def test_a_superlink_that_is_away_is_no_clients_failure(questions):
    class Away:
        def PullMessages(self, request):
            raise httpx.ConnectError("away")

    with pytest.raises(httpx.ConnectError):
        guarded(a_grid(Away())).pull_messages([questions[0].object_id])


def test_another_grid_stays_as_it_is():
    grid = FakeGrid({})
    assert guarded(grid) is grid
