"""The commands that deploy: they keep running what they start, and leave nothing behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from deployed import PATIENCE, patiently

from headgate.flower.deploy.certificates import make_certificates, make_node_key
from headgate.flower.deploy.processes import free_port, listening

pytestmark = [
    pytest.mark.deploy,
    pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="processes are found by /proc"),
]


def test_the_commands_for_real_machines_keep_running_and_leave_nothing_behind(tmp_path):
    own, port = make_certificates(tmp_path / "certificates"), free_port()
    public = make_node_key(tmp_path / "node.key")
    told = {name: tmp_path / f"{name}.txt" for name in ("superlink", "supernode")}
    words = {
        "superlink": ["link", "--certificates", own.folder, "--port", port, "--register", public],
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
        log = tmp_path / "node" / "supernode.log"
        patiently(lambda: log.exists() and "SuperNode ID:" in log.read_text("utf-8", "replace"), "supernode")
        (pid,) = mentioning(tmp_path, "flower-supernode")
        os.kill(pid, signal.SIGKILL)
        patiently(lambda: "killed by signal 9; next start" in told["supernode"].read_text(), "supervisor")
    finally:
        for process in reversed(running):
            process.terminate()
        codes = [process.wait(PATIENCE) for process in running]
    assert codes == [130, 130], [path.read_text() for path in told.values()]
    assert not listening(port)
    assert mentioning(tmp_path, "flower-") == []


def test_deploy_example_by_command_and_what_it_leaves_to_look_at(tmp_path):
    headgate = [sys.executable, "-m", "headgate.cli"]
    example = ["flower", "deploy-example", "app", "--nodes", "1", "--rounds", "1", "--training", "own"]
    for _ in range(2):  # the second time there is nothing left to do, and it says the same
        done = subprocess.run([*headgate, *example], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        out = tmp_path / "app" / "runs" / "digits"
        assert f"run folder: {out}" in done.stdout
        assert mentioning(tmp_path, "flower-") == []
    listed = subprocess.run([*headgate, "runs", "app/runs"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "finished" in listed.stdout, listed.stderr


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
