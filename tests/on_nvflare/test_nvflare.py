"""headgate on NVFlare: in its simulator with everything that goes wrong and changes,
and what is refused on either side.
"""

import csv
import json
import random
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
from safetensors.numpy import load_file

from headgate import Books, System
from headgate.books.statement import export, opened, statement
from headgate.control.policies import Headgate
from headgate.errors import DataError
from headgate.nvflare import META, Admissions
from headgate.nvflare.answers import read_report, read_update

from . import job
from .client import ERASED, NONSENSE, SLOW, entries


def prepared(folder, kind):
    """The controller of a job that is ready to be simulated, and the clients' logs."""
    subprocess.run(
        [sys.executable, job.__file__, folder, folder / "job", kind], check=True
    )
    made = job.made(kind, folder)
    return made, [folder / f"{site}.jsonl" for site in made.sites]


@contextmanager
def simulator(folder, sites):
    """NVFlare's; it is killed in the end with all that it started: its clients have
    sessions of their own.
    """
    command = [
        sys.executable,
        "-c",
        "from nvflare.cli import main; main()",
        "simulator",
        folder / "job" / "scenario",
    ]
    more = ["-w", folder / "workspace", "-c", ",".join(sites), "-t", str(len(sites))]
    with (folder / "log").open("a") as log:
        started = psutil.Popen([*command, *more], stdout=log, stderr=log, cwd=folder)
    try:
        yield started
    finally:
        if started.poll() is None:
            kill_all(started)
            started.wait(30)


def kill_all(started):
    """Stop each process before all are killed, so that none starts another one
    meanwhile: it would play on beside those of the next simulator.
    """
    stopped = {}
    while True:
        own = [started, *started.children(recursive=True)]
        new = [process for process in own if process.pid not in stopped]
        if not new:
            break
        for process in new:
            with suppress(psutil.NoSuchProcess):
                process.suspend()
            stopped[process.pid] = process
    for process in stopped.values():
        with suppress(psutil.NoSuchProcess):
            process.kill()


def listens(process):
    own = [process, *process.children(recursive=True)]
    return {
        each.laddr.ip
        for one in own
        for each in one.net_connections()
        if each.status == psutil.CONN_LISTEN
    }


def rounds(log):
    return [t for t, *_ in entries(log)]


def stalled(folder, seconds=30):
    """NVFlare's simulator at times loses a client while it starts, and then waits for
    it.
    """
    return time.time() - (folder / "log").stat().st_mtime > seconds


def agreed(made, logs, refund=0):
    """The statement, its lines and the events, where accounts, clients and export agree
    to the sample and the cent.
    """
    logs, system = [entries(own) for own in logs], System(**made.system)
    done = {
        (t, client): admitted
        for client, log in enumerate(logs)
        for t, admitted, *_ in log
    }
    with Books(made.folder, system, Headgate()) as books:
        found = books.audit()
        assert books.ledger.t == system.horizon
        for client, log in enumerate(logs):
            counted = json.loads(
                (
                    Path(made.folder).parent / made.sites[client] / "admissions.json"
                ).read_text()
            )["position"]
            assert (
                books.ledger.admitted[0, client]
                == counted
                == sum(done[own] for own in done if own[1] == client)
                > 0
            )
            held = (
                0
                if client in getattr(found.system.amended, "left", ())
                else log[-1][3] - log[-1][2]
            )
            assert (
                books.ledger.occupancy[0, client] == held <= books.system.buffer[client]
            )
    lines = {(line.round, line.client): line for line in found.lines}
    ordered = {
        own: done.get(own, 0) for own in lines
    }  # a client may be late for all of a round
    assert {own: line.delivered for own, line in lines.items()} == ordered
    assert not any(done[own] for own in done.keys() - lines)
    assert (
        found.spent
        == sum(Decimal(str(made.prices[t - 1])) * n for (t, _), n in done.items())
        - refund
        <= found.approved
    )
    assert found.reserved == 0
    export(found, path := Path(made.folder) / "orders.csv", "csv")
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert {
        (int(row["round"]), int(row["client"])): int(row["delivered"])
        for row in rows
        if row["client"]  # a round without an order has none
    } == ordered
    assert sum(Decimal(row["paid"]) for row in rows) == found.spent
    with opened(made.folder) as store:
        return found, lines, store.events()


def test_six_rounds_and_a_killed_server_later_accounts_and_clients_agree(tmp_path):
    made, logs = prepared(tmp_path, "Scenario")
    with simulator(tmp_path, made.sites) as first:
        deadline = time.monotonic() + 120
        while not all(3 in rounds(own) for own in logs):
            assert first.poll() is None, (tmp_path / "log").read_text()
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()
            time.sleep(0.1)
        assert listens(first) == {"127.0.0.1"}
    with opened(tmp_path / "server") as store:
        assert (store.settled, store.state.begun) == (2, 3)
    (tmp_path / "go").touch()
    with simulator(tmp_path, made.sites) as second:
        assert second.wait(300) == 0

    assert [rounds(own) for own in logs] == [
        [1, 2, 3, 3, 4, 5, 6],
        [1, 2, 3, 3, 4, 5, 6],
        [1, 3, 3, 4, 5, 6],
    ]
    twice = [
        entry
        for log in map(entries, logs)
        for entry in log
        if log.count(entry) != 1 + (entry[0] == 3)
    ]
    assert not twice, "asked again, they did the same"
    _, lines, events = agreed(made, logs)
    assert all(
        line.delivered <= 4 < line.asked
        for (t, client), line in lines.items()
        if client == 1 and t in (1, 3)
    )
    assert (lines[4, 2].answered, lines[5, 0].answered) == (
        5,
        6,
    ), "a refused report and a late answer count with the next one"
    assert [
        (each.round, each.client, each.reason)
        for each in events
        if each.kind == "rejected"
    ] == [
        (
            4,
            2,
            (
                "round 4: client 2: admitted 1000000 samples in round 4, 10 of 10"
                " ordered ones were left"
            ),
        )
    ]
    assert [path.name for path in (tmp_path / "server").glob("model*")] == [
        "model-00000006.safetensors"
    ]
    assert load_file(tmp_path / "server" / "model-00000006.safetensors")[
        "w"
    ].tolist() == [6, 6, 6], "each round trains once"


@pytest.mark.long
def test_accounts_agree_after_forty_rounds_of_changes_and_ten_kills(
    tmp_path,
):
    made, logs = prepared(tmp_path, "Changing")
    (tmp_path / "go").touch()
    moments, kills, in_vain, status = random.Random(35), 0, 0, None
    while status is None:
        begun = max(rounds(logs[0]), default=0)
        soon = begun + moments.randint(1, 3) if kills < 10 else 41
        with simulator(tmp_path, made.sites) as playing:
            while (
                playing.poll() is None
                and max(rounds(logs[0]), default=0) < soon
                # on a busy machine a start takes longer than it seems to stall
                and not stalled(tmp_path, 30 * 2**in_vain)
            ):
                time.sleep(0.1)
            time.sleep(moments.random())
            status = playing.poll()
        kills += status is None
        in_vain = in_vain + 1 if max(rounds(logs[0]), default=0) == begun else 0
        assert in_vain < 5, (tmp_path / "log").read_text()
    assert (status, kills >= 10) == (0, True), (tmp_path / "log").read_text()

    found, _, events = agreed(made, logs, refund=Decimal("2.75"))
    assert found.approved == Decimal("1699.75")
    assert found.system.amended.left == (1,)
    assert [each.why for each in found.amendments] == [
        f"after {t}" for t in job.CHANGES
    ]
    own = [set(rounds(log)) for log in logs]
    assert (max(own[1]), min(own[5])) in [
        (20, 11),
        (20, 12),
    ], "a client that joins is asked once its amendment is taken up"
    assert 10 < len(own[3]) < 30
    assert [
        (each.round, each.client) for each in events if each.kind == "withdrawn"
    ] == [(t, 0) for t in ERASED]
    trained = load_file(tmp_path / "server" / "model-00000040.safetensors")["w"].mean()
    assert 40 - len(SLOW) <= round(float(trained), 2) <= 40, (
        "each round trains once; for a slow one all may be late"
    )
    rejected = [(each.round, each.client) for each in events if each.kind == "rejected"]
    assert rejected == [(t, 2) for t in NONSENSE]


@pytest.mark.long
def test_the_example_buys_within_its_money(tmp_path):
    """examples/nvflare_app: digits in NVFlare's simulator."""
    path = Path(__file__).parents[2] / "examples" / "nvflare_app" / "job.py"
    program = (
        f"import sys; sys.path.insert(0, {str(path.parent)!r}); import job;"
        f" sys.exit(job.main({str(tmp_path)!r}, 2))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    with opened(tmp_path / "server") as store:
        found = statement(store)
    assert found.rounds == 2
    assert {
        line.client
        for line in found.lines
        if 0 < line.delivered == min(line.asked, (20, 8, 20)[line.client])
    } == {0, 1, 2}
    assert 0 < found.spent <= 120
    assert load_file(tmp_path / "server" / "model-00000002.safetensors")["w"].any()


def purchase(**changed):
    given = {
        "client": 0,
        "round": 3,
        "samples": 5,
        "price": 2.0,
        "keep": 10,
        "last": 15,
        "run": "one",
    }
    return SimpleNamespace(meta={META: {**given, **changed}})


def test_a_client_that_is_killed_admits_nothing_twice(tmp_path):
    first = Admissions(tmp_path)
    assert first.admit(purchase(round=1, samples=10, last=10)) == range(10)
    again = Admissions(tmp_path)
    assert again.admit(purchase(round=1, samples=10, last=10), most=3) == range(10)
    assert (
        again.report
        == first.report
        == {META: {"rounds": [1], "admitted": [10], "erased": 0}}
    )
    assert again.admit(purchase(round=2), most=2) == range(2, 12)
    assert again.admit(purchase(round=3, samples=8, last=18)) == range(8, 18), (
        "round 2 was not heard of"
    )
    assert again.report == {META: {"rounds": [2, 3], "admitted": [2, 6], "erased": 0}}
    assert again.admit(purchase(round=4, samples=0, last=18), erased=1) == range(8, 18)
    assert again.report == {META: {"rounds": [4], "admitted": [0], "erased": 1}}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"run": "two"}, "admissions.json: belongs to another run"),
        (
            {"last": 9},
            (
                "admissions.json: counts 10 samples, the server 4: one of both is an"
                " old copy"
            ),
        ),
        (
            {"last": 30},
            (
                "admissions.json: counts 10 samples, the server 25: one of both is an"
                " old copy"
            ),
        ),
    ],
)
def test_a_count_that_is_not_this_runs_is_refused(tmp_path, changed, said):
    own = Admissions(tmp_path)
    own.admit(purchase(round=1, samples=5, last=5))
    own.admit(purchase(round=2, samples=5, last=10))
    with pytest.raises(DataError, match=said):
        Admissions(tmp_path).admit(purchase(**changed))


@pytest.mark.parametrize(
    "said",
    [
        None, [], {}, {"rounds": [3], "admitted": [1]},
        {"rounds": [3], "admitted": [1.0], "erased": 0},
        {"rounds": [3], "admitted": [-1], "erased": 0},
        {"rounds": [3], "admitted": [True], "erased": 0},
        {"rounds": [2], "admitted": [1], "erased": 0},
        {"rounds": [3, 4], "admitted": [1, 1], "erased": 0},
        {"rounds": [2, 3], "admitted": [1], "erased": 0},
        {"rounds": "3", "admitted": [1], "erased": 0},
        {"rounds": [3], "admitted": [2**80], "erased": 0},
        {"rounds": [3], "admitted": [1], "erased": "0"},
        {"rounds": list(range(2**17)), "admitted": [1], "erased": 0},
    ],
)  # fmt: skip
def test_what_is_no_report_is_refused(said):
    with pytest.raises(DataError):
        read_report(said, 3)


@pytest.mark.parametrize(
    "said",
    [
        None, {}, {"w": [0.0, 0.0]}, {"v": np.zeros(2)}, {"w": np.zeros(3)},
        {"w": np.array([1.0, np.nan])}, {"w": np.array(["a", "b"])},
        {"w": np.array([None, None])}, {"w": np.zeros(2), "v": np.zeros(2)},
    ],
)  # fmt: skip
def test_parameters_that_are_not_the_models_are_refused(said):
    with pytest.raises(
        DataError, match=r"^params|^w holds numbers that are not finite"
    ):
        read_update(said, False, {"w": np.zeros(2, np.float32)})


def test_differences_are_added_to_the_model():
    assert read_update({"w": np.ones(2)}, True, {"w": np.full(2, 3.0)})[
        "w"
    ].tolist() == [4.0, 4.0]
