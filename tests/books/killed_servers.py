"""Gates compete for the rounds of accounts in PostgreSQL, while they and the server are
killed.

    python -m tests.books.killed_servers --kills 100 [--seed 0] [--out FILE]
        kills the server about 20 times and gates 80 times, all with SIGKILL; as root,
        fills the server's disk, too

A commit is on disk when it returns, as where it counts. Every round is begun once, at
one price, and settled once, whichever gate does it, and the books agree.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing, contextmanager, suppress
from decimal import Decimal
from pathlib import Path

from headgate import Books, System
from headgate.control.policies import Headgate
from headgate.errors import DataError
from tests.cluster import Cluster

from .gate import ROUNDS, SYSTEM

GATE = Path(__file__).with_name("gate.py")
PACE, MOST = 0.05, 0.5
"""seconds for a round, and the most between two kills"""
SERVER_EVERY = 5
"""of so many kills one is of the server"""
ONCE = "each round once, at one price; books agree"


class Gates:
    """Two gates on accounts; who is killed gets a successor."""

    def __init__(self, place, folder):
        self.place, self.folder, self.started = place, folder, 0
        self.running = [self.start(), self.start()]

    def start(self):
        self.started += 1
        words = [self.place, ROUNDS, self.started, 0, PACE]
        with (self.folder / f"{self.started}.jsonl").open("w") as out:
            command = [sys.executable, GATE, *map(str, words)]
            return subprocess.Popen(command, stdout=out)

    def kill(self, number):
        gate = self.running[number]
        gate.kill()
        gate.wait()
        self.running[number] = self.start()

    def are_done(self):
        return all(each.poll() is not None for each in self.running)

    def told(self):
        """Yield what the gates said."""
        for path in sorted(self.folder.glob("*.jsonl")):
            for line in path.read_text().splitlines():
                if line.endswith("}"):  # who is killed may say half a line
                    yield json.loads(line)

    def close(self):
        for each in self.running:
            each.kill()
            each.wait()


def campaign(server, place, folder, moments, kills):
    """Play all rounds of new accounts under at most so many kills; return what was
    killed.
    """
    done = Counter()
    with closing(Gates(place, folder)) as gates:
        while not gates.are_done():
            time.sleep(moments.uniform(0.0, MOST))
            if sum(done.values()) >= kills or gates.are_done():
                time.sleep(PACE)
            elif moments.randrange(SERVER_EVERY) == 0:
                server.kill()
                time.sleep(moments.uniform(0.0, MOST))
                server.start()
                done["server"] += 1
            else:
                gates.kill(moments.randrange(2))
                done["gate"] += 1
        assert [each.returncode for each in gates.running] == [0, 0]
        check(place, list(gates.told()))
    return done


def check(place, told):
    """Compare what gates said with the accounts, and the accounts with their replay."""
    with Books(place, SYSTEM, Headgate(fill=8.0), wait=60.0) as books:
        found = books.audit()
        kinds = Counter(entry.kind for entry in books._journal.tables.entries())
    assert kinds == {"opened": 1, "begun": ROUNDS, "settled": ROUNDS}, kinds
    orders = {}
    for line in found.lines:
        orders.setdefault(line.round, []).append(line.asked)
    seen = {}
    for each in told:
        if "round" in each:
            before = seen.setdefault(each["round"], each)
            assert before == each, f"{before} and {each}"
            asked = [samples for samples in each["asked"] if samples]
            assert orders.get(each["round"], []) == asked
        if "spent" in each:
            assert Decimal(each["spent"]) == found.spent
    assert found.spent == sum(line.paid for line in found.lines) <= found.approved
    assert found.reserved == 0


@contextmanager
def small_disk(megabytes=64):
    """A disk of its own, which only root can make."""
    with tempfile.TemporaryDirectory() as folder:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0777"]
        subprocess.run([*mount, "tmpfs", folder], check=True)
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


def filled(disk):
    """Fill a disk to its last byte; return the file that does so."""
    path = disk / "junk"
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(65_536)):
            pass
    return path


def full_disk(most=3_000):
    """Play rounds until the disk of the server is full, make room, and play on."""
    system = System([8] * 200, budget=900.0, horizon=5_000)
    settings = ("max_wal_size=32MB", "min_wal_size=32MB")
    with (
        small_disk() as disk,
        closing(Cluster(settings, disk)) as server,
        Books(f"{server.address}/full", system, Headgate()) as books,
    ):
        books.begin(3.0)
        books.settle(round=1)
        junk, refused, t = filled(disk), "", 1
        while not refused and t < most:
            t += 1
            try:
                books.begin(3.0 + t % 2)
                books.settle(round=t)
            except DataError as error:
                refused = str(error)
        assert "No space left on device" in refused, refused
        junk.unlink()
        if not server.answers():
            server.start()
        books.begin(9.0)
        books.settle(round=t)
        found = books.audit()
        assert found.rounds == t
        assert found.spent == sum(line.paid for line in found.lines)
        kinds = Counter(entry.kind for entry in books._journal.tables.entries())
        assert kinds == {"opened": 1, "begun": t, "settled": t}, kinds
        print(f"disk full in round {t}: {refused}", flush=True)


def killed(kills, seed):
    """Return how often a server and a gate was killed."""
    moments, done = random.Random(seed), Counter()
    with closing(Cluster(settings=())) as server:
        number = 0
        while (left := kills - sum(done.values())) > 0:
            number += 1
            place = f"{server.address}/accounts-{number}"
            with tempfile.TemporaryDirectory() as folder:
                done += campaign(server, place, Path(folder), moments, left)
            print(f"{number} accounts, {dict(done)} kills: {ONCE}", flush=True)
    return done


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    done = killed(given.kills, given.seed)
    if os.geteuid() == 0:
        full_disk()
        done["disk"] = 1
    names = {"server": "PostgreSQL", "gate": "gate on PostgreSQL"}
    names["disk"] = "PostgreSQL, disk full"
    rows = [
        {"component": names[kind], "expected": ONCE, "outcome": ONCE}
        for kind, times in done.items()
        for _ in range(times)
    ]
    if given.out:
        given.out.write_text(json.dumps(rows), "utf-8")


if __name__ == "__main__":
    main()
