"""A whole deployment on the loopback interface, for an example and for tests: nginx, SuperLink, SuperNodes, a run to its end.

It starts the services that units name, and starts again what ends, as systemd would.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from headgate.errors import HeadgateError, SettingError
from headgate.flower.deploy.certificates import certificates_in, ensure_certificates
from headgate.flower.deploy.services import NAME, Service, flwr, flwr_json, node_service, register, server_services
from headgate.flower.keys import make_key
from headgate.reading import read_object
from headgate.records.tables import STATE
from headgate.records.writer import FolderLock

MARK = "HEADGATE_DEPLOYMENT"
"""variable by which processes of a deployment are found: its folder"""
PAUSE, PATIENCE = 5.0, 300.0
"""seconds between the end of a service and its next start; seconds for SuperNodes to join or a ServerApp to appear"""
ATTEMPTS = 20
"""ServerApps that may be lost in one run"""
SERVER_APP = "flwr-serverapp"


class Loopback(ExitStack):
    """A deployment for a `with` block, after which all its processes have ended.

    Certificates, keys, databases, stores and logs lie in `folder`: the same folder brings up the same deployment again. There
    is a SuperNode for each of `nodes` clients. `say` gets a line for each thing that happens. All processes have the variables
    in `environment`.
    """

    def __init__(
        self,
        folder: Path,
        nodes: int,
        say: Callable[[str], None] = lambda line: None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self.folder, self.nodes, self.say = folder.resolve(), nodes, say
        self.link = self.folder / "superlink"
        self.environment = {**(environment or {}), MARK: str(self.folder)}
        self.port, self.inside = free_port(), free_port()
        self.services: dict[str, Service] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._due: dict[str, float] = {}

    def __enter__(self) -> "Loopback":
        if shutil.which("nginx") is None:
            raise SettingError("nginx: is not installed; apt-get install nginx")
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self.enter_context(FolderLock()).take(self.folder, self.folder)
            self.callback(self._end)
            self._kill()  # what a process that was killed has left behind
            self._bring_up()
        except BaseException:
            self.close()
            raise
        return self

    def _bring_up(self) -> None:
        certificates = self.folder / "certificates"
        for warning in ensure_certificates(certificates):
            self.say(warning)
        for service in server_services(self.link, certificates, f"127.0.0.1:{self.port}", self.inside):
            self.start(service)
        self.await_that(lambda: listening(self.inside) and listening(self.port), "SuperLink and nginx")
        for client in range(self.nodes):
            self.start_node(client)
        self.say(f"SuperLink behind nginx at https://127.0.0.1:{self.port}, {self.nodes} SuperNodes; logs in {self.folder}")
        self.await_that(lambda: self.online() == self.nodes, f"{self.nodes} SuperNodes")

    def start_node(self, client: int, registered: bool = True) -> None:
        """Start the SuperNode of a client, with a key that is made and registered if need be."""
        home, authority = self.folder / f"node-{client}", certificates_in(self.folder / "certificates").authority
        if not (home / "key").exists():
            make_key(home / "key")
        if registered:
            register(self.link, client, home / "key.pub")
        where = f"127.0.0.1:{self.port}"
        self.start(node_service(home, where, authority, home / "key", client, self.nodes, free_port()))

    def online(self) -> int:
        """Return how many SuperNodes the SuperLink counts as present."""
        return sum(node["status"] == "online" for node in flwr_json(self.link, "supernode", "list", NAME)["nodes"])

    def start(self, service: Service) -> None:
        """Start a service, with its log in the folder."""
        single = ["-g", "master_process off;"] if service.name == "nginx" else []  # whose workers would survive a kill
        self.services[service.name] = service
        env = {**os.environ, **service.environment, **self.environment}
        with (self.folder / f"{service.name}.log").open("ab") as log:  # Ctrl-C in a terminal does not reach another session
            self.processes[service.name] = subprocess.Popen(
                [*service.command, *single],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                umask=0o077,
            )

    def look(self) -> None:
        """Start again, after a pause, the services that have ended."""
        for name, process in list(self.processes.items()):
            if process.poll() is None:
                continue
            if name not in self._due:
                self.say(f"{name}: ended ({process.returncode}); next start in {PAUSE:g} s ({self.folder / name}.log)")
                self._due[name] = time.monotonic() + PAUSE
            elif time.monotonic() >= self._due[name]:
                del self._due[name]
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # what is left of it
                self.start(self.services[name])

    def await_that(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until a condition holds, and start again what ends meanwhile."""
        until = time.monotonic() + PATIENCE
        while not condition():
            self.look()
            if time.monotonic() > until:
                raise HeadgateError(f"{what}: not there within {PATIENCE:g} s; logs in {self.folder}")
            time.sleep(0.5)

    def _end(self) -> None:
        """End all services, SuperNodes first so that they can sign off."""
        for node in (True, False):
            ending = [process for name, process in self.processes.items() if name.startswith("supernode") == node]
            for process in ending:
                process.terminate()
            for process in ending:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(8)
        self._kill()
        for process in self.processes.values():
            process.wait()

    def _kill(self) -> None:
        while left := list(self.running()):
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    def running(self, word: str = "") -> Iterator[int]:
        """Process ids of this deployment, whose command line contains `word`."""
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                mine = f"{MARK}={self.folder}".encode() in (path / "environ").read_bytes().split(b"\0")
                if mine and word.encode() in (path / "cmdline").read_bytes():
                    yield int(path.name)

    def run(
        self, app: Path, out: Path, settings: Mapping[str, Any] | None = None, tick: Callable[[int, int], None] | None = None
    ) -> None:
        """Submit an app and follow it to its end, a line a round. A ServerApp that is lost is submitted again and goes on."""
        config = " ".join(f"{key}={json.dumps(value)}" for key, value in {"out": str(out), **(settings or {})}.items())
        for _ in range(ATTEMPTS):
            run = str(flwr_json(self.link, "run", str(app), NAME, "--run-config", config)["run-id"])
            self.say(f"run {run}: submitted")
            status = self._follow(run, out, tick)
            if status.startswith("finished"):
                break
            self.say(f"run {run}: its ServerApp is gone after round {progress(out)[0]}; submitted again")
            flwr(self.link, "stop", run, NAME)
        if status != "finished:completed":
            log = self.folder / f"run-{run}.log"
            log.write_text(re.sub(r"\x1b\[\d*m", "", flwr(self.link, "log", run, NAME, "--show")), "utf-8")
            errors = re.findall(r"^[\w.]*(?:Error|Exception)\b: .*$", log.read_text("utf-8"), re.MULTILINE)
            raise HeadgateError(f"run {run}: {status}: {errors[-1] if errors else 'no error is known'} ({log})")

    def _follow(self, run: str, out: Path, tick: Callable[[int, int], None] | None) -> str:
        """Return the status of a run once its ServerApp is gone."""

        def status() -> str:
            return str(flwr_json(self.link, "ls", NAME, "--run-id", run)["runs"][0]["status"])

        line = _state(out).get("told")
        self.await_that(lambda: any(self.running(SERVER_APP)) or status().startswith("finished"), f"ServerApp of run {run}")
        while any(self.running(SERVER_APP)):
            self.look()
            if tick is not None:
                tick(*progress(out))
            if (told := _state(out).get("told")) and told != line:
                self.say(line := told)
            time.sleep(0.5)
        self.await_that(lambda: listening(self.inside), "SuperLink")
        return status()


def progress(out: Path) -> tuple[int, int]:
    """Return (rounds settled, rounds in all) of a run folder; zeros before it is there."""
    state = _state(out)
    return int(state.get("round", 0)), int(state.get("rounds", 0))


def _state(out: Path) -> dict[str, Any]:
    return read_object(out / STATE) if (out / STATE).is_file() else {}


def free_port() -> int:
    """Return a port of the loopback interface on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listening(port: int) -> bool:
    """Return whether somebody listens on this port of the loopback interface."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
