"""The files of a deployment for its machines, and a deployment on the loopback
interface that runs the same scripts.

Flower 1.41 serves nodes, users and running apps on one port, and does not authenticate
users. Therefore the SuperLink listens on 127.0.0.1, and nginx forwards only the paths
that SuperNodes need. Flower does not supervise a SuperExec, which starts apps: that of
the SuperLink is a separate service (`--isolation process`), and that of a SuperNode
ends with the SuperNode.
"""

import getpass
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from headgate.errors import HeadgateError, SettingError
from headgate.flower import ENVIRONMENT
from headgate.flower.deploy.certificates import ensure_certificates
from headgate.flower.keys import FILE, bind_key, make_key
from headgate.reading import read_object
from headgate.records.tables import STATE
from headgate.writing import FolderLock

SERVER = ("superlink", "superlink-superexec", "nginx")
RENEWAL = (
    "certificates.sh",
    "headgate-certificates.service",
    "headgate-certificates.timer",
)
NAME = "headgate"
"""name of the connection in Flower's config.toml"""
FORBIDDEN = "\"'\\$%`\n"
"""characters that paths and addresses may not contain, because the shell, nginx or
systemd interprets them
"""
TEMPLATE = files("headgate.flower.deploy") / "template"
MARK = "HEADGATE_DEPLOYMENT"
"""environment variable with the folder of a deployment, by which its processes are
found
"""
AGAIN = (
    'set -m; while :; do bash "$@" & wait $!; echo "$0: ended ($?)"; kill -9 -- -$!;'
    " sleep 1; done"
)
"""shell code that restarts a script whenever it ends, each time in a new process group,
and kills the rest of the old group
"""
PATIENCE = 300.0
"""seconds to wait for SuperNodes to join or a ServerApp to start"""
SERVER_APP = "flwr-serverapp"


def write_server(
    folder: Path,
    certificates: Path,
    listen: str,
    inside: int,
) -> list[Path]:
    """Write the files for the server's machine into a folder, and return their paths.

    SuperNodes connect to `listen` (ADDRESS:PORT); the SuperLink listens on the port
    `inside` of 127.0.0.1.
    """
    own = certificates.resolve()
    values = {"certificates": own, "inside": inside, "listen": listen}
    port = listen.rpartition(":")[2]
    made = _write(folder, SERVER, ("nginx.conf", *RENEWAL), port, values)
    for each in (folder / "temporary", folder / "user"):
        each.mkdir(
            mode=0o700,
            exist_ok=True,
        )
    config = (
        f'[superlink]\ndefault = "{NAME}"\n[superlink.{NAME}]\n'
        f'address = "127.0.0.1:{inside}"\n'
        f'root-certificates = "{own}/ca.crt"\n'
    )
    (folder / "user" / "config.toml").write_text(config, "utf-8")
    return made


def write_node(
    folder: Path,
    superlink: str,
    authority: Path,
    key: Path,
    client: int,
    clients: int,
    port: int,
    keep: bool = False,
) -> list[Path]:
    """Write the files for a client's machine into a folder, and return their paths.

    `superlink` is HOST:PORT of nginx. The SuperNode listens on `port` of 127.0.0.1. If
    `keep`, samples stay after a run.
    """
    values: dict[str, Any] = {
        "superlink": superlink,
        "authority": authority,
        "key": key,
        "port": port,
        "client": client,
        "clients": clients,
        "keep": " headgate-keep=true" if keep else "",
    }
    return _write(folder, [f"supernode-{client}"], (), "", values)


def _write(
    folder: Path,
    services: Sequence[str],
    others: Sequence[str],
    port: str,
    values: dict[str, Any],
) -> list[Path]:
    """Fill the templates of `services` and `others`. Containers mount all paths in
    `values` and publish `port`, if any.
    """
    path = Path(sys.executable).parent
    ids = f"{os.getuid()}:{os.getgid()}"
    values |= {"folder": folder, "user": getpass.getuser(), "ids": ids}
    for name, value in {**values, "path": path}.items():
        wrong = sorted(set(FORBIDDEN) & set(str(value)))
        if wrong:
            raise SettingError(
                f"{name} = {str(value)!r}: must not contain"
                f" {' '.join(map(repr, wrong))}"
            )
    quiet = " ".join(f"{name}={value}" for name, value in ENVIRONMENT.items())
    mounted = [f"{each}:{each}" for each in values.values() if isinstance(each, Path)]
    containers = [
        f'  {name}: {{ <<: *service, network_mode: "service:network", command:'
        f' [/bin/bash, "{folder}/{name}.sh"] }}'
        for name in services
    ]
    values |= {
        "environment": (
            f'export {quiet} PYTHONUNBUFFERED=1 FLWR_HOME="{folder}/home"'
            f' PATH="{path}:$PATH:/usr/sbin"'
        ),
        "volumes": json.dumps(mounted),
        "ports": json.dumps([f"{port}:{port}"] if port else []),
        "containers": "\n".join(containers),
    }
    wanted = {name: (name, "") for name in (*others, "compose.yaml")}
    for name in services:
        wanted[f"{name}.sh"] = f"{name.rstrip('-0123456789')}.sh", name
    for name in services:
        wanted[f"headgate-{name}.service"] = "unit.service", name
    folder.mkdir(
        mode=0o700,
        parents=True,
        exist_ok=True,
    )
    for name, (template, service) in wanted.items():
        text = (TEMPLATE / template).read_text("utf-8")
        filled = Template(text).substitute(values, service=service)
        (folder / name).write_text(filled, "utf-8")
    return [folder / name for name in wanted]


def flwr(folder: Path, *words: str) -> dict[str, Any]:
    """Run `flwr` for the SuperLink with this folder, and return the JSON object that it
    prints.
    """
    done = subprocess.run(
        [Path(sys.executable).with_name("flwr"), *words, "--format", "json"],
        env={**os.environ, **ENVIRONMENT, "FLWR_HOME": str(folder / "user")},
        capture_output=True,
        text=True,
        check=False,
    )
    answer: dict[str, Any] = {}
    if done.stdout.lstrip().startswith("{"):
        answer = json.loads(done.stdout)
    if not answer.get("success"):  # flwr may exit with 0 after a failure
        printed = " ".join((done.stdout or done.stderr).split())
        raise HeadgateError(f"flwr {' '.join(words[:2])}: {printed[-400:]}")
    return answer


def register(
    folder: Path,
    client: int,
    public: Path,
    replace: bool = False,
) -> None:
    """Register the public key of a client's SuperNode with the SuperLink that has this
    folder.
    """
    if not (folder / "user").is_dir():
        raise SettingError(f"{folder}: is no folder of headgate flower superlink")
    bind_key(folder / FILE, client, public, replace)
    try:
        flwr(folder, "supernode", "register", str(public), NAME)
    except HeadgateError as error:
        if "already in use" not in str(error):
            raise


class Loopback(ExitStack):
    """A deployment on this machine, for a `with` block: `bring_up` starts it, and the
    end of the block ends all its processes.

    Keys, databases, stores and logs are in `folder`; with the same folder, the same
    deployment starts again. Each of `nodes` clients has a SuperNode. `say` is called
    with a line for each event. All processes get the environment variables in `more`.
    """

    def __init__(
        self,
        folder: Path,
        nodes: int,
        say: Callable[[str], None],
        more: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self.folder, self.nodes, self.say = folder.resolve(), nodes, say
        self.port = free_port()
        self.link = self.folder / "superlink"
        self.more = {**(more or {}), MARK: str(self.folder)}

    def bring_up(self) -> None:
        """Start all services, and wait until all SuperNodes have joined."""
        path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"
        if shutil.which("nginx", path=path) is None:
            raise SettingError("nginx: is not installed; apt-get install nginx")
        self.folder.mkdir(
            mode=0o700,
            parents=True,
            exist_ok=True,
        )
        self.enter_context(FolderLock()).take(self.folder, self.folder)
        self.callback(self._end)
        self._end()  # processes that a killed one has left behind
        certificates = self.folder / "certificates"
        for warning in ensure_certificates(certificates):
            self.say(warning)
        inside = free_port()
        write_server(self.link, certificates, f"127.0.0.1:{self.port}", inside)
        for name in SERVER:
            # the variable does not reach workers of nginx
            words = ("-g", "master_process off;") if name == "nginx" else ()
            self.start(name, self.link, *words)
        address = ("127.0.0.1", inside)
        self.await_that(
            lambda: socket.create_connection(address, 1), "SuperLink"
        ).close()
        for client in range(self.nodes):
            self.start_node(client)
        self.say(
            f"SuperLink behind nginx at https://127.0.0.1:{self.port}, {self.nodes}"
            f" SuperNodes; logs in {self.folder}"
        )
        self.await_that(self._all_joined, "SuperNodes")

    def _all_joined(self) -> bool:
        logs = [self.folder / f"supernode-{client}.log" for client in range(self.nodes)]
        return all("SuperNode ID:" in log.read_text("utf-8", "replace") for log in logs)

    def start_node(self, client: int, registered: bool = True) -> None:
        """Start the SuperNode of a client, after making and registering its key if
        necessary.
        """
        home = self.folder / f"node-{client}"
        if not (home / "key").exists():
            make_key(home / "key")
        if registered:
            register(self.link, client, home / "key.pub")
        write_node(
            home,
            f"127.0.0.1:{self.port}",
            self.folder / "certificates" / "ca.crt",
            home / "key",
            client,
            self.nodes,
            free_port(),
        )
        self.start(f"supernode-{client}", home)

    def start(
        self,
        name: str,
        home: Path,
        *words: str,
    ) -> None:
        """Start the script of a service, with a new log in the deployment's folder. It
        restarts whenever it ends.
        """
        # Ctrl-C in a terminal does not reach another session
        command = ["setsid", "--fork", "/bin/bash", "-c", AGAIN, name]
        with (self.folder / f"{name}.log").open("wb") as log:
            subprocess.run(
                [*command, f"{home}/{name}.sh", *words],
                check=True,
                env={**os.environ, **self.more},
                umask=0o077,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def await_that(
        self,
        condition: Callable[[], Any],
        what: str,
        pause: float = 0.5,
    ) -> Any:
        """Wait until `condition` returns a true value, and return it. A call that fails
        is repeated.
        """
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            with suppress(HeadgateError, OSError):
                found = condition()
                if found:
                    return found
            time.sleep(pause)
        raise HeadgateError(
            f"{what}: not there within {PATIENCE:g} s; logs in {self.folder}"
        )

    def _end(self) -> None:
        """End all services, SuperNodes first so that they can sign off."""
        for word, how in (
            (AGAIN, signal.SIGKILL),
            ("flower-supernode", signal.SIGTERM),
            ("", signal.SIGKILL),
        ):
            until = time.monotonic() + 8
            for pid in self.running(word):
                with suppress(ProcessLookupError):
                    os.kill(pid, how)
            while any(self.running(word)) and time.monotonic() < until:
                time.sleep(0.05)

    def running(self, word: str = "") -> Iterator[int]:
        """Yield the ids of the processes of this deployment whose command line contains
        `word`.
        """
        mark = f"{MARK}={self.folder}".encode()
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                mine = mark in (path / "environ").read_bytes().split(b"\0")
                if mine and word.encode() in (path / "cmdline").read_bytes():
                    yield int(path.name)

    def run(
        self,
        app: Path,
        out: Path,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """Submit an app and follow it to its end. If its ServerApp is lost, submit it
        again; the run then continues.
        """
        asked = {"out": str(out), **(settings or {})}
        config = " ".join(f"{key}={json.dumps(value)}" for key, value in asked.items())
        run, status, line = "", "", _line(out)

        def now() -> str:
            found = flwr(self.link, "ls", NAME, "--run-id", run)
            return str(found["runs"][0]["status"])

        def begun() -> bool:
            return any(self.running(SERVER_APP)) or now().startswith("finished")

        while not status.startswith("finished"):
            answer = flwr(self.link, "run", str(app), NAME, "--run-config", config)
            run = str(answer["run-id"])
            self.say(f"run {run}: submitted")
            self.await_that(begun, f"ServerApp of run {run}", 2)
            while any(self.running(SERVER_APP)) or line != _line(out):
                last, line = line, _line(out)
                if line != last:
                    self.say(line)
                time.sleep(0.5)
            status = self.await_that(now, "SuperLink")
            if not status.startswith("finished"):
                self.say(f"run {run}: its ServerApp is gone; submitted again")
                flwr(self.link, "stop", run, NAME)
        if status != "finished:completed":
            raise HeadgateError(
                f"run {run}: {status}; the table task_logs in {self.link / 'state.db'}"
                " has the reason"
            )


def _line(out: Path) -> str:
    if not (out / STATE).is_file():
        return ""
    return str(read_object(out / STATE).get("line", ""))


def free_port() -> int:
    """Return a port of the loopback interface on which no process listens."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
