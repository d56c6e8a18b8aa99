"""A service that is killed at random moments while callers play rounds, and answers
that are cut off with it.

    python tests/web/accounts/killed.py --kills 200 --out rows.json

Each caller plays rounds on accounts of its own, and sends each request again with the
same key until it is answered. At the end each request is sent once more: it gets the
answer that it had, and the ledger has what was answered, once.
"""

import argparse
import http.client
import json
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from decimal import Decimal
from pathlib import Path

from headgate.books.journal import Journal
from headgate.books.statement import opened
from headgate.web.accounts.tokens import Tokens

SYSTEM = {"buffer": [4, 6, 5], "budget": 12.0, "horizon": 100_000}
PATIENCE = 300
FEWEST = 10
"""requests that each caller makes at least"""


class Program:
    """The service, started again whenever it was killed."""

    def __init__(self, folder):
        self.folder, self.port, self.process = folder, 0, None
        self.start()

    def start(self):
        command = [sys.executable, "-m", "headgate.cli", "serve", "--quiet"]
        command += ["--accounts", self.folder, "--port", str(self.port), "--rate", "0"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, cwd=self.folder.parent, text=True
        )
        for line in self.process.stdout:
            if found := re.search(r"http://[^:]+:(\d+)/", line):
                self.port = int(found[1])
                break
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", "/readyz")  # it waits at the socket until it is ready
        assert connection.getresponse().status == 200
        connection.close()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


class Player(threading.Thread):
    """A caller with accounts of its own."""

    def __init__(self, program, token, name, seed):
        super().__init__(daemon=True)
        self.program, self.token, self.name_ = program, token, name
        self.random, self.done, self.ending = random.Random(seed), [], False
        self.again, self.wrong = 0, None

    def ask(self, method, path, body, key):
        """Send a request until it is answered; return status and answer."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            connection = http.client.HTTPConnection(
                "127.0.0.1", self.program.port, timeout=20
            )
            try:
                sent = {
                    "Authorization": f"Bearer {self.token}",
                    "Idempotency-Key": key,
                    "Content-Type": "application/json",
                }
                connection.request(method, path, json.dumps(body), sent)
                answer = connection.getresponse()
                content = answer.read()
                if answer.status not in (502, 503):
                    return answer.status, content
            except (OSError, http.client.HTTPException):
                self.again += 1
            finally:
                connection.close()
            time.sleep(0.02)
        raise AssertionError(f"{path}: no answer")

    def write(self, method, path, body):
        key = f"{self.name_}-{len(self.done)}"
        path = f"/api/accounts{path}"
        status, content = self.ask(method, path, body, key)
        assert status in (200, 201), content
        self.done.append((method, path, body, key, content))
        return json.loads(content)

    def run(self):
        try:
            self._play()
        except BaseException as error:
            self.wrong = error
            raise

    def _play(self):
        a = f"/{self.name_}"
        self.write("POST", "", {"name": self.name_, "system": SYSTEM})
        while not self.ending or len(self.done) < FEWEST:
            price = round(self.random.uniform(1.0, 10.0), 2)
            began = self.write("POST", f"{a}/rounds", {"price": price})
            reports = {
                str(each["client"]): self.random.randint(0, each["samples"])
                for each in began["purchases"]
            }
            path = f"{a}/rounds/{began['round']}/settlement"
            self.write("PUT", path, {"reports": reports})
            if self.random.random() < 0.3:
                self.write("POST", f"{a}/amendments", {"money": 1.25, "why": "more"})
            if reports["0"] and self.random.random() < 0.3:
                refund = {"round": began["round"], "client": 0, "amount": -0.01}
                self.write("POST", f"{a}/adjustments", refund)


def check(player, folder):
    """Compare what was answered with the ledger, and with what is answered again."""
    for method, path, body, key, content in player.done:
        status, again = player.ask(method, path, body, key)
        assert status in (200, 201), again
        assert again == content, f"{key} was answered otherwise"
    kinds = [path.rpartition("/")[2] for _, path, *_ in player.done]
    with opened(folder / player.name_) as accounts:
        assert isinstance(accounts, Journal)
        accounts.audit()
        entries = list(accounts.tables.entries())
        balance = accounts.state.balance()
    written = [entry.kind for entry in entries]
    wanted = {
        "opened": kinds.count("accounts"),
        "begun": kinds.count("rounds"),
        "settled": kinds.count("settlement"),
        "amended": kinds.count("amendments"),
        "adjusted": kinds.count("adjustments"),
    }
    assert {kind: written.count(kind) for kind in wanted} == wanted
    last = next(
        json.loads(content)["balance"]
        for *_, content in reversed(player.done)
        if b'"balance"' in content
    )
    assert Decimal(last["spent"]) == balance.spent
    return len(player.done)


def answered_by(callers):
    return sum(len(each.done) for each in callers)


def killed(folder, kills, seed, players=3, most=12):
    """Kill the service so many times, each time after 1 to `most` more answers; return
    how many requests were answered, and how often one was sent again.
    """
    folder.mkdir()
    token = Tokens(folder).make("players", "*", "amend")
    program = Program(folder)
    callers = [
        Player(program, token, f"accounts-{n}", seed + n) for n in range(players)
    ]
    moments = random.Random(seed)
    try:
        for each in callers:
            each.start()
        for number in range(1, kills + 1):
            wanted = answered_by(callers) + moments.randint(1, most)
            until = time.monotonic() + PATIENCE
            while answered_by(callers) < wanted and time.monotonic() < until:
                time.sleep(moments.uniform(0.0, 0.02))
            program.kill()
            program.start()
            if number % 20 == 0:
                print(f"{number} kills, {answered_by(callers)} answers", flush=True)
        time.sleep(0.2)
        for each in callers:
            each.ending = True
        for each in callers:
            each.join(2 * PATIENCE)
            assert each.wrong is None, each.wrong
        answered = sum(check(each, folder) for each in callers)
    finally:
        for each in callers:
            each.ending = True
        program.kill()
    return answered, sum(each.again for each in callers)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder) / "accounts"
        answered, again = killed(where, given.kills, given.seed)
    print(f"{given.kills} kills: {answered} requests answered, {again} sent again")
    same = "each round once, each request answered the same again"
    row = {"component": "service for accounts", "expected": same, "outcome": same}
    if given.out:
        given.out.write_text(json.dumps([row] * given.kills), "utf-8")


if __name__ == "__main__":
    main()
