"""One run, or several compared, as a single HTML page that needs no network: the page of a run with its numbers inside."""

import html
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from headgate.analysis.comparison import opened, several_budgets
from headgate.analysis.comparison import rows as rows_of
from headgate.analysis.curves import heats, money_panel, policy_curves
from headgate.analysis.formatting import jsonable, percent
from headgate.analysis.limits import conclusion
from headgate.analysis.listing import about
from headgate.analysis.pages import beside, drawing, script, write_whole
from headgate.analysis.runs import Runs, read_runs
from headgate.analysis.savings import Row, Saving, amount, chosen_budget, needed, savings
from headgate.analysis.summary import breakdown_note, summarise, summary_table
from headgate.errors import SettingError
from headgate.records.reader import RunFolder


def write_report(
    runs: Sequence[RunFolder],
    out: Path,
    target: float | None = None,
    found: Sequence[Runs] | None = None,
    budget: float | None = None,
) -> Path:
    """Everything about these runs in one file that can be sent to somebody.

    Where they were played at several budgets the page begins with what each policy needs for the same accuracy, and its
    figures over rounds are of the runs at `budget`. `found` are the runs where they have been read already.
    """
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise SettingError("report: needs plotly, as in pip install 'headgate[sim]'") from None
    data = report_data(runs, read_runs(runs) if found is None else found, target, budget)
    text = json.dumps(jsonable(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    page = beside(__file__, "report.html").format(  # it may load nothing, from nowhere: all it needs is in it
        title=html.escape(data["title"]),
        styles="".join(map(drawing, ("base.css", "parts.css", "report.css"))),
        early=drawing("early.js"),
        data=text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"),
        plotly=get_plotlyjs(),
        script=script("report"),
    )
    write_whole("report", out, page.encode())
    return out


def report_data(
    runs: Sequence[RunFolder], policies: Sequence[Runs], target: float | None, budget: float | None
) -> dict[str, Any]:
    """Return what the report shows."""
    compared = rows_of(policies) if several_budgets(policies) else []
    saved = chosen_budget(savings(compared), budget) if compared else []
    drawn = [replace(one, label=one.policy) for one in policies if one.budget == saved[0].budget] if saved else policies
    shown = [run for run in runs if run.budget == saved[0].budget][:1] if saved else runs
    title = runs[0].name if len(runs) == 1 else f"{len(runs)} runs compared"
    if saved:
        title = f"{shown[0].path.parent.name}: policies at {len({one.budget for one in policies})} budgets"
    return {
        "title": title,
        "said": opened(saved) if saved else conclusion(policies),
        "warning": breakdown_note(runs),
        "runs": [{**about(run), "shown": run in shown} for run in runs],
        "lines": [_line(one) for one in policies],
        "table": summary_table([summarise(one, target) for one in policies], target),
        "drawn": [{**_line(one), "curves": policy_curves(one)} for one in drawn],
        "heats": heats(drawn),
        "money": _money(compared, [one.policy for one in drawn], saved) if saved else None,
    }


def _line(one: Runs) -> dict[str, str]:
    return {"run": one.folder, "policy": one.policy, "name": one.label}


def _money(compared: Sequence[Row], policies: Sequence[str], saved: Sequence[Saving]) -> dict[str, Any]:
    """What each policy needs for the same accuracy, as a figure and a table."""
    first = saved[0]
    money = amount(first.unit, first.rival_money)
    return {
        "panel": money_panel(compared, policies, saved),
        "rival": first.rival,
        "needs": [(one.policy, *needed(one)) for one in saved],
        "reached": f"for {percent(first.accuracy, 1)}, which {first.rival} reaches for {money} a round",
        "budget": first.budget,
    }
