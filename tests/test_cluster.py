"""The PostgreSQL of the tests leaves nothing behind, however they end."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests import cluster

ROOT = Path(__file__).parents[1]
PATIENCE = 60.0
SHARED = """
import sys, time
from pathlib import Path
from tests import cluster
with cluster.shared(Path(sys.argv[1])) as address:
    print(address, flush=True)
    time.sleep(600)
"""


def started(folder):
    """A process that uses the shared server, and its address."""
    process = subprocess.Popen(
        [sys.executable, "-c", SHARED, folder],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    return process, process.stdout.readline().strip()


def is_there(number):
    with suppress(ProcessLookupError):
        os.kill(number, 0)
        return True
    return False


@pytest.mark.skipif(bool(cluster.why_not()), reason=cluster.why_not())
def test_a_server_ends_after_the_last_process_that_used_it_was_killed(tmp_path):
    first, address = started(tmp_path)
    second, same = started(tmp_path)
    with first, second:
        folder = Path((tmp_path / "address").read_text().split()[0])
        server = int((folder / "data" / "postmaster.pid").read_text().split()[0])
        first.send_signal(signal.SIGKILL)
        first.wait()
        assert address == same.strip()
        assert folder.exists()
        assert is_there(server)
        second.send_signal(signal.SIGKILL)
    until = time.monotonic() + PATIENCE
    while (folder.exists() or is_there(server)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not folder.exists()
    assert not is_there(server)
