"""A client is the node that has its key: nobody else can be it, or answer for it."""

import os
import secrets

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from grids import Node
from worlds import World, an_experiment, counting_app

from headgate.errors import DataError
from headgate.flower.keys import FILE, VARIABLE, bind_key, make_key, read_keys
from headgate.flower.rounds import Discipline


@pytest.fixture
def world(tmp_path, monkeypatch):
    """Three clients, each with the key that is registered for it."""
    world = World(
        tmp_path,
        an_experiment("fifo", 4),
        Discipline(gather=0.0, deadline=5.0, offences=2),
    )
    monkeypatch.setenv(VARIABLE, str(tmp_path / FILE))
    for node in world.grid.nodes.values():
        bind_key(
            tmp_path / FILE, node.client, make_key(tmp_path / f"{node.client}.key")
        )
        node.key = read_keys(tmp_path / FILE)[node.client]
    return world


def trained(world):
    return {client for _, client in world.grid.trained}


def test_clients_with_their_keys_play_as_without_and_are_not_asked_who_they_are(
    world, tmp_path, monkeypatch
):
    assert world.play()
    assert world.grid.queries == 0
    monkeypatch.delenv(VARIABLE)
    plain = World(tmp_path / "plain", world.experiment)
    assert plain.play()
    assert world.events("rejected", "unknown") == []
    assert [past.sha256 for past in world.rounds()] == [
        past.sha256 for past in plain.rounds()
    ]
    world.audit()


def test_no_node_is_a_client_whose_key_it_does_not_have(world):
    """Whatever it says: a node without a registered key, and client 1 that says it is
    client 0.
    """
    app = counting_app(world.folder / "others")
    world.grid.nodes = {
        7: Node(app, 0, key=b"another"),
        8: Node(app, 0),
        **world.grid.nodes,
    }
    world.grid.nodes[101].client = 0
    assert world.play()
    assert trained(world) == {0, 2}
    assert {event.reason for event in world.events("failed")} == {
        "error 2: DataError: order.client = 1: this is client 0"
    }
    assert [world.row(m).heard for m in (0, 2)] == [4, 4]
    with world.store() as store:
        assert {(each.node, each.client) for each in store.nodes()} == {
            (100, 0),
            (101, 1),
            (102, 2),
        }


def test_a_key_that_is_registered_while_the_run_is_played_counts_from_then_on(world):
    file = world.folder / FILE
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:2]))
    assert world.play(2)
    assert trained(world) == {0, 1}
    file.write_bytes(b"".join(lines))
    assert world.play(3)
    assert trained(world) == {0, 1, 2}
    bind_key(file, 1, make_key(world.folder / "another.key"), replace=True)
    world.grid.trained.clear()
    assert world.play()
    assert trained(world) == {0, 2}, "an earlier key is nobody's"


def test_a_number_and_its_key_belong_together_and_a_lost_key_is_replaced(tmp_path):
    file = tmp_path / "own" / FILE
    first, second, third = (
        make_key(tmp_path / name) for name in ("first", "second", "third")
    )
    for _ in range(2):
        bind_key(file, 0, first)
    assert list(read_keys(file)) == [0]
    assert (os.stat(file).st_mode & 0o777, os.stat(file.parent).st_mode & 0o777) == (
        0o600,
        0o700,
    )
    with pytest.raises(DataError, match="client 0 has another key already"):
        bind_key(file, 0, second)
    with pytest.raises(DataError, match="client 0 has this key already"):
        bind_key(file, 1, first)
    bind_key(file, 1, second)
    assert list(before := read_keys(file)) == [0, 1]
    with pytest.raises(DataError, match="client 1 has this key already"):
        bind_key(file, 0, second, replace=True)
    bind_key(file, 0, third, replace=True)
    assert (after := read_keys(file))[1] == before[1]
    assert after[0] != before[0]
    file.write_text(f"0 {third.read_text()}1 {third.read_text()}")
    with pytest.raises(DataError, match="two clients have the same key"):
        read_keys(file)


@pytest.mark.parametrize(
    "text",
    [
        b"ssh-rsa AAAA\n",
        b"0 nonsense\n",
        b"-1 x\n",
        b"9999999999 x\n",
        b"0\n",
        b"\xff\n",
        b"0 ssh-ed25519 AAAA\n",
    ],
)
def test_a_file_that_is_none_of_keys_is_refused_in_one_line(tmp_path, text):
    (tmp_path / FILE).write_bytes(text)
    with pytest.raises(DataError, match=r"^[^\n]*clients\.keys: line 1[^\n]*$"):
        read_keys(tmp_path / FILE)


def test_keys_that_cannot_be_read_or_are_of_another_kind_are_refused(tmp_path):
    for read in (read_keys, lambda path: bind_key(tmp_path / FILE, 0, path)):
        with pytest.raises(
            DataError, match=r"nowhere: cannot be read \(No such file or directory\)"
        ):
            read(tmp_path / "nowhere")
    other = Ed25519PrivateKey.generate().public_key()
    (tmp_path / "key.pub").write_bytes(
        other.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    )
    with pytest.raises(DataError, match="must be an elliptic-curve key"):
        bind_key(tmp_path / FILE, 0, tmp_path / "key.pub")


def test_the_id_of_a_question_cannot_be_guessed(world, monkeypatch):
    """Flower takes an answer from whoever knows the id of the question: two questions
    that say the same have two ids.
    """
    ids = []

    def send(message, node, plain=world.grid._send):
        message.metadata.__dict__ |= {"_created_at": 0.0, "_message_id": ""}
        ids.append(message.object_id)
        return plain(message, node)

    world.grid._send = send
    monkeypatch.delenv(VARIABLE)  # so that nodes are asked who they are
    for again in range(2):
        monkeypatch.setattr(world, "folder", world.folder.parent / f"again-{again}")
        monkeypatch.setattr(
            "secrets.token_hex",
            lambda n, plain=secrets.token_hex: "e" if n == 8 else plain(n),
        )
        assert world.play(1)
    assert len(ids) == len(set(ids)) == 2 * 2 * 3
