"""headgate on NVFlare: six rounds in its simulator with everything that goes wrong, and what is refused on either side."""

import json
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import nvflare
import psutil
import pytest
from safetensors.numpy import load_file

from headgate import Books, System
from headgate.books.statement import opened, statement
from headgate.control.policies import Headgate
from headgate.errors import DataError
from headgate.nvflare import META, Admissions, _delivery, _params

from . import job

HERE = Path(job.__file__)


def simulate(folder):
    command = [sys.executable, "-c", "from nvflare.cli import main; main()", "simulator", folder / "job" / "scenario"]
    more = ["-w", folder / "workspace", "-c", ",".join(job.SITES), "-t", "3"]
    with (folder / "log").open("a") as log:
        return psutil.Popen([*command, *more], stdout=log, stderr=log, cwd=folder)


def kill(simulator):
    """The simulator and all that it started: its clients have sessions of their own."""
    for process in [simulator, *simulator.children(recursive=True)]:
        process.kill()
    simulator.wait(30)


def listens(process):
    own = [process, *process.children(recursive=True)]
    return {each.laddr.ip for one in own for each in one.net_connections() if each.status == psutil.CONN_LISTEN}


def entries(log):
    """What a client wrote down: round, samples admitted in it, first and last sample held."""
    return [json.loads(line) for line in log.read_text().splitlines(True) if line.endswith("\n")] if log.exists() else []


def rounds(log):
    return [t for t, *_ in entries(log)]


def test_six_rounds_and_a_killed_server_later_accounts_and_clients_agree(tmp_path):
    subprocess.run([sys.executable, HERE, tmp_path, tmp_path / "job"], check=True)
    logs = [tmp_path / f"{site}.jsonl" for site in job.SITES]
    simulator = simulate(tmp_path)
    try:
        deadline = time.monotonic() + 60
        while not all(3 in rounds(own) for own in logs):
            assert simulator.poll() is None, (tmp_path / "log").read_text()
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()
            time.sleep(0.1)
        assert listens(simulator) == {"127.0.0.1"}
    finally:
        kill(simulator)
    with opened(tmp_path / "server") as store:
        assert (store.settled, store.begun().round) == (2, 3)
    (tmp_path / "go").touch()
    simulator = simulate(tmp_path)
    try:
        assert simulator.wait(120) == 0
    finally:
        if simulator.is_running():
            kill(simulator)

    assert [rounds(own) for own in logs] == [[1, 2, 3, 3, 4, 5, 6], [1, 2, 3, 3, 4, 5, 6], [1, 3, 3, 4, 5, 6]]
    logs = [entries(own) for own in logs]
    done = [{t: admitted for t, admitted, *_ in log} for log in logs]
    assert all(log.count(entry) == 1 + (entry[0] == 3) for log in logs for entry in log), "asked again, they did the same"
    with Books(tmp_path / "server", System(**job.SYSTEM), Headgate()) as books:
        found = books.audit()
        assert books.ledger.t == 6
        for client, own in enumerate(done):
            counted = json.loads((tmp_path / job.SITES[client] / "admissions.json").read_text())
            assert books.ledger.admitted[0, client] == counted["position"] == sum(own.values()) > 0
            assert books.ledger.occupancy[0, client] == logs[client][-1][3] - logs[client][-1][2] <= books.system.buffer[client]
    lines = {(line.round, line.client): line for line in found.lines}
    assert {own: line.delivered for own, line in lines.items()} == {own: done[own[1]][own[0]] for own in lines}
    assert all(line.delivered <= 4 < line.asked for (t, client), line in lines.items() if client == 1 and t in (1, 3))
    assert found.spent == sum(Decimal(str(job.PRICES[t - 1])) * n for own in done for t, n in own.items()) <= Decimal(120)
    assert found.reserved == 0
    assert (lines[4, 2].answered, lines[5, 0].answered) == (5, 6), "a refused report and a late answer count with the next one"
    with opened(tmp_path / "server") as store:
        events = store.events()
    assert [(each.round, each.client, each.reason) for each in events if each.kind == "rejected"] == [
        (4, 2, "round 4: client 2: admitted 1000000 samples in round 4, 10 of 10 ordered ones were left")
    ]
    assert [path.name for path in (tmp_path / "server").glob("model*")] == ["model-00000006.safetensors"]
    assert load_file(tmp_path / "server" / "model-00000006.safetensors")["w"].tolist() == [6, 6, 6], "each round trains once"


@pytest.mark.long
def test_the_example_buys_within_its_money(tmp_path):
    """examples/nvflare_app: digits in NVFlare's simulator."""
    path = Path(__file__).parents[2] / "examples" / "nvflare_app" / "job.py"
    program = f"import sys; sys.path.insert(0, {str(path.parent)!r}); import job; sys.exit(job.main({str(tmp_path)!r}, 2))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with opened(tmp_path / "server") as store:
        found = statement(store)
    assert found.rounds == 2
    assert {line.client for line in found.lines if 0 < line.delivered == min(line.asked, (20, 8, 20)[line.client])} == {0, 1, 2}
    assert 0 < found.spent <= 120
    assert load_file(tmp_path / "server" / "model-00000002.safetensors")["w"].any()


def purchase(**changed):
    given = {"client": 0, "round": 3, "samples": 5, "price": 2.0, "first": 5, "last": 15, "oldest": 0, "run": "one"}
    return SimpleNamespace(meta={META: {**given, **changed}})


def test_a_client_that_is_killed_admits_nothing_twice(tmp_path):
    first = Admissions(tmp_path)
    assert first.admit(purchase(round=1, samples=10, first=0, last=10)) == range(10)
    again = Admissions(tmp_path)
    assert again.admit(purchase(round=1, samples=10, first=0, last=10), most=3) == range(10)
    assert again.report == first.report == {META: {"rounds": [1], "admitted": [10], "erased": 0}}
    assert again.admit(purchase(round=2), most=2) == range(2, 12)
    assert again.admit(purchase(round=3, samples=8, first=8, last=18, oldest=3)) == range(8, 18), "round 2 was not heard of"
    assert again.report == {META: {"rounds": [2, 3], "admitted": [2, 6], "erased": 0}}
    assert again.admit(purchase(round=4, samples=0, first=8, last=18), erased=1) == range(8, 18)
    assert again.report == {META: {"rounds": [4], "admitted": [0], "erased": 1}}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"run": "two"}, "admissions.json: belongs to another run"),
        ({"last": 9}, "admissions.json: counts 10 samples, the server 4: one of both is an old copy"),
        ({"last": 30}, "admissions.json: counts 10 samples, the server 25: one of both is an old copy"),
    ],
)
def test_a_count_that_is_not_this_runs_is_refused(tmp_path, changed, said):
    own = Admissions(tmp_path)
    own.admit(purchase(round=1, samples=5, first=0, last=5))
    own.admit(purchase(round=2, samples=5, first=0, last=10))
    with pytest.raises(DataError, match=said):
        Admissions(tmp_path).admit(purchase(**changed))


@pytest.mark.parametrize(
    "said",
    [
        None, [], {}, {"rounds": [3], "admitted": [1]}, {"rounds": [3], "admitted": [1.0], "erased": 0},
        {"rounds": [3], "admitted": [-1], "erased": 0}, {"rounds": [3], "admitted": [True], "erased": 0},
        {"rounds": [2], "admitted": [1], "erased": 0}, {"rounds": [3, 4], "admitted": [1, 1], "erased": 0},
        {"rounds": [2, 3], "admitted": [1], "erased": 0}, {"rounds": "3", "admitted": [1], "erased": 0},
        {"rounds": [3], "admitted": [2**80], "erased": 0}, {"rounds": [3], "admitted": [1], "erased": "0"},
        {"rounds": list(range(2**17)), "admitted": [1], "erased": 0},
    ],
)  # fmt: skip
def test_what_is_no_report_is_refused(said):
    with pytest.raises(DataError):
        _delivery(said, 3)


@pytest.mark.parametrize(
    "said",
    [
        None, {}, {"w": [0.0, 0.0]}, {"v": np.zeros(2)}, {"w": np.zeros(3)}, {"w": np.array([1.0, np.nan])},
        {"w": np.array(["a", "b"])}, {"w": np.array([None, None])}, {"w": np.zeros(2), "v": np.zeros(2)},
    ],
)  # fmt: skip
def test_parameters_that_are_not_the_models_are_refused(said):
    with pytest.raises(DataError, match=r"^params"):
        _params(SimpleNamespace(params=said, params_type="FULL"), {"w": np.zeros(2, np.float32)})


def test_differences_are_added_to_the_model():
    answer = nvflare.client.FLModel(params={"w": np.ones(2)}, params_type="DIFF")
    assert _params(answer, {"w": np.full(2, 3.0)})["w"].tolist() == [4.0, 4.0]
