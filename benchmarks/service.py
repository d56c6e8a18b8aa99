"""What a service for accounts takes: callers at once on many accounts, on loopback,
with commits on disk.

    python benchmarks/service.py [--callers 200] [--accounts 50] [--seconds 60]
    python benchmarks/service.py --callers 1 --accounts 1 --clients 10 1000 --seconds 20

Every caller plays rounds on one of the accounts: it begins a round, settles it, and
asks for the balance. Several callers of an account begin and settle the same rounds, as
two machines do of which each must be able to go on alone. The service runs in a process
of its own, as `headgate serve --accounts` does. Times are those of the callers, by the
clock; the last line of a table is the time of the service's processor for a request.
`--postgres ADDRESS` has the accounts in that database.
"""

import argparse
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from headgate.web.accounts.tokens import Tokens


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--callers", type=int, default=200)
    parser.add_argument("--accounts", type=int, default=50)
    parser.add_argument("--clients", type=int, nargs="+", default=[10])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--postgres", metavar="ADDRESS")
    given = parser.parse_args()
    for clients in given.clients:
        times, processor = measured(given, clients)
        requests = sum(map(len, times.values()))
        rate = requests / given.seconds
        print(
            f"{given.callers} callers, {given.accounts} accounts of {clients} clients:"
            f" {rate:.0f} requests/s"
        )
        print(f"{'request':>8} {'a second':>9} {'p50 ms':>8} {'p99 ms':>8} {'most':>8}")
        for name, own in times.items():
            half, most, worst = np.quantile(own, [0.5, 0.99, 1.0]) * 1e3
            each = len(own) / given.seconds
            print(f"{name:>8} {each:9.1f} {half:8.1f} {most:8.1f} {worst:8.1f}")
        print(
            f"processor of the service: {1e3 * processor / requests:.2f} ms a request"
        )


def measured(
    given: argparse.Namespace,
    clients: int,
) -> tuple[dict[str, list[float]], float]:
    """Return the seconds of each request by its name, and those of the processor."""
    times = defaultdict[str, list[float]](list)
    with started(given.postgres) as (port, token, pid):
        callers = [
            Caller(port, token, f"bench-{os.getpid()}-{clients}-{n}", clients, times)
            for n in range(given.accounts)
        ]
        for each in callers:
            each.create()
        before = processor_of(pid)
        until = time.monotonic() + given.seconds
        threads = [
            threading.Thread(
                target=Caller(port, token, own.name, clients, times).play,
                args=(until, number),
            )
            for number in range(given.callers)
            for own in [callers[number % given.accounts]]
        ]
        times.clear()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return times, processor_of(pid) - before


class Caller:
    """One connection that plays rounds."""

    def __init__(
        self,
        port: int,
        token: str,
        name: str,
        clients: int,
        times: dict[str, list[float]],
    ) -> None:
        self.name, self.clients, self.times = name, clients, times
        self.token, self.keys = token, 0
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def ask(
        self,
        what: str,
        method: str,
        path: str,
        body: object = None,
    ) -> tuple[int, bytes]:
        """Make a request, and note how long it took."""
        self.keys += 1
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Idempotency-Key": f"{id(self)}-{self.keys}",
            "Content-Type": "application/json",
        }
        content = None if body is None else json.dumps(body)
        began = time.perf_counter()
        while True:
            try:
                self.connection.request(
                    method, f"/api/accounts{path}", content, headers
                )
                answer = self.connection.getresponse()
                found = answer.read()
            except (OSError, http.client.HTTPException):
                self.connection.close()
                continue
            if answer.status not in (429, 503):
                break
            time.sleep(0.05)
        self.times[what].append(time.perf_counter() - began)
        return answer.status, found

    def create(self) -> None:
        """Begin the accounts."""
        buffer = [8] * self.clients
        system = {"buffer": buffer, "budget": 4.0 * self.clients, "horizon": 200_000}
        new = {"name": self.name, "system": system}
        status, found = self.ask("create", "POST", "", new)
        assert status == 201, found

    def play(self, until: float, number: int) -> None:
        """Play rounds; where another caller settled a round already, that is said."""
        draw = np.random.default_rng(number)
        while time.monotonic() < until:
            price = {"price": round(float(draw.uniform(1.0, 10.0)), 2)}
            status, found = self.ask("begin", "POST", f"/{self.name}/rounds", price)
            assert status == 200, found
            t = json.loads(found)["round"]
            path = f"/{self.name}/rounds/{t}/settlement"
            status, found = self.ask("settle", "PUT", path, {})
            assert status in (200, 409), found
            status, found = self.ask("balance", "GET", f"/{self.name}/balance")
            assert status == 200, found


@contextmanager
def started(postgres: str | None):
    """Start the service; yield its port, a token and the id of its process."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        token = Tokens(folder).make("bench", "*", "amend")
        where = postgres or str(folder / "accounts")
        command = [sys.executable, "-m", "headgate.cli", "serve", "--accounts", where]
        command += ["--tokens", str(folder / "tokens.json"), "--rate", "0", "--quiet"]
        process = subprocess.Popen(
            [*command, "--port", "0"], stdout=subprocess.PIPE, text=True, cwd=folder
        )
        assert process.stdout is not None
        lines = (re.search(r"http://[^:]+:(\d+)/", line) for line in process.stdout)
        found = next(line for line in lines if line)
        try:
            yield int(found[1]), token, process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate()


def processor_of(pid: int) -> float:
    """Return the seconds that a process had the processor."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
