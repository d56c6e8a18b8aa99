"""A run that is stopped after some rounds goes on to the same bytes: asked of everything that has a memory of its own."""

import pytest

from headgate.errors import Interrupted
from headgate.records.shards import create
from headgate.simulation.run import examine, play_folder
from headgate.simulation.schedule import perform


def assert_goes_on_to_the_same_bytes(experiment, data, folder, stops):
    """`stops`: after how many rounds."""
    whole = perform(experiment, folder / "whole", processes=1)[0].path
    last = f"checkpoints/{experiment.rounds:08}/tensors.safetensors"
    for rounds in stops:
        stopped, done = folder / f"after {rounds}", []
        create(stopped, experiment.tables(), examine(experiment, data, "cpu", "auto")[0]["environment"], [])
        with pytest.raises(Interrupted):
            play_folder(stopped, None, data, "cpu", done.append, lambda: len(done) == rounds)  # noqa: B023
        perform(None, stopped, processes=1)
        for name in ("metrics.parquet", "clients.parquet", last):
            assert (stopped / name).read_bytes() == (whole / name).read_bytes(), (rounds, name)
