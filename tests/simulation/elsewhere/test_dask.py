"""Learning on Dask workers that share no files with the owner of the run: the bytes of
one process, whatever is killed, interrupted or cut off.
"""

import json
import os
import re
import resource
import signal
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
from distributed import Client

from headgate.errors import DataError, HeadgateError, Interrupted, SettingError
from headgate.experiment import load, sweep_points
from headgate.records.reader import RunFolder
from headgate.records.tables import read_sealed, sealed
from headgate.simulation import pools
from headgate.simulation.schedule import perform

from ..schedule.played import SETTINGS, Stopping, models, tables
from .cluster import Proxy, cluster, small

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits by prlimit")
LONGER = [*SETTINGS, "run.rounds=60", "run.seeds=6", "training.steps=20"]


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    with cluster(tmp_path_factory.mktemp("cluster"), HEADGATE_DATA="/nowhere") as own:
        yield own


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    small(monkeypatch, 0.3)


@pytest.fixture(scope="module")
def longer(tmp_path_factory):
    """What a run that is disturbed must end in."""
    with pytest.MonkeyPatch.context() as patch:
        small(patch)
        where = tmp_path_factory.mktemp("longer") / "run"
        folder = perform(load("digits", LONGER), where, processes=1)[0].path
    return tables(folder), models(folder)


def bytes_of(folder):
    return tables(folder), models(folder)


class Once:
    """Watches a run, and does something when it sees the first row."""

    def __init__(self, do):
        self.do, self.folders = do, []

    def __call__(self, folder, rows):
        if rows and not self.folders:
            self.folders.append(folder)
            self.do()


# the same bytes


def test_two_workers_without_shared_files_write_the_bytes_of_one_process(
    tmp_path, workers
):
    said, seen = [], []

    def look():
        run = RunFolder.open(tmp_path / "two")
        seen.append((run.status, run.metrics().height > 0))

    one = perform(load("digits", SETTINGS), tmp_path / "one", processes=1)[0].path
    two = perform(
        load("digits", SETTINGS),
        tmp_path / "two",
        pool=workers.address,
        say=said.append,
        watch=Once(look),
    )[0].path
    assert bytes_of(two) == bytes_of(one)
    assert re.search(f"on the workers of {workers.address}, [12] now$", said[-1])
    assert seen == [("running", True)]
    assert not list(two.rglob("*.partial"))


def test_points_of_a_sweep_are_played_on_workers(tmp_path, workers):
    points = sweep_points("digits", [*SETTINGS, "sweep.training.lr=[0.1, 0.5]"])
    one = perform(points, tmp_path / "one", processes=1)
    two = perform(points, tmp_path / "two", pool=workers.address)
    assert [bytes_of(run.path) for run in two] == [bytes_of(run.path) for run in one]


def test_an_executor_of_dask_is_as_good_as_its_address(tmp_path, workers):
    one = perform(load("digits", SETTINGS), tmp_path / "one", processes=1)[0].path
    with Client(workers.address, set_as_default=False) as client:
        pool = client.get_executor(pure=False)
        two = perform(load("digits", SETTINGS), tmp_path / "two", pool=pool)[0].path
    assert bytes_of(two) == bytes_of(one)


HELPER = """
import os
from pathlib import Path

HOME = {home!r}
if not os.environ.get("AT_HOME"):
    assert not Path(__file__).is_relative_to(HOME), "it is that of the user"
FACTOR = 2.0
"""
OWN = """
from dataclasses import dataclass
from headgate.control.policies import Constant
from beside.helper import FACTOR

@dataclass(frozen=True, eq=False)
class Twice(Constant):
    def admit(self, view, memory):
        asked, memory = super().admit(view, memory)
        return type(asked)(FACTOR * asked.total), memory
"""


def test_lenet_modules_and_tables_of_ones_own_travel_by_content(
    tmp_path, workers, monkeypatch, forgets_modules
):
    """LeNet is trained by the executor `compiled`, on images of the user's own."""
    monkeypatch.setenv("AT_HOME", "1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "__init__.py").touch()
    helper = HELPER.format(home=str(tmp_path))
    (tmp_path / "beside" / "helper.py").write_text(helper)
    (tmp_path / "twice.py").write_text(OWN)
    rng = np.random.default_rng(1)
    np.savez(
        tmp_path / "images.npz",
        x=rng.integers(0, 256, (200, 28, 28), np.uint8),
        label=np.arange(200) % 4,
    )
    data = f"data={{kind='table', file='{tmp_path / 'images.npz'}'}}"
    experiment = load(
        "digits",
        [
            *SETTINGS,
            data,
            "model.kind=lenet",
            "system.clients=4",
            "policies.acdpp.kind=twice:Twice",
            "policies.acdpp.K=2",
        ],
    )
    one = perform(experiment, tmp_path / "one", processes=1)[0]
    two = perform(experiment, tmp_path / "two", pool=workers.address)[0]
    assert two.environment["executor"] == "compiled"
    assert bytes_of(two.path) == bytes_of(one.path)


# what is lost


def test_what_a_killed_worker_played_is_played_again(tmp_path, workers, longer):
    said, victims = [], [workers.workers[0], workers.worker()]
    workers.worker()
    folder = perform(
        load("digits", LONGER),
        tmp_path / "run",
        pool=workers.address,
        say=said.append,
        watch=Once(lambda: [workers.end(own) for own in victims]),
    )[0].path
    assert bytes_of(folder) == longer
    assert any("was lost" in line and "is played again" in line for line in said)


def test_ctrl_c_loses_nothing_and_another_pool_goes_on(tmp_path, workers, longer):
    folder = tmp_path / "run"
    with pytest.raises(Interrupted, match="continue with: headgate run --resume"):
        perform(load("digits", LONGER), folder, pool=workers.address, watch=Stopping())
    assert RunFolder.open(folder).status == "interrupted"
    perform(None, folder, processes=2)
    assert bytes_of(folder) == longer


def test_a_killed_scheduler_is_a_clear_error_and_another_pool_goes_on(
    tmp_path, workers, longer, monkeypatch
):
    monkeypatch.setattr(pools, "PATIENCE", 4.0)
    folder = tmp_path / "run"
    with (
        cluster(tmp_path / "other", 1) as other,
        pytest.raises(HeadgateError) as error,
    ):
        perform(
            load("digits", LONGER),
            folder,
            pool=other.address,
            watch=Once(other.scheduler.kill),
        )
    assert str(error.value) == (
        f"--on {other.address}: the scheduler was lost; continue with: headgate run"
        f" --resume {folder}"
    )
    perform(None, folder, pool=workers.address)
    assert bytes_of(folder) == longer


@pytest.mark.long
@pytest.mark.parametrize("whose", ["worker", "owner"])
def test_a_network_that_is_cut_for_20_seconds_costs_nothing(tmp_path, longer, whose):
    with cluster(tmp_path / "other", 1) as other:
        proxy = Proxy(other.port)
        address = proxy.address if whose == "owner" else other.address
        other.worker(proxy.address if whose == "worker" else None)

        def cut():
            proxy.going.clear()
            signal.setitimer(signal.ITIMER_REAL, 20.0)

        before = signal.signal(signal.SIGALRM, lambda *_: proxy.going.set())
        try:
            folder = perform(
                load("digits", LONGER),
                tmp_path / "run",
                pool=address,
                watch=Once(cut),
            )[0].path
        finally:
            signal.signal(signal.SIGALRM, before)
            proxy.close()
    assert bytes_of(folder) == longer


# workers that cannot play


def refused(tmp_path, address, kind=HeadgateError, settings=LONGER, watch=None):
    """The error of a run on these workers."""
    with pytest.raises(kind) as error:
        perform(
            load("digits", settings),
            tmp_path / "run",
            device="cpu",
            pool=address,
            watch=watch,
        )
    assert "\n" not in str(error.value)
    return str(error.value)


def named(worker):
    return f"worker {os.uname().nodename}, {worker.pid}: "


@contextmanager
def limited(workers, limit, most):
    """Some of what the workers may use is limited, until the block ends."""
    for worker in workers.workers:
        resource.prlimit(worker.pid, limit, (most(worker), resource.RLIM_INFINITY))
    try:
        yield
    finally:
        free = resource.RLIM_INFINITY, resource.RLIM_INFINITY
        for worker in workers.workers:
            resource.prlimit(worker.pid, limit, free)


def test_a_worker_whose_disk_is_full_is_named_and_nothing_is_lost(
    tmp_path, workers, longer
):
    with ExitStack() as stack:
        full = limited(workers, resource.RLIMIT_FSIZE, lambda worker: 5000)
        watch = Once(lambda: stack.enter_context(full))
        said = refused(tmp_path, workers.address, DataError, watch=watch)
    folder = tmp_path / "run"
    assert any(named(worker) in said for worker in workers.workers)
    assert re.search(f"{folder}: cannot be written .*File too large.*make room", said)
    perform(None, folder, processes=1)
    assert bytes_of(folder) == longer


def test_a_worker_without_memory_is_named_and_nothing_is_lost(
    tmp_path, workers, longer
):
    def little(worker):
        pages = Path(f"/proc/{worker.pid}/statm").read_text().split()[0]
        return int(pages) * resource.getpagesize()

    with ExitStack() as stack:
        narrow = limited(workers, resource.RLIMIT_AS, little)
        watch = Once(lambda: stack.enter_context(narrow))
        said = refused(tmp_path, workers.address, watch=watch)
    assert "continue with: headgate run --resume" in said
    assert any(named(worker) in said for worker in workers.workers), said
    perform(None, tmp_path / "run", processes=1)
    assert bytes_of(tmp_path / "run") == longer


def test_a_worker_of_another_version_gets_no_work_and_is_named(
    tmp_path, workers, longer
):
    facts = tmp_path / "newer" / "headgate-9.9.dist-info" / "METADATA"
    facts.parent.mkdir(parents=True)
    facts.write_text("Metadata-Version: 2.1\nName: headgate\nVersion: 9.9\n")
    said, folder = [], tmp_path / "run"
    with pytest.raises(Interrupted):
        perform(load("digits", LONGER), folder, processes=1, watch=Stopping())
    newer = workers.worker(PYTHONPATH=str(tmp_path / "newer"))
    with Client(workers.address, set_as_default=False) as client:
        client.wait_for_workers(len(workers.workers), timeout=60)
    perform(None, folder, pool=workers.address, say=said.append)
    workers.end(newer)
    assert bytes_of(folder) == longer
    (told,) = [line for line in said if "does not fit" in line]
    assert f", {newer.pid} does not fit the run: headgate is 9.9, the run has" in told


def test_a_run_that_no_worker_fits_is_refused(tmp_path, workers):
    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        perform(load("digits", LONGER), folder, processes=1, watch=Stopping())
    path = folder / "environment.json"
    facts = read_sealed(path) | {"processor": "of another kind"}
    path.write_text(json.dumps(sealed(facts)))
    with pytest.raises(HeadgateError, match=r"no worker fits the run: tcp://") as error:
        perform(None, folder, pool=workers.address)
    assert "the run has of another kind; continue with" in str(error.value)


def test_data_that_a_worker_lacks_are_refused_with_where_it_looked(tmp_path, workers):
    said = refused(tmp_path, workers.address, DataError, [*SETTINGS, "data.kind=mnist"])
    assert any(said.startswith(named(worker)) for worker in workers.workers)
    assert "data set mnist is not in /nowhere (looked for mnist)" in said
    assert not (tmp_path / "run").exists()


# addresses


def test_a_command_learns_on_an_address(tmp_path, workers, headgate, monkeypatch):
    monkeypatch.chdir(tmp_path)
    few = ("--rounds", "3", "--seeds", "2", "--on", workers.address)
    _, said = headgate("run", "digits", *few, "--out", "run")
    assert f"on the workers of {workers.address}" in said
    headgate("compare", "digits", "--budgets", "20", *few)
    _, said = headgate("run", "digits", *few, "--processes", "2", code=2)
    assert said == "error: --processes 2: not with --on or a pool\n"


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("nowhere.json", "must be an address, as in tcp://host:8786, or the scheduler"),
        ("tcp://127.0.0.1:1", "cannot be reached"),
        ("ftp://127.0.0.1:1", "cannot be reached"),
    ],
)
def test_an_address_without_a_scheduler_is_refused(tmp_path, monkeypatch, address, why):
    monkeypatch.setattr(pools, "PATIENCE", 0.5)
    said = refused(tmp_path, address, SettingError)
    assert said.startswith(f"--on {address}: {why}")
