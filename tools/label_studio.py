"""A gate in front of Label Studio on this machine: python -m tools.label_studio

`make labels` installs Label Studio into an environment of its own. It is started on
127.0.0.1 alone, without telemetry, with its data in a folder that is removed. People
are played by the calls that its own page makes; the gate is the real one. With
--pictures its project and our page are drawn for the documentation.
"""

import argparse
import os
import random
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from headgate.labels.gate import Gate
from headgate.labels.studio import TOKEN

if TYPE_CHECKING:
    from playwright.sync_api import Page

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
        self.process: subprocess.Popen[bytes] | None = None
        """the server while it runs"""

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
            self.process = subprocess.Popen(
                [*map(str, command), "--data-dir", str(self.folder)],
                env=os.environ | QUIET | own,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._wait(time.monotonic())

    def _wait(self, began: float) -> None:
        assert self.process is not None
        while time.monotonic() - began < FIRST_START:
            if self.process.poll() is not None:
                break
            try:
                if httpx.get(f"{self.url}/health", timeout=5).is_success:
                    return
            except httpx.TransportError:
                time.sleep(0.2)
        sys.exit(f"Label Studio did not start; see {self.folder / 'log'}")

    def stop(self) -> None:
        """End it, and the processes that it started."""
        process, self.process = self.process, None
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


FIGURES = ROOT / "docs" / "figures"
ROUNDS = 6
ACCOUNTS = "ledgers/team"
INTERFACE = """<View>
  <Text name="text" value="$text"/>
  <Choices name="label" toName="text" choice="single" showInline="true">
    <Choice value="invoice"/>
    <Choice value="delivery"/>
    <Choice value="account"/>
  </Choices>
</View>
"""
QUEUE = """[queue]
kind = "label-studio"
url = "{url}"
interface = "interface.xml"

[schedule]"""
OF_TEXT = {"invoice": "invoice", "refund": "invoice", "parcel": "delivery"}
"""what a text is about, by a word in it; all others are about the account"""


def write_gate(folder: Path, url: str) -> Path:
    """Write the gate of `headgate labels new` with Label Studio as its queue."""
    headgate("labels", "new", str(folder))
    gate = folder / "gate.toml"
    own = re.sub(
        r"\[queue\].*?\[schedule\]",
        QUEUE.format(url=url),
        gate.read_text("utf-8"),
        flags=re.DOTALL,
    )
    own = re.sub(r"rounds = \d+", f"rounds = {ROUNDS}", own)
    gate.write_text(f'accounts = "{ACCOUNTS}"\n{own}', "utf-8")
    (folder / "interface.xml").write_text(INTERFACE, "utf-8")
    return gate


def headgate(*arguments: str) -> None:
    """Run a command of headgate, which prints what it does."""
    command = [sys.executable, "-m", "headgate", *arguments]
    subprocess.run(command, check=True)


def work(people: People, chance: random.Random, share: float) -> None:
    """Label a share of what waits, skip one in ten, err in one of ten; then review:
    labels that are wrong are rejected.
    """
    for task in people.tasks(people.projects()["headgate: team"]):
        right = next(
            (label for word, label in OF_TEXT.items() if word in task["data"]["text"]),
            "account",
        )
        if task["annotations"]:
            review(people, task, right)
        elif chance.random() < share:
            wrong = chance.choice(["invoice", "delivery", "account"])
            if chance.random() < 0.1:
                people.skip(task["id"])
            else:
                people.label(task["id"], wrong if chance.random() < 0.1 else right)


def review(
    people: People,
    task: Mapping[str, Any],
    right: str,
) -> None:
    """Reject the labels of a task that are wrong."""
    for label in task["annotations"]:
        regions = label["result"]
        if regions and regions[0]["value"]["choices"] != [right]:
            people.reject(label["id"])


@contextmanager
def page(address: str) -> Iterator["Page"]:
    """A page of a browser at an address."""
    from playwright.sync_api import sync_playwright

    from tools.screenshots import QUIET as PLAIN
    from tools.screenshots import chromium

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=PLAIN)
        opened = browser.new_page(viewport={"width": 1280, "height": 720})
        opened.goto(address)
        yield opened
        browser.close()


def draw_project(server: Server, project: int) -> None:
    """Draw the project for the documentation."""
    with page(f"{server.url}/user/login/") as shown:
        shown.fill("input[name=email]", USER)
        shown.fill("input[name=password]", server.password)
        shown.press("input[name=password]", "Enter")
        shown.wait_for_url(lambda address: "/user/login" not in address)
        shown.goto(f"{server.url}/projects/{project}/data")
        shown.wait_for_selector("text=Annotated by", timeout=60_000)
        shown.wait_for_timeout(3_000)
        shown.screenshot(path=FIGURES / "label-studio.png")


def draw_accounts(ledgers: Path) -> None:
    """Draw our page of the accounts for the documentation."""
    from playwright.sync_api import expect

    from tools.screenshots import settle, started, wait_for

    expect.set_options(timeout=60_000)
    make = ["tokens", "new", str(ledgers), "finance", "--account", "team"]
    command = [sys.executable, "-m", "headgate"]
    token = subprocess.check_output([*command, *make], text=True).strip()
    port = free_port()
    serve = ["serve", str(ledgers), "--accounts", str(ledgers), "--port", str(port)]
    with started([*command, *serve]):
        address = f"http://127.0.0.1:{port}/accounts/team?token={token}"
        wait_for(address)
        with page(address) as shown:
            settle(shown)
            shown.screenshot(path=FIGURES / "label-accounts.png")


def show(folder: Path, pictures: bool) -> None:
    """Six rounds, and what came of them."""
    server = Server(folder / "label-studio")
    print("starting Label Studio; the first start takes about a minute", flush=True)
    try:
        server.start()
        people, chance = server.people(), random.Random(1)
        os.environ[TOKEN] = people.access_token()
        gate = write_gate(folder / "gate", server.url)
        for t in range(1, ROUNDS + 3):
            more = ["--now"] if t <= ROUNDS else []
            headgate("labels", "run", str(gate), "--once", *more)
            work(people, chance, 0.6 if t <= ROUNDS else 1.0)
            if pictures and t == ROUNDS // 2:
                draw_project(server, people.projects()["headgate: team"])
        headgate("labels", "run", str(gate), "--once")
        people.close()
    finally:
        server.stop()
    print("Label Studio is ended; what the accounts say:", flush=True)
    headgate("labels", "status", str(gate))
    headgate("ledger", "show", str(gate.parent / ACCOUNTS))
    with Gate(gate, print) as own:
        statement = own.books.audit()
    print(f"the audit passes: {statement.spent} spent of {statement.approved}")
    if pictures:
        draw_accounts((gate.parent / ACCOUNTS).parent)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pictures", action="store_true", help="draw for the docs")
    if not PROGRAM.exists():
        sys.exit("Label Studio is not installed: make labels")
    with tempfile.TemporaryDirectory() as folder:
        show(Path(folder), parser.parse_args().pictures)


if __name__ == "__main__":
    main()
