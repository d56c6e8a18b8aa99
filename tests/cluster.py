"""A PostgreSQL of the tests' own, on the loopback interface, in memory where there is
room.

    python tests/cluster.py FOLDER        ends the server of a folder when no process
                                          uses it, however those ended
"""

import fcntl
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import closing, contextmanager
from pathlib import Path

OWNERS = ("postgres", "nobody")
"""who runs the server if root starts it, which the server refuses"""
GUARDED, PASSWORD = "guarded", "a secret: 50%/@"
"""a user that needs a password"""
QUICK = ("fsync=off", "full_page_writes=off")
"""processes die here, machines do not"""
SETTINGS = (
    "listen_addresses=127.0.0.1",
    "max_connections=60",
    "shared_buffers=16MB",
    "autovacuum=off",
    "unix_socket_directories=",
)
ACCESS = """
host all guarded 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
"""


def programs():
    """Return the folder of the server's programs, the newest ones; None: there is
    none.
    """
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    beside = shutil.which("initdb")
    if found:
        return found[-1].parent
    return Path(beside).resolve().parent if beside else None


def why_not():
    """Return why no server can be started; no text: it can."""
    if programs() is None:
        return "no PostgreSQL: apt-get install postgresql"
    return ""


def free_port():
    with closing(socket.socket()) as own:
        own.bind(("127.0.0.1", 0))
        return own.getsockname()[1]


class Cluster:
    """A server, from its start to its end.

    `settings` are those of postgresql.conf; `place` is a folder for its files.
    """

    def __init__(self, settings=QUICK, place=None):
        self.folder = Path(tempfile.mkdtemp(prefix="headgate-postgres-", dir=place))
        self.data, self.port = self.folder / "data", free_port()
        self.settings = (*SETTINGS, *settings, f"port={self.port}")
        if os.geteuid() == 0:
            shutil.chown(self.folder, self._owner())
        self._call(
            "initdb", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8",
            "--username=headgate", "--no-sync", "-D", self.data,
        )  # fmt: skip
        (self.data / "pg_hba.conf").write_text(ACCESS)
        self.use = used(self.folder)
        ends_without_users(self.folder)
        self.start()
        self.psql(f"CREATE USER {GUARDED} PASSWORD '{PASSWORD}'")
        self.psql("CREATE DATABASE accounts")
        self.psql(f"GRANT CREATE ON DATABASE accounts TO {GUARDED}")

    @property
    def address(self):
        return f"postgresql://headgate@127.0.0.1:{self.port}/accounts"

    @property
    def environment(self):
        """What the client programs of PostgreSQL are told."""
        return {
            **os.environ,
            "PGHOST": "127.0.0.1",
            "PGPORT": str(self.port),
            "PGUSER": "headgate",
            "PGDATABASE": "accounts",
        }

    def answers(self):
        """Whether the server takes connections."""
        return not self._call("pg_isready", "-q", check=False).returncode

    def start(self, patience=60.0):
        """Start the server, and wait until it answers; what one that was killed left
        may have to end first.
        """
        options = " ".join(f"-c {setting}" for setting in self.settings)
        command = [programs() / "pg_ctl", "start", "-s", "-w", "-D", self.data]
        command += ["-l", self.folder / "log", "-o", options]
        until = time.monotonic() + patience
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        while subprocess.run(
            command, check=False, **quiet, **self._as_owner()
        ).returncode:
            if time.monotonic() > until:
                raise RuntimeError((self.folder / "log").read_text()[-2000:])
            time.sleep(0.2)

    def kill(self):
        """Kill the server, as the kernel does when memory is short; what it has started
        ends by itself.
        """
        first, *_ = (self.data / "postmaster.pid").read_text().split()
        os.kill(int(first), signal.SIGKILL)

    def psql(self, *statements, database="postgres"):
        """Execute statements; return what they print."""
        command = [arg for each in statements for arg in ("-c", each)]
        return self._call(
            "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1",
            "-d", database, *command,
        ).stdout  # fmt: skip

    def call(self, program, *words, **more):
        """Call a client program on the accounts."""
        return self._call(program, *words, **more)

    def close(self):
        stop(self.folder)
        self.use.close()

    def _call(self, program, *words, check=True, **more):
        done = subprocess.run(
            [programs() / program, *words],
            capture_output=True,
            text=True,
            check=False,
            env=self.environment,
            **self._as_owner(),
            **more,
        )
        if check and done.returncode:
            raise RuntimeError(f"{program}: {done.stderr}")
        return done

    def _owner(self):
        known = {each.pw_name for each in pwd.getpwall()}
        return next(name for name in OWNERS if name in known)

    def _as_owner(self):
        if os.geteuid() != 0:
            return {"cwd": self.folder}
        return {"user": self._owner(), "extra_groups": [], "cwd": self.folder}


@contextmanager
def shared(folder):
    """The one server of all processes that name this folder, from the first of them to
    the last; yield its address.
    """
    told, users = folder / "address", folder / "users"
    with locked(folder):
        if not told.exists():
            own = Cluster()
            told.write_text(f"{own.folder}\n{own.address}\n")
            users.write_text("0")
        users.write_text(str(int(users.read_text()) + 1))
        place, address = told.read_text().split()
        use = used(Path(place))
    try:
        yield address
    finally:
        with locked(folder), use:
            left = int(users.read_text()) - 1
            users.write_text(str(left))
            if not left:
                stop(Path(place))
                told.unlink()


@contextmanager
def locked(folder):
    with (folder / "lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def used(folder):
    """Return a file that says, as long as it is open, that the server of a folder is
    used. It is closed when its process ends, also by a kill, and in a fork.
    """
    file = (folder / "used").open("a")
    fcntl.flock(file, fcntl.LOCK_SH)
    os.register_at_fork(after_in_child=file.close)
    return file


def ends_without_users(folder):
    """Let a process of its own end the server of a folder after its last user."""
    command = [sys.executable, __file__, folder]
    subprocess.run(command, check=True, start_new_session=True)


def wait_and_stop(folder):
    """Return at once; in the background, wait until nobody uses a server, and stop what
    is left of it.
    """
    with (folder / "used").open("a") as file:
        if os.fork():
            return
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):  # who reads what the tests print need not wait
            os.dup2(quiet, stream)
        fcntl.flock(file, fcntl.LOCK_EX)
    if folder.exists():
        stop(folder)


def stop(folder):
    """Stop a server that perhaps another process started."""
    user = folder.owner()
    own = {} if os.geteuid() else {"user": user, "extra_groups": []}
    stopping = [programs() / "pg_ctl", "stop", "-s", "-m", "immediate", "-D"]
    subprocess.run([*stopping, folder / "data"], check=False, cwd=folder, **own)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    wait_and_stop(Path(sys.argv[1]))
