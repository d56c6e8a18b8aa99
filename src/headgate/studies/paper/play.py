"""Plays a study into its run folders; what is finished there is used as it is, what was interrupted goes on."""

from collections.abc import Callable, Sequence
from pathlib import Path

from headgate.errors import DataError, Interrupted
from headgate.experiment import Experiment, load
from headgate.records.reader import RunFolder
from headgate.simulation.schedule import perform

Points = Sequence[tuple[str, Experiment]]


def is_finished(folder: Path, experiment: Experiment) -> bool:
    """Whether the folder holds this very experiment, complete; refused where it holds another one."""
    if not (folder / "config.toml").is_file():
        return False
    if load(str(folder / "config.toml")).resolved != experiment.resolved:
        raise DataError(f"{folder}: was run with other settings; delete it or choose another --out")
    return (folder / "state.json").is_file() and RunFolder.open(folder).state["state"] == "finished"


def unfinished(points: Points, runs: Path) -> list[tuple[str, Experiment]]:
    """What is left to run of (folder within `runs`, experiment)."""
    return [(name, experiment) for name, experiment in points if not is_finished(runs / name, experiment)]


def play(
    points: Points,
    runs: Path,
    device: str = "auto",
    processes: int | None = None,
    tick: Callable[[int, int], None] | None = None,
    say: Callable[[str], None] | None = None,
) -> None:
    """All of a study's points, each in its folder; `tick` is told the rounds done and in all."""
    folder = runs / Path(points[0][0]).parent
    try:
        perform(
            [(Path(name).name, experiment) for name, experiment in points],
            folder,
            device=device,
            processes=processes,
            resume=True,
            tick=tick,
            say=say,
        )
    except Interrupted as stop:
        raise Interrupted(f"{str(stop).split(';')[0]}; the same command goes on from there") from None
