"""What the SuperLink asks `flwr` for, of a program of that name that answers as told; links and fronts that do not come up."""

import json
import shlex
import signal
import sys
import tomllib

import pytest

from headgate.errors import HeadgateError
from headgate.flower.deploy import door, superlink, supernode
from headgate.flower.deploy.certificates import Certificates, make_certificates, make_node_key
from headgate.flower.deploy.door import Door
from headgate.flower.deploy.processes import end, free_port, listening, start
from headgate.flower.deploy.superlink import NAME, SuperLink
from headgate.flower.deploy.supernode import SuperNode
from headgate.flower.keys import VARIABLE, read_keys


@pytest.fixture
def link(tmp_path):
    return SuperLink(tmp_path / "link", free_port(), f"test of {tmp_path}")


class Flwr:
    """The program: it writes down its FLWR_HOME and the words it was called with."""

    def __init__(self, folder):
        folder.mkdir()
        self.program, self._called = folder / "flwr", folder / "called"

    def answers(self, out="", err="", code=0):
        text = out if isinstance(out, str) else json.dumps(out)
        self.program.write_text(
            "#!/bin/sh\n"
            f'printf \'%s\\n\' "$FLWR_HOME" "$@" > {shlex.quote(str(self._called))}\n'
            f"printf %s {shlex.quote(text)}\nprintf %s {shlex.quote(err)} >&2\nexit {code}\n"
        )
        self.program.chmod(0o700)

    @property
    def called(self):
        return self._called.read_text().splitlines()


@pytest.fixture
def flwr(tmp_path, monkeypatch):
    """Programs beside this Python are found first, so it is said to be beside ours."""
    made = Flwr(tmp_path / "bin")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    return made


def test_an_app_is_submitted_with_its_settings_to_this_superlink_alone(link, flwr, tmp_path):
    flwr.answers({"success": True, "run-id": "17"})
    assert link.submit(tmp_path / "app", {"out": "a b", "deadline": 3.5}) == 17
    home, *words = flwr.called
    assert home == str(link.connection.parent)
    settings = 'out="a b" deadline=3.5'
    assert words == ["run", str(tmp_path / "app"), NAME, "--format", "json", "--run-config", settings]
    assert link.submit(tmp_path / "app") == 17
    assert "--run-config" not in flwr.called


@pytest.mark.parametrize("told", [{"success": False, "error-message": "no such app"}, {"success": True}])
def test_an_app_that_was_not_started_is_an_error_although_flwr_exits_with_0(link, flwr, tmp_path, told):
    flwr.answers(told)
    with pytest.raises(HeadgateError, match=r"flwr run .*app: .*success"):
        link.submit(tmp_path / "app")


def test_how_a_run_stands_what_it_said_and_its_end(link, flwr):
    flwr.answers({"runs": [{"status": "finished:failed"}]})
    assert link.status(17) == "finished:failed"
    assert flwr.called[1:] == ["ls", NAME, "--run-id", "17", "--format", "json"]
    flwr.answers("\x1b[92mINFO\x1b[0m: round 1\n")
    assert link.said(17) == "INFO: round 1\n"
    flwr.answers({})
    link.stop(17)
    assert flwr.called[1:] == ["stop", "17", NAME, "--format", "json"]


@pytest.mark.parametrize(
    ("answer", "quoted"),
    [
        ({"err": "no\n  connection", "code": 1}, "flwr stop 17: no connection"),
        ({"out": "nothing there", "code": 1}, "flwr stop 17: nothing there"),
        ({"code": 3}, "flwr stop 17: exit code 3"),
        ({"out": "Oh dear"}, "flwr stop 17: Oh dear"),
    ],
)
def test_what_flwr_says_where_it_fails_is_quoted(link, flwr, answer, quoted):
    flwr.answers(**answer)
    with pytest.raises(HeadgateError, match=f"^{quoted}$"):
        link.stop(17)


def test_a_key_is_registered_once_and_one_that_flower_knows_is_no_error(link, flwr, tmp_path):
    link.prepare()
    public = make_node_key(tmp_path / "key")
    flwr.answers()
    link.register(2, public)
    assert flwr.called[1:] == ["supernode", "register", str(public), NAME]
    flwr.answers(err="the public key is already in use", code=1)
    link.register(2, public)
    assert list(read_keys(link.keys)) == [2]
    flwr.answers(err="no connection", code=1)
    with pytest.raises(HeadgateError, match="flwr supernode register: no connection"):
        link.register(2, public)


def test_what_a_superlink_needs_is_made_once(link):
    link.prepare()
    own = [path.read_bytes() for path in (link.certificates.authority, link.certificates.server_key)]
    link.keys.write_text("kept\n")
    link.prepare()
    assert [path.read_bytes() for path in (link.certificates.authority, link.certificates.server_key)] == own
    assert link.keys.read_text() == "kept\n"
    told = tomllib.loads(link.connection.read_text())["superlink"]
    assert told["default"] == NAME
    assert told[NAME] == {"address": f"127.0.0.1:{link.port}", "root-certificates": str(link.certificates.authority)}
    assert {path.stat().st_mode & 0o777 for path in (link.folder, link.connection.parent)} == {0o700}


def instead(code, started):
    """A `start` that runs this code, and writes down what should have been run."""

    def starts(command, log, env):
        process = start([sys.executable, "-c", code], log, env)
        started.append((command, env, process))
        return process

    return starts


def test_a_superlink_is_up_when_it_listens_on_loopback_and_knows_its_nodes_by_keys(link, monkeypatch):
    started = []
    listens = f"import socket, time; s = socket.create_server(('127.0.0.1', {link.port})); time.sleep(600)"
    monkeypatch.setattr(superlink, "start", instead(listens, started))
    process = link.start()
    try:
        assert listening(link.port)
    finally:
        end([process], link.mark, patience=5)
    (command, env, _) = started[0]
    assert command[command.index("--host") + 1] == "127.0.0.1"
    assert command[command.index("--database") + 1] == str(link.folder / "state.db")
    assert "--enable-supernode-auth" in command
    assert env[VARIABLE] == str(link.keys)


def test_a_supernode_listens_on_loopback_and_tells_its_clients_where_their_key_is(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(supernode, "start", instead("pass", started))
    key = tmp_path / "key"
    node = SuperNode(tmp_path / "node", "fl.example.org:9092", tmp_path / "ca.crt", key, 9, "mark", {"partition-id": 3})
    assert node.start().wait(60) == 0
    ((command, env, _),) = started
    said = {word: command[command.index(word) + 1] for word in command if word.startswith("--")}
    assert said["--superlink"] == "fl.example.org:9092"
    assert (said["--host"], said["--port"]) == ("127.0.0.1", "9")
    assert said["--auth-supernode-private-key"] == str(key)
    assert said["--node-config"] == f'partition-id=3 headgate-key="{key}"'
    assert env["FLWR_HOME"] == str(tmp_path / "node" / "home")


def interrupted(*words, **more):
    raise KeyboardInterrupt


def test_who_stops_waiting_for_a_superlink_or_a_front_leaves_none(link, monkeypatch):
    for module, service in ((superlink, link), (door, Door(link, Certificates(link.folder / "outside"), free_port()))):
        started = []
        monkeypatch.setattr(module, "start", instead("import time; time.sleep(600)", started))
        monkeypatch.setattr(module, "await_port", interrupted)
        with pytest.raises(KeyboardInterrupt):
            service.start()
        ((_, _, process),) = started
        assert process.returncode == -signal.SIGKILL


def test_a_front_is_up_when_it_listens_and_ends_when_asked_to(link, tmp_path):
    link.prepare()
    front = Door(link, make_certificates(tmp_path / "outside"), free_port())
    process = front.start()
    try:
        assert listening(front.port)
        assert process.poll() is None
    finally:
        process.terminate()
        process.wait(60)
    assert process.returncode in (0, -signal.SIGTERM)
    assert not listening(front.port)


def test_a_front_without_certificates_is_refused_with_the_reason(link):
    with pytest.raises(HeadgateError, match=r"headgate\.flower\.deploy\.front ended at its start: FileNotFoundError"):
        Door(link, Certificates(link.folder / "nowhere"), free_port()).start()
