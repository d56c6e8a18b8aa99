"""The files written after runs have finished: summary.json and report.html, or the
numbers and figure of a comparison.

The report is a single HTML page that contains all its numbers and scripts and needs no
network.
"""

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from rich.console import RenderableType

from headgate.analysis import comparison
from headgate.analysis.curves import heat, money_panel, policy_curves
from headgate.analysis.display import Displayed
from headgate.analysis.figures import money_figure
from headgate.analysis.formatting import jsonable, percent
from headgate.analysis.intervals import Estimate
from headgate.analysis.limits import conclusion
from headgate.analysis.pages import as_json, beside, facts_of, script, write_whole
from headgate.analysis.runs import Runs, read_runs
from headgate.analysis.savings import (
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
from headgate.errors import SettingError
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
    """Write a self-contained page on run folders to `out`, and return its path.

    If there are several budgets, the page begins with what each policy needs for the
    same accuracy, and its figures over rounds show the runs at `budget`. `found` are
    the runs of these folders if they have already been read.
    """
    from plotly.offline import get_plotlyjs  # the import takes a second

    policies = read_runs(runs) if found is None else found
    compared = comparison.rows(policies) if comparison.several_budgets(policies) else []
    saved = chosen_budget(savings(compared), budget) if compared else []
    drawn = (
        [
            replace(one, label=one.policy)
            for one in policies
            if one.budget == saved[0].budget
        ]
        if saved
        else policies
    )
    about_these = (
        [run for run in runs if run.system.budget == saved[0].budget][:1]
        if saved
        else runs
    )
    title = runs[0].name if len(runs) == 1 else f"{len(runs)} runs compared"
    if saved:
        title = (
            f"{about_these[0].path.parent.name}: policies at"
            f" {len({one.budget for one in policies})} budgets"
        )
    data = {
        "title": title,
        "sentence": comparison.opened(saved) if saved else conclusion(policies),
        "warning": breakdown_note(runs),
        "runs": [{**about(run), "shown": run in about_these} for run in runs],
        "lines": [
            {"run": one.folder, "policy": one.policy, "name": one.label}
            for one in policies
        ],
        "table": summary_table([summarise(one, target) for one in policies], target),
        "drawn": [
            {
                "run": one.folder,
                "policy": one.policy,
                "name": one.label,
                "curves": policy_curves(one),
            }
            for one in drawn
        ],
        "heats": [
            heat(one.label, one.held, one.buffers)
            for one in drawn
            if one.held is not None
        ],
        "money": (
            _money(compared, [one.policy for one in drawn], saved) if saved else None
        ),
    }
    text = json.dumps(
        jsonable(data), ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
    page = beside(
        __file__, "report.html"
    ).format(  # the page contains all it needs and may load nothing
        title=html.escape(title),
        styles="".join(
            beside(__file__, f"drawing/{name}.css")
            for name in ("base", "parts", "report")
        ),
        early=beside(__file__, "drawing/early.js"),
        data=text.replace("<", "\\u003c")
        .replace(">", "\\u003e")
        .replace("&", "\\u0026"),
        plotly=get_plotlyjs(),
        script=script("report"),
    )
    write_whole("report", out, page.encode())
    return out


def _money(
    compared: Sequence[Row], policies: Sequence[str], saved: Sequence[Saving]
) -> dict[str, Any]:
    """Return the figure and the table of what each policy needs for the same
    accuracy.
    """
    first = saved[0]
    money = amount(first.unit, first.rival_money)
    return {
        "panel": money_panel(compared, policies, saved),
        "rival": first.rival,
        "needs": [(one.policy, *needed(one)) for one in saved],
        "reached": (
            f"for {percent(first.accuracy, 1)}, which {first.rival} reaches for {money}"
            " a round"
        ),
        "budget": first.budget,
    }


def summary_rows(
    run: RunFolder, found: Sequence[Runs] | None = None
) -> list[dict[str, Any]]:
    """Return a row of summary.json for each policy of a run; `found` are its runs if
    they have already been read.
    """
    return [
        summarise(one, run.target).to_dict()
        for one in (read_runs([run]) if found is None else found)
    ]


def conclude(
    folders: Sequence[Path | RunFolder], whole: Path
) -> tuple[list[RunFolder], Path]:
    """Write summary and report into every folder, and for several a report on all into
    `whole`; return runs and last page.
    """
    runs = [
        each if isinstance(each, RunFolder) else RunFolder.open(each)
        for each in folders
    ]
    for run in runs:
        found = read_runs([run])
        write_whole(
            "summary",
            run.path / "summary.json",
            json.dumps(jsonable(summary_rows(run, found)), indent=2).encode(),
        )
        page = write_report([run], run.path / "report.html", run.target, found)
    if len(runs) > 1:
        page = write_report(runs, whole / "report.html", runs[0].target)
    return runs, page


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Displayed):
    """The result of `compare`: policies at equal spend, at each budget."""

    path: Path
    """the JSON file with all numbers"""
    runs: Sequence[Runs]
    rows: list[dict[str, Any]]
    """one row for each budget and policy"""
    budget: float | None = None
    """the budget per round at which policies are shown; None: one is chosen"""
    report: Path | None = None
    """a self-contained page with all figures"""

    @property
    def frame(self) -> pl.DataFrame:
        """The rows of the comparison as a table."""
        return pl.DataFrame(self.rows, infer_schema_length=None)

    def money_for(
        self, accuracy: float, measure: str = "last"
    ) -> dict[str, Estimate | None]:
        """Return the money per round that each policy needs for a mean accuracy over
        seeds.

        Parameters
        ----------
        accuracy : float
            Test accuracy, from 0 to 1.
        measure : {"last", "best", "mean"}
            Which accuracy of a run is meant.

        Returns
        -------
        dict
            The money of each policy with its 95 % interval over seeds; None if the
            budgets that were run do not determine it.
        """
        self._check_prices("money_for", "saved_against takes them one by one")
        return money_for(self.rows, accuracy, measure)

    def saved_against(
        self, rival: str = "constant", measure: str = "last"
    ) -> list[Saving]:
        """Return the money that every other policy needs for the rival's accuracy, at
        each budget of the rival.

        Parameters
        ----------
        rival : str
            A policy of the comparison.
        measure : {"last", "best", "mean"}
            Which accuracy of a run is meant.

        Returns
        -------
        list of Saving
            The money and its share of the rival's money, with 95 % intervals over
            seeds; only bounds if they are unknown.
        """
        if rival not in (
            names := list(dict.fromkeys(row["policy"] for row in self.rows))
        ):
            raise SettingError(
                f"rival = {shown(rival)}: was not compared; one of {', '.join(names)}"
            )
        return savings(self.rows, rival, measure)

    def plot(self) -> "Figure":
        """Return the figure of test accuracy against the money really spent.

        Returns
        -------
        plotly.graph_objects.Figure
            A line for each policy with its 80 % intervals, which displays itself in a
            notebook; its method `write_html` saves it. The same figure in the report
            can be saved as SVG or PNG.

        Raises
        ------
        SettingError
            If the prices differ between the runs, so that their money cannot be
            compared.
        """
        self._check_prices("plot", "report.html shows them one by one")
        names = list(dict.fromkeys(row["policy"] for row in self.rows))
        saved = chosen_budget(savings(self.rows), self.budget)
        return money_figure(money_panel(self.rows, names, saved), names)

    def _check_prices(self, method: str, instead: str) -> None:
        if len({row["prices"] for row in self.rows}) > 1:
            raise SettingError(f"{method}: prices differ between the runs; {instead}")

    def render(self) -> list[RenderableType]:
        return comparison.comparison_tables(self.runs, self.rows, self.budget)

    def wide(self) -> list[RenderableType]:
        """Return a table with all columns for each budget, and a sentence on which
        policy is best.
        """
        return comparison.wide_tables(self.runs)


def conclude_comparison(
    runs: Sequence[RunFolder], folder: Path, command: str, budget: float | None
) -> Comparison:
    """Write compare.json and report.html into `folder`, and return the comparison.

    `budget` is the one at which policies are shown.
    """
    order = list(dict.fromkeys(name for run in runs for name in run.policies))
    found = sorted(read_runs(runs), key=lambda one: order.index(one.policy))
    rows = comparison.rows(
        found
    )  # raises an error, before anything is written, if runs cannot be compared
    path = folder / "compare.json"
    write_whole(
        "comparison", path, as_json({**facts_of(command, runs), "rows": rows}).encode()
    )
    page = write_report(runs, folder / "report.html", runs[0].target, found, budget)
    return Comparison(path, found, rows, budget, page)
