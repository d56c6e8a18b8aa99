"""Processes of a deployment: started with their logs in files, and ended by process id, none but its own.

Flower's processes start further ones (an executor, then a process for each ServerApp and each message to a client), some in
sessions of their own. All of them inherit a mark in their environment, by which they are found whatever their parent is.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from headgate.errors import HeadgateError
from headgate.flower.quiet import ENVIRONMENT

MARK = "HEADGATE_DEPLOYMENT"
OPENING = "FLWR_INTERNAL_"
"""variables of this beginning make a SuperLink serve users on further ports, of all interfaces"""
PROC = Path("/proc")
SUPEREXEC = "flower-superexec"


def environment(home: Path, mark: str, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of a process of Flower: no telemetry, its own FLWR_HOME, the mark, and this Python's programs first."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    here = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(OPENING)},
        **ENVIRONMENT,
        "FLWR_HOME": str(home),
        MARK: mark,
        "PATH": here,
        "PYTHONUNBUFFERED": "1",
        **(more or {}),
    }


def start(command: Sequence[str], log: Path, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """A process in a session of its own, so that Ctrl-C in a terminal does not reach it. What it writes is its owner's."""
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600), "ab") as out:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=dict(env),
            start_new_session=True,
            umask=0o077,
        )


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listening(port: int, host: str = "127.0.0.1") -> bool:
    try:
        with socket.create_connection((host, port), timeout=1):
            return True
    except OSError:
        return False


def await_port(process: subprocess.Popen[bytes], port: int, log: Path, seconds: float = 120, host: str = "127.0.0.1") -> None:
    """Until somebody listens there; refused where the process that should has ended or takes too long."""
    until = time.monotonic() + seconds
    while not listening(port, host):
        if process.poll() is not None:
            raise HeadgateError(f"{_name(process)} ended at its start: {last_line(log)} ({log})")
        if time.monotonic() > until:
            raise HeadgateError(f"{_name(process)}: no answer on port {port} for {seconds:g} s ({log})")
        time.sleep(0.2)


def _name(process: subprocess.Popen[bytes]) -> str:
    """The program or the module that it runs."""
    words = [str(word) for word in process.args] if isinstance(process.args, list) else [str(process.args)]
    return words[2] if words[1:2] == ["-m"] else Path(words[0]).name


def last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1] if lines else "its log is empty"


def last_error(log: Path) -> str:
    """The last line that names an exception, or else the last one."""
    found = re.findall(r"^[\w.]*(?:Error|Exception|Unmet|Exit)\b: .*$", log.read_text("utf-8", "replace"), re.MULTILINE)
    return found[-1] if found else last_line(log)


def marked(mark: str, word: str = "") -> Iterator[int]:
    """Process ids that carry the mark, and `word` in their command line; where there is no /proc, none are found."""
    for folder in PROC.glob("[0-9]*"):
        pid = int(folder.name)
        if pid != os.getpid() and _carries(folder, mark) and word in _said(folder, "cmdline"):
            yield pid


def executors(mark: str) -> set[int]:
    """The processes that have a SuperExec, which starts the apps of a SuperLink or a SuperNode; without /proc none is found."""
    lines = [_said(PROC / str(pid), "cmdline") for pid in marked(mark, SUPEREXEC)]
    return {int(parent) for line in lines for parent in re.findall(r"--parent-pid\0(\d+)\0", line)}


def end(processes: Sequence[subprocess.Popen[bytes]], mark: str, patience: float = 8.0) -> None:
    """Ask the given processes to end, wait, and kill what is left of them and of everything that carries the mark."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    until = time.monotonic() + patience
    while time.monotonic() < until and (any(p.poll() is None for p in processes) or any(marked(mark))):
        time.sleep(0.1)
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait()
    while rest := list(marked(mark)):  # one that was about to be started may come late
        for pid in rest:
            kill_marked(pid, mark)
        time.sleep(0.05)


def kill_marked(pid: int, mark: str) -> None:
    """SIGKILL to exactly the process that carries the mark: its id may have become another's."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if _carries(PROC / str(pid), mark):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    except OSError:
        pass
    finally:
        os.close(handle)


def _carries(folder: Path, mark: str) -> bool:
    return f"{MARK}={mark}" in _said(folder, "environ").split("\0") and _state(folder) != "Z"


def _state(folder: Path) -> str:
    return _said(folder, "stat").rpartition(")")[2][1:2]


def _said(folder: Path, name: str) -> str:
    try:
        return (folder / name).read_text("utf-8", "replace")
    except OSError:  # gone, or not ours
        return ""
