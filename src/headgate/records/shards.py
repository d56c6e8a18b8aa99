"""A run folder in parts: each part is a run folder of some of the runs, with rows and checkpoints of its own.

While parts are being played their rows lie in them, and the whole folder's state is told by the one who looks after them
all. When all are done their rows become the tables of the whole; config and last checkpoint of each part stay.
"""

import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import polars as pl

from headgate.errors import DataError
from headgate.experiment import named_outside
from headgate.limits import ROUNDS
from headgate.reading import opened
from headgate.records.reader import CHECKSUMS, CONFIG, ENVIRONMENT, check_count, lost_runs, read_config, read_state
from headgate.records.scored import read_scored
from headgate.records.sums import newest_checkpoint, read_sealed
from headgate.records.sweeps import STATE, points_of
from headgate.records.tables import PARTS, TABLES, concepts_of, frame_of, may_look, part_folders
from headgate.records.writer import ROWS, Checkpoint, RunWriter
from headgate.writing import replace_file, whole_name


def create(folder: Path, config: Mapping[str, Any], environment: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> None:
    """A new run folder in which nothing has been played; `parts` are the configs of its parts, none where it is one piece.

    The state comes last: a folder with one is complete.
    """
    writer = RunWriter.create(folder, config, environment)
    for number, part in enumerate(parts):
        RunWriter.create(folder / PARTS / f"{number:03d}", part, environment)
    if parts:
        for name in ROWS:
            (folder / name).unlink()
    whole = _played(folder, config)
    runs = {"policies": whole.policies, "seeds": whole.seeds}
    writer.state("running", 0, whole.rounds, elapsed_s=0.0, **runs, diverged=[], guessing=[])


def left_by_a_killed_start(folder: Path) -> bool:
    """Whether `folder` holds nothing but what `create` writes before the state."""
    known = {CONFIG, ENVIRONMENT, STATE, PARTS, *ROWS}
    names = {whole_name(path.name) for path in folder.iterdir()}
    return CONFIG in names and names <= known and not (folder / STATE).exists()


def clear_killed_start(folder: Path) -> None:
    """Makes way for a new start. The config goes last, so that one who is killed here leaves what a killed start leaves."""
    for path in sorted(folder.iterdir(), key=lambda path: CONFIG in path.name):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def check_parts(folder: Path) -> None:
    """Refuses a run whose parts are not all there."""
    parts, whole = part_folders(folder), read_played(folder).runs
    if sorted(run for part in parts for run in read_played(part).runs) != sorted(whole):
        raise DataError(f"{folder}: its parts do not hold each of its {len(whole)} runs once; it cannot be continued")


def played(folder: Path) -> int:
    """The round of a part's newest checkpoint, without looking into it."""
    newest = newest_checkpoint(folder)
    return 0 if newest is None else int(newest.name)


def tell(folder: Path, state: str, t: int, elapsed: float) -> None:
    """The state of a run in parts, put together from what its parts say."""
    whole = read_played(folder)
    lost: dict[str, list[dict[str, Any]]] = {"diverged": [], "guessing": []}
    note: dict[str, str] = {}
    states = {part: read_sealed(part / STATE) if (part / STATE).exists() else {} for part in part_folders(folder)}
    for part, said in states.items():
        for key, runs in lost.items():
            runs += lost_runs(part / STATE, said, key)
        if "note" in said:
            note = {"note": said["note"]}
    places = {name: place for place, name in enumerate(whole.policies)}
    for runs in lost.values():
        runs.sort(key=lambda run: (places.get(run["policy"], len(places)), run["seed"]))
    runs_ = {"policies": whole.policies, "seeds": whole.seeds}
    RunWriter(folder).state(
        state, t, whole.rounds, elapsed_s=round(elapsed, 3), **runs_, **lost, **note, **read_scored(states.values()).told()
    )


def conclude(folder: Path, elapsed: float = 0.0) -> None:
    """Rows become tables, and the run is finished. Killed in the midst of it, it can be done again.

    Needs neither the executor nor the device that played: what broke down is told by the last checkpoints.
    """
    parts, rounds = part_folders(folder), read_played(folder).rounds
    check_parts(folder)
    for part, t in ((part, played(part)) for part in parts):
        if t < rounds:
            raise DataError(f"{part}: round {t} of {rounds}; cannot be finished yet")
    write_tables(folder)
    for part in parts:
        said = read_state(part) | Checkpoint(part).facts
        more = {key: value for key, value in said.items() if key not in ("state", "round", "rounds", "pid", CHECKSUMS)}
        RunWriter(part).state("finished", said["rounds"], said["rounds"], **more)
    if parts != [folder]:
        tell(folder, "finished", rounds, elapsed)


def write_tables(folder: Path) -> None:
    """The rows of all parts become the tables of the whole. Killed in the midst of it, it can be done again."""
    rows = {name: [part / f"{name}.jsonl" for part in part_folders(folder)] for name in TABLES}
    for name, paths in rows.items():
        table = folder / f"{name}.parquet"
        if all(path.exists() for path in paths):
            config = read_config(folder)
            frame = frame_of(
                paths, name, _played(folder, config).policies, concepts=concepts_of(config), looks=may_look(config)
            )
            replace_file(table, lambda file, own=frame: _as_parquet(own, file))  # type: ignore[misc]
        elif not table.exists():  # else it was done by one who was killed right after
            missing = next(path for path in paths if not path.exists())
            raise DataError(f"{folder}: {missing.relative_to(folder)} is missing; the run cannot be finished")
    for path in (path for paths in rows.values() for path in paths):
        path.unlink(missing_ok=True)


def _as_parquet(frame: pl.DataFrame, file: BinaryIO) -> None:
    try:
        frame.write_parquet(file)
    except pl.exceptions.PolarsError as error:  # its word for a full disk
        raise OSError(" ".join(str(error).split())) from None


class Played(NamedTuple):
    """Which runs the settings of a folder ask for."""

    rounds: int
    policies: list[str]
    seeds: list[int]

    @property
    def runs(self) -> list[tuple[str, int]]:
        return [(policy, seed) for policy in dict.fromkeys(self.policies) for seed in self.seeds]


def read_played(folder: Path) -> Played:
    return _played(folder, read_config(folder))


def _played(folder: Path, config: Mapping[str, Any]) -> Played:
    run = config.get("run")
    said = run if isinstance(run, dict) else {}
    rounds, seeds, first, policies = (said.get(key) for key in ("rounds", "seeds", "first_seed", "policies"))
    counts = all(isinstance(each, int) and 0 <= each <= ROUNDS for each in (rounds, seeds, first))
    if not counts or not isinstance(policies, list) or not policies or not all(isinstance(each, str) for each in policies):
        raise DataError(f"{folder / CONFIG}: [run] does not say which rounds, seeds and policies were asked for")
    check_count(folder / CONFIG, policies, range(int(seeds or 0)))
    return Played(int(rounds or 0), policies, list(range(int(first or 0), int(first or 0) + int(seeds or 0))))


@contextmanager
def saying_how_to_go_on(folder: Path) -> Iterator[None]:
    """A folder that cannot be written, because the disk is full say, loses nothing."""
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise DataError(f"{folder}: cannot be written ({why}); make room and go on with: {resuming(folder)}") from None


def resuming(folder: Path) -> str:
    """The command that goes on with a run, or with all of a sweep."""
    named: list[str] = []
    with suppress(DataError):  # what is damaged is told by the command itself
        named = [name for point in points_of(folder) for name in named_outside(read_config(point)).values()]
    trust = [word for name in sorted({*named}) for word in ("--trust", name)]
    return shlex.join(["headgate", "run", "--resume", str(folder), *trust])


class Tail:
    """The rows of a part as they are written, a round at a time."""

    def __init__(self, folder: Path) -> None:
        self.path, self.runs, self.t = folder / "metrics.jsonl", len(read_played(folder).runs), played(folder)
        self._place = self.path.stat().st_size if self.path.exists() else 0
        self._lines: list[bytes] = []
        self._half = b""

    def rounds(self) -> list[list[bytes]]:
        """The rounds finished since the last look, each as its lines."""
        try:
            with opened(self.path) as file:
                file.seek(self._place)
                new = file.read()
        except DataError:  # all is done, and the rows have become a table
            return []
        self._place += len(new)
        *lines, self._half = (self._half + new).split(b"\n")
        self._lines += lines
        whole = len(self._lines) // self.runs
        done = [self._lines[i * self.runs : (i + 1) * self.runs] for i in range(whole)]
        del self._lines[: whole * self.runs]
        self.t += whole
        return done
