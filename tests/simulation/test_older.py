"""A run folder that an earlier version began: it is read, and goes on to what that version would have made of it.

older/stopped.zip was made by commit ceb7a87 and stopped after round 3 of 6. Its config has [cost], data.name, a partition
with flat keys and policies with `retention`; its ledgers are of format 1; its rows have `cost`, and `occupancy` for `clients`.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from headgate.control import ClassBalanced, KStep, Reservoir
from headgate.errors import DataError
from headgate.experiment import load
from headgate.records.reader import RunFolder
from headgate.simulation.schedule import perform

STOPPED = Path(__file__).parent / "older" / "stopped.zip"
LEARNT = ("test_accuracy", "test_loss", "train_loss")


@pytest.fixture
def stopped(tmp_path):
    folder = tmp_path / "stopped"
    shutil.unpack_archive(STOPPED, folder)
    return folder


def test_its_config_is_read(stopped):
    experiment = load(stopped / "config.toml")
    assert (experiment.data.kind, experiment.model.kind, experiment.data.partition.per_client) == ("digits", "logistic", 9)
    assert experiment.prices.mean(None) == 5.5
    rules = {name: policy.retention(experiment.system) for name, policy in experiment.policies.items()}
    assert {name: type(rule) for name, rule in rules.items()} == {
        "acdpp": KStep, "headgate": Reservoir, "balanced": ClassBalanced, "hybrid": KStep,
    }  # fmt: skip
    assert (rules["acdpp"].K, rules["acdpp"].capacity, rules["balanced"].capacity) == (3, "buffer", 2)
    assert rules["headgate"].limit(experiment.system).tolist() == [2, 3, 2, 3]


def test_its_rows_are_read_and_nothing_is_made_up(stopped):
    run = RunFolder.open(stopped)
    assert (run.status, run.state["round"]) == ("interrupted", 3)
    assert run.metrics()["price"].null_count() == 0
    assert run.clients()["held"].null_count() == 0
    assert run.clients()["admitted"].null_count() == run.clients().height == 24


def test_it_goes_on_as_if_nothing_had_happened(stopped, tmp_path):
    experiment = load(stopped / "config.toml")
    (whole,) = perform(experiment, tmp_path / "whole", processes=1)
    perform(experiment, stopped, processes=1)  # the same experiment, so it is taken up
    old, new = (pl.read_parquet(folder / "metrics.parquet") for folder in (stopped, whole))
    decided = [name for name in new.columns if name not in (*LEARNT, "excess")]
    assert old.select(decided).equals(new.select(decided))
    for name in LEARNT:  # the first rounds were played on another machine
        assert np.allclose(old[name], new[name], rtol=1e-4)
    assert old.filter(pl.col("t") > 3)["excess"].equals(new.filter(pl.col("t") > 3)["excess"])
    old, new = (pl.read_parquet(folder / "clients.parquet") for folder in (stopped, whole))
    assert_frame_equal(old.select("policy", "seed", "t", "held"), new.select("policy", "seed", "t", "held"))
    assert old.filter(pl.col("t") > 3).equals(new.filter(pl.col("t") > 3))
    assert old.filter(pl.col("t") <= 3)["admitted"].null_count() == 24
    state = json.loads((stopped / "state.json").read_text())
    assert (state["state"], state["round"]) == ("finished", 6)


def test_another_experiment_is_not_taken_for_it(stopped):
    with pytest.raises(DataError, match="was begun with other settings"):
        perform(load(stopped / "config.toml", ["training.lr=0.4"]), stopped, processes=1)
