"""Parts of one's own on equal terms: what is handed over is what runs, and what can be
named can be resumed.
"""

import json
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from headgate.control import AdmissionPolicy, AdmissionRequest, Reservoir
from headgate.control.prices import Fixed
from headgate.control.rehearse import rehearse
from headgate.errors import DataError, Interrupted, SettingError
from headgate.experiment import load
from headgate.simulation.schedule import perform

from .schedule.played import TABLES, Stopping, linux

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = ["run.seeds=2", "run.rounds=4", 'run.policies=["constant"]', "training.steps=1"]


def local(each):
    """A policy whose class no recipe can name."""

    @dataclass(frozen=True, eq=False)
    class Local(AdmissionPolicy):
        each: int

        def admit(self, view, memory):
            return AdmissionRequest(np.full(view.debt.shape, float(self.each))), memory

    return Local(each)


def admitted(folder, policy):
    rows = pl.read_parquet(folder / "metrics.parquet").filter(
        pl.col("policy") == policy
    )
    return rows.sort("seed", "t")["admitted"].to_list()


def test_an_object_without_a_name_is_marked_and_never_resumed(
    tmp_path,
):
    experiment = load("digits", SMALL).with_policy("mine", local(7))
    done = perform(experiment, tmp_path / "done", processes=1)[0].path
    assert admitted(done, "mine") == [7] * 8
    written = tomllib.loads((done / "config.toml").read_text())["policies"]
    assert written["mine"] == {
        "kind": "in this process: local.<locals>.Local",
        "each": 7,
    }
    assert written["constant"]["K"] == experiment.policies["constant"].K
    marked = json.loads((done / "environment.json").read_text())["unnamed"]
    assert list(marked) == ["policies.mine"]
    assert "is not a class at the top of its module" in marked["policies.mine"]
    assert [run.path for run in perform(experiment, done, processes=1)] == [done]
    with pytest.raises(
        DataError, match="was begun with other settings"
    ):  # never taken for the one that ran
        perform(load("digits", SMALL).with_policy("mine", local(8)), done, processes=1)
    with pytest.raises(
        SettingError,
        match=r"--processes 2: this process alone can run policies.mine: .*Local",
    ):
        perform(experiment, tmp_path / "never", processes=2)
    assert not (tmp_path / "never").exists()
    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        perform(experiment, folder, processes=1, watch=Stopping())
    for given, where in ((None, folder), (experiment, folder), (None, done)):
        with pytest.raises(
            SettingError,
            match=(
                r"cannot be resumed: policies.mine was handed over in Python \(.*Local"
            ),
        ):
            perform(given, where, processes=1)
    with pytest.raises(
        SettingError,
        match=r"policies.mine: ran in this process: .*which no recipe can name",
    ):
        load(folder / "config.toml")


@dataclass(frozen=True)
class Halved(Fixed):
    """A price process without a name: tests are imported under no name that Python
    finds.
    """

    def path(self, seeds, start, stop):
        return super().path(seeds, start, stop) / 2

    def mean(self, rounds):
        return self.value / 2


def test_any_other_part_may_be_an_object_too(tmp_path):
    experiment = replace(load("digits", SMALL), prices=Halved(6.0))
    folder = perform(experiment, tmp_path / "run", processes=1)[0].path
    rows = pl.read_parquet(folder / "metrics.parquet")
    assert set(rows["price"]) == {3.0}
    assert (rows["spend"] == 3.0 * rows["admitted"]).all()


MODULE = """
from dataclasses import dataclass
import numpy as np
from headgate.control import AdmissionPolicy, AdmissionRequest, Fifo, Retention

@dataclass(frozen=True, eq=False)
class Each(AdmissionPolicy):
    each: int = 3
    rule: Retention = Fifo(4)

    def retention(self, system):
        return self.rule

    def admit(self, view, memory):
        return AdmissionRequest(np.full(view.debt.shape, float(self.each))), memory
"""


@pytest.fixture
def named(tmp_path, monkeypatch, forgets_modules):
    """A module in the working folder, imported as anybody would."""
    (tmp_path / "named_part.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return import_module("named_part")


@linux
def test_an_object_with_a_name_is_resumed_to_the_same_bytes(tmp_path, named):
    experiment = load("digits", SMALL).with_policy("mine", named.Each(5, Reservoir(3)))
    assert not experiment.unnamed
    whole = perform(experiment, tmp_path / "whole", processes=1)[0].path
    assert admitted(whole, "mine") == [5] * 8
    written = tomllib.loads((whole / "config.toml").read_text())["policies"]["mine"]
    assert written == {
        "kind": "named_part:Each",
        "each": 5,
        "rule": {"kind": "reservoir", "capacity": 3},
    }
    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        perform(experiment, folder, processes=1, watch=Stopping())
    perform(None, folder, processes=2, trust=["named_part"])
    for name in TABLES:
        assert (folder / name).read_bytes() == (whole / name).read_bytes()
    assert "unnamed" not in json.loads((whole / "environment.json").read_text())


def test_the_shipped_examples_keep_the_limits_of_their_recipe():
    experiment = load(EXAMPLES / "mine.toml")
    for name in ("headgate", "steps", "below"):
        result = rehearse(
            experiment.system,
            experiment.policies[name],
            experiment.prices,
            np.arange(20),
            experiment.rounds,
        )
        assert result.spend.sum(
            axis=-1
        ).max() <= experiment.system.budget * experiment.rounds * (1 + 1e-9), name
        assert result.peak_excess.max() <= 0, name


SCRIPT = """
from headgate.simulation import cut
cut.LIGHT = 0.0
from headgate.cli import main
main()
"""


@linux
@pytest.mark.long  # test_cli_learning.py plays the same recipe in one process
def test_parts_beside_a_recipe_run_from_any_folder_by_any_number_of_processes(tmp_path):
    """Rule, prices, server update, data, model, policy and a subclass of the buyers'
    base, each in a file of its own.
    """
    beside, elsewhere = tmp_path / "beside", tmp_path / "elsewhere"
    shutil.copytree(EXAMPLES, beside, ignore=shutil.ignore_patterns("__pycache__"))
    elsewhere.mkdir()

    def headgate(*words):
        command = [
            sys.executable,
            "-c",
            SCRIPT,
            "run",
            *map(str, words),
            "--progress",
            "none",
        ]
        done = subprocess.run(
            command, cwd=elsewhere, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    few = ["--set", "run.rounds=5", "--set", "training.steps=2"]
    headgate(beside / "mine.toml", *few, "--processes", 2, "--out", "two")
    headgate(beside / "mine.toml", *few, "--processes", 1, "--out", "one")
    assert len(list((elsewhere / "two" / "checkpoints").iterdir())) > 1
    for name in TABLES:
        assert (elsewhere / "two" / name).read_bytes() == (
            elsewhere / "one" / name
        ).read_bytes()
    written = tomllib.loads((elsewhere / "two" / "config.toml").read_text())
    own = {
        "prices": "Weekends",
        "data": "Stripes",
        "model": "TwoLayers",
        "server": "Halfway",
    }
    assert all(
        written[section]["kind"] == f"my_{section}:{name}"
        for section, name in own.items()
    )
    assert written["policies"]["steps"]["rule"] == {
        "kind": "my_rule:OldestAndUnlucky",
        "capacity": "buffer",
        "luck": 3.0,
    }
    assert load(elsewhere / "two" / "config.toml").tables() == written
