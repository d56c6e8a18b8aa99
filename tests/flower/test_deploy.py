"""Flower deployed with TLS and node authentication: processes are killed, and nothing
paid for is lost or paid twice.

With HEADGATE_FAULTS=FOLDER set, every outcome becomes a row in that folder:
tools/faults.py.
"""

import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from deployed import audit, brought_up, patiently, playing, stage
from flwr.common.constant import TIMESTAMP_HEADER
from flwr.proto.fleet_pb2 import PullMessagesRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.constant import (
    FLEET_HTTP_PUBLIC_KEY_HEADER,
    FLEET_HTTP_SIGNATURE_HEADER,
)
from flwr.supercore.date import now
from flwr.supercore.primitives.asymmetric import public_key_to_bytes, sign_message
from flwr.supercore.protobuf.constants import PROTOBUF_MEDIA_TYPE
from flwr.supercore.protobuf.translation import PROTOBUF_REQUEST_TYPES

from headgate.flower.deploy.deployment import AGAIN, NAME, SERVER_APP, flwr

pytestmark = [
    pytest.mark.deploy,
    pytest.mark.skipif(
        not os.path.isdir("/proc/self"), reason="processes are found by /proc"
    ),
    pytest.mark.skipif(
        not shutil.which("nginx"),
        reason="no nginx on this machine: apt-get install nginx",
    ),
]
FAULTS = os.environ.get("HEADGATE_FAULTS")
REFUSED = 305
"""Flower's code for a key that is not registered"""


def kill(deployment, service, program):
    """Kill a program of a service, which starts itself again."""
    (loop,) = [
        pid
        for pid in deployment.running(AGAIN)
        if f"/{service}.sh" in Path(f"/proc/{pid}/cmdline").read_text()
    ]
    within = {loop, *(pid for pid in deployment.running() if parent_of(pid) == loop)}
    (pid,) = [pid for pid in deployment.running(program) if parent_of(pid) in within]
    os.kill(pid, signal.SIGKILL)


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def kill_server_app(deployment):
    (pid,) = deployment.running(SERVER_APP)
    os.kill(pid, signal.SIGKILL)


def kill_client_app(staged, point):
    os.kill(int((staged.points / f"{point}.reached").read_text()), signal.SIGKILL)


def await_return(deployment, client):
    """The SuperNode of a client has been started again and let in."""
    log = deployment.folder / f"supernode-{client}.log"
    patiently(
        lambda: (
            "SuperNode ID:"
            in log.read_text("utf-8", "replace").partition(": ended (")[2]
        ),
        f"client {client}",
    )


def sent_its_update(deployment, client):
    log = (deployment.folder / f"supernode-{client}.log").read_text("utf-8", "replace")
    return "Sent successfully" in log.partition("Sending: train message")[2]


def charged(books, t):
    """In words, what the clients' books and the server's say of a round."""
    rows = books.orders(t)
    late = [row for row in rows if row.answered not in (t, None)]
    told = [
        f"those of client {row.client} in round {row.answered}, at the price of"
        f" round {t}"
        for row in late
    ]
    bought = sum(books.admitted_by(client).get(t, 0) for client in books.clients)
    paid = sum(row.delivered for row in rows)
    return f"round {t}: {bought} samples bought, {paid} charged" + (
        f", {' and '.join(told)}" if told else ""
    )


def write_row(component, kill_point, expected, outcome):
    """One line of contributing/faults.md, where rows are asked for."""
    if FAULTS:
        Path(FAULTS).mkdir(parents=True, exist_ok=True)
        said = {
            "component": component,
            "kill_point": kill_point,
            "expected": expected,
            "outcome": outcome,
        }
        with (Path(FAULTS) / "deployment.jsonl").open("a") as file:
            file.write(json.dumps(said) + "\n")


COMES_BACK = "started again; what it had bought is charged when it is heard of"
GOES_ON = "submitted again, it goes on from the ledger with the same orders"


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """An app whose run came to its end although nginx, a SuperNode and its ServerApp
    were killed on the way.
    """
    folder = tmp_path_factory.mktemp("killed")
    staged = stage(folder, nodes=2, rounds=3)  # a client takes a process a round
    staged.hold("client-1-1", "client-0-2", "heard-2")
    with brought_up(folder, staged) as deployment:
        deployment.asked, deployment.pulled = (
            strangers_attempts(deployment),
            attempts_of_client_0(deployment),
        )
        deployment.start_node(staged.nodes, registered=False)
        log = deployment.folder / f"supernode-{staged.nodes}.log"
        with playing(deployment, staged):
            patiently(
                lambda: "supernode-2: ended (" in log.read_text("utf-8", "replace"),
                "the stranger's end",
            )
            assert f"Exit Code: {REFUSED}" in log.read_text("utf-8", "replace")
            for pid in [
                *deployment.running(f"node-{staged.nodes}/")
            ]:  # it is not started again
                os.kill(pid, signal.SIGKILL)
            with staged.at("client-1-1"):
                patiently(
                    lambda: sent_its_update(deployment, 0), "the answer of client 0"
                )
                kill(deployment, "supernode-1", "flower-supernode")
                kill(deployment, "nginx", "nginx")
            with staged.at("client-0-2"):
                kill_server_app(deployment)
            with staged.at("heard-2"):
                await_return(deployment, 1)
    return staged, deployment


def strangers_attempts(deployment):
    """The status for each thing that a user may ask a SuperLink for, and for an
    unsigned request of a node, through nginx.
    """
    with through_nginx(deployment) as ask:
        return {
            path: ask.post(path, content=b"").status_code
            for _, path in PROTOBUF_REQUEST_TYPES
        }


def attempts_of_client_0(deployment):
    """The statuses with its key where it asks for the messages to each node."""
    key, time = (
        load_ssh_private_key((deployment.folder / "node-0" / "key").read_bytes(), None),
        now().isoformat(),
    )
    signed = {FLEET_HTTP_PUBLIC_KEY_HEADER: public_key_to_bytes(key.public_key())}
    signed[FLEET_HTTP_SIGNATURE_HEADER] = sign_message(key, time.encode())
    headers = {
        TIMESTAMP_HEADER: time,
        **{name: b64encode(value).decode() for name, value in signed.items()},
    }
    with through_nginx(deployment) as ask:
        logs = [
            (deployment.folder / f"supernode-{m}.log").read_text("utf-8", "replace")
            for m in range(2)
        ]
        nodes = [int(re.search(r"SuperNode ID: (\d+)", log)[1]) for log in logs]
        wanted = [
            PullMessagesRequest(node=Node(node_id=node)).SerializeToString()
            for node in nodes
        ]
        return [
            ask.post(
                "/v1/fleet/pull-messages", content=each, headers=headers
            ).status_code
            for each in wanted
        ]


def through_nginx(deployment):
    trusting = ssl.create_default_context(
        cafile=deployment.folder / "certificates" / "ca.crt"
    )
    where, kind = (
        f"https://127.0.0.1:{deployment.port}",
        {"content-type": PROTOBUF_MEDIA_TYPE},
    )
    return httpx.Client(verify=trusting, base_url=where, headers=kind)


def test_with_the_certificate_alone_nobody_gets_anything(killed):
    _, deployment = killed
    nodes = {
        path
        for path in deployment.asked
        if path.startswith("/v1/fleet/") and "register" not in path
    }
    assert {code for path, code in deployment.asked.items() if path in nodes} == {401}
    assert {code for path, code in deployment.asked.items() if path not in nodes} == {
        404
    }


def test_no_client_is_told_what_another_is_asked(killed):
    """So it does not know the id of the question, and cannot answer it."""
    _, deployment = killed
    assert sorted(deployment.pulled) == [200, 401]


def test_services_are_killed_and_everything_adds_up(killed):
    staged, deployment = killed
    assert list(deployment.running()) == []
    books = audit(staged.out, deployment.folder.glob("node-*/store"))
    assert sum("submitted again" in line for line in deployment.said) == 1
    assert "nginx: ended (137)" in (deployment.folder / "nginx.log").read_text()
    assert (
        "supernode-1: ended (137)"
        in (deployment.folder / "supernode-1.log").read_text()
    )
    assert all(
        sum(row.delivered for row in books.orders(t)) > 0 for t in range(1, 4)
    ), "every round admits something"
    assert {row.client: row.answered for row in books.orders(1)}[1] > 1, (
        "bought before the kill, told after it"
    )
    write_row(
        "SuperNode and nginx", "while its client trains", COMES_BACK, charged(books, 1)
    )
    write_row("ServerApp", "while clients train", GOES_ON, charged(books, 2))
    write_row(
        "a SuperNode with an unregistered key",
        "none",
        "refused",
        f"refused, Flower's code {REFUSED}",
    )


@pytest.mark.long
def test_deploy_example_brings_up_again_what_was_there(
    killed,
):
    staged, deployment = killed
    tables = [staged.out / name for name in ("metrics.parquet", "clients.parquet")]
    before = [path.read_bytes() for path in tables]
    headgate, more = (
        [sys.executable, "-m", "headgate.cli"],
        {"env": os.environ | staged.environment, "cwd": staged.app.parent},
    )
    example = [
        *headgate,
        "flower",
        "deploy-example",
        "staged",
        "--nodes",
        str(staged.nodes),
    ]
    done = subprocess.run(example, **more, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"run folder: {staged.out}" in done.stdout
    assert (
        f"{staged.out}: all its rounds are finished, so nothing is left to do"
        in done.stderr
    )
    assert list(deployment.running()) == []
    assert [path.read_bytes() for path in tables] == before, (
        "there was nothing left to do"
    )


@pytest.mark.long
def test_every_process_is_killed_at_every_place(tmp_path):
    staged = stage(
        tmp_path, nodes=4, rounds=11
    )  # orders of the tenth may be written before the last SuperNode is back
    staged.hold(
        "client-1-2",
        "client-2-3",
        "ordered-4",
        "client-0-5",
        "heard-6",
        "client-3-7",
        "ordered-8",
        "client-1-9",
    )
    with brought_up(tmp_path, staged) as deployment:
        with playing(deployment, staged):
            with staged.at("client-1-2"):
                kill_client_app(staged, "client-1-2")
            with staged.at("client-2-3"):
                kill(deployment, "supernode-2", "flower-supernode")
                kill_client_app(staged, "client-2-3")
            for point in ("ordered-4", "client-0-5", "heard-6"):
                with staged.at(point):
                    kill_server_app(deployment)
            with staged.at("client-3-7"):
                kill(deployment, "superlink", "flower-superlink")
            with staged.at(
                "ordered-8"
            ):  # some SuperNodes may be missing while the SuperLink starts again
                await_return(deployment, 2)
                asked = (deployment.link, "supernode", "list", NAME)
                deployment.await_that(
                    lambda: {e["status"] for e in flwr(*asked)["nodes"]} == {"online"},
                    "nodes",
                )
            with staged.at("client-1-9"):
                kill(deployment, "supernode-1", "flower-superexec")
                await_return(deployment, 1)
        books = audit(staged.out, deployment.folder.glob("node-*/store"))
        assert sum("submitted again" in line for line in deployment.said) == 3
    write_row(
        "client process",
        "while it trains",
        "its SuperNode answers with an error, or not at all",
        charged(books, 2),
    )
    write_row(
        "SuperNode and its client process",
        "while the client trains",
        COMES_BACK,
        charged(books, 3),
    )
    write_row(
        "ServerApp",
        "between writing the orders and sending them",
        GOES_ON,
        charged(books, 4),
    )
    write_row(
        "ServerApp",
        "while clients train, a second time in one run",
        GOES_ON,
        charged(books, 5),
    )
    write_row(
        "ServerApp", "between the last answer and settling", GOES_ON, charged(books, 6)
    )
    write_row(
        "SuperLink",
        "while clients train",
        "started again with its database, the run goes on",
        charged(books, 7),
    )
    write_row(
        "SuperExec of a SuperNode",
        "while its client trains",
        COMES_BACK,
        charged(books, 9),
    )
