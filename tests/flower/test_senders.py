"""A reply is by the node that was asked, whatever it says of itself; what cannot be
read is its sender's failure alone.
"""

import hashlib

import httpx
import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.app.message import make_message
from flwr.common.serde import message_to_proto
from flwr.proto.message_pb2 import (
    ConfirmMessageReceivedResponse,
    ObjectTree,
    PullObjectResponse,
)
from flwr.proto.runtime_pb2 import PullAppMessagesResponse, PushAppMessagesResponse
from flwr.server.superlink.linkstate.utils import (
    create_message_error_unavailable_res_message,
)
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
)
from flwr.superlink.grid import HttpGrid
from grids import SERVER, FakeGrid

from headgate.flower.messages import RECORD
from headgate.flower.roster import guarded

HOSTILE = [
    b"Message  5\x00hello",
    b"ArrayRecord  2\x00{}",
    b"Message  0\x00",
    b"RecordDict  9\x00[[[[[[[[[",
    b"ConfigRecord  4\x00\xff\xff\xff\xff",
    b"Array  3\x00abc",
]


class Paper:
    """The SuperLink's side: for each question what was sent in answer, a message or
    bytes; and messages that answer nothing.
    """

    def __init__(self, replies=(), others=()):
        self.replies, self.others, self.objects, self.asked = (
            dict(replies),
            others,
            {},
            [],
        )

    PushObject = None  # it has them all

    def PushMessages(self, request):
        self.asked += [each.metadata for each in request.messages_list]
        ids = {
            each.metadata.dst_node_id: each.metadata.message_id
            for each in request.messages_list
        }
        return PushAppMessagesResponse(
            message_ids=[id if node in self.replies else "" for node, id in ids.items()]
        )

    def PullMessages(self, request):
        said = PullAppMessagesResponse()
        there = {
            node: (asked, reply)
            for node, reply in self.replies.items()
            if (asked := self.id_of(node)) in request.message_ids
        }
        for asked, reply in [*there.values(), *(("", each) for each in self.others)]:
            form = (
                reply
                if isinstance(reply, Message)
                else (
                    self.others[0] if self.others else Message(RecordDict(), 5, "query")
                )
            )
            name = (
                form.object_id if form is reply else hashlib.sha256(reply).hexdigest()
            )
            self.objects |= {
                key: one.deflate() for key, one in get_all_nested_objects(form).items()
            }
            self.objects |= {} if form is reply else {name: reply}
            proto = message_to_proto(form)
            proto.metadata.message_id, proto.metadata.reply_to_message_id = (
                name,
                asked,
            )  # as the SuperLink has checked
            said.messages_list.append(proto)
            said.message_object_trees.append(
                get_object_tree(form) if form is reply else ObjectTree(object_id=name)
            )
        return said

    def id_of(self, node):
        return next(each.message_id for each in self.asked if each.dst_node_id == node)

    def PullObject(self, request):
        return PullObjectResponse(
            object_found=True,
            object_available=True,
            object_content=self.objects[request.object_id],
        )

    def ConfirmMessageReceived(self, request):
        return ConfirmMessageReceivedResponse()


def sent(link):
    """What is heard of two nodes that are asked."""

    class Run:
        run_id = 1

    grid = HttpGrid(token="t")
    grid._client, grid._run = link, Run()
    questions = [
        Message(
            RecordDict({RECORD: ConfigRecord({"n": n})}), 100 + n, "train", group_id="1"
        )
        for n in range(2)
    ]
    assert guarded(guarded(grid)) is grid
    return grid.send_and_receive(questions, timeout=0.01)


def said(n, node, **more):
    """A message that says of itself that it is by this node."""
    message = Message(RecordDict({RECORD: ConfigRecord({"n": n, **more})}), 1, "train")
    message.metadata.__dict__["_src_node_id"] = node
    return message


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    FakeGrid({})  # messages want to know who sends them
    monkeypatch.setattr("time.sleep", lambda seconds: None)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_an_answer_that_cannot_be_read_is_its_senders_failure(hostile):
    heard = {
        each.metadata.src_node_id: each
        for each in sent(Paper({100: hostile, 101: said(1, 101)}))
    }
    assert heard[101].content[RECORD]["n"] == 1
    assert "its answer cannot be read" in heard[100].error.reason


def test_a_reply_is_by_the_node_that_was_asked_whatever_it_says():
    heard = sent(Paper({100: said(0, 101), 101: said(1, 101)}))
    assert sorted(
        (each.metadata.src_node_id, each.content[RECORD]["n"]) for each in heard
    ) == [(100, 0), (101, 1)]
    assert {each.metadata.message_type for each in heard} == {"train"}


def test_what_answers_nothing_is_not_heard_and_who_is_gone_is_not_waited_for():
    """A registered node can leave such messages with Flower's SuperLink, in the name of
    anybody.
    """
    assert sent(Paper({}, [said(7, 101)])) == []
    (heard,) = sent(Paper({100: said(0, 100)}, [said(7, 101), said(8, SERVER)]))
    assert (heard.metadata.src_node_id, heard.content[RECORD]["n"]) == (100, 0)


def test_flowers_error_for_a_node_that_is_gone_is_of_that_node():
    link = Paper({101: said(1, 101)})
    gone = create_message_error_unavailable_res_message(
        said(0, SERVER).metadata, "node_unavail"
    )
    link.replies[100] = make_message(metadata=gone.metadata, error=gone.error)
    heard = {each.metadata.src_node_id: each for each in sent(link)}
    assert heard.keys() == {100, 101}
    assert heard[100].has_error()


def test_a_superlink_that_is_away_is_no_clients_failure():
    class Away(Paper):
        def PullMessages(self, request):
            raise httpx.ConnectError("away")

    with pytest.raises(httpx.ConnectError):
        sent(Away({100: said(0, 100)}))
