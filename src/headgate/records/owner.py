"""The owner of a run folder, from the first file to the last.

One process at a time owns a run: it begins the run or takes it up, divides it into
chunks, keeps its state, and finishes it. The players of chunks write rows and
checkpoints only.
"""

import hashlib
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import tomli_w

from headgate.errors import DataError, SettingError
from headgate.experiment import Experiment, load
from headgate.experiment.build import differing
from headgate.limits import RECIPE
from headgate.reading import read_bytes, read_toml
from headgate.records.chunks import Checkpoint, Chunk, chunks_of, stated_runs
from headgate.records.reader import (
    CHECKPOINTS,
    CONFIG,
    ENVIRONMENT,
    Heads,
    RunFolder,
    newest_checkpoints,
    newest_heads,
    round_of,
)
from headgate.records.tables import (
    TABLES,
    Part,
    changed,
    file_checksum,
    frame_of_rows,
    parts_of,
    read_sealed,
    read_table,
)
from headgate.records.writer import (
    RunWriter,
    create,
    disk_errors,
    remove_older,
    resume_command,
    write_tables,
)
from headgate.registry import Search, Untrusted
from headgate.writing import FolderLock, check_no_link, clear_partial

STATE_SECONDS = 2.0
"""the seconds between two writes of the state of a run"""
TICK_SECONDS = 0.1
"""the seconds between two reports of progress"""
Tick = Callable[[int, int], None]
Watch = Callable[[Path, list[dict[str, Any]]], None]


class OwnedRun:
    """A run whose folder this process owns.

    Parameters
    ----------
    run : RunFolder
        The run, as a reader sees it.
    experiment : Experiment
        The experiment of the run.
    """

    def __init__(self, run: RunFolder, experiment: Experiment) -> None:
        self.run, self.experiment = run, experiment
        self.folder = run.path
        self.chunks = chunks_of(run, experiment)
        self._heads: Heads = {}
        self._began: float | None = None
        self._elapsed: float = run.state.get("elapsed_s", 0.0)
        self._computed: float = run.state.get("computing_s", self._elapsed)

    @classmethod
    def begin(
        cls,
        folder: Path,
        experiment: Experiment,
        environment: Mapping[str, Any],
        chunks: Sequence[Experiment],
    ) -> Self:
        """Make the folder of a new run.

        Parameters
        ----------
        folder : pathlib.Path
            The folder, see `create`.
        experiment : Experiment
            The experiment.
        environment : mapping
            Facts about software and device.
        chunks : sequence of Experiment
            The experiments into which the experiment is divided.

        Returns
        -------
        OwnedRun
            The run, before its first round.
        """
        facts = dict(environment)
        if experiment.unnamed:
            facts["unnamed"] = experiment.unnamed
        divided = map(stated_runs, chunks) if len(chunks) > 1 else ()
        run = create(folder, experiment.tables(), facts, [*divided])
        return cls(run, experiment)

    @classmethod
    def take_up(
        cls,
        folder: Path,
        wanted: Experiment | None,
        executor: str,
        trust: Sequence[str],
    ) -> Self:
        """Open a run that has begun, and remove what its checkpoints do not know of.

        Parameters
        ----------
        folder : pathlib.Path
            The run folder, which this process has locked.
        wanted : Experiment, optional
            The experiment that the run must have; None is the folder's own.
        executor : str
            The executor that the run must have; auto is its own.
        trust : sequence of str
            The code outside the package that may be imported for the folder's own.

        Returns
        -------
        OwnedRun
            The run; a finished one is unchanged.

        Raises
        ------
        DataError
            If the folder holds no run or another one, or if a file was changed.
        SettingError
            If the run cannot be resumed, or needs code that is not trusted.
        """
        if not (folder / CONFIG).exists():
            raise DataError(f"{folder}: not a run folder, {CONFIG} is missing")
        check_config(folder)
        run = RunFolder.open(folder)
        _check_wanted(run, wanted)
        taken = cls(run, wanted or read_experiment(folder, trust))
        if run.finished:
            run.check_tables(*TABLES)
            return taken
        check_executor(folder, run.fact("executor"), executor, trust)
        # processes of a killed command may still be in their last round
        with FolderLock() as players:
            players.take(folder / CONFIG, folder)
            with disk_errors(folder):
                taken._cut_rows()
        return taken

    def _cut_rows(self) -> None:
        """Check the files that the newest checkpoints list, and remove incomplete files
        and all parts that were written later.
        """
        inside = [self.folder / name for name in (CHECKPOINTS, *TABLES)]
        check_no_link(*inside)
        for place in (self.folder, *inside):
            clear_partial(place)
        known: dict[str, str] = {}
        for chunk in self.chunks:
            checkpoint = Checkpoint(chunk)
            known |= checkpoint.parts
            if checkpoint.path is not None:
                remove_older(checkpoint.path)
        for table in TABLES:
            if (self.folder / f"{table}.parquet").exists():
                continue  # the parts have already been merged into the table
            for name, digest in known.items():
                path = self.folder / name
                if name.startswith(f"{table}/") and file_checksum(path) != digest:
                    raise changed(path)
            for part in parts_of(self.folder, table):
                if f"{table}/{part.path.name}" not in known:
                    part.path.unlink()

    def played(self) -> dict[Chunk, int]:
        """Return the round of the newest checkpoint of each chunk, 0 before it."""
        if self.run.finished:
            return dict.fromkeys(self.chunks, self.run.rounds)
        newest = newest_checkpoints(self.folder)
        rounds = {number: round_of(path) for number, path in newest.items()}
        return {chunk: rounds.get(chunk.number or 0, 0) for chunk in self.chunks}

    def left(self) -> list[Chunk]:
        """Return the chunks that have rounds left."""
        return [chunk for chunk, t in self.played().items() if t < self.run.rounds]

    def clock(self, computed: float = 0.0) -> None:
        """Note that a chunk of this run is played now, or took `computed` seconds."""
        now = time.monotonic()
        if self._began is None:
            self._began = now - computed
        self._elapsed = now - self._began
        self._computed += computed

    def write_state(self, state: str, t: int) -> None:
        """Write the state of the run, with what the checkpoints of its chunks report.

        Parameters
        ----------
        state : str
            "running", "interrupted" or "finished".
        t : int
            The last complete round.
        """
        self._heads = newest_heads(self.folder, self._heads)
        told = [head["facts"] for head in self._heads.values()]
        notes = [facts["note"] for facts in told if facts["note"]]
        state_now = RunWriter(self.folder).state(
            state,
            t,
            self.run.rounds,
            elapsed_s=round(self._elapsed, 3),
            policies=self.run.policies,
            seeds=self.run.seeds,
            diverged=[one for facts in told for one in facts["diverged"]],
            guessing=[one for facts in told for one in facts["guessing"]],
            computing_s=round(self._computed, 3),
            **({"note": notes[-1]} if notes else {}),
        )
        self.run = replace(self.run, state=state_now)

    def finish(self) -> RunFolder:
        """Merge the parts into tables, and set the state to finished.

        This can be repeated if the process is killed. It needs neither the executor nor
        the device of the run.

        Returns
        -------
        RunFolder
            The run, with its tables in memory.

        Raises
        ------
        DataError
            If a chunk has rounds left.
        """
        if self.run.finished:
            return self.run
        for chunk, t in self.played().items():
            if t < self.run.rounds:
                raise DataError(
                    f"{self.folder}: {chunk}: round {t} of {self.run.rounds}; cannot be"
                    " finished yet"
                )
        tables = write_tables(self.run).tables
        self.write_state("finished", self.run.rounds)
        return replace(self.run, tables=tables)


class ChunkProgress:
    """Records the progress of all chunks, reports it, and writes the states of runs.

    Parameters
    ----------
    runs : sequence of OwnedRun
        All runs, also finished ones.
    whole : pathlib.Path
        The folder of the run or of the sweep.
    tick : callable, optional
        As for `perform`.
    watch : callable, optional
        As for `perform`.
    """

    def __init__(
        self,
        runs: Sequence[OwnedRun],
        whole: Path,
        tick: Tick | None,
        watch: Watch | None,
    ) -> None:
        self.whole, self.tick, self.watch = whole, tick, watch
        self.t = {chunk: t for run in runs for chunk, t in run.played().items()}
        self.total = sum(chunk.whole.rounds for chunk in self.t)
        self.runs = {run.folder: run for run in runs if not run.run.finished}
        self.chunks = [chunk for run in self.runs.values() for chunk in run.left()]
        self._ticked, self._written = 0.0, time.monotonic()
        self._stated = {run: self._round(run) for run in self.runs.values()}
        if watch is not None:
            for folder in self.runs:  # reads the rows that are on disk already
                watch(folder, [])

    @property
    def done(self) -> int:
        """The rounds done, of all chunks."""
        return sum(self.t.values())

    def ended(self, chunk: Chunk, seconds: float) -> None:
        """Record that a chunk is complete, and the seconds that it took."""
        self.runs[chunk.folder].clock(seconds)

    def played(self, chunk: Chunk, metrics: Sequence[Mapping[str, Any]]) -> None:
        """Record and report a round that this process has finished, with its rows."""
        self.t[chunk] += 1
        if self.watch is not None:  # with rows as they are read from disk
            rows = frame_of_rows(metrics, "metrics").to_dicts()
            self.watch(chunk.folder, rows)
        self._report()

    def update(self, at_once: bool = False) -> None:
        """Record and report the rounds that other processes have written; `at_once`
        reports without a pause.
        """
        for run in self.runs.values():
            for part in parts_of(run.folder, "metrics"):
                chunk = run.chunks[part.chunk]
                if part.t > self.t[chunk]:
                    self._show(run.folder, part)
                    self.t[chunk] = part.t
        self._report(at_once)

    def _show(self, folder: Path, part: Part) -> None:
        if self.watch is not None:
            frame = read_table(part.path, "metrics")
            for one in frame.partition_by("t", maintain_order=True):
                self.watch(folder, one.to_dicts())

    def _report(self, at_once: bool = False) -> None:
        now = time.monotonic()
        if self.tick is not None and (at_once or now - self._ticked >= TICK_SECONDS):
            self._ticked = now
            self.tick(self.done, self.total)
        if now - self._written >= STATE_SECONDS:
            self._written = now
            self.write_states("running")

    def write_states(self, state: str) -> None:
        """Write the states of the runs; that of a running one only after a round."""
        for run, stated in self._stated.items():
            t = self._stated[run] = self._round(run)
            if t > stated:
                run.clock()
            elif state == "running":
                continue
            with disk_errors(self.whole):
                run.write_state(state, t)

    def _round(self, run: OwnedRun) -> int:
        """Return the mean round of the chunks of a run."""
        return sum(self.t[chunk] for chunk in run.chunks) // len(run.chunks)


def check_config(folder: Path) -> dict[str, Any]:
    """Return the facts in environment.json; refuse a config.toml that was changed."""
    check_no_link(folder / CONFIG, folder / ENVIRONMENT)
    environment = read_sealed(folder / ENVIRONMENT, RECIPE)
    digest = hashlib.sha256(read_bytes(folder / CONFIG)).hexdigest()
    if digest != environment.get("config_sha256"):
        raise DataError(
            f"{folder}: {CONFIG} was changed after the run began; start a new run"
            " with it"
        )
    return environment


def check_executor(
    folder: Path,
    begun: str,
    wanted: str,
    trust: Sequence[str],
) -> None:
    """Refuse another executor than the one with which the run was begun, and one from
    outside that the folder names, which may be another person's, and the user does not.
    """
    if wanted not in ("auto", begun):
        raise SettingError(f"--executor {wanted}: {folder} was begun by {begun}")
    if ":" in begun:
        Search(trusted={wanted, *trust}).check(f"{folder}: executor", begun)


def read_experiment(folder: Path, trust: Sequence[str]) -> Experiment:
    """Read the experiment that was begun in a folder, which may come from another
    person.
    """
    read_toml(folder / CONFIG)  # refuses other files, before code is imported
    try:
        return load(folder / CONFIG, trusted=trust)
    except Untrusted as error:
        raise Untrusted(
            f"{folder}: {error}; if you trust it: {resume_command(folder)}"
        ) from None


def _check_wanted(run: RunFolder, wanted: Experiment | None) -> None:
    """Raise an error if the run is not the wanted one, or cannot be resumed."""
    unnamed: dict[str, str] = run.environment.get("unnamed", {})
    same = wanted is not None and wanted.unnamed.keys() == unnamed.keys()
    if not run.finished or not same:
        for key, why in unnamed.items():  # objects that no recipe can name
            raise SettingError(
                f"{run.path}: cannot be resumed: {key} was handed over in Python"
                f" ({why})"
            )
    if wanted is None:
        return
    tables = tomllib.loads(tomli_w.dumps(wanted.tables()))
    if run.config != tables:
        other = differing(run.config, tables)
        raise DataError(
            f"{run.path}: was begun with other settings ({other}); choose another"
            " folder, or remove it"
        )
