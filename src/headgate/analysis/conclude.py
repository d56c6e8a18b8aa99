"""What a finished run leaves beside its rows: summary.json and report.html."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headgate.analysis.formatting import plain
from headgate.analysis.pages import write_whole
from headgate.analysis.report import write_report
from headgate.analysis.runs import Runs, read_runs
from headgate.analysis.summary import summarise, told
from headgate.records.reader import RunFolder


def summary_rows(run: RunFolder) -> list[dict[str, Any]]:
    """Return each policy of a run as summary.json has it."""
    return _rows(run, read_runs([run]))


def _rows(run: RunFolder, found: Sequence[Runs]) -> list[dict[str, Any]]:
    return [told(summarise(one, run.target)) for one in found]


def conclude(folders: Sequence[Path | RunFolder], whole: Path) -> tuple[list[RunFolder], Path]:
    """Write both for every folder, and for a sweep a page that compares its points; return the runs and the last page."""
    runs = [each if isinstance(each, RunFolder) else RunFolder.open(each) for each in folders]
    for run in runs:
        found = read_runs([run])
        write_whole("summary", run.path / "summary.json", json.dumps(plain(_rows(run, found)), indent=2).encode())
        page = write_report([run], run.path / "report.html", run.target, found)
    if len(runs) > 1:
        page = write_report(runs, whole / "report.html", runs[0].target)
    return runs, page
