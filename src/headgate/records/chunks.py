"""Chunks of a run, and the checkpoints from which they are resumed.

A chunk is some of the runs of a run folder that are played together. It has a number,
and only its player writes files with this number: parts of the tables and checkpoints.
A checkpoint lists the parts with the rows up to its round, so these files together are
all that is needed to continue the chunk elsewhere.
"""

from collections import Counter
from collections.abc import Mapping
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
from headgate.records.reader import (
    CHECKPOINTS,
    CHUNKS,
    CONFIG,
    HEAD,
    RunFolder,
    newest_checkpoints,
    read_head,
)
from headgate.records.tables import TABLES, file_checksum, parts_of, prefix_of
from headgate.records.writer import TENSORS, RunWriter
from headgate.registry import fill
from headgate.writing import clear_partial


@dataclass(
    frozen=True,
    eq=False,
)
class Chunk:
    """Some runs of a run folder that are played together.

    Parameters
    ----------
    run : RunFolder
        The run folder.
    whole : Experiment
        The experiment of all its runs.
    table : RunTable
        The policies and seeds of the chunk.
    number : int, optional
        The number of the chunk; None if the run is not divided.
    """

    run: RunFolder
    whole: Experiment
    table: RunTable
    number: int | None = None

    def __str__(self) -> str:
        name = self.folder.name if self.number is None else f"{self.number:03d}"
        seeds = self.table.all_seeds
        policies = ", ".join(self.table.policies)
        return f"{name} ({policies}, seeds {seeds[0]} to {seeds[-1]})"

    @property
    def folder(self) -> Path:
        """The run folder's path."""
        return self.run.path

    @cached_property
    def experiment(self) -> Experiment:
        """The experiment of the chunk's runs alone."""
        if self.number is None:
            return self.whole
        seeds = np.array(self.table.all_seeds)
        return self.whole.only(list(self.table.policies), seeds)

    def writer(self, parts: Mapping[str, str]) -> RunWriter:
        """Return a writer of the chunk's files; `parts` are the checksums of the parts
        that exist already.
        """
        return RunWriter(self.folder, parts, self.number)


def chunks_of(run: RunFolder, experiment: Experiment) -> list[Chunk]:
    """Return the chunks into which a run was divided, in the order of their numbers.

    Parameters
    ----------
    run : RunFolder
        The run, whose environment lists the chunks if there are several.
    experiment : Experiment
        The experiment of the run.

    Returns
    -------
    list of Chunk
        The chunks, which contain each run once.

    Raises
    ------
    DataError
        If the chunks do not contain each run once.
    """
    whole = _table(experiment, stated_runs(experiment))
    if CHUNKS not in run.environment:
        return [Chunk(run, experiment, whole)]
    try:
        tables = [_table(experiment, stated) for stated in run.environment[CHUNKS]]
    except (SettingError, TypeError):
        tables = []
    number = len(whole.runs)
    if len(tables) > number:  # a forged list, which may be too long to be compared
        tables = []
    if Counter(one for table in tables for one in table.runs) != Counter(whole.runs):
        raise DataError(
            f"{run.path}: its chunks do not hold each of its {number} runs once; it"
            " cannot be continued"
        )
    return [
        Chunk(run, experiment, table, number) for number, table in enumerate(tables)
    ]


def open_chunks(folder: Path) -> list[Chunk]:
    """Return the chunks of the run in a folder whose code is trusted."""
    return chunks_of(RunFolder.open(folder), load(folder / CONFIG))


def stated_runs(experiment: Experiment) -> dict[str, Any]:
    """Return the runs of an experiment as the section [run] states them."""
    return {
        "policies": list(experiment.policies),
        "first_seed": int(experiment.seeds[0]),
        "seeds": len(experiment.seeds),
    }


def _table(experiment: Experiment, stated: Mapping[str, Any]) -> RunTable:
    stated = {"rounds": experiment.rounds, **stated}
    table: RunTable = fill(RunTable, stated, CHUNKS)
    return table


class Checkpoint:
    """The newest checkpoint of a chunk, or its start if it has no checkpoint.

    Parameters
    ----------
    chunk : Chunk
        The chunk.

    Attributes
    ----------
    path : pathlib.Path or None
        The folder of the checkpoint.
    t : int
        The round after which it was written.
    parts : dict of str to str
        The checksums of the parts with the rows up to this round, by file name.

    Raises
    ------
    DataError
        If a file of the checkpoint is damaged.
    """

    def __init__(self, chunk: Chunk) -> None:
        self.folder, self.number = chunk.folder, chunk.number
        self.path = newest_checkpoints(chunk.folder).get(chunk.number or 0)
        self.t = 0
        self.parts: dict[str, str] = {}
        if self.path is None:
            return
        head = read_head(self.path)
        self.t, self.parts, self._policies = head["t"], head["parts"], head["policies"]
        for name, digest in head["files"].items():
            file = self.path / name
            if not file.is_file() or file_checksum(file) != digest:
                raise DataError(
                    f"{self.folder}: {file.relative_to(self.folder)} is damaged; the"
                    " run cannot be continued"
                )

    def remove_later(self) -> None:
        """Remove the rows and the incomplete files that the chunk's player has written
        after this checkpoint.
        """
        prefix = prefix_of(self.number)
        for table in TABLES:
            for part in parts_of(self.folder, table):
                own = part.chunk == (self.number or 0)
                if own and f"{table}/{part.path.name}" not in self.parts:
                    part.path.unlink()
        for name in (CHECKPOINTS, *TABLES):
            clear_partial(self.folder / name, prefix)

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
        if policy not in self._policies:
            raise DataError(
                f"{self.path / HEAD}: knows no policy {policy}; the run cannot be"
                " continued"
            )
        file = self.path / f"ledger-{self._policies.index(policy)}.npz"
        ledger = load_ledger(file, controller)
        if ledger.t != self.t:
            raise DataError(
                f"{self.path}: the ledger of {policy} is of round {ledger.t}; the run"
                " cannot be continued"
            )
        return ledger
