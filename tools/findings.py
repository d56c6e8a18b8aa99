"""Fifteen ways in or down, tried on a checkout: `python tools/findings.py CHECKOUT [NUMBER...]` says what happened to each.

They were found at ceb7a87. Every attempt is made with what both versions have in common: the command line, HTTP, and Flower's
messages, in the helpers of the checkout's own tests. An attempt that succeeds says "gave way", any other "held".
"""

import json
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SMALL = ["run.rounds=4", "run.seeds=1", 'run.policies=["constant"]', "training.steps=1", "system.clients=4"]
PATIENCE = 120.0
Outcome = tuple[bool, str]
"""whether it gave way, and what was seen"""


def command(*words: object, **more: Any) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "headgate.cli", *map(str, words)]
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=PATIENCE, **more)


def sets(settings: list[str]) -> list[str]:
    return [word for each in settings for word in ("--set", each)]


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stderr.strip() or done.stdout.strip()).splitlines()[-1]


def free_port() -> int:
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return int(own.getsockname()[1])


def until(there: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not there():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.1)


@contextmanager
def started(*words: object, **more: Any) -> Iterator[Path]:
    """A command that runs on; the file of what it says."""
    said = Path("said.txt")
    with said.open("w") as out:
        line = [sys.executable, "-m", "headgate.cli", *map(str, words)]
        process = subprocess.Popen(line, stdout=out, stderr=out, **more)
    try:
        yield said
    finally:
        process.terminate()
        process.wait(PATIENCE)


@contextmanager
def page(folder: str) -> Iterator[str]:
    """The address of the page over a folder, in a process that may take 4 GiB."""
    port = free_port()

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30,) * 2)

    Path(folder).mkdir(exist_ok=True)
    with started("serve", folder, "--port", port, preexec_fn=limited) as said:
        until(lambda: f":{port}" in said.read_text(), said.read_text())
        yield f"http://127.0.0.1:{port}"


def a_run(name: str = "run", *more: str) -> Path:
    done = command("run", "digits", "--out", name, *sets([*SMALL, *more]))
    assert done.returncode == 0, done.stderr
    return Path(name)


def cut_short(name: str) -> Path:
    """A run that was stopped by Ctrl-C after a checkpoint."""
    line = [sys.executable, "-m", "headgate.cli", "run", "digits", "--out", name, *sets([*SMALL, "run.rounds=3000"])]
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    rows = Path(name) / "metrics.jsonl"
    until(lambda: rows.exists() and rows.read_bytes().count(b"\n") > 20, "no rows")
    process.send_signal(signal.SIGINT)
    process.wait(PATIENCE)
    assert list(Path(name).glob("checkpoints/0*")), "no checkpoint"
    return Path(name)


def world(rounds: int, policy: str = "fifo", **discipline: Any) -> Any:
    from worlds import Discipline, World, an_experiment  # type: ignore[import-not-found]

    return World(Path("world"), an_experiment(policy, rounds), Discipline(gather=0.0, deadline=5.0, **discipline))


def played(there: Any, until_: int | None = None) -> str:
    """Nothing, or how the server died."""
    try:
        there.play(until_)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"
    return ""


def changing(there: Any, change: Callable[[Any], Any]) -> None:
    """Client 0's first reply is another on the way."""
    there.grid.faults, there.grid.tamper = {(1, 0): "reply changed"}, change


def deployment() -> Outcome:
    """With the public certificate alone: list nodes and runs, register a node."""
    import httpx
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key
    from flwr.proto.control_pb2 import ListNodesRequest, ListRunsRequest, RegisterNodeRequest
    from flwr.supercore.control.control_http_client import ControlHttpClient

    command("flower", "certificates", "certificates")
    command("flower", "key", "evil.key")
    pem = load_ssh_public_key(Path("evil.key.pub").read_bytes()).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    port, got = free_port(), {}
    more = ["--inside", free_port()] if "--inside" in command("flower", "superlink", "--help").stdout else []
    with started("flower", "superlink", "link", "--certificates", "certificates", "--port", port, *more) as said:
        until(lambda: "to run an app" in said.read_text(), said.read_text())
        authority = Path("certificates/ca.crt").read_bytes()
        with ControlHttpClient.from_server_address(f"127.0.0.1:{port}", False, authority, []) as control:
            for name, ask in {
                "list runs": lambda: control.ListRuns(ListRunsRequest()),
                "register": lambda: control.RegisterNode(RegisterNodeRequest(public_key=pem, name="evil")),
                "list nodes": lambda: len(control.ListNodes(ListNodesRequest()).nodes_info),
            }.items():
                try:
                    ask()
                    got[name] = "done"
                except httpx.HTTPStatusError as error:
                    got[name] = str(error.response.status_code)
    return "done" in got.values(), "a stranger asks to " + ", ".join(f"{name}: {each}" for name, each in got.items())


def unused_code() -> Outcome:
    unused = '\n[policies.unused]\nkind = "os:system"\ncommand = "touch pwned"\n'
    Path("evil.toml").write_text(command("recipes", "digits").stdout + unused)
    done = command("rehearse", "evil.toml", *sets(SMALL))
    way = Path("pwned").exists()
    return way, "rehearse executed its command" if way else f"not executed, exit code {done.returncode}"


def links() -> Outcome:
    folder, victim = a_run(), Path("victim.txt")
    victim.write_text("mine")
    (folder / ".report.html.partial").symlink_to(victim.resolve())
    done = command("report", folder)
    way = victim.read_text() != "mine"
    return way, "report overwrote another file" if way else f"not touched, exit code {done.returncode}"


def packed_arrays() -> Outcome:
    import io

    import numpy as np
    from flwr.app import Array, ArrayRecord

    there = world(3)

    def change(reply: Any) -> Any:
        file = io.BytesIO()
        np.savez(file, a=np.zeros(2))
        arrays = dict(reply.content["arrays"].items())
        arrays["w"] = Array("float64", (2,), "numpy.ndarray", file.getvalue())
        reply.content["arrays"] = ArrayRecord(arrays)
        return reply

    changing(there, change)
    said = played(there)
    return bool(said), said or "rejected, the run went on"


def hijack() -> Outcome:
    """Client 0 has been node 100; then node 7 says that it is client 0, since the end of time."""
    from flwr.app import ConfigRecord, Message, RecordDict
    from grids import Node  # type: ignore[import-not-found]

    there, asked = world(4), []

    def claims(message: Any, context: Any) -> Any:
        asked.append(message.metadata.message_type)
        return Message(RecordDict({"headgate": ConfigRecord({"client": 0, "since": 1e300})}), reply_to=message)

    played(there, 1)
    there.grid.nodes = {7: Node(claims, 0), **there.grid.nodes}
    played(there)
    away = "; client 0 is in quarantine" if there.events("quarantined") else ""
    return "train" in asked, f"it got client 0's orders {asked.count('train')} times{away}"


def plans() -> Outcome:
    import httpx

    asked = {
        "system": {"buffers": [4, 6, 5], "budget": 20.0},
        "cost": {"kind": "constant", "value": 2},
        "rounds": 40,
        "seeds": 3,
    }
    wide = {"buffers": [4, 6, 5], "budget": 1e9, "clients": 3e7}
    bursts = {"kind": "bursts", "low": 1, "high": 9, "factor": 5, "chance": 0.1, "length": 2e8}
    wrong = {"clients = 3e7": {"system": wide}, "length = 2e8": {"cost": bursts}, "kind = [1]": {"cost": {"kind": [1]}}}
    got, way = [], False
    for name, body in wrong.items():
        with page("runs") as address:
            try:
                said = str(httpx.post(f"{address}/api/plan", json={**asked, **body}, timeout=60).status_code)
            except httpx.HTTPError as error:
                said = type(error).__name__
            (pid,) = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
            most = int(re.findall(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[0]) / 2**20
        way |= most > 1 or said not in ("400", "422")
        got.append(f"{name}: {said}, {most:.1f} GiB")
    return way, "; ".join(got)


def listed() -> Outcome:
    import httpx

    folder = a_run("runs/bad")
    a_run("runs/good")
    state = json.loads((folder / "state.json").read_text())
    state.pop("seal", None)
    (folder / "state.json").write_text(json.dumps({**state, "elapsed_s": float("nan")}))
    with page("runs") as address:
        answer = httpx.get(f"{address}/api/runs", timeout=60)
    return answer.status_code != 200, f"/api/runs answers {answer.status_code}"


def empty_report() -> Outcome:
    from flwr.app import ConfigRecord

    there = world(3, "both")

    def change(reply: Any) -> Any:
        reply.content["headgate"] = ConfigRecord({**reply.content["headgate"], "rounds": [], "admitted": []})
        return reply

    changing(there, change)
    played(there, 1)
    with there.store() as store:
        (row,) = (row for row in store.orders() if row.client == 0 and row.round == 1)
    return row.admitted == 0, f"of {row.ordered} samples ordered {row.admitted} count as admitted after it"


def changed_row() -> Outcome:
    folder = cut_short("run")
    rows = folder / "metrics.jsonl"
    lines = rows.read_text().splitlines(keepends=True)
    lines[2] = re.sub(r'("spend": )(\d)', lambda found: found[1] + str((int(found[2]) + 1) % 10), lines[2])
    rows.write_text("".join(lines))
    done = command("run", "--resume", folder)
    return not done.returncode, last_line(done) if done.returncode else "resumed to its end with another value in the third row"


def data_files() -> Outcome:
    from headgate.learning.formats.idx import read_idx
    from headgate.learning.formats.pickled import read_batch

    resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30,) * 2)
    images = Path("train-images-idx3-ubyte")
    images.write_bytes(bytes([0, 0, 8, 3]) + struct.pack(">3I", 0, 2**32 - 1, 2**32 - 1))
    text = b"x" * 200_000
    call = b"c_codecs\nencode\n" + b"h\x01" + b"X\x06\x00\x00\x00latin1" + b"\x86R"
    start = b"\x80\x02}X\x04\x00\x00\x00data](X" + struct.pack("<I", len(text)) + text
    batch = Path("data_batch_1")
    batch.write_bytes(start + b"q\x01" + call * 5000 + b"es.")
    seen, way = [], False
    for name, read in (("idx", lambda: read_idx(images)), ("pickle", lambda: read_batch(batch))):
        try:
            read()
            seen.append(f"{name}: read")
        except Exception as error:
            way |= type(error).__name__ not in ("DataError", "DatasetError")
            seen.append(f"{name}: {type(error).__name__}")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return way or most > 1, f"{', '.join(seen)}; {most:.1f} GiB at most"


def settings() -> Outcome:
    tried = ["policies.dpp.kind=[1]", "bound.sigma=1e200", "policies.acdpp.capacity=1e15", "system.clients=1e15"]
    tried += ["policies.released.least=99999999999999999999999", "data.name=\x1b[31mred"]
    broke = [each for each in tried if "Traceback" in command("rehearse", "mnist", "--set", each).stderr]
    return bool(broke), f"{len(broke)} of {len(tried)} end in a traceback"


def full_disk() -> Outcome:
    """Files may not grow beyond some size: that of the tensors of a run, and some for Flower."""
    folder = cut_short("run")
    (tensors,) = folder.glob("checkpoints/*/tensors.safetensors")
    most = tensors.stat().st_size - 100

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most,) * 2)

    done = command("run", "digits", "--out", "another", *sets(SMALL), preexec_fn=small)
    there, wrong = world(3), ""
    for size in (9_000, 33_000, 40_000, 60_000, 90_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        said = played(there)
        wrong = said if "is not a file of" in said else wrong
    return "Traceback" in done.stderr or bool(wrong), f"run: {last_line(done)}" + (f"; Flower: {wrong}" if wrong else "")


def two_starts() -> Outcome:
    """A second start comes while the first is about to write its config."""
    from headgate.flower import run_folder
    from headgate.flower.strategy import AdmissionStrategy

    there, seen, begun, plain = world(1), [], "as far as the first has come", run_folder.create

    def create(folder: Path, *words: Any, **more: Any) -> Any:
        run_folder.create = plain
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "config.toml"
        config.write_text(begun)
        try:
            AdmissionStrategy(there.experiment, folder).close()
            seen.append("the second start plays")
        except Exception as error:
            seen.append(f"the second is refused: {str(error).splitlines()[0][-60:]}")
        seen.append("" if config.exists() and config.read_text() == begun else "the first has lost its config.toml")
        config.unlink(missing_ok=True)
        return plain(folder, *words, **more)

    run_folder.create = create
    played(there)
    return "lost" in seen[1] or "plays" in seen[0], ", ".join(filter(None, seen))


def odds_and_ends() -> Outcome:
    import httpx

    hosts = ["[::1]evil.com", "127.0.0.1:80@evil.com"]
    with page("runs") as address:
        got = [httpx.get(f"{address}/api/runs", headers={"host": host}, timeout=60).status_code for host in hosts]
    os.umask(0o022)
    played(world(1))
    mode = next(Path("world/stores").glob("*.sqlite")).stat().st_mode & 0o777
    said = ", ".join(f"Host {host}: {code}" for host, code in zip(hosts, got, strict=True))
    return 200 in got or bool(mode & 0o077), f"{said}; buffers have mode {mode:o}"


def quarantine() -> Outcome:
    from flwr.app import ConfigRecord

    there = world(4, offences=1)

    def change(reply: Any) -> Any:
        reply.content["headgate"] = ConfigRecord({"client": 0})
        return reply

    changing(there, change)
    played(there)
    with there.store() as store:
        left = [row for row in store.outstanding() if row.client == 0]
    return bool(left), f"{sum(row.price * row.ordered for row in left):g} stay reserved for a client in quarantine"


FINDINGS: list[Callable[[], Outcome]] = [
    deployment, unused_code, links, packed_arrays, hijack, plans, listed, empty_report, changed_row, data_files, settings,
    full_disk, two_starts, odds_and_ends, quarantine,
]  # fmt: skip


def main() -> None:
    if sys.argv[1] == "--probe":
        way, said = FINDINGS[int(sys.argv[2]) - 1]()
        print(f"{'gave way' if way else 'held'}: {said}")
        return
    checkout, numbers = Path(sys.argv[1]).resolve(), list(map(int, sys.argv[2:])) or range(1, len(FINDINGS) + 1)
    path = os.pathsep.join(str(checkout / each) for each in ("src", "tests/flower"))
    for number in numbers:
        with tempfile.TemporaryDirectory() as folder:
            line = [sys.executable, str(Path(__file__).resolve()), "--probe", str(number)]
            own = os.environ | {"PYTHONPATH": path, "FLWR_HOME": f"{folder}/flwr"}
            done = subprocess.run(line, cwd=folder, env=own, capture_output=True, text=True, check=False, timeout=600)
        said = done.stdout.strip().splitlines() or [f"could not be tried: {done.stderr.strip().splitlines()[-1]}"]
        print(f"{number}. {FINDINGS[number - 1].__name__}: {said[-1]}", flush=True)


if __name__ == "__main__":
    main()
