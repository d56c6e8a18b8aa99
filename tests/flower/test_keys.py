"""A client is who has its key: nobody else can be it, answer for it, or bring offences upon it."""

import os
import secrets
from contextlib import closing

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from flwr.app import ConfigRecord, Error, Message, MetricRecord, RecordDict
from grids import SERVER, Node
from worlds import World, an_experiment, counting_app, start

from headgate.books.messages import RECORD
from headgate.errors import DataError, SettingError
from headgate.flower.client import signed
from headgate.flower.keys import (
    FILE,
    SIGNATURE,
    VARIABLE,
    ClientKeys,
    bind_key,
    make_key,
    read_keys,
    read_private_key,
    read_public_key,
    sign,
    take_signature,
    written,
)
from headgate.flower.rounds import Discipline
from headgate.flower.strategy import AdmissionStrategy


@pytest.fixture
def world(tmp_path, monkeypatch):
    """Three clients, each with the key that is registered for it."""
    world = World(tmp_path, an_experiment("fifo", 4), Discipline(gather=0.0, deadline=5.0, offences=2))
    monkeypatch.setenv(VARIABLE, str(tmp_path / FILE))
    for node in world.grid.nodes.values():
        key = tmp_path / f"{node.client}.key"
        bind_key(tmp_path / FILE, node.client, make_key(key))
        node.config["headgate-key"] = str(key)
    return world


def trained(world):
    return {client for _, client in world.grid.trained}


def test_clients_with_their_keys_play_as_without(world, tmp_path, monkeypatch):
    assert world.play()
    monkeypatch.delenv(VARIABLE)
    plain = World(tmp_path / "plain", world.experiment)
    assert plain.play()
    assert world.events("forged", "rejected", "unknown") == []
    with world.store() as signed, plain.store() as unsigned:
        assert [past.sha256 for past in signed.rounds()] == [past.sha256 for past in unsigned.rounds()]
    world.audit()


@pytest.mark.parametrize("since", [{}, {"since": 1e300}])
def test_no_other_node_becomes_a_client_by_saying_so(world, since):
    asked = []

    def claims(message, context):
        asked.append(message.metadata.message_type)
        content = RecordDict({RECORD: ConfigRecord({"client": 0, **since})})
        sign(content, context.node_id, read_private_key(world.folder / "1.key"))
        return Message(content, reply_to=message)

    world.grid.nodes = {7: Node(claims, 0), **world.grid.nodes}
    assert world.play()
    assert set(asked) == {"query.identity"}
    assert {event.kind for event in world.events()} <= {"unknown", "short"}
    assert any("node 7" in event.reason for event in world.events("unknown"))
    world.audit()


def test_an_identity_cannot_be_repeated_by_another_node(world):
    question = Message(RecordDict({RECORD: ConfigRecord({})}), 100, "query.identity", group_id="1")
    heard = world.grid.deliver(question)
    world.grid.nodes[7] = Node(lambda message, context: Message(heard.content, reply_to=message), 0)
    assert world.play()
    assert any("is not signed by this client's key" in event.reason for event in world.events("unknown"))
    assert world.events("rejected", "forged") == []


def test_answers_in_the_name_of_another_count_for_nothing_and_hurt_nobody(world):
    """Flower hands on a sender's own word for who it is: client 1 answers as client 0 as well, wrongly, before it does."""

    def send(message, node, plain=world.grid._send):
        replies = plain(message, node)
        if message.metadata.message_type == "train" and node == 101:
            question = Message(RecordDict({RECORD: ConfigRecord({})}), 100, "train", group_id=message.metadata.group_id)
            lie = RecordDict({RECORD: ConfigRecord({"client": 0, "anything": 1})})
            sign(lie, 100, read_private_key(world.folder / "1.key"))
            unsigned = RecordDict({RECORD: ConfigRecord({"client": 0})})
            forged = [Message(lie, reply_to=question), Message(unsigned, reply_to=question)]
            replies = [*forged, Message(Error(code=2, reason="put into its mouth"), reply_to=question), *replies]
        return replies

    world.grid._send = send
    world.grid.nodes = dict(sorted(world.grid.nodes.items(), key=lambda item: item[0] != 101))
    assert world.play()
    assert len(world.events("forged")) == 8
    assert all("as client 0 (node 100)" in event.reason for event in world.events("forged"))
    assert world.events("rejected", "failed", "quarantined") == []
    assert trained(world) == {0, 1, 2}
    assert [world.row(m).heard for m in world.clients] == [4] * 3
    world.audit()


def test_a_client_without_its_key_takes_no_part(world):
    del world.grid.nodes[102].config["headgate-key"]
    assert world.play()
    assert trained(world) == {0, 1}
    assert any("node 102: identity.client = 2: is not signed" in event.reason for event in world.events("unknown"))


def test_a_key_that_is_registered_while_the_run_is_played_counts_from_then_on(world):
    file = world.folder / FILE
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:2]))
    assert world.play(2)
    assert trained(world) == {0, 1}
    file.write_bytes(b"".join(lines))
    assert world.play()
    assert trained(world) == {0, 1, 2}


def test_flowers_error_for_a_node_that_is_gone_names_the_client_that_was_asked(world):
    number = iter(range(10**6))

    def send(message, node, plain=world.grid._send):
        message.metadata.__dict__["_message_id"] = f"message {next(number)}"  # as Flower's grids do
        if message.metadata.message_type == "train" and node == 102:
            gone = Message(Error(code=5, reason="Node Unavailable"), reply_to=message)
            gone.metadata.__dict__["_src_node_id"] = SERVER
            return [gone]
        return plain(message, node)

    world.grid._send = send
    assert world.play(1)
    assert world.events("unknown") == []
    assert [(event.client, event.kind, event.reason) for event in world.events()] == [
        (2, "failed", "error 5: Node Unavailable")
    ]


def evaluating(world, mods):
    """A world whose clients measure their own number, each with one sample; what is told of the rounds."""
    app = counting_app(world.folder / "stores")

    @app.evaluate(mods=mods)
    def evaluate(message, context):
        return measured(message, float(context.node_config["partition-id"]))

    for node in world.grid.nodes.values():
        node.app = app
    strategy = AdmissionStrategy(world.experiment, world.folder / "run", discipline=world.discipline, client_evaluation=True)
    with closing(strategy):
        return strategy.start(world.grid, start()).evaluate_metrics_clientapp


def measured(question, value):
    record = MetricRecord({"accuracy": value, "num-examples": 1})
    return Message(RecordDict({"metrics": record}), reply_to=question)


def test_nobody_measures_in_the_name_of_another(world):
    """Somebody answers as client 0 before it does: unsigned, by the key of client 1, and with client 0's own training."""
    trainings = []

    def send_and_receive(messages, *, timeout=None, plain=world.grid.send_and_receive):
        messages = list(messages)
        replies = plain(messages, timeout=timeout)
        if messages[0].metadata.message_type == "train":
            trainings.append(RecordDict(replies[0].content))
        if messages[0].metadata.message_type != "evaluate":
            return replies
        question = messages[0]
        assert question.metadata.dst_node_id == 100
        forged = [measured(question, 9.0) for _ in range(2)]
        sign(forged[1].content, 100, read_private_key(world.folder / "1.key"))
        return [*forged, Message(RecordDict(trainings[-1]), reply_to=question), *replies]

    world.grid.send_and_receive = send_and_receive
    told = evaluating(world, [signed])
    assert [record["accuracy"] for record in told.values()] == [1.0] * 4
    reasons = [event.reason.partition(": ")[2] for event in world.events("forged")]
    assert reasons == ["is not signed", "is not signed by this client's key", "answers another question"] * 4
    assert all("as client 0 (node 100)" in event.reason for event in world.events("forged"))
    assert world.events("rejected", "quarantined") == []


def test_an_old_measurement_is_no_answer_to_a_new_question(world):
    kept = []

    def send(message, node, plain=world.grid._send):
        replies = plain(message, node)
        if message.metadata.message_type == "evaluate" and node == 100:
            kept.append(replies[0].content)
            return [Message(RecordDict(kept[0]), reply_to=message)]
        return replies

    world.grid._send = send
    told = evaluating(world, [signed])
    assert [record["accuracy"] for record in told.values()] == [1.0, 1.5, 1.5, 1.5]
    assert [event.reason for event in world.events("forged")] == [
        "an answer as client 0 (node 100): answers another question"
    ] * 3


def test_measurements_that_nobody_signed_count_for_nothing(world):
    assert evaluating(world, []) == {}
    assert {event.reason.partition(": ")[2] for event in world.events("forged")} == {"is not signed"}


def test_every_byte_of_an_answer_is_signed(tmp_path):
    bind_key(tmp_path / FILE, 3, make_key(tmp_path / "key"))
    key, public = read_private_key(tmp_path / "key"), read_keys(tmp_path / FILE)[3]

    def answer(**more):
        return RecordDict({RECORD: ConfigRecord({"client": 3, "admitted": [1, 2], **more})})

    good = answer()
    sign(good, 9, key)
    signature = good[SIGNATURE]
    assert take_signature(good, 9, public) is None
    assert SIGNATURE not in good
    changed = {"another value": answer(client=4), "another field": answer(x=1), "another node": answer(), "none": answer()}
    changed["another record"] = answer()
    changed["another record"]["more"] = ConfigRecord({})
    for name, content in changed.items():
        if name != "none":
            content[SIGNATURE] = signature
        assert take_signature(content, 8 if name == "another node" else 9, public) is not None, name
    assert take_signature(answer(), 9, None) == "no key is registered for this client"


def test_a_number_and_its_key_belong_together_and_a_lost_key_is_replaced(tmp_path):
    file = tmp_path / "own" / FILE
    first, second, third = (make_key(tmp_path / name) for name in ("first", "second", "third"))
    for _ in range(2):
        bind_key(file, 0, first)
    assert list(read_keys(file)) == [0]
    assert (os.stat(file).st_mode & 0o777, os.stat(file.parent).st_mode & 0o777) == (0o600, 0o700)
    with pytest.raises(DataError, match="client 0 has another key already"):
        bind_key(file, 0, second)
    with pytest.raises(DataError, match="client 0 has this key already"):
        bind_key(file, 1, first)
    bind_key(file, 1, second)
    keys = ClientKeys(file)
    assert list(keys.current()) == [0, 1]
    with pytest.raises(DataError, match="client 1 has this key already"):
        bind_key(file, 0, second, replace=True)
    bind_key(file, 0, third, replace=True)
    assert [written(key) for key in keys.current().values()] == [written(read_public_key(path)) for path in (third, second)]
    file.write_text(f"0 {third.read_text()}1 {third.read_text()}")
    with pytest.raises(DataError, match="two clients have the same key"):
        read_keys(file)


@pytest.mark.parametrize(
    "text", [b"ssh-rsa AAAA\n", b"0 nonsense\n", b"-1 x\n", b"9999999999 x\n", b"0\n", b"\xff\n", b"0 ssh-ed25519 AAAA\n"]
)
def test_a_file_that_is_none_of_keys_is_refused_in_one_line(tmp_path, text):
    (tmp_path / FILE).write_bytes(text)
    with pytest.raises(DataError, match=r"^[^\n]*clients\.keys: line 1[^\n]*$"):
        read_keys(tmp_path / FILE)


def test_the_id_of_a_question_cannot_be_guessed(world, monkeypatch):
    """Flower keeps one answer for an id, from whoever knows it: two questions that say the same have two ids."""
    ids = []

    def send(message, node, plain=world.grid._send):
        message.metadata.__dict__ |= {"_created_at": 0.0, "_message_id": ""}
        ids.append(message.object_id)
        return plain(message, node)

    world.grid._send = send
    for again in range(2):
        monkeypatch.setattr(world, "folder", world.folder.parent / f"again-{again}")
        monkeypatch.setattr("secrets.token_hex", lambda n, plain=secrets.token_hex: "e" if n == 8 else plain(n))
        assert world.play(1)
    assert len(ids) == len(set(ids)) == 2 * 2 * 3


def test_files_of_keys_that_cannot_be_read(tmp_path):
    for read in (read_public_key, lambda path: ClientKeys(path).current()):
        with pytest.raises(DataError, match=r"nowhere: cannot be read \(No such file or directory\)"):
            read(tmp_path / "nowhere")


def test_keys_of_another_kind_are_refused(tmp_path):
    with pytest.raises(SettingError, match="is no private key"):
        read_private_key(tmp_path / "key")
    other = Ed25519PrivateKey.generate()
    (tmp_path / "key").write_bytes(other.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    (tmp_path / "key.pub").write_bytes(other.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
    with pytest.raises(SettingError, match="must be an elliptic-curve key"):
        read_private_key(tmp_path / "key")
    with pytest.raises(DataError, match="must be an elliptic-curve key"):
        read_public_key(tmp_path / "key.pub")
