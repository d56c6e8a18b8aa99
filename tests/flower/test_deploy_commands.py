"""The commands that deploy: they keep running what they start, and leave nothing behind."""

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from deployed import PATIENCE, patiently
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    ListRunsRequest,
    PullArtifactsRequest,
    RegisterNodeRequest,
    StartRunRequest,
    StopRunRequest,
    StreamLogsRequest,
)
from flwr.supercore.control.control_http_client import ControlHttpClient
from flwr.supercore.protobuf.constants import PROTOBUF_MEDIA_TYPE
from fronts import fronted

from headgate.flower.deploy.certificates import make_certificates, make_node_key
from headgate.flower.deploy.processes import free_port, listening
from headgate.flower.deploy.supernode import REFUSED, SuperNode

pytestmark = [
    pytest.mark.deploy,
    pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="processes are found by /proc"),
]


NOBODY, LOOPBACK = 65534, "0100007F"


def strangers_attempts(where, authority):
    """What Flower's own client for users gets, for each thing that a user may ask a SuperLink for."""
    asked = {
        "register": lambda control: control.RegisterNode(RegisterNodeRequest(public_key=b"k", name="evil")),
        "list nodes": lambda control: control.ListNodes(ListNodesRequest()),
        "list runs": lambda control: control.ListRuns(ListRunsRequest()),
        "start": lambda control: control.StartRun(StartRunRequest()),
        "stop": lambda control: control.StopRun(StopRunRequest(run_id=1)),
        "log": lambda control: list(control.StreamLogs(StreamLogsRequest(run_id=1))),
        "pull": lambda control: control.PullArtifacts(PullArtifactsRequest(run_id=1)),
    }
    found = {}
    with ControlHttpClient.from_server_address(where, False, authority.read_bytes(), []) as control:
        for name, ask in asked.items():
            try:
                found[name] = ask(control)
            except httpx.HTTPStatusError as error:
                found[name] = error.response.status_code
    return found


def test_the_commands_for_real_machines_keep_running_let_nobody_in_and_leave_nothing_behind(tmp_path):
    own, port, inside = make_certificates(tmp_path / "certificates"), free_port(), free_port()
    public = make_node_key(tmp_path / "node.key")
    told = {name: tmp_path / f"{name}.txt" for name in ("superlink", "supernode")}
    words = {
        "superlink": ["link", "--certificates", own.folder, "--port", port, "--inside", inside, "--register", f"0={public}"],
        "supernode": ["node", "--superlink", f"127.0.0.1:{port}", "--authority", own.authority, "--key", tmp_path / "node.key"],
    }
    words["supernode"] += ["--client", 0, "--clients", 1]
    running = []

    def command(name):
        line = [sys.executable, "-m", "headgate.cli", "flower", name, *map(str, words[name])]
        with told[name].open("w") as out:
            running.append(subprocess.Popen(line, cwd=tmp_path, stdout=out, stderr=out))

    try:
        command("superlink")
        patiently(lambda: "to run an app" in told["superlink"].read_text(), "superlink")
        command("supernode")
        attempts = strangers_attempts(f"127.0.0.1:{port}", own.authority)
        assert attempts == dict.fromkeys(attempts, 404)
        within = strangers_attempts(f"127.0.0.1:{inside}", tmp_path / "link" / "inside" / "ca.crt")
        assert not isinstance(within["list nodes"], int), "the operator's way, by which keys are registered"
        assert len(within["list nodes"].nodes_info) == 1
        if os.geteuid() == 0 and shutil.which("curl"):
            assert [asked_by(user, inside) for user in (0, NOBODY)] == [200, 404]
        second = make_node_key(tmp_path / "second")
        line = [sys.executable, "-m", "headgate.cli", "flower", "register", "link", "1", second]
        done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        within = strangers_attempts(f"127.0.0.1:{inside}", tmp_path / "link" / "inside" / "ca.crt")
        assert len(within["list nodes"].nodes_info) == 2
        log = tmp_path / "node" / "supernode.log"
        patiently(lambda: log.exists() and "SuperNode ID:" in log.read_text("utf-8", "replace"), "supernode")
        listed = [each for pid in mentioning(tmp_path, "") for each in listens(pid)]
        assert {host for host, _ in listed} == {LOOPBACK}
        assert {port, inside} < {number for _, number in listed}
        for name in ("superlink", "supernode"):
            (executor,) = superexecs(tmp_path, name)
            os.kill(executor, signal.SIGKILL)
            patiently(lambda name=name: "its SuperExec is gone; next start" in told[name].read_text(), name)
            patiently(lambda name=name: len(superexecs(tmp_path, name)) == 1, f"another SuperExec of the {name}")
        patiently(lambda: "SuperNode ID:" in log.read_text("utf-8", "replace").rpartition("Starting")[2], "supernode")
        (pid,) = mentioning(tmp_path, "inside\0supernode")
        (front,) = mentioning(tmp_path, "headgate.flower.deploy.front")
        for process in (pid, front):
            os.kill(process, signal.SIGKILL)
        patiently(lambda: "killed by signal 9; next start" in told["supernode"].read_text(), "supervisor")
        patiently(lambda: mentioning(tmp_path, "headgate.flower.deploy.front") not in ([], [front]), "front")
        assert modes(tmp_path / "link") == modes(tmp_path / "node") == {0o600, 0o700}
    finally:
        for process in reversed(running):
            process.terminate()
        codes = [process.wait(PATIENCE) for process in running]
    assert codes == [130, 130], [path.read_text() for path in told.values()]
    assert not listening(port)
    assert not listening(inside)
    assert mentioning(tmp_path, "flower.deploy") == []


def asked_by(user, port):
    """The status that a process of this user gets for a list of runs on loopback."""
    url = f"https://127.0.0.1:{port}/v1/control/list-runs"
    line = ["curl", "-sk", "-o", os.devnull, "-w", "%{http_code}", "-H", f"content-type: {PROTOBUF_MEDIA_TYPE}", "-d", "", url]
    return int(subprocess.run(line, user=user, cwd="/", capture_output=True, text=True, check=True).stdout)


def listens(pid):
    """(host, port) of all that this process listens on, as the kernel writes addresses."""
    sockets = set()
    for path in Path(f"/proc/{pid}/fd").glob("*"):
        with suppress(FileNotFoundError):  # closed since
            sockets.add(os.readlink(path))
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    heard = [words[1].rpartition(":") for words in lines if words[3] == "0A" and f"socket:[{words[9]}]" in sockets]
    return [(host, int(number, 16)) for host, _, number in heard]


def modes(folder):
    """Of all that was written there, but for certificates and public keys."""
    public = (".crt", ".pem", ".pub", ".conf", ".toml")
    return {path.lstat().st_mode & 0o777 for path in folder.rglob("*") if path.suffix not in public and not path.is_socket()}


def superexecs(folder, name):
    """Of the process of this name that runs in the folder now."""
    return [pid for parent in mentioning(folder, f"inside\0{name}") for pid in mentioning("", f"--parent-pid\0{parent}\0")]


def mentioning(folder, word):
    """Processes with both in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_text("utf-8", "replace")
        except OSError:
            continue
        if word in line and str(folder) in line:
            found.append(int(path.parent.name))
    return found


AHEAD = """
import sys

if "supernode" in sys.orig_argv:
    from datetime import timedelta

    import flwr.supernode.node_auth_http_interceptor as interceptor
    from flwr.supercore.date import now

    interceptor.now = lambda: now() + timedelta(seconds=100)
"""


def test_a_supernode_is_told_that_its_clock_is_wrong(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(AHEAD)  # what every Python imports before anything else
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    with fronted(tmp_path) as door:
        where, authority = f"localhost:{door.port}", tmp_path / "shown" / "ca.crt"
        node = SuperNode(
            tmp_path / "node", where, authority, tmp_path / "key", free_port(), str(tmp_path), more={"PYTHONPATH": path}
        )
        assert node.start().wait(PATIENCE) == 1
    assert node.exit_code() == REFUSED
    assert re.fullmatch(r"clock: \d+ s ahead of the SuperLink's; set it by NTP", node.correctable())
