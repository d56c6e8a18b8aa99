"""The main functions of headgate, each a single call. Their results display themselves
in a notebook.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.analysis.display import Displayed
from headgate.analysis.rehearsal import (
    plan_json,
    plan_tables,
    queue_lines,
    rehearsal_tables,
    rows,
    summarise_rehearsal,
)
from headgate.analysis.report import (
    Comparison,
    conclude,
    conclude_comparison,
    read_comparison,
    summary_rows,
    write_report,
)
from headgate.analysis.runs import Runs, read_runs
from headgate.analysis.summary import PolicySummary
from headgate.analysis.tables import runs_tables
from headgate.control.policies import KINDS
from headgate.control.policy import AdmissionPolicy
from headgate.control.rehearse import Plan, Rehearsal
from headgate.control.rehearse import plan as make_plan
from headgate.control.rehearse import rehearse as rehearse_policy
from headgate.errors import DataError, Interrupted, SettingError
from headgate.escaping import shown
from headgate.experiment import Experiment, sweep_points
from headgate.experiment import load as load_recipe
from headgate.progress import Counted, counted, ticked
from headgate.records.reader import RunFolder
from headgate.records.tables import points_of
from headgate.registry import nearest

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import polars as pl
    from rich.console import RenderableType

SHARES = (0.25, 0.5, 1.0, 2.0)
"""the budgets at which policies are compared by default, as shares of the recipe's
budget
"""
COMPARED = "has all these runs already; they are compared, nothing is trained again"
"""what `compare` says of a folder whose runs are all finished"""
Points = Sequence[tuple[str, Experiment]]


def load(recipe: str | Path | Mapping[str, Any], *overrides: str) -> Experiment:
    """Load an experiment from a recipe.

    Parameters
    ----------
    recipe : str, pathlib.Path or mapping
        A name from `headgate recipes`, a TOML file, or the content of one.
    *overrides : str
        Keys to override, as `--set` takes them.

    Returns
    -------
    Experiment
        The experiment, with all unset settings of its policies worked out.

    Raises
    ------
    SettingError
        If the recipe is unknown, or a setting of it is invalid.
    InfeasibleError
        If settings that are valid one by one cannot be met together.

    Examples
    --------
    >>> load("digits", "run.rounds=20", "system.budget=40").system.budget
    40.0
    """
    return load_recipe(recipe, overrides)


def _check_loaded(experiment: object) -> None:
    if isinstance(experiment, str | Path | Mapping):
        raise SettingError(
            f"experiment = {shown(experiment)}: is a recipe; headgate.load makes an"
            " experiment of it"
        )


def sweep(
    recipe: str | Path | Mapping[str, Any], *overrides: str
) -> list[tuple[str, Experiment]]:
    """Load all points of a recipe with a `[sweep]`.

    Parameters
    ----------
    recipe : str, pathlib.Path or mapping
        As for `load`.
    *overrides : str
        As for `load`.

    Returns
    -------
    list of (str, Experiment)
        A label and an experiment for each point, as `run` and `compare` take them.

    Raises
    ------
    SettingError
        If a setting is invalid, or there are too many points.

    Examples
    --------
    >>> [label for label, _ in sweep("digits", "sweep.system.budget=[20.0, 55.0]")]
    ['system.budget=20.0', 'system.budget=55.0']
    """
    return sweep_points(recipe, overrides)


# before a run


@dataclass(
    frozen=True,
    eq=False,
    repr=False,
)
class PlanResult(Displayed):
    """The result of `plan`: a policy's settings, its limits and what to expect of it.

    Parameters
    ----------
    experiment : Experiment
        The experiment, with the policy.
    name : str
        The name of the policy in the experiment.
    plan : Plan
        What was worked out.

    Examples
    --------
    >>> made = plan(load("digits", "run.rounds=20", "run.seeds=2"))
    >>> made.frame.height, made.warning
    (1, '')
    """

    experiment: Experiment
    name: str
    plan: Plan

    @property
    def policy(self) -> AdmissionPolicy:
        """The policy, with all its settings worked out."""
        return self.plan.policy

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """The numbers that `headgate plan --format json` prints."""
        return plan_json(self.experiment, self.name, self.plan)

    @property
    def frame(self) -> "pl.DataFrame":
        """One row with the numbers; null where a policy has none."""
        import polars as pl

        plain = {
            name: value
            for name, value in self.numbers.items()
            if not isinstance(value, dict | list | tuple)
        }
        return pl.DataFrame([plain])

    @property
    def warning(self) -> str:
        """The limit that the policy breaks, and the remedy; empty if it keeps both."""
        return str(self.numbers["warning"])

    def render(self) -> "Sequence[RenderableType]":
        return plan_tables(self.experiment, self.name, self.plan)


def plan(
    experiment: Experiment, policy: str | AdmissionPolicy = "headgate"
) -> PlanResult:
    """Work out a policy's settings, rehearse it, and report what to expect.

    Parameters
    ----------
    experiment : Experiment
        What `load` returned.
    policy : str or AdmissionPolicy
        The name of one of the experiment's policies, a kind of policy, or a policy
        object.

    Returns
    -------
    PlanResult
        Settings, limits and expectations.

    Raises
    ------
    SettingError
        If `policy` is neither a policy of the experiment nor a kind.

    Examples
    --------
    >>> made = plan(load("digits", "run.rounds=20", "run.seeds=2"))
    >>> made.name, made.warning
    ('headgate', '')
    """
    _check_loaded(experiment)
    if isinstance(policy, str):
        name = policy
        if policy not in experiment.policies:
            if policy not in KINDS:
                others = nearest(policy, [*experiment.policies, *KINDS])
                raise SettingError(
                    f"policy = {policy}: neither a policy of the experiment nor a"
                    f" kind{others}"
                )
            experiment = experiment.with_policy(policy, KINDS[policy]())
    else:
        name = type(policy).__name__
        experiment = experiment.with_policy(name, policy)
    own = experiment.policies[name]
    return PlanResult(experiment, name, make_plan(experiment.given_for(own), own))


@dataclass(
    frozen=True,
    eq=False,
    repr=False,
)
class RehearsalResult(Displayed):
    """The result of `rehearse`: control over a whole horizon, without learning.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    results : mapping of str to Rehearsal
        The rehearsal of each policy, by its name.
    at_once : mapping of str to Rehearsal, optional
        The same if samples arrived at once; empty if they do.

    Examples
    --------
    >>> found = rehearse(load("digits", "run.rounds=20", "run.seeds=2"))
    >>> found.frame["policy"].unique(maintain_order=True).to_list()[0]
    'headgate'
    """

    experiment: Experiment
    results: Mapping[str, Rehearsal]
    at_once: Mapping[str, Rehearsal] = field(default_factory=dict)

    @cached_property
    def frame(self) -> "pl.DataFrame":
        """One row per policy, seed and round, with the columns of `headgate rehearse
        --out`.
        """
        return rows(self.experiment, self.results)

    @cached_property
    def summary(self) -> list[PolicySummary]:
        """The summaries of the policies, one for each."""
        return [
            summarise_rehearsal(self.experiment, name, result)
            for name, result in self.results.items()
        ]

    def render(self) -> "Sequence[RenderableType]":
        queue = queue_lines(self.experiment, self.results, self.at_once)
        return [*rehearsal_tables(self.experiment, self.summary), *queue]


def rehearse(experiment: Experiment, quiet: bool = True) -> RehearsalResult:
    """Run control over the whole horizon, without learning.

    Parameters
    ----------
    experiment : Experiment
        What `load` returned.
    quiet : bool
        Whether to show no progress bar.

    Returns
    -------
    RehearsalResult
        Tables of what is spent, held and used.

    Raises
    ------
    SettingError
        If prices differ between clients and a policy needs one price for all.

    Examples
    --------
    >>> rehearse(load("digits", "run.rounds=20", "run.seeds=2")).frame.columns[:4]
    ['policy', 'seed', 't', 'price']
    """
    _check_loaded(experiment)
    experiment.check_prices()
    results, at_once = dict[str, Rehearsal](), dict[str, Rehearsal]()
    rounds, seeds = experiment.rounds, experiment.seeds
    delays = experiment.data.delays
    for name, policy in experiment.policies.items():
        prices = experiment.given_for(policy).prices
        process = (experiment.system, policy, prices, seeds, rounds)
        with ticked(f"{name}, {len(seeds)} seeds", rounds, quiet) as tick:
            results[name] = rehearse_policy(*process, tick, delays)
        if delays is not None:
            at_once[name] = rehearse_policy(*process)
    return RehearsalResult(experiment, results, at_once)


# runs


@dataclass(
    frozen=True,
    eq=False,
    repr=False,
)
class Run(Displayed):
    """The record of a run folder, or of all points of a sweep.

    The run may still be in progress.

    Parameters
    ----------
    path : pathlib.Path
        The folder of the run or of the sweep.

    Examples
    --------
    >>> import headgate, tempfile
    >>> e = headgate.load("digits", "run.rounds=2", "run.seeds=1")
    >>> run = headgate.run(e, tempfile.mkdtemp() + "/out", processes=1, quiet=True)
    >>> run.status, run.summary.columns[0]
    ('finished', 'policy')
    """

    path: Path

    @cached_property
    def folders(self) -> list[RunFolder]:
        """The run folders, of a sweep one for each point."""
        return [RunFolder.open(each) for each in points_of(self.path)]

    @property
    def status(self) -> str:
        """The state: running, interrupted, finished or diverged; for a sweep, the first
        of these that applies to any point.
        """
        states = {folder.status for folder in self.folders}
        return next(
            state
            for state in ("running", "interrupted", "finished", "diverged")
            if state in states
        )

    @property
    def frame(self) -> "pl.DataFrame":
        """One row per policy, seed and round; a sweep has the additional first column
        `point`.
        """
        return self._together(RunFolder.metrics)

    @property
    def clients(self) -> "pl.DataFrame":
        """What each client admitted, held and paid: one row per policy, seed and
        round.
        """
        return self._together(RunFolder.clients)

    def _together(self, table: "Callable[[RunFolder], pl.DataFrame]") -> "pl.DataFrame":
        import polars as pl

        if len(self.folders) == 1:
            return table(self.folders[0])
        named = [
            table(each).select(pl.lit(each.name).alias("point"), pl.all())
            for each in self.folders
        ]
        # points may differ in columns, for example if only some change concepts
        return pl.concat(named, how="diagonal")

    @property
    def runs(self) -> list[Runs]:
        """The runs of each policy as arrays over all seeds, with a mask of the runs
        whose model was lost.
        """
        return read_runs(self.folders)

    @property
    def summary(self) -> "pl.DataFrame":
        """One row per policy: accuracy with spend, limits and memory beside it."""
        import polars as pl

        return pl.DataFrame(
            [row for folder in self.folders for row in summary_rows(folder)],
            infer_schema_length=None,
        )

    @property
    def comparison(self) -> Comparison:
        """The policies at equal spend, as `compare` returns them, of a folder that it
        has written.
        """
        return read_comparison(self.folders, self.path)

    def report(self, out: str | Path | None = None) -> Path:
        """Write a self-contained page.

        Parameters
        ----------
        out : str or pathlib.Path, optional
            The file to write; by default report.html in the folder.

        Returns
        -------
        pathlib.Path
            The file that was written.

        Raises
        ------
        DataError
            If a table is damaged, or the file cannot be written.
        """
        page = Path(out or self.path / "report.html")
        return write_report(self.folders, page, self.folders[0].target)

    def render(self) -> "Sequence[RenderableType]":
        return runs_tables(self.folders)


def run(
    experiment: Experiment | Points | None,
    out: str | Path | None = None,
    *,
    device: str = "auto",
    executor: str = "auto",
    processes: int | None = None,
    pool: "Executor | str | None" = None,
    trust: Sequence[str] = (),
    quiet: bool = False,
) -> Run:
    """Run all policies and seeds, and write a run folder with a summary and a report.
    Ctrl-C loses nothing.

    Parameters
    ----------
    experiment : Experiment, list of (str, Experiment) or None
        What `load` or `sweep` returned. None stands for the experiment in `out`.
    out : str or pathlib.Path, optional
        The run folder; by default runs/NAME-TIME. If it holds a run of the same
        experiment, that run is resumed.
    device : str
        The device to train on: auto, cpu or cuda.
    executor : str
        The executor of local training: auto, or a name.
    processes : int, optional
        The number of processes; by default one for each core, and one on a GPU.
    pool : concurrent.futures.Executor or str, optional
        Workers that learn in place of processes of this machine: any executor, or the
        address or scheduler file of Dask.
    trust : sequence of str
        Code outside the package that the folder names and that is allowed to run, as
        `module` or `module:Class`.
    quiet : bool
        Whether to show no progress bar.

    Returns
    -------
    Run
        The record of the run.

    Raises
    ------
    SettingError
        If an argument is invalid, or the run needs code that is not trusted.
    DataError
        If the folder holds another run, or cannot be read or written.
    Interrupted
        After Ctrl-C; the same call resumes the run.

    Examples
    --------
    >>> import headgate, tempfile
    >>> e = headgate.load("digits", "run.rounds=2", "run.seeds=1")
    >>> run = headgate.run(e, tempfile.mkdtemp() + "/out", processes=1, quiet=True)
    >>> run.frame.columns[:3]
    ['policy', 'seed', 't']
    """
    from headgate.simulation.schedule import new_folder, perform

    _check_loaded(experiment)
    if out is None and experiment is None:
        raise SettingError("out = None: without an experiment a run folder is needed")
    whole = Path(out or new_folder(experiment or []))
    advice = f"nothing is lost, headgate.run(experiment, {str(whole)!r}) resumes"
    with _progress(quiet, advice) as bar:
        runs = perform(
            experiment,
            whole,
            device=device,
            executor=executor,
            processes=processes,
            pool=pool,
            trust=trust,
            tick=bar,
            say=bar.say,
        )
    points = points_of(whole)
    if len(runs) < len(points):  # only some points of the sweep were run
        runs = [RunFolder.open(each) for each in points]
    conclude(runs, whole)
    return Run(whole)


@contextmanager
def _progress(quiet: bool, advice: str) -> Iterator[Counted]:
    """Show a progress bar; `advice` is what a user reads after Ctrl-C."""
    with counted("learning", quiet) as bar:
        try:
            yield bar
        except Interrupted as stop:
            raise Interrupted(stop.what, advice) from None


def open(folder: str | Path) -> Run:  # shadows the builtin here only, as gzip.open does
    """Read a run folder, without importing any code that it names.

    Parameters
    ----------
    folder : str or pathlib.Path
        The folder of a finished or running run, of a sweep, or of a run on Flower.

    Returns
    -------
    Run
        The record of the run.

    Raises
    ------
    DataError
        If there is no such folder, or it holds no run.

    Examples
    --------
    >>> import headgate, tempfile
    >>> e = headgate.load("digits", "run.rounds=2", "run.seeds=1")
    >>> run = headgate.run(e, tempfile.mkdtemp() + "/out", processes=1, quiet=True)
    >>> headgate.open(run.path).status
    'finished'
    """
    path = Path(folder)
    if not path.is_dir():
        raise DataError(f"{path}: there is no such folder")
    found = Run(path)
    found.folders  # noqa: B018  # raises an error here if it is no run folder
    return found


# at equal spend


def compare(
    experiment: Experiment | Points,
    budgets: Sequence[float] | None = None,
    out: str | Path | None = None,
    *,
    device: str = "auto",
    processes: int | None = None,
    pool: "Executor | str | None" = None,
    quiet: bool = False,
    command: str = "headgate.compare",
    as_printed: bool = False,
) -> Comparison:
    """Compare policies at equal money: what each learns at every budget, and what it
    needs for the same accuracy.

    Every policy except references is held to the money and the buffers
    (`headgate.control.policies.Held`).

    Parameters
    ----------
    experiment : Experiment or list of (str, Experiment)
        What `load` or `sweep` returned. Points of a sweep are compared as they are,
        each with its own budget and prices.
    budgets : sequence of float, optional
        The budgets per round; by default 0.25, 0.5, 1 and 2 times the experiment's, or
        those of `budgets_that_bind`.
    out : str or pathlib.Path, optional
        The folder of runs and report; by default compared/NAME. Finished runs in it are
        used, so budgets can be added later.
    device : str
        The device to train on: auto, cpu or cuda.
    processes : int, optional
        The number of processes; by default one for each core, and one on a GPU.
    pool : concurrent.futures.Executor or str, optional
        Workers that learn in place of processes of this machine: any executor, or the
        address or scheduler file of Dask.
    quiet : bool
        Whether to show no progress bar.
    command : str
        The command that is named on the page.
    as_printed : bool
        Whether to leave policies as they are, including those that break their limits.

    Returns
    -------
    Comparison
        A table and a page; its methods `money_for` and `saved_against` give further
        numbers.

    Raises
    ------
    SettingError
        If an argument is invalid.
    DataError
        If the folder holds other runs, or cannot be read or written.
    Interrupted
        After Ctrl-C; the same call resumes the runs.

    Examples
    --------
    >>> import headgate, tempfile
    >>> e = headgate.load("digits", "run.rounds=2", "run.seeds=1")
    >>> found = headgate.compare(
    ...     e, budgets=[10, 20], out=tempfile.mkdtemp(), processes=1, quiet=True
    ... )
    >>> sorted({row["budget"] for row in found.rows})
    [10.0, 20.0]
    """
    from headgate.simulation.schedule import perform

    _check_loaded(experiment)
    budget = None
    if isinstance(experiment, Experiment):
        budget = experiment.system.budget
        if budgets is None:
            budgets = budgets_that_bind(experiment)
            budget = budgets[SHARES.index(1.0)]
        experiment = _at_budgets(experiment, budgets)
    points = list(experiment)
    if not as_printed:
        points = [(label, point.held()) for label, point in points]
    folder = Path(out or Path("compared") / points[0][1].name)
    with _progress(quiet, "nothing is lost, the same command resumes") as bar:
        runs = perform(
            points,
            folder,
            device=device,
            processes=processes,
            pool=pool,
            tick=bar,
            say=bar.say,
            finished=COMPARED,
        )
    return conclude_comparison(runs, folder, command, budget)


def budgets_that_bind(experiment: Experiment) -> list[float]:
    """Return 0.25, 0.5, 1 and 2 times the budget per round of an experiment, or of 40 %
    of the price of all its places, if that is less.

    A budget that pays for all places in every round makes all policies equal.
    """
    system = experiment.system
    all_places = experiment.prices.mean(experiment.rounds) * system.all_places
    usual = min(system.budget, float(f"{0.4 * all_places:.2g}"))
    return [round(share * usual, 6) for share in SHARES]


def _at_budgets(experiment: Experiment, budgets: Sequence[float]) -> Points:
    """Return the experiment at each of the budgets, with labels."""
    if not isinstance(budgets, Iterable):
        raise SettingError(f"budgets = {budgets}: must be a list, as in [20, 55]")
    money = list(map(float, budgets))
    if not money:
        raise SettingError("budgets = []: at least one is needed")
    if len(set(money)) < len(money):
        raise SettingError(f"budgets = {money}: each must be named once")
    return [
        (f"system.budget={budget}", experiment.with_budget(budget)) for budget in money
    ]
