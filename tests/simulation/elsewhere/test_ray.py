"""Learning on Ray, as docs/do/scale.md has it."""

import concurrent.futures

import pytest

from headgate.experiment import load
from headgate.simulation.schedule import perform

from ..schedule.played import SETTINGS, models, tables
from .cluster import small

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]


def test_two_workers_of_ray_write_the_bytes_of_one_process(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    ray = pytest.importorskip("ray", reason="comes with headgate[flower]")

    class Ray(concurrent.futures.Executor):
        def submit(self, function, task):
            remote = ray.remote(function).options(num_cpus=1, max_retries=0)
            return remote.remote(task).future()

    small(monkeypatch)
    one = perform(load("digits", SETTINGS), tmp_path / "one", processes=1)[0].path
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        two = perform(load("digits", SETTINGS), tmp_path / "two", pool=Ray())[0].path
    finally:
        ray.shutdown()
    assert tables(two) == tables(one)
    assert models(two) == models(one)
