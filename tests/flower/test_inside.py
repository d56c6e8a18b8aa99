"""On loopback only processes of the SuperLink's own user may do more than a SuperNode."""

import asyncio
import os
import socket
import sys
import threading
import time

import pytest
import uvicorn

from headgate.flower.deploy import inside
from headgate.flower.deploy.inside import SOCKETS, OwnUser, user_of

NOBODY = 65534
pytestmark = pytest.mark.skipif(not SOCKETS.exists(), reason="connections and their users are listed by Linux")


@pytest.fixture
def ends():
    """(client, server) of a connection on loopback, both of this process."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
        server.accept()[0],
    ):
        yield client.getsockname(), server.getsockname()


def asked(app, path, ends, kind="http"):
    said = []

    async def send(message):
        said.append(message)

    client, server = ends
    scope = {"type": kind, "path": path, "client": client, "server": server, "headers": [], "method": "POST"}
    asyncio.run(app(scope, None, send))
    return said


def guarded(users):
    reached = []

    async def app(scope, receive, send):
        reached.append(scope.get("path"))

    return OwnUser(app, frozenset(users)), reached


def test_the_user_of_a_connection_is_known(ends):
    assert user_of(*ends) == os.geteuid()
    client, server = ends
    assert user_of((client[0], 1), server) is None
    assert user_of(("127.9.9.9", client[1]), server) is None


@pytest.mark.parametrize("closed", ["the client", "both", "half of the client"])
def test_a_closed_connection_is_nobodys(closed):
    """The kernel lists it as root's, although another user closed it."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        ends = client.getsockname(), server.getsockname()
        with server.accept()[0] as accepted:
            assert user_of(*ends) == os.geteuid()
            client.shutdown(socket.SHUT_WR) if closed == "half of the client" else client.close()
            assert accepted.recv(1) == b""
            if closed == "both":
                accepted.close()
            assert user_of(*ends) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_another_user_who_sends_a_request_and_closes_is_not_taken_for_root():
    """The server reads the request when its sender is gone; the second one keeps it from noticing that before it answers."""
    reached, go_on, asked_for = [], threading.Event(), "POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"

    async def app(scope, receive, send):
        reached.append(scope["path"])
        go_on.wait(60)  # the whole server waits

    sent = (asked_for.format("/v1/control/start-run") * 2).encode()
    config = uvicorn.Config(OwnUser(app, frozenset({0})), lifespan="off", log_config=None, http="h11", ws="none")
    serving = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serving.run, kwargs={"sockets": [server]})
        thread.start()
        first = socket.create_connection(server.getsockname())
        first.sendall(asked_for.format("/v1/fleet/first").encode())
        while not reached:
            time.sleep(0.01)
        if not (child := os.fork()):
            try:
                os.setgid(NOBODY)
                os.setuid(NOBODY)
                stranger = socket.create_connection(server.getsockname())
                stranger.sendall(sent)
                stranger.close()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        there = f"{inside._as_listed(*server.getsockname())} 05 "  # FIN_WAIT2: the server's system has taken note
        while there not in SOCKETS.read_text():
            time.sleep(0.01)
        last = socket.create_connection(server.getsockname())
        last.sendall(asked_for.format("/v1/control/last").encode())
        go_on.set()
        while "/v1/control/last" not in reached:
            time.sleep(0.01)
        serving.should_exit = True
        thread.join()
        for each in (first, last):
            each.close()
    assert reached == ["/v1/fleet/first", "/v1/control/last"]


def test_another_user_reaches_nodes_paths_and_nothing_else(ends):
    app, reached = guarded({os.geteuid() + 1})
    for path in ("/v1/control/start-run", "/v1/runtime/acquire-task", "/health", "/docs", "/", "/v1/fleet", "//v1/fleet/x"):
        assert asked(app, path, ends)[0]["status"] == 404
        assert asked(app, path, ends, "websocket") == []
    assert reached == []
    asked(app, "/v1/fleet/pull-messages", ends)
    asked(app, "", ends, "lifespan")
    assert reached == ["/v1/fleet/pull-messages", ""]


def test_its_own_user_reaches_all_of_it(ends):
    app, reached = guarded({os.geteuid()})
    asked(app, "/v1/control/start-run", ends)
    assert reached == ["/v1/control/start-run"]


@pytest.mark.parametrize("name", ["superlink", "supernode"])
@pytest.mark.parametrize("listed", [True, False])
def test_flowers_programs_are_started_with_their_own_words_and_guarded_where_users_are_known(name, listed, monkeypatch):
    seen = []

    async def app(scope, receive, send):
        pass

    def program():
        config = uvicorn.Config(app, ws="none", lifespan="off", log_config=None)
        config.load()
        seen.append((sys.argv, config.loaded_app))

    monkeypatch.setattr(uvicorn.Config, "load", uvicorn.Config.load)
    monkeypatch.setattr(sys, "argv", ["inside", name, "--port", "1"])
    monkeypatch.setattr(inside, f"flower_{name}", program)
    if not listed:
        monkeypatch.setattr(inside, "SOCKETS", SOCKETS / "nowhere")
    inside.main()
    ((words, loaded),) = seen
    assert words == ["inside", "--port", "1"]
    assert isinstance(loaded, OwnUser) == listed
