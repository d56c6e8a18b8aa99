"""What a finished run leaves beside its rows: summary.json and report.html."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headgate.analysis.formatting import plain
from headgate.analysis.pages import write_whole
from headgate.analysis.report import write_report
from headgate.analysis.runs import read_runs
from headgate.analysis.summary import summarise, told
from headgate.records.reader import RunFolder


def summary_rows(run: RunFolder) -> list[dict[str, Any]]:
    """Each policy of a run as it is told in summary.json."""
    return [told(summarise(one, run.target)) for one in read_runs([run])]


def conclude(folders: Sequence[Path], whole: Path) -> tuple[list[RunFolder], Path]:
    """Writes both for every folder, and for a sweep a page that compares its points; the runs, and the last page."""
    runs = [RunFolder.open(folder) for folder in folders]
    for run in runs:
        write_whole("summary", run.path / "summary.json", json.dumps(plain(summary_rows(run)), indent=2).encode())
        page = write_report([run], run.path / "report.html", run.target)
    if len(runs) > 1:
        page = write_report(runs, whole / "report.html", runs[0].target)
    return runs, page
