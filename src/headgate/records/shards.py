"""A run folder in shards: each is a run folder of some of the runs, with rows and checkpoints of its own.

While shards are in progress their rows are in them, and the state of the whole folder is put together from theirs. When all
are done their rows become the tables of the whole; config and last checkpoint of each shard stay.
"""

import io
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from headgate.errors import DataError
from headgate.experiment import named_outside
from headgate.experiment.sections import RunTable
from headgate.records.reader import (
    CHECKSUMS,
    CONFIG,
    ENVIRONMENT,
    RunFolder,
    check_count,
    config_errors,
    newest_checkpoint,
    read_config,
    read_head,
    read_state,
)
from headgate.records.tables import (
    SHARDS,
    STATE,
    TABLES,
    part_files,
    points_of,
    read_table,
    shard_folders,
    whole_table,
)
from headgate.records.writer import RunWriter
from headgate.registry import fill
from headgate.writing import replace_file, whole_name


def asked_runs(folder: Path, config: Mapping[str, Any] | None = None) -> RunTable:
    """Return the runs that the settings in `folder` ask for; `config` are these settings where they are known."""
    with config_errors(folder):
        run: RunTable = fill(RunTable, (read_config(folder) if config is None else config).get("run", {}), "run")
    check_count(folder / CONFIG, run.policies, run.all_seeds)
    return run


def create(
    folder: Path, config: Mapping[str, Any], environment: Mapping[str, Any], shards: Sequence[Mapping[str, Any]]
) -> RunFolder:
    """Make a new run folder without any round.

    The state comes last: a folder with one is complete.

    Parameters
    ----------
    shards : sequence of mapping
        The configs of its shards, none where it is one piece.
    """
    facts = RunWriter.create(folder, config, environment)
    for number, shard in enumerate(shards):
        RunWriter.create(folder / SHARDS / f"{number:03d}", shard, environment)
    asked = asked_runs(folder, config)
    runs = {"policies": list(asked.policies), "seeds": list(asked.all_seeds)}
    state = RunWriter(folder).state("running", 0, asked.rounds, elapsed_s=0.0, **runs, diverged=[], guessing=[])
    return RunFolder(folder, dict(config), facts, state)


def left_by_a_killed_start(folder: Path) -> bool:
    """Return whether `folder` holds nothing but what `create` writes before the state."""
    names = {whole_name(path.name) for path in folder.iterdir()}
    return CONFIG in names and names <= {CONFIG, ENVIRONMENT, STATE, SHARDS} and not (folder / STATE).exists()


def clear_killed_start(folder: Path) -> None:
    """Make way for a new start. The config goes last, so that a process killed here leaves what a killed start leaves."""
    for path in sorted(folder.iterdir(), key=lambda path: CONFIG in path.name):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def check_shards(folder: Path, config: Mapping[str, Any] | None = None) -> None:
    """Refuse a run whose shards are not all there."""
    shards, whole = shard_folders(folder), asked_runs(folder, config).runs
    if shards != [folder] and sorted(run for shard in shards for run in asked_runs(shard).runs) != sorted(whole):
        raise DataError(f"{folder}: its shards do not hold each of its {len(whole)} runs once; it cannot be continued")


def played(shard: Path) -> int:
    """Return the round of a shard's newest checkpoint, without looking into it."""
    newest = newest_checkpoint(shard)
    return 0 if newest is None else int(newest.name)


def write_state(run: RunFolder, state: str, t: int, elapsed: float) -> RunFolder:
    """Write the state of a run in shards, put together from theirs; return the run with it."""
    lost: dict[str, list[dict[str, Any]]] = {"diverged": [], "guessing": []}
    note: dict[str, str] = {}
    for each in (read_state(shard) for shard in shard_folders(run.path) if (shard / STATE).exists()):
        for key, runs in lost.items():
            runs += each[key]
        if "note" in each:
            note = {"note": each["note"]}
    places = {name: place for place, name in enumerate(run.policies)}
    for runs in lost.values():
        runs.sort(key=lambda one: (places.get(one["policy"], len(places)), one["seed"]))
    known = {"policies": run.policies, "seeds": run.seeds, **lost, **note}
    return replace(run, state=RunWriter(run.path).state(state, t, run.rounds, elapsed_s=round(elapsed, 3), **known))


def finish(run: RunFolder, elapsed: float = 0.0, states: Mapping[Path, Mapping[str, Any]] | None = None) -> RunFolder:
    """Make tables of the rows and finish the run. A process killed in the midst of it can do it again.

    It needs neither the executor nor the device of the run: which models were lost is known from the last checkpoints.

    Parameters
    ----------
    states : mapping, optional
        The last states of shards that this process has finished.

    Returns
    -------
    RunFolder
        The finished run, with its tables in memory.
    """
    shards = shard_folders(run.path)
    check_shards(run.path, run.config)
    for shard, t in ((shard, played(shard)) for shard in shards):
        if t < run.rounds:
            raise DataError(f"{shard}: round {t} of {run.rounds}; cannot be finished yet")
    run = write_tables(run)
    for shard in shards:
        known = dict((states or {}).get(shard) or read_state(shard))
        if shard not in (states or {}) and (newest := newest_checkpoint(shard)) is not None:
            known |= read_head(newest).get("facts", {})
        more = {key: value for key, value in known.items() if key not in ("state", "round", "rounds", "pid", CHECKSUMS)}
        state = RunWriter(shard).state("finished", run.rounds, run.rounds, **more)
    return replace(run, state=state) if shards == [run.path] else write_state(run, "finished", run.rounds, elapsed)


def write_tables(run: RunFolder) -> RunFolder:
    """Make one table of the parts of all shards; return the run with its tables in memory."""
    tables = {}
    for table in TABLES:
        path = run.path / f"{table}.parquet"
        done = path.exists()  # by a process that was killed right after
        tables[table] = frame = whole_table(run.path, table, run.policies)
        if table == "metrics" and frame.height < run.most_rows:
            missing = f"{frame.height} of {run.most_rows} rows are there"
            raise DataError(f"{run.path}: metrics: {missing}; the run cannot be finished")
        if not done:
            buffer = io.BytesIO()
            frame.write_parquet(buffer)
            replace_file(path, buffer.getvalue())
    for shard in shard_folders(run.path):
        for table in TABLES:
            if (shard / table).is_dir() and not (shard / table).is_symlink():
                shutil.rmtree(shard / table)
    return replace(run, tables=tables)


class ShardProgress:
    """The rounds of a shard that another process writes."""

    def __init__(self, shard: Path) -> None:
        self.shard, self.t = shard, played(shard)

    def rounds(self, read: bool) -> list[list[dict[str, Any]]]:
        """Return the rows of the rounds written since the last look, where they are to be `read`."""
        new = [path for t, path in part_files(self.shard, "metrics").items() if t > self.t]
        if not new:
            return []
        self.t = int(new[-1].stem.rpartition("-")[2])
        frames = [read_table(path, "metrics") for path in new if read]
        return [own.to_dicts() for frame in frames for own in frame.partition_by("t", maintain_order=True)]


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Say how to go on where a folder cannot be written, because the disk is full for example: nothing is lost."""
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise DataError(f"{folder}: cannot be written ({why}); make room and continue with: {resume_command(folder)}") from None


def resume_command(folder: Path) -> str:
    """Return the command that goes on with a run, or with all of a sweep."""
    named: list[str] = []
    with suppress(DataError):  # the command itself says what is damaged
        named = [name for point in points_of(folder) for name in named_outside(read_config(point)).values()]
    trust = [word for name in sorted({*named}) for word in ("--trust", name)]
    return shlex.join(["headgate", "run", "--resume", str(folder), *trust])
