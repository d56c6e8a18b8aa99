"""The SuperLink of a deployment: TLS, node authentication, a database that survives it, and the calls of `flwr` to it."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from headgate.errors import HeadgateError
from headgate.flower.deploy.certificates import Certificates, renew_certificates
from headgate.flower.deploy.processes import await_port, environment, start
from headgate.flower.keys import FILE, VARIABLE, bind_key

NAME = "headgate"
"""of the connection in Flower's config.toml"""


HOST = "127.0.0.1"
"""where a SuperLink listens: who reaches it may start apps, so nobody from outside does"""


@dataclass(frozen=True)
class SuperLink:
    """Where it listens and keeps its state; frozen, so that it can be started again as it was."""

    folder: Path
    port: int
    mark: str
    more: Mapping[str, str] = field(default_factory=dict)
    """further environment variables, for the ServerApp"""

    @property
    def certificates(self) -> Certificates:
        """Its own, for loopback alone: they are not those that SuperNodes see."""
        return Certificates(self.folder / "inside")

    @property
    def keys(self) -> Path:
        """Which key each client has."""
        return self.folder / FILE

    @property
    def log(self) -> Path:
        return self.folder / "superlink.log"

    @property
    def where(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def connection(self) -> Path:
        """Flower's config.toml for `flwr` commands to this SuperLink: FLWR_HOME is its folder."""
        return self.folder / "user" / "config.toml"

    def prepare(self) -> None:
        """Make what it needs, where it is not there yet."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        renew_certificates(self.certificates.folder)
        self.keys.touch(mode=0o600)
        told = {"address": self.where, "root-certificates": str(self.certificates.authority.resolve())}
        self.connection.parent.mkdir(mode=0o700, exist_ok=True)
        self.connection.write_text(tomli_w.dumps({"superlink": {"default": NAME, NAME: told}}), "utf-8")

    def start(self) -> subprocess.Popen[bytes]:
        """Returns when it listens; a database that is there is gone on with."""
        self.prepare()
        command = [sys.executable, "-m", "headgate.flower.deploy.inside", "superlink", "--host", HOST, "--port", str(self.port)]
        command += ["--ssl-ca-certfile", str(self.certificates.authority)]
        command += ["--ssl-certfile", str(self.certificates.server), "--ssl-keyfile", str(self.certificates.server_key)]
        command += ["--enable-supernode-auth", "--database", str(self.folder / "state.db")]
        command += ["--disable-runtime-dependency-installation"]
        more = {VARIABLE: str(self.keys), **self.more}
        process = start(command, self.log, environment(self.folder / "home", self.mark, more))
        try:
            await_port(process, self.port, self.log)
        except BaseException:
            process.kill()  # what it has started ends with it
            process.wait()
            raise
        return process

    # commands of `flwr`

    def register(self, client: int, public_key: Path, replace: bool = False) -> None:
        """Let the SuperNode with this key in, as this client and no other; one that is in already stays."""
        bind_key(self.keys, client, public_key, replace)
        try:
            self._flwr("supernode", "register", str(public_key), NAME)
        except HeadgateError as error:
            if "already in use" not in str(error):
                raise

    def submit(self, app: Path, settings: Mapping[str, str | int | float | bool] | None = None) -> int:
        """Start the app there; the number of the run."""
        words = [f"{key}={json.dumps(value)}" for key, value in (settings or {}).items()]
        config = ["--run-config", " ".join(words)] if words else []
        told = self._flwr("run", str(app), NAME, "--format", "json", *config)
        if not told.get("success") or "run-id" not in told:
            raise HeadgateError(f"flwr run {app}: {told}")
        return int(told["run-id"])

    def status(self, run: int) -> str:
        """pending, starting, running, finished:completed, finished:failed or finished:stopped."""
        told = self._flwr("ls", NAME, "--run-id", str(run), "--format", "json")
        return str(told["runs"][0]["status"])

    def said(self, run: int) -> str:
        """What the run's ServerApp said, which Flower keeps apart from the SuperLink's own log."""
        return re.sub(r"\x1b\[\d*m", "", self._call("log", str(run), NAME, "--show").stdout)

    def stop(self, run: int) -> None:
        self._flwr("stop", str(run), NAME, "--format", "json")

    def _flwr(self, *words: str) -> dict[str, Any]:
        """`flwr` may exit with 0 for what failed, so its JSON is what counts, where it gives any."""
        done = self._call(*words)
        said = " ".join((done.stderr or done.stdout).split())
        if done.returncode != 0:
            raise HeadgateError(f"flwr {' '.join(words[:2])}: {said[-400:] or f'exit code {done.returncode}'}")
        if "json" not in words:
            return {}
        try:
            told = json.loads(done.stdout)
        except ValueError:
            raise HeadgateError(f"flwr {' '.join(words[:2])}: {said[-400:]}") from None
        return dict(told)

    def _call(self, *words: str) -> subprocess.CompletedProcess[str]:
        env = environment(self.connection.parent, self.mark)
        return subprocess.run(["flwr", *words], env=env, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
