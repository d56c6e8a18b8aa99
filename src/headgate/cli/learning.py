"""The commands of learning: run, runs, report, data."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli.console import AsFormat, Format, Set, plain, print_json, progress_bar, recipe_overrides
from headgate.config import Experiment, load, sweep_points
from headgate.errors import DataError, Interrupted, SettingError

if TYPE_CHECKING:
    from headgate.learning.datasets import Dataset
    from headgate.simulation.engine import Round

SWEEP = "sweep.json"


class Show(StrEnum):
    bar = "bar"
    json = "json"
    none = "none"


def run(
    recipe: Annotated[str, typer.Argument(help="A recipe's name (see `headgate recipes`) or a TOML file.")] = "digits",
    rounds: Annotated[int | None, typer.Option(help="Rounds; default: the recipe's.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Seeds; default: the recipe's.")] = None,
    policies: Annotated[str | None, typer.Option(metavar="A,B,...", help="Policies: sections of the recipe, or kinds.")] = None,
    set_: Set = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    executor: Annotated[
        str, typer.Option(help="How local training is done: auto, or a name (see docs/simulator.md).")
    ] = "auto",
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Run folder; default: runs/NAME-TIME.")] = None,
    resume: Annotated[Path | None, typer.Option(metavar="DIR", help="Go on with an interrupted run.")] = None,
    track: Annotated[str | None, typer.Option(metavar="A,B", help="Also log to tensorboard, mlflow or wandb.")] = None,
    show: Annotated[Show, typer.Option("--progress", help="A bar, JSON lines on stderr, or none.")] = Show.bar,
    format_: AsFormat = Format.table,
) -> None:
    """Learn from streams: all policies and seeds of a recipe in one batch.

    Writes a run folder with the resolved config, metrics, occupancy, checkpoints, summary and a self-contained report.
    Ctrl-C leaves a folder that `--resume` continues to the same bytes.
    """
    if resume is not None:
        folders = _resume(resume, device, track, show)
    else:
        points = sweep_points(recipe, recipe_overrides(set_, rounds, seeds, policies))
        folder = out or Path("runs") / f"{points[0][1].name}-{time.strftime('%Y%m%d-%H%M%S')}"
        folders = _start(points, folder, device, executor, track, show)
    _conclude(folders, resume or folder, format_)


def runs(
    folder: Annotated[Path, typer.Argument(help="Where the run folders are.")] = Path("runs"),
    format_: AsFormat = Format.table,
) -> None:
    """List runs: state, progress, policies, spend against budget, best accuracy."""
    from headgate.experiments.tables import print_runs, run_rows
    from headgate.records.reader import list_runs

    found = run_rows(list_runs(folder))
    if format_ is Format.json:
        print_json(found)
    elif found:
        print_runs(found)
    else:
        print(f"no runs in {folder}; headgate run makes one", file=sys.stderr)


def report(
    folders: Annotated[list[Path], typer.Argument(help="Run folders: one is drawn, several are compared.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The page; default: report.html in the first folder.")
    ] = None,
    figures: Annotated[Path | None, typer.Option(metavar="DIR", help="Also draw the figures as SVG and PNG.")] = None,
    target: Annotated[
        float | None, typer.Option(help="Test accuracy whose first round is reported; default: the recipe's.")
    ] = None,
) -> None:
    """Draw one run, or compare several, on a self-contained page."""
    from headgate.experiments.learning_figures import draw_run
    from headgate.experiments.report import write_report
    from headgate.records.reader import RunFolder

    found = [RunFolder.open(each) for folder in folders for each in _points(folder)]
    page = out or folders[0] / "report.html"
    if not page.parent.is_dir():
        raise DataError(f"--out {page}: there is no folder {page.parent}")
    print(write_report(found, page, target if target is not None else _target(found[0].config)))
    if figures is not None:
        figures.mkdir(parents=True, exist_ok=True)
        for path in draw_run(found, figures):
            print(path)


def data_list() -> None:
    """Say which data sets are there, and which command gets the others."""
    from headgate.experiments.tables import print_datasets
    from headgate.learning.datasets import available, data_folder

    print_datasets(available(), data_folder())


def data_get(name: Annotated[str, typer.Argument(help="mnist, cifar10 or imagenette.")]) -> None:
    """Fetch a data set from the Hugging Face hub; run it again to resume."""
    from headgate.learning.datasets import data_folder
    from headgate.learning.hub import fetch

    folder = data_folder()
    with _counted(f"fetching {name}", "bytes") as tick:
        paths = fetch(name, folder, tick=tick)
    print(f"{name}: {len(paths)} files in {folder / name}")


# a run from beginning to end


def _start(
    points: Sequence[tuple[str, Experiment]], folder: Path, device: str, executor: str, track: str | None, show: Show
) -> list[Path]:
    from headgate.records.writer import RunWriter
    from headgate.simulation.run import start

    _check_tracking(track)
    if len(points) == 1:
        (_, experiment) = points[0]
        simulation, writer = start(experiment, _load(experiment, show), folder, device, executor)
        _play(simulation, writer, track, show)
        return [folder]
    if folder.exists() and any(folder.iterdir()):
        raise DataError(f"--out {folder}: exists already; resume it with --resume, or choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    folders = [folder / _safe(label) for label, _ in points]
    made = []
    for (_, experiment), own in zip(points, folders, strict=True):  # all are begun, so that --resume knows them all
        made.append((experiment, *start(experiment, _load(experiment, show), own, device, executor)))
    RunWriter(folder).replace(SWEEP, json.dumps({"points": [own.name for own in folders]}).encode())
    try:
        for _, simulation, writer in made:
            _play(simulation, writer, track, show)
    except Interrupted as stop:
        raise Interrupted(
            f"{str(stop).split(';')[0]} of {writer.folder.name}; go on with: headgate run --resume {folder}"
        ) from None
    return folders


def _resume(folder: Path, device: str, track: str | None, show: Show) -> list[Path]:
    from headgate.records.reader import RunFolder
    from headgate.records.writer import Checkpoint
    from headgate.simulation.run import resume

    _check_tracking(track)
    folders = _points(folder)
    for own in folders:
        if not own.is_dir():
            raise DataError(f"--resume {own}: there is no such run folder")
        checkpoint = Checkpoint(own)
        if (own / "state.json").exists() and RunFolder.open(own).state["state"] == "finished":
            continue
        experiment = load(str(own / "config.toml"))
        simulation, writer = resume(experiment, _load(experiment, show), checkpoint, device)
        _play(simulation, writer, track, show)
    return folders


def _points(folder: Path) -> list[Path]:
    """A run folder, or all of a sweep."""
    sweep = folder / SWEEP
    return [folder / name for name in json.loads(sweep.read_text("utf-8"))["points"]] if sweep.exists() else [folder]


def _play(simulation: Any, writer: Any, track: str | None, show: Show) -> None:
    from headgate.records.trackers import make_trackers
    from headgate.simulation.run import play

    experiment: Experiment = simulation.experiment
    trackers = make_trackers(_names(track))
    for tracker in trackers:
        tracker.start(writer.folder.name, experiment.resolved, writer.folder)
    try:
        with progress_bar(show is not Show.bar) as bar:
            runs = f"{len(experiment.policies)} policies x {len(experiment.seeds)} seeds, {simulation.executor.name}"
            task = bar.add_task(runs, total=experiment.rounds, completed=simulation.t)

            def tick(done: "Round") -> None:
                bar.update(task, completed=done.t)
                if show is Show.json:
                    _say(done, experiment)

            play(simulation, writer, tick, trackers)
    finally:
        for tracker in trackers:
            tracker.close()


def _say(done: "Round", experiment: Experiment) -> None:
    seen = [row["test_accuracy"] for row in done.metrics if row["test_accuracy"] == row["test_accuracy"]]
    accuracy = sum(seen) / len(seen) if seen else None
    print(
        json.dumps({"round": done.t, "rounds": experiment.rounds, "mean_test_accuracy": accuracy}), file=sys.stderr, flush=True
    )


def _conclude(folders: Sequence[Path], whole: Path, format_: Format) -> None:
    from headgate.experiments.report import write_report
    from headgate.experiments.summary import policy_summaries
    from headgate.experiments.tables import print_policy_summaries
    from headgate.records.reader import RunFolder
    from headgate.records.writer import RunWriter

    found = [RunFolder.open(folder) for folder in folders]
    for each in found:
        target = _target(each.config)
        summaries = policy_summaries(each, target)
        RunWriter(each.path).replace("summary.json", json.dumps(plain(summaries), indent=2).encode())
        if format_ is Format.json:
            print_json({"folder": str(each.path), "policies": summaries})
        else:
            print_policy_summaries(each, summaries, target)
        page = write_report([each], each.path / "report.html", target)
    if len(found) > 1:
        page = write_report(found, whole / "report.html", _target(found[0].config))
    print(f"report: {page}", file=sys.stderr if format_ is Format.json else sys.stdout)


def _target(config: dict[str, Any]) -> float | None:
    target = config.get("training", {}).get("target")
    return float(target) if target is not None else None


def _load(experiment: Experiment, show: Show) -> "Dataset":
    try:
        from headgate.learning.datasets import load_dataset
    except ImportError as error:
        raise SettingError(f"learning needs {error.name}: pip install 'headgate[sim]'") from None
    with _counted(f"reading {experiment.data.name}", "images", quiet=show is not Show.bar) as tick:
        return load_dataset(experiment.data.name, tick=tick)


def _check_tracking(track: str | None) -> None:
    from headgate.records.trackers import check_installed

    check_installed(_names(track))


def _names(listed: str | None) -> list[str]:
    return [name.strip() for name in (listed or "").split(",") if name.strip()]


def _safe(label: str) -> str:
    return "".join(c if c.isalnum() or c in "=.,-" else "_" for c in label)


@contextmanager
def _counted(text: str, unit: str, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    with progress_bar(quiet, unit) as bar:
        task = bar.add_task(text, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
