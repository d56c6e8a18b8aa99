"""A whole deployment on the loopback interface: authority, SuperLink and front, SuperNodes, supervisor, a run to its end."""

import secrets
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from headgate.errors import DataError, HeadgateError
from headgate.flower.deploy.certificates import Certificates, make_node_key, renew_certificates
from headgate.flower.deploy.door import Door
from headgate.flower.deploy.processes import end, executors, free_port, last_error, listening, marked
from headgate.flower.deploy.superlink import SuperLink
from headgate.flower.deploy.supernode import SuperNode
from headgate.flower.deploy.supervisor import Kept, Supervisor
from headgate.reading import read_object
from headgate.records.lock import FolderLock
from headgate.records.sweeps import STATE

SERVER_APP = "flwr-serverapp"
JOINING = 300.0
"""seconds that SuperNodes may take to join: after a kill they are refused for a minute"""
STARTING = 120.0
"""seconds that a ServerApp may take to appear"""
ATTEMPTS = 5
"""ServerApps that may be lost one after the other without a round between them"""
Say = Callable[[str], None]


def _silent(text: str) -> None:
    pass


@dataclass
class Loopback:
    """Used with `with`: however the block ends, all processes of the deployment have ended after it.

    `folder` keeps certificates, keys, databases, buffers and logs, so that the same deployment can be brought up again.
    """

    folder: Path
    nodes: int
    say: Say = _silent
    environment: Mapping[str, str] = field(default_factory=dict)
    """further variables for all processes"""

    def __post_init__(self) -> None:
        self.folder = self.folder.resolve()
        self.mark = _mark_of(self.folder)
        self.supervisor = Supervisor(self.say, executors=lambda: executors(self.mark))
        self._held = FolderLock()
        self.link = SuperLink(self.folder / "superlink", free_port(), self.mark, self.environment)
        self.door = Door(self.link, Certificates(self.folder / "certificates"), free_port())

    def __enter__(self) -> "Loopback":
        try:
            self._held.take(self.folder, self.folder)
        except DataError:
            raise DataError(f"{self.folder}: another process has this deployment up") from None
        try:
            end([], self.mark, patience=0)  # processes left by a supervisor that was killed
            self._bring_up()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _bring_up(self) -> None:
        renew_certificates(self.door.certificates.folder)
        self.say("SuperLink: starting")
        self.supervisor.keep("SuperLink", self.link)
        self.supervisor.keep("front", self.door)
        self.say(f"SuperLink: behind https://{self.door.where}, TLS by {self.door.certificates.authority}")
        for client in range(self.nodes):
            node = self.node(client)
            if not node.key.exists():
                make_node_key(node.key)
            self.link.register(client, node.key.with_name("key.pub"))
            self.supervisor.keep(f"SuperNode {client}", node)
        self.say(f"SuperNodes: {self.nodes}, each with a registered key; logs in {self.folder}")
        self.await_nodes()

    def await_nodes(self, seconds: float = JOINING) -> None:
        """Until every SuperNode has joined, those included that are being started again."""
        until = time.monotonic() + seconds
        while waiting := [name for name, each in self.supervisor.kept.items() if not _joined(each)]:
            self.supervisor.look()
            if time.monotonic() > until:
                raise HeadgateError(f"{', '.join(waiting)}: did not join within {seconds:g} s; logs in {self.folder}")
            time.sleep(0.2)

    def node(self, client: int) -> SuperNode:
        """The SuperNode of a client, with a port that is free now."""
        home = self.folder / f"node-{client}"
        config: dict[str, str | int] = {
            "partition-id": client,
            "num-partitions": self.nodes,
            "headgate-store": str(home / "store"),
        }
        return SuperNode(
            home,
            self.door.where,
            self.door.certificates.authority,
            home / "key",
            free_port(),
            self.mark,
            config,
            self.environment,
        )

    def close(self) -> None:
        """End SuperNodes before the SuperLink, so that they can sign off."""
        nodes = [each.process for each in self.supervisor.kept.values() if isinstance(each.service, SuperNode)]
        _terminate(nodes)
        end(self.supervisor.processes, self.mark)
        self._held.close()

    def run(
        self, app: Path, out: Path, settings: Mapping[str, Any] | None = None, tick: Callable[[int, int], None] | None = None
    ) -> None:
        """Submit the app and follow it to its end, a line a round; a lost ServerApp is submitted again and goes on."""
        lost = 0
        settled = -1
        while True:
            number = self.link.submit(app, {"out": str(out), **(settings or {})})
            self.say(f"run {number}: submitted")
            status = self._follow(number, out, tick)
            if status == "finished:completed":
                self.say(f"run {number}: completed; its processes are ended")
                return
            done = progress(out)[0]
            lost, settled = (lost + 1, settled) if done == settled else (1, done)
            if status.startswith("finished") or lost > ATTEMPTS:
                log = self.folder / f"run-{number}.log"
                log.write_text(self.link.said(number), "utf-8")
                raise HeadgateError(f"run {number}: {status} after round {done}: {last_error(log)} ({log})")
            self.say(f"run {number}: its ServerApp is gone after round {done}; submitted again")
            self.link.stop(number)

    def _follow(self, number: int, out: Path, tick: Callable[[int, int], None] | None) -> str:
        """Until the run has ended or has no ServerApp any more; its status then."""
        began, seen, told = time.monotonic(), False, _state(out).get("told", "")
        while True:
            self.supervisor.look()
            if tick is not None:
                tick(*progress(out))
            if (line := _state(out).get("told", "")) != told:
                told = line
                self.say(told)
            here = any(marked(self.mark, SERVER_APP))
            seen = seen or here
            if not here and (seen or time.monotonic() - began > STARTING) and listening(self.link.port):
                status = self.link.status(number)
                if status.startswith("finished") or seen:
                    return status
                raise HeadgateError(f"run {number}: no ServerApp has started; see {self.link.log}")
            time.sleep(0.5)


def _mark_of(folder: Path) -> str:
    """What all processes of this deployment carry in their environment, also those of an earlier start."""
    path = folder / "mark"
    if not path.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(secrets.token_hex(8), "utf-8")
    return path.read_text("utf-8").strip()


def _joined(each: Kept) -> bool:
    return not isinstance(each.service, SuperNode) or (each.process.poll() is None and each.service.joined())


def progress(out: Path) -> tuple[int, int]:
    """(rounds settled, rounds in all) of a run folder; zeros before it is there."""
    state = _state(out)
    return int(state.get("round", 0)), int(state.get("rounds", 0))


def _state(out: Path) -> dict[str, Any]:
    """What a run folder says of its progress; empty before it is there."""
    return read_object(out / STATE) if (out / STATE).is_file() else {}


def _terminate(processes: list[subprocess.Popen[bytes]], patience: float = 5.0) -> None:
    for process in processes:
        if process.poll() is None:
            process.terminate()
    until = time.monotonic() + patience
    while time.monotonic() < until and any(process.poll() is None for process in processes):
        time.sleep(0.1)
