"""Every process of a deployment is found and ended, and no other; who has died is started again, unless that is hopeless."""

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field

import pytest

from headgate.errors import DataError, HeadgateError
from headgate.flower.deploy.loopback import Loopback
from headgate.flower.deploy.processes import (
    MARK,
    await_port,
    end,
    environment,
    executors,
    free_port,
    kill_marked,
    last_error,
    last_line,
    listening,
    marked,
    start,
)
from headgate.flower.deploy.supernode import SuperNode
from headgate.flower.deploy.supervisor import Supervisor
from headgate.flower.quiet import ENVIRONMENT
from headgate.records.lock import FolderLock

needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="processes are found by /proc")


def patiently(condition, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.fixture
def mark(tmp_path):
    """What no other test run on this machine uses."""
    return f"test of {tmp_path}"


def python(code, folder, mark):
    return start([sys.executable, "-c", code], folder / "log", environment(folder / "home", mark))


def test_what_is_started_is_quiet_and_finds_the_programs_of_this_python(tmp_path, monkeypatch):
    monkeypatch.setenv("FLWR_INTERNAL_GRPC_CONTROL_API", "1")
    env = environment(tmp_path / "home", "m", {"MORE": "1"})
    assert env.items() >= {**ENVIRONMENT, "FLWR_HOME": str(tmp_path / "home"), MARK: "m", "MORE": "1"}.items()
    assert env["PATH"].split(os.pathsep)[0] == os.path.dirname(sys.executable)
    assert "FLWR_INTERNAL_GRPC_CONTROL_API" not in env, "it would open a port of its own to all"


@needs_proc
def test_all_descendants_are_ended_also_those_that_left_and_ignore_it(tmp_path, mark):
    ignoring = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    parent = f"""
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", {ignoring!r}], start_new_session=True)
time.sleep(600)
"""
    process = python(parent, tmp_path, mark)
    patiently(lambda: len(list(marked(mark))) == 2 and "up" in (tmp_path / "log").read_text())
    end([process], mark, patience=0.3)
    assert process.returncode == -signal.SIGTERM
    assert list(marked(mark)) == []


@needs_proc
def test_nobody_else_is_ended(tmp_path, mark):
    theirs = f"{mark}, theirs"
    mine, other = (python("import time; time.sleep(600)", tmp_path / name, own) for name, own in (("a", mark), ("b", theirs)))
    patiently(lambda: list(marked(theirs)) == [other.pid])
    try:
        kill_marked(other.pid, mark)
        end([mine], mark, patience=1)
        assert other.poll() is None
    finally:
        end([other], theirs, patience=1)


@needs_proc
def test_processes_are_found_by_a_word_of_their_command(tmp_path, mark):
    process = python("import time; time.sleep(600)  # a-certain-word", tmp_path, mark)
    try:
        patiently(lambda: list(marked(mark, "a-certain-word")) == [process.pid])
        assert list(marked(mark, "another-word")) == []
    finally:
        end([process], mark, patience=1)


@needs_proc
def test_who_has_a_superexec_is_known(tmp_path, mark):
    program = [sys.executable, "-c", "import time; time.sleep(600)", "flower-superexec", "--parent-pid", "123"]
    process = start(program, tmp_path / "log", environment(tmp_path / "home", mark))
    try:
        patiently(lambda: executors(mark) == {123})
    finally:
        end([process], mark, patience=1)
    assert executors(mark) == set()


def test_a_port_is_awaited(tmp_path, mark):
    port = free_port()
    assert not listening(port)
    code = f"import socket, time; s = socket.create_server(('127.0.0.1', {port})); time.sleep(600)"
    process = python(code, tmp_path, mark)
    try:
        await_port(process, port, tmp_path / "log")
        assert listening(port)
    finally:
        end([process], mark, patience=1)


def test_who_dies_instead_of_listening_is_quoted(tmp_path, mark):
    process = python("raise SystemExit('no such certificate')", tmp_path, mark)
    with pytest.raises(HeadgateError, match=r"ended at its start: no such certificate .*log"):
        await_port(process, free_port(), tmp_path / "log")
    process.wait()


def test_who_takes_too_long_to_listen_is_named(tmp_path, mark):
    process, port = python("import time; time.sleep(600)", tmp_path, mark), free_port()
    try:
        with pytest.raises(HeadgateError, match=rf"no answer on port {port} for 0 s"):
            await_port(process, port, tmp_path / "log", seconds=0)
    finally:
        end([process], mark, patience=1)


@needs_proc
def test_who_is_gone_already_is_not_killed(tmp_path, mark):
    process = python("pass", tmp_path, mark)
    process.wait()
    kill_marked(process.pid, mark)
    assert process.returncode == 0


def test_a_free_port_can_be_bound():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", free_port()))


def test_last_line(tmp_path):
    (tmp_path / "log").write_text("first\n  the last \n\n")
    assert last_line(tmp_path / "log") == "the last"
    (tmp_path / "log").write_text("")
    assert last_line(tmp_path / "log") == "its log is empty"


def test_the_last_error_is_quoted_and_not_what_comes_after_it(tmp_path):
    (tmp_path / "log").write_text(
        "ValueError: first\nTraceback\nheadgate.errors.DataError: runs: is damaged\n\nFor more, visit\n"
    )
    assert last_error(tmp_path / "log") == "headgate.errors.DataError: runs: is damaged"
    (tmp_path / "log").write_text("all is well\n")
    assert last_error(tmp_path / "log") == "all is well"


def test_a_deployment_that_is_up_is_not_brought_up_again(tmp_path):
    with FolderLock() as held:
        held.take(tmp_path, tmp_path)
        with pytest.raises(DataError, match="another process has this deployment up"), Loopback(tmp_path, 1):
            pass


@needs_proc
def test_what_a_killed_supervisor_left_is_ended_first(tmp_path, monkeypatch):
    deployment = Loopback(tmp_path, 1)
    left = python("import time; time.sleep(600)", tmp_path, deployment.mark)
    again = Loopback(tmp_path, 1)
    monkeypatch.setattr(again, "_bring_up", lambda: None)
    with again:
        assert left.wait(60) == -signal.SIGKILL


# the supervisor, with a clock and processes of paper


@dataclass
class Paper:
    pid: int = 0
    returncode: int | None = None

    def poll(self):
        return self.returncode

    def terminate(self):
        self.returncode = -signal.SIGTERM

    def wait(self, timeout):
        return self.returncode


@dataclass(frozen=True)
class PaperNode(SuperNode):
    made: list = field(default_factory=list)

    def start(self):
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("a") as file:
            file.write("Starting Flower SuperNode\n")
        self.made.append(Paper())
        return self.made[-1]

    def ends(self, code, text=""):
        with self.log.open("a") as file:
            file.write(text)
        self.made[-1].returncode = code


@pytest.fixture
def now():
    return [0.0]


@pytest.fixture
def node(tmp_path):
    return PaperNode(tmp_path, "127.0.0.1:1", tmp_path / "ca.crt", tmp_path / "key", 2, "mark")


@pytest.fixture
def supervisor(now):
    said = []
    made = Supervisor(said.append, clock=lambda: now[0], pause=5, patience=120)
    made.said = said
    return made


def test_who_was_killed_is_started_again_after_a_pause(supervisor, node, now):
    kept = supervisor.keep("node", node)
    supervisor.look()
    assert kept.starts == 1
    node.ends(-9)
    supervisor.look()
    now[0] = 4.9
    supervisor.look()
    assert kept.starts == 1
    now[0] = 5.0
    supervisor.look()
    assert kept.starts == 2
    assert supervisor.processes == [node.made[-1]]
    assert supervisor.said == [f"node: killed by signal 9; next start in 5 s ({node.log})"]


def test_who_is_refused_tries_for_two_minutes_and_may_be_let_in(supervisor, node, now):
    kept = supervisor.keep("node", node)
    for _ in range(12):
        node.ends(1, "Exit Code: 305\n")
        supervisor.look()
        now[0] += 5
        supervisor.look()
    assert kept.given_up is None
    assert kept.starts == 13
    with node.log.open("a") as file:
        file.write("SuperNode ID: 77\n")
    assert node.joined()
    node.ends(-9)
    supervisor.look()
    assert kept.refused is None


def test_who_is_refused_for_longer_is_given_up(supervisor, node, now):
    kept = supervisor.keep("node", node)
    while kept.given_up is None:
        assert now[0] < 1000
        node.ends(1, "Exit Code: 305\n")
        supervisor.look()
        now[0] += 5
        supervisor.look()
    assert now[0] == pytest.approx(125)
    assert kept.given_up == 305
    starts = kept.starts
    now[0] += 1000
    supervisor.look()
    assert kept.starts == starts


def test_who_has_a_wrong_clock_is_told_so_and_never_given_up(supervisor, node, now):
    kept = supervisor.keep("node", node)
    for _ in range(100):
        node.ends(1, "[code: 409] clock: 36 s ahead of the SuperLink's; set it by NTP\nExit Code: 305\n")
        supervisor.look()
        now[0] += 60
        supervisor.look()
    assert kept.given_up is None
    assert kept.starts == 101
    said = "node: refused, clock: 36 s ahead of the SuperLink's; set it by NTP; next start in"
    assert all(line.startswith(said) for line in supervisor.said)


def test_who_has_lost_its_superexec_is_started_again(supervisor, node, now):
    executing = set()
    supervisor.executors = lambda: executing
    kept = supervisor.keep("node", node)
    for now[0] in (0.0, 100.0):  # it has not come up yet
        supervisor.look()
    executing.add(0)
    supervisor.look()
    executing.clear()
    now[0] = 104.9
    supervisor.look()
    assert kept.process.poll() is None
    now[0] = 105.0
    supervisor.look()
    assert kept.process.poll() == -signal.SIGTERM
    now[0] = 110.0
    supervisor.look()
    supervisor.look()
    assert kept.starts == 2
    assert kept.process.poll() is None
    assert supervisor.said == [f"node: its SuperExec is gone; next start in 5 s ({node.log})"]


def test_a_start_that_can_only_fail_again_is_not_repeated(supervisor, node):
    kept = supervisor.keep("node", node)
    node.ends(1, "Exit Code: 303\n")
    supervisor.look()
    assert kept.given_up == 303


def test_a_start_that_fails_is_tried_again_for_two_minutes(supervisor, now, tmp_path):
    class Busy:
        log = tmp_path / "log"
        tries = 0

        def start(self):
            self.tries += 1
            if self.tries > 1:
                raise HeadgateError("the port is taken")
            return Paper(returncode=-9)

    kept = supervisor.keep("link", Busy())

    def look_every_second():
        for second in range(1000):
            now[0] = second
            supervisor.look()

    with pytest.raises(HeadgateError, match="the port is taken"):
        look_every_second()
    assert now[0] == pytest.approx(125, abs=5)
    assert kept.service.tries == pytest.approx(26, abs=2)


def test_the_code_is_that_of_the_last_start(node):
    node.start()
    node.ends(1, "Exit Code: 305\n")
    assert node.exit_code() == 305
    node.start()
    assert node.exit_code() is None
    assert not node.joined()


def test_a_real_process_is_started_again(tmp_path):
    class Short:
        log = tmp_path / "log"

        def start(self):
            return subprocess.Popen([sys.executable, "-c", "pass"])

    supervisor = Supervisor(pause=0)
    kept = supervisor.keep("short", Short())
    patiently(lambda: supervisor.look() or kept.starts >= 3)
    for process in supervisor.processes:
        process.wait()
