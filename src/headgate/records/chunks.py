"""Chunks of a run, and the checkpoints from which they are resumed.

A chunk is some of the runs of a run folder that are played together. It has a number,
and only its player writes files with this number: parts of the tables and checkpoints.
A checkpoint lists the parts with the rows up to its round, so these files together are
all that is needed to continue the chunk elsewhere.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from headgate.control.controller import Controller
from headgate.control.files import load_ledger
from headgate.control.types import Ledger
from headgate.errors import DataError, SettingError
from headgate.experiment import Experiment, load
from headgate.experiment.sections import RunTable
from headgate.limits import RECIPE
from headgate.records.reader import (
    CHUNKS,
    CONFIG,
    ENVIRONMENT,
    HEAD,
    newest_checkpoints,
    read_head,
)
from headgate.records.tables import file_checksum, read_sealed
from headgate.records.writer import TENSORS, RunWriter
from headgate.registry import fill


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some runs of a run folder that are played together.

    Parameters
    ----------
    folder : pathlib.Path
        The run folder.
    environment : mapping
        The facts about software and device with which the run was begun.
    whole : Experiment
        The experiment of the run.
    runs : RunTable
        The policies and seeds of the chunk.
    number : int, optional
        The number of the chunk; None if the run is not divided.
    """

    folder: Path
    environment: Mapping[str, Any]
    whole: Experiment
    runs: RunTable
    number: int | None = None

    def __str__(self) -> str:
        name = self.folder.name if self.number is None else f"{self.number:03d}"
        seeds = self.runs.all_seeds
        policies = ", ".join(self.runs.policies)
        return f"{name} ({policies}, seeds {seeds[0]} to {seeds[-1]})"

    @cached_property
    def experiment(self) -> Experiment:
        """The experiment of the chunk's runs alone."""
        if self.number is None:
            return self.whole
        return self.whole.only(list(self.runs.policies), np.array(self.runs.all_seeds))

    def fact(self, key: str) -> str:
        """Return a string from environment.json; raise DataError if it is missing."""
        return fact_of(self.folder, self.environment, key)

    def writer(self, parts: Mapping[str, str]) -> RunWriter:
        """Return a writer of the chunk's files; `parts` are the checksums of the parts
        that exist already.
        """
        return RunWriter(self.folder, parts, self.number)


def fact_of(folder: Path, environment: Mapping[str, Any], key: str) -> str:
    """Return a string from environment.json; raise DataError if it is missing."""
    value = environment.get(key)
    if not isinstance(value, str):
        raise DataError(
            f"{folder / ENVIRONMENT}: {key} is missing; the run cannot be continued"
        )
    return value


def chunks_of(
    folder: Path, experiment: Experiment, environment: Mapping[str, Any]
) -> list[Chunk]:
    """Return the chunks into which a run was divided, in the order of their numbers.

    Parameters
    ----------
    folder : pathlib.Path
        The run folder.
    experiment : Experiment
        The experiment of the run.
    environment : mapping
        The content of environment.json, which lists the chunks of a divided run.

    Returns
    -------
    list of Chunk
        The chunks, which contain each run once.

    Raises
    ------
    DataError
        If the chunks do not contain each run once.
    """
    whole = _runs(experiment, runs_of(experiment))
    if CHUNKS not in environment:
        return [Chunk(folder, environment, experiment, whole)]
    try:
        divided = [_runs(experiment, stated) for stated in environment[CHUNKS]]
    except (SettingError, TypeError):
        divided = []
    number = len(whole.runs)
    once = len(divided) <= number  # else a forged list may become a long one
    held = Counter(run for each in divided if once for run in each.runs)
    if held != Counter(whole.runs):
        raise DataError(
            f"{folder}: its chunks do not hold each of its {number} runs once; it"
            " cannot be continued"
        )
    return [
        Chunk(folder, environment, experiment, runs, number)
        for number, runs in enumerate(divided)
    ]


def open_chunks(folder: Path) -> list[Chunk]:
    """Return the chunks of the run in a folder whose code is trusted."""
    environment = read_sealed(folder / ENVIRONMENT, RECIPE)
    return chunks_of(folder, load(folder / CONFIG), environment)


def runs_of(experiment: Experiment) -> dict[str, Any]:
    """Return the runs of an experiment as the section [run] states them."""
    return {
        "policies": list(experiment.policies),
        "first_seed": int(experiment.seeds[0]),
        "seeds": len(experiment.seeds),
    }


def _runs(experiment: Experiment, stated: Mapping[str, Any]) -> RunTable:
    table: RunTable = fill(RunTable, {"rounds": experiment.rounds, **stated}, "chunks")
    return table


class Checkpoint:
    """The newest checkpoint of a chunk, or its start if it has no checkpoint.

    Parameters
    ----------
    chunk : Chunk
        The chunk.

    Raises
    ------
    DataError
        If a file of the checkpoint is damaged.
    """

    def __init__(self, chunk: Chunk) -> None:
        self.folder = chunk.folder
        self.path = newest_checkpoints(chunk.folder).get(chunk.number or 0)
        self.head: dict[str, Any] = {"t": 0, "parts": {}, "files": {}}
        if self.path is None:
            return
        self.head = read_head(self.path)
        for name, digest in self.head["files"].items():
            file = self.path / name
            if not file.is_file() or file_checksum(file) != digest:
                raise DataError(
                    f"{self.folder}: {file.relative_to(self.folder)} is damaged; the"
                    " run cannot be continued"
                )

    @property
    def t(self) -> int:
        """The round after which the checkpoint was written."""
        return int(self.head["t"])

    @property
    def parts(self) -> dict[str, str]:
        """The checksums of the parts with the rows up to this round, by file name."""
        return dict(self.head["parts"])

    def tensors(self) -> dict[str, Any]:
        """Return the arrays of the simulation at this checkpoint, by name."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        assert self.path is not None
        try:
            return dict(load_file(self.path / TENSORS))
        except (SafetensorError, OSError) as error:
            raise DataError(
                f"{self.path / TENSORS}: is damaged ({error}); the run cannot be"
                " continued"
            ) from None

    def ledger(self, policy: str, controller: Controller) -> Ledger:
        """Return the ledger of a policy at this checkpoint."""
        assert self.path is not None
        policies: Sequence[str] = self.head["policies"]
        if policy not in policies:
            raise DataError(
                f"{self.path / HEAD}: knows no policy {policy}; the run cannot be"
                " continued"
            )
        file = self.path / f"ledger-{policies.index(policy)}.npz"
        ledger = load_ledger(file, controller)
        if ledger.t != self.t:
            raise DataError(
                f"{self.path}: the ledger of {policy} is of round {ledger.t}; the run"
                " cannot be continued"
            )
        return ledger
