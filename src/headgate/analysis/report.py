"""The files written after runs have finished: summaries, reports and comparisons.

The report is a single HTML page that contains all its numbers and scripts and needs no
network.
"""

import html
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from rich.console import RenderableType

from headgate.analysis import comparison
from headgate.analysis.accounts import LedgerFacts, ledger_facts
from headgate.analysis.curves import heat, money_panel, policy_curves
from headgate.analysis.display import Displayed
from headgate.analysis.formatting import jsonable, percent
from headgate.analysis.limits import conclusion
from headgate.analysis.needs import Needs
from headgate.analysis.pages import as_json, beside, facts_of, script, write_whole
from headgate.analysis.runs import Runs, read_runs
from headgate.analysis.savings import (
    Need,
    Row,
    Saving,
    amount,
    chosen_budget,
    money_for,
    needed,
    savings,
)
from headgate.analysis.summary import breakdown_note, summarise, summary_table
from headgate.analysis.tables import about
from headgate.errors import SettingError, require
from headgate.escaping import shown
from headgate.records.reader import RunFolder

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def write_report(
    runs: Sequence[RunFolder],
    out: Path,
    target: float | None = None,
    found: Sequence[Runs] | None = None,
    budget: float | None = None,
) -> Path:
    """Write a self-contained page on run folders, and return its path.

    Parameters
    ----------
    runs : sequence of RunFolder
        The run folders. If they have several budgets, the page begins with what each
        policy needs for the same accuracy.
    out : pathlib.Path
        The file to write.
    target : float, optional
        The test accuracy whose first round is reported.
    found : sequence of Runs, optional
        The runs of the folders, if they have already been read.
    budget : float, optional
        The budget of the runs that the figures over rounds show, if there are several.

    Returns
    -------
    pathlib.Path
        The file.
    """
    policies = read_runs(runs) if found is None else found
    rows: list[dict[str, Any]] = []
    saved: list[Saving] = []
    if comparison.several_budgets(policies):
        rows = comparison.rows(policies)
        saved = chosen_budget(savings(rows), budget)

    summaries = [summarise(one, target) for one in policies]
    table = summary_table(summaries, target)
    if saved:
        data = _page_of_budgets(runs, policies, table, rows, saved)
    else:
        data = _page_of_runs(runs, policies, table)
    write_whole("report", out, _html(data).encode())
    return out


def _page_of_runs(
    runs: Sequence[RunFolder],
    policies: Sequence[Runs],
    table: dict[str, Any],
) -> dict[str, Any]:
    """Return the data of a page that shows all runs."""
    title = runs[0].name if len(runs) == 1 else f"{len(runs)} runs compared"
    facts = ledger_facts(runs[0]) if len(runs) == 1 else LedgerFacts()
    said = " ".join(filter(None, (facts.sentence, conclusion(policies))))
    page = _page(title, said, runs, runs, policies, policies, table)
    warning = " ".join(filter(None, (page["warning"], facts.dry)))
    return page | {"warning": warning}


def _page_of_budgets(
    runs: Sequence[RunFolder],
    policies: Sequence[Runs],
    table: dict[str, Any],
    rows: Sequence[Row],
    saved: Sequence[Saving],
) -> dict[str, Any]:
    """Return the data of a page on policies at several budgets.

    Its figures over rounds show the runs at the budget of `saved`.
    """
    budget = saved[0].budget
    shown = [run for run in runs if run.system.budget == budget][:1]
    at_budget = [one for one in policies if one.budget == budget]
    drawn = [replace(one, label=one.policy) for one in at_budget]

    budgets = len({one.budget for one in policies})
    title = f"{shown[0].path.parent.name}: policies at {budgets} budgets"
    sentence = comparison.opened(saved)
    page = _page(title, sentence, runs, shown, policies, drawn, table)
    return page | {"money": _money(rows, [one.policy for one in drawn], saved)}


def _page(
    title: str,
    sentence: str,
    runs: Sequence[RunFolder],
    shown: Sequence[RunFolder],
    policies: Sequence[Runs],
    drawn: Sequence[Runs],
    table: dict[str, Any],
) -> dict[str, Any]:
    """Return what every page has.

    `shown` are the runs with all their settings, and `drawn` those in the figures.
    """
    heats = [
        heat(one.label, one.held, one.buffers) for one in drawn if one.held is not None
    ]
    return {
        "title": title,
        "sentence": sentence,
        "warning": breakdown_note(runs),
        "runs": [{**about(run), "shown": run in shown} for run in runs],
        "lines": [_line(one) for one in policies],
        "table": table,
        "drawn": [{**_line(one), "curves": policy_curves(one)} for one in drawn],
        "heats": heats,
        "money": None,
    }


def _line(one: Runs) -> dict[str, Any]:
    return {"run": one.folder, "policy": one.policy, "name": one.label}


def _html(data: dict[str, Any]) -> str:
    """Return a page that contains all it needs, and so loads nothing."""
    from plotly.offline import get_plotlyjs  # the import takes a second

    text = json.dumps(
        jsonable(data),
        ensure_ascii=False,
        allow_nan=False,
        separators=(",", ":"),
    )
    for character in "<>&":  # they could end the script element that holds the data
        text = text.replace(character, f"\\u{ord(character):04x}")
    styles = (f"drawing/{name}.css" for name in ("base", "parts", "report"))
    return beside(__file__, "report.html").format(
        title=html.escape(data["title"]),
        styles="".join(beside(__file__, path) for path in styles),
        early=beside(__file__, "drawing/early.js"),
        data=text,
        plotly=get_plotlyjs(),
        script=script("report"),
    )


def _money(
    rows: Sequence[Row],
    policies: Sequence[str],
    saved: Sequence[Saving],
) -> dict[str, Any]:
    """Return the figure and the table of what policies need for the same accuracy."""
    first = saved[0]
    accuracy = percent(first.accuracy, 1)
    money = amount(first.unit, first.rival_money)
    return {
        "panel": money_panel(rows, policies, saved),
        "rival": first.rival,
        "needs": [(one.policy, *needed(one)) for one in saved],
        "reached": f"for {accuracy}, which {first.rival} reaches for {money} a round",
        "budget": first.budget,
    }


def summary_rows(
    run: RunFolder, found: Sequence[Runs] | None = None
) -> list[dict[str, Any]]:
    """Return a row of summary.json for each policy of a run.

    `found` are its runs if they have already been read.
    """
    policies = read_runs([run]) if found is None else found
    return [summarise(one, run.target).to_dict() for one in policies]


def conclude(
    folders: Sequence[Path | RunFolder], whole: Path
) -> tuple[list[RunFolder], Path]:
    """Write a summary and a report into every folder, and return runs and last page.

    Several folders also get one report on all of them, in the folder `whole`.
    """
    runs = [
        each if isinstance(each, RunFolder) else RunFolder.open(each)
        for each in folders
    ]
    for run in runs:
        found = read_runs([run])
        summary = json.dumps(jsonable(summary_rows(run, found)), indent=2)
        write_whole("summary", run.path / "summary.json", summary.encode())
        page = write_report([run], run.path / "report.html", run.target, found)
    if len(runs) > 1:
        page = write_report(runs, whole / "report.html", runs[0].target)
    return runs, page


@dataclass(
    frozen=True,
    eq=False,
    repr=False,
)
class Comparison(Displayed):
    """The result of `compare`: policies at equal spend, at each budget.

    Parameters
    ----------
    path : pathlib.Path
        The JSON file with all numbers.
    runs : sequence of Runs
        The runs of each policy.
    rows : list of dict
        One row for each budget and policy.
    budget : float, optional
        The budget per round at which policies are shown. By default one is chosen.
    report : pathlib.Path, optional
        A self-contained page with all figures.

    Examples
    --------
    >>> import headgate, tempfile
    >>> e = headgate.load("digits", "run.rounds=2", "run.seeds=1")
    >>> found = headgate.compare(
    ...     e, budgets=[10, 20], out=tempfile.mkdtemp(), processes=1, quiet=True
    ... )
    >>> found.frame.select("budget", "policy").row(0)
    (10.0, 'headgate')
    """

    path: Path
    runs: Sequence[Runs]
    rows: list[dict[str, Any]]
    budget: float | None = None
    report: Path | None = None

    @property
    def frame(self) -> pl.DataFrame:
        """The rows of the comparison as a table."""
        return pl.DataFrame(self.rows, infer_schema_length=None)

    def money_for(self, accuracy: float, measure: str = "last") -> Needs[Need]:
        """Return the money per round that each policy needs for a mean accuracy.

        Parameters
        ----------
        accuracy : float
            Test accuracy, from 0 to 1.
        measure : {"last", "best", "mean"}
            Which accuracy of a run is meant.

        Returns
        -------
        Needs
            The money of each policy with its 95 % interval over seeds, or bounds if the
            budgets that were run determine no more; its `frame` is a table.

        Raises
        ------
        SettingError
            If the prices differ between the runs.
        """
        self._check_prices("money_for", "saved_against takes them one by one")
        return Needs(money_for(self.rows, accuracy, measure))

    def saved_against(
        self, rival: str = "constant", measure: str = "last"
    ) -> Needs[Saving]:
        """Return the money that every other policy needs for the rival's accuracy.

        There is a result for each budget of the rival.

        Parameters
        ----------
        rival : str
            A policy of the comparison.
        measure : {"last", "best", "mean"}
            Which accuracy of a run is meant.

        Returns
        -------
        Needs
            The money and its share of the rival's money, with 95 % intervals over
            seeds; only bounds if they are unknown. Its `frame` is a table.

        Raises
        ------
        SettingError
            If the rival was not compared.
        """
        names = self._policies()
        if rival not in names:
            raise SettingError(
                f"rival = {shown(rival)}: was not compared; one of {', '.join(names)}"
            )
        return Needs(savings(self.rows, rival, measure))

    def figure(self, path: str | Path, width: float = 6.4) -> Path:
        """Write the figure of test accuracy against the money really spent, for papers.

        Parameters
        ----------
        path : str or pathlib.Path
            The file, which ends in .pdf, .png or .svg.
        width : float
            The width in inches; a column of a paper has about 3.3.

        Returns
        -------
        pathlib.Path
            The file.

        Raises
        ------
        SettingError
            If prices differ between the runs, the file has another ending, or
            matplotlib is missing (the extra `figures`).
        DataError
            If the file cannot be written.
        """
        from headgate.analysis.figure_files import draw_comparison  # takes a second

        require(0 < width < math.inf, "width", width, "a positive number of inches")
        self._check_prices("figure", "report.html shows them one by one")
        saved = chosen_budget(savings(self.rows), self.budget)
        draw_comparison(self.rows, saved, Path(path), width=width)
        return Path(path)

    def plot(self) -> "Figure":
        """Return the figure of test accuracy against the money really spent.

        Returns
        -------
        plotly.graph_objects.Figure
            A line for each policy with its 80 % intervals, which displays itself in a
            notebook. `figure` writes it to a file.

        Raises
        ------
        SettingError
            If the prices differ between the runs, so that their money cannot be
            compared.
        """
        from headgate.analysis.figures import money_figure

        self._check_prices("plot", "report.html shows them one by one")
        names = self._policies()
        saved = chosen_budget(savings(self.rows), self.budget)
        return money_figure(money_panel(self.rows, names, saved), names)

    def _policies(self) -> list[str]:
        return list(dict.fromkeys(row["policy"] for row in self.rows))

    def _check_prices(self, method: str, instead: str) -> None:
        if len({row["prices"] for row in self.rows}) > 1:
            raise SettingError(f"{method}: prices differ between the runs; {instead}")

    def render(self) -> list[RenderableType]:
        return comparison.comparison_tables(self.runs, self.rows, self.budget)

    def wide(self) -> list[RenderableType]:
        """Return all columns for each budget, and which policy is best.

        Returns
        -------
        list
            Tables and a sentence, for `headgate.analysis.display.show`.
        """
        return comparison.wide_tables(self.runs)


def conclude_comparison(
    runs: Sequence[RunFolder],
    folder: Path,
    command: str,
    budget: float | None,
) -> Comparison:
    """Write compare.json and report.html into `folder`, and return the comparison.

    `budget` is the one at which policies are shown.
    """
    # this raises an error, before anything is written, if runs cannot be compared
    made = read_comparison(runs, folder, budget)
    numbers = as_json({**facts_of(command, runs), "rows": made.rows})
    write_whole("comparison", made.path, numbers.encode())
    page = folder / "report.html"
    write_report(runs, page, runs[0].target, made.runs, budget)
    return replace(made, report=page)


def read_comparison(
    runs: Sequence[RunFolder], folder: Path, budget: float | None = None
) -> Comparison:
    """Return the comparison of runs in `folder`, without writing anything."""
    order = list(dict.fromkeys(name for run in runs for name in run.policies))
    found = sorted(read_runs(runs), key=lambda one: order.index(one.policy))
    rows = comparison.rows(found)
    return Comparison(folder / "compare.json", found, rows, budget)
