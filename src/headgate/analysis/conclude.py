"""What finished runs leave beside their rows: summary.json and report.html, or the numbers and figure of a comparison."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType

from headgate.analysis import comparison
from headgate.analysis.display import Displayed
from headgate.analysis.formatting import jsonable
from headgate.analysis.intervals import Estimate
from headgate.analysis.pages import as_json, facts_of, write_whole
from headgate.analysis.report import write_report
from headgate.analysis.runs import Runs, read_runs
from headgate.analysis.savings import Saving, chosen_budget, money_for, savings
from headgate.analysis.summary import summarise
from headgate.errors import SettingError
from headgate.escaping import shown
from headgate.records.reader import RunFolder

if TYPE_CHECKING:
    import polars as pl


def summary_rows(run: RunFolder, found: Sequence[Runs] | None = None) -> list[dict[str, Any]]:
    """Return each policy of a run as summary.json has it; `found` are its runs where they have been read already."""
    return [summarise(one, run.target).to_dict() for one in (read_runs([run]) if found is None else found)]


def conclude(folders: Sequence[Path | RunFolder], whole: Path) -> tuple[list[RunFolder], Path]:
    """Write both for every folder, and for a sweep a page that compares its points; return the runs and the last page."""
    runs = [each if isinstance(each, RunFolder) else RunFolder.open(each) for each in folders]
    for run in runs:
        found = read_runs([run])
        write_whole("summary", run.path / "summary.json", json.dumps(jsonable(summary_rows(run, found)), indent=2).encode())
        page = write_report([run], run.path / "report.html", run.target, found)
    if len(runs) > 1:
        page = write_report(runs, whole / "report.html", runs[0].target)
    return runs, page


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Displayed):
    """Policies at equal spend, at each budget."""

    path: Path
    """the numbers as JSON"""
    runs: Sequence[Runs]
    rows: list[dict[str, Any]]
    """one for each budget and policy"""
    budget: float | None = None
    """the experiment's own: at which policies are shown"""
    report: Path | None = None
    """a self-contained page with all figures"""

    @property
    def frame(self) -> "pl.DataFrame":
        """The rows as a table."""
        import polars as pl

        return pl.DataFrame(self.rows, infer_schema_length=None)

    def money_for(self, accuracy: float, measure: str = "last") -> dict[str, Estimate | None]:
        """Return what each policy spends a round where its mean accuracy over seeds is `accuracy`.

        Parameters
        ----------
        accuracy : float
            Test accuracy, from 0 to 1.
        measure : {"last", "best", "mean"}
            Which accuracy of a run is meant.

        Returns
        -------
        dict
            By policy, money with its 95 % interval over seeds; None where the budgets that were run do not tell.
        """
        if len({row["prices"] for row in self.rows}) > 1:
            raise SettingError("money_for: prices differ between the runs; saved_against takes them one by one")
        return money_for(self.rows, accuracy, measure)

    def saved_against(self, rival: str = "constant", measure: str = "last") -> list[Saving]:
        """Return what every other policy needs for the rival's accuracy, at each budget of the rival.

        Parameters
        ----------
        rival : str
            A policy of the comparison.
        measure : {"last", "best", "mean"}
            Which accuracy of a run is meant.

        Returns
        -------
        list of Saving
            Money and share of the rival's money, with 95 % intervals over seeds; or why they cannot be told.
        """
        if rival not in (names := list(dict.fromkeys(row["policy"] for row in self.rows))):
            raise SettingError(f"rival = {shown(rival)}: was not compared; one of {', '.join(names)}")
        return savings(self.rows, rival, measure)

    def render(self) -> list[RenderableType]:
        return comparison.comparison_tables(self.runs, self.rows, self.budget)

    def wide(self) -> list[RenderableType]:
        """All columns, a table for each budget, and who is best where."""
        return comparison.comparison_wide(self.runs)


def conclude_comparison(runs: Sequence[RunFolder], folder: Path, command: str, budget: float | None) -> Comparison:
    """Write compare.json, compare.svg and report.html into `folder`; `budget` is the one at which policies are shown."""
    from headgate.analysis.figures import draw_comparison

    order = list(dict.fromkeys(name for run in runs for name in run.policies))
    found = sorted(read_runs(runs), key=lambda one: order.index(one.policy))
    rows = comparison.rows(found)  # refuses what cannot be compared before anything is written
    path = folder / "compare.json"
    write_whole("comparison", path, as_json({**facts_of(command, runs), "rows": rows}).encode())
    if comparison.one_price(found):
        draw_comparison(rows, chosen_budget(savings(rows), budget), folder / "compare.svg")
    page = write_report(runs, folder / "report.html", runs[0].target, found, budget)
    return Comparison(path, found, rows, budget, page)
