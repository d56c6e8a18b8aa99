"""Label Studio on this machine, for `make labels` and for tests: in an environment of
its own, in a folder that is removed, without telemetry, on 127.0.0.1 alone.
"""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parent.parent
PROGRAM = ROOT / ".venv-labels" / "bin" / "label-studio"
QUIET = {
    "COLLECT_ANALYTICS": "false",
    "LATEST_VERSION_CHECK": "false",
    "SENTRY_DSN": "",
    "FRONTEND_SENTRY_DSN": "",
    "SSRF_PROTECTION_ENABLED": "false",
    "LABEL_STUDIO_DISABLE_SIGNUP_WITHOUT_LINK": "true",
    "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
}
"""telemetry off; webhooks to this machine, and the token below, on"""
USER = "gate@labels.example"
FIRST_START = 600.0
"""the most seconds until it answers: the first start makes its database"""


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Server:
    """Label Studio with its data in a folder; it can be stopped and started again.

    Parameters
    ----------
    folder : Path
        Its data. The first start there takes about a minute, later ones ten seconds.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.token = secrets.token_hex(20)
        self.password = secrets.token_hex(8)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        own = {
            "LABEL_STUDIO_BASE_DATA_DIR": str(self.folder),
            "LABEL_STUDIO_USERNAME": USER,
            "LABEL_STUDIO_PASSWORD": self.password,
            "LABEL_STUDIO_USER_TOKEN": self.token,
        }
        listen = ["--internal-host", "127.0.0.1", "--port", str(self.port)]
        command = [PROGRAM, "start", "--no-browser", *listen]
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [*map(str, command), "--data-dir", str(self.folder)],
                env=os.environ | QUIET | own,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._wait(time.monotonic())

    def _wait(self, began: float) -> None:
        assert self._process is not None
        while time.monotonic() - began < FIRST_START:
            if self._process.poll() is not None:
                break
            try:
                if httpx.get(f"{self.url}/health", timeout=5).is_success:
                    return
            except httpx.TransportError:
                time.sleep(0.2)
        sys.exit(f"Label Studio did not start; see {self.folder / 'log'}")

    def stop(self) -> None:
        """End it, and the processes that it started."""
        process, self._process = self._process, None
        if process is not None:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()

    def people(self) -> "People":
        """Return the people who label there."""
        return People(self.url, self.token)


class People:
    """The people who label: they use the calls that Label Studio's own page makes."""

    def __init__(self, url: str, token: str) -> None:
        headers = {"Authorization": f"Token {token}"}
        self._client = httpx.Client(base_url=url, headers=headers, timeout=60)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        **query: str | int,
    ) -> Any:
        """Return the answer of a call."""
        answer = self._client.request(method, path, json=body, params=query or None)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def access_token(self) -> str:
        """Return a new personal access token, as the gate uses it."""
        return str(self.ask("POST", "/api/token/")["token"])

    def projects(self) -> dict[str, int]:
        """Return the numbers of the projects by their names."""
        found = self.ask("GET", "/api/projects", page_size=100, include="id,title")
        return {each["title"]: each["id"] for each in found["results"]}

    def tasks(self, project: int) -> list[dict[str, Any]]:
        """Return the tasks of a project with their labels."""
        query = {"project": project, "fields": "all", "page_size": 10_000}
        return list(self.ask("GET", "/api/tasks", **query)["tasks"])

    def label(self, task: int, choice: str) -> int:
        """Label a task; return the number of the label."""
        value = {"choices": [choice]}
        region = {"from_name": "label", "to_name": "text", "type": "choices"}
        body = {"result": [{**region, "value": value}], "lead_time": 4.2}
        return int(self.ask("POST", f"/api/tasks/{task}/annotations", body)["id"])

    def skip(self, task: int) -> None:
        """Press "Skip"."""
        body = {"result": [], "was_cancelled": True}
        self.ask("POST", f"/api/tasks/{task}/annotations", body)

    def reject(self, label: int) -> None:
        """Delete a label, which is how a reviewer rejects it."""
        self.ask("DELETE", f"/api/annotations/{label}")
