"""What runs in a deployment: nginx before Flower's own programs, each a service that is started again when it ends.

Flower 1.41 serves nodes, users and running apps on one port and asks users for no account. So the SuperLink listens on
127.0.0.1, and nginx passes on the paths that SuperNodes need and no other. Flower does not look after a SuperExec, which
starts apps: that of the SuperLink is a service of its own (`--isolation process`), and a SuperNode, which hears of nothing
more without its own, ends with it and is started again.
"""

import getpass
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import tomli_w

from headgate.errors import HeadgateError, SettingError
from headgate.flower.deploy.certificates import certificates_in
from headgate.flower.keys import FILE, VARIABLE, bind_key
from headgate.flower.quiet import ENVIRONMENT

TEMPLATE = files("headgate.flower.deploy") / "template"
FLEET = (
    *("activate-node", "deactivate-node", "send-node-heartbeat", "get-run", "get-fab"),
    *("pull-messages", "push-messages", "confirm-message-received", "pull-object", "push-object"),
)
"""the calls of Flower's Fleet API, without registration, which is the operator's"""
NAME = "headgate"
"""of the connection in Flower's config.toml"""
BOTH = "trap 'trap \"\" TERM; kill 0; wait' EXIT; {} & {} & wait -n"
"""a script that runs two programs until one of them ends, and then ends the other"""
LOCATION = "        location = {0} {{ limit_except POST {{ deny all; }} proxy_pass https://superlink{0}; }}"


@dataclass(frozen=True)
class Service:
    """A program that is kept running. `before` is a command that must succeed before each start."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    before: Sequence[str] = ()

    def unit(self) -> str:
        """Return the service as a systemd unit that runs as the present user."""
        return _filled(
            "unit.service",
            name=self.name,
            user=getpass.getuser(),
            environment="\n".join(f"Environment={_quoted(f'{name}={value}')}" for name, value in self.environment.items()),
            before=f"ExecStartPre={' '.join(map(_quoted, self.before))}",
            command=" ".join(_quoted(word.replace("$", "$$")) for word in self.command),
        )


def server_services(folder: Path, certificates: Path, listen: str, inside: int) -> list[Service]:
    """Write nginx.conf and return the services of the server's machine: SuperLink, its SuperExec, nginx.

    SuperNodes come in at `listen` (ADDRESS:PORT); the SuperLink has the port `inside` of 127.0.0.1. `folder` holds nginx.conf,
    the SuperLink's database, Flower's connection for `flwr` and the file of client keys.
    """
    own, where = certificates_in(certificates), f"127.0.0.1:{inside}"
    for each in (folder, folder / "temporary", folder / "user"):
        each.mkdir(mode=0o700, parents=True, exist_ok=True)
    paths = "\n".join(LOCATION.format(f"/v1/fleet/{name}") for name in FLEET)
    text = _filled("nginx.conf", folder=folder, inside=inside, listen=listen, locations=paths, **own._asdict())
    (folder / "nginx.conf").write_text(text, "utf-8")
    user = folder / "user" / "config.toml"
    connection = {"address": where, "root-certificates": str(own.authority)}
    user.write_text(tomli_w.dumps({"superlink": {"default": NAME, NAME: connection}}), "utf-8")
    superlink = [_program("flower-superlink"), "--host", "127.0.0.1", "--port", str(inside), "--isolation", "process"]
    superlink += ["--ssl-ca-certfile", str(own.authority), "--ssl-certfile", str(own.server)]
    superlink += ["--ssl-keyfile", str(own.server_key), "--enable-supernode-auth"]
    superlink += ["--database", str(folder / "state.db"), "--disable-runtime-dependency-installation"]
    superexec = [_program("flower-superexec"), "--runtime-api-address", where, "--root-certificates", str(own.authority)]
    environment = {**flower_environment(folder), VARIABLE: str(folder / FILE)}
    check = [_program("headgate"), "flower", "certificates", str(own.server.parent)]
    nginx = [shutil.which("nginx") or "/usr/sbin/nginx", "-e", "stderr", "-c", str(folder / "nginx.conf")]
    return [
        Service("superlink", superlink, environment, check),
        Service("superlink-superexec", superexec, environment),
        Service("nginx", nginx, {}, check),
    ]


def node_service(
    folder: Path, superlink: str, authority: Path, key: Path, client: int, clients: int, port: int, keep: bool = False
) -> Service:
    """Return the service of a client's machine: the SuperNode with its SuperExec.

    `superlink` is HOST:PORT of nginx. The SuperNode has a `port` of 127.0.0.1 for its SuperExec. What the client admits lies in
    the folder's `store`, and stays there after a run if `keep` is set.
    """
    config = {"partition-id": client, "num-partitions": clients, "headgate-store": str(folder / "store")}
    config |= {"headgate-key": str(key)} | ({"headgate-keep": "true"} if keep else {})
    supernode = [_program("flower-supernode"), "--superlink", superlink, "--root-certificates", str(authority)]
    supernode += ["--auth-supernode-private-key", str(key), "--host", "127.0.0.1", "--port", str(port)]
    supernode += ["--isolation", "process"]
    supernode += ["--node-config", " ".join(f"{name}={json.dumps(value)}" for name, value in config.items())]
    superexec = [_program("flower-superexec"), "--insecure", "--runtime-api-address", f"127.0.0.1:{port}"]
    script = BOTH.format(shlex.join(supernode), shlex.join(superexec))
    return Service(f"supernode-{client}", ["/bin/bash", "-c", script], flower_environment(folder))


def flower_environment(folder: Path) -> dict[str, str]:
    """Return the variables of Flower's programs: nothing is reported or fetched, and FLWR_HOME is in the folder."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return {**ENVIRONMENT, "FLWR_HOME": str(folder / "home"), "PATH": path, "PYTHONUNBUFFERED": "1"}


def flwr(folder: Path, *words: str) -> str:
    """Return what `flwr` prints when it is called for the SuperLink whose folder this is."""
    env = {**os.environ, **flower_environment(folder), "FLWR_HOME": str(folder / "user")}
    done = subprocess.run([_program("flwr"), *words], env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HeadgateError(f"flwr {' '.join(words[:2])}: {' '.join((done.stderr or done.stdout).split())[-400:]}")
    return done.stdout


def flwr_json(folder: Path, *words: str) -> dict[str, Any]:
    """Return what `flwr` tells as JSON; it may exit with 0 for what failed, so its own word is what counts."""
    text = flwr(folder, *words, "--format", "json")
    answer: dict[str, Any] = json.loads(text) if text.lstrip().startswith("{") else {}
    if not answer.get("success"):
        raise HeadgateError(f"flwr {' '.join(words[:2])}: {' '.join(text.split())[-400:]}")
    return answer


def register(folder: Path, client: int, public: Path, replace: bool = False) -> None:
    """Register the public key of a client's SuperNode with the SuperLink whose folder this is."""
    if not (folder / "user").is_dir():
        raise SettingError(f"{folder}: is no folder of headgate flower superlink")
    bind_key(folder / FILE, client, public, replace)
    try:
        flwr(folder, "supernode", "register", str(public), NAME)
    except HeadgateError as error:
        if "already in use" not in str(error):
            raise


def write_units(folder: Path, services: Sequence[Service]) -> list[Path]:
    """Write a systemd unit for each service into the folder and return the paths."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for service in services:
        (folder / f"headgate-{service.name}.service").write_text(service.unit(), "utf-8")
    return [folder / f"headgate-{service.name}.service" for service in services]


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def _filled(template: str, **values: object) -> str:
    text = (TEMPLATE / template).read_text("utf-8")
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    return text


def _quoted(word: str) -> str:
    """Return a word as systemd reads it in a unit.

    >>> print(_quoted('a="b" 10%'))
    "a=\\"b\\" 10%%"
    """
    for plain, written in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%")):
        word = word.replace(plain, written)
    return f'"{word}"'
