"""One run, or several compared, as a single HTML page that needs no network."""

import html
import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from headgate.analysis.comparison import opened, several_budgets
from headgate.analysis.comparison import rows as rows_of
from headgate.analysis.curves import LineStyle, Panel, heats, line_styles, money_panel, panels, rounded
from headgate.analysis.formatting import duration, percent
from headgate.analysis.limits import conclusion
from headgate.analysis.pages import beside, drawing, script, write_whole
from headgate.analysis.runs import Runs, read_runs
from headgate.analysis.savings import Saving, amount, chosen_budget, needed, savings
from headgate.analysis.summary import Column, PolicySummary, breakdown_note, columns, summarise
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
    page = _page(runs, read_runs(runs) if found is None else found, target, budget)
    write_whole("report", out, page.encode())
    return out


def _escape(value: object) -> str:
    return html.escape(str(value))


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise SettingError("report: needs plotly, as in pip install 'headgate[sim]'") from None
    return str(get_plotlyjs())


def _page(runs: Sequence[RunFolder], policies: Sequence[Runs], target: float | None, budget: float | None) -> str:
    """It may load nothing, from nowhere: all it needs is in it."""
    summaries = [summarise(policy, target) for policy in policies]
    compared = rows_of(policies) if several_budgets(policies) else []
    saved = chosen_budget(savings(compared), budget) if compared else []
    said, broke = opened(saved) if saved else conclusion(policies), breakdown_note(runs)
    drawn = [replace(one, label=one.policy) for one in policies if one.budget == saved[0].budget] if saved else policies
    shown = [run for run in runs if run.budget == saved[0].budget][:1] if saved else runs
    title = runs[0].name if len(runs) == 1 else f"{len(runs)} runs compared"
    title = f"{shown[0].path.parent.name}: policies at {len({one.budget for one in policies})} budgets" if saved else title
    lede = _escape(said).replace(" ± ", "\u00a0±\u00a0").replace(" %", "\u00a0%")  # no line ends within a number
    first = [money_panel(compared, [one.policy for one in drawn], saved)] if saved else []
    return beside(__file__, "report.html").format(
        title=_escape(title),
        styles="".join(map(drawing, ("base.css", "parts.css", "report.css"))),
        early=drawing("early.js"),
        lede=f'<p class="lede">{lede}</p>' if said else "",
        saved=_saved(saved),
        facts="".join(_facts(run, len(shown) > 1) for run in shown),
        note="" if any(s.rounds for s in summaries) else '<p class="note">No round has been recorded yet.</p>',
        warning=f'<p class="note warn">{_escape(broke)}</p>' if broke else "",
        table=_table(summaries, line_styles(policies), columns(target, summaries)),
        settings="".join(_settings(run) for run in runs),
        data=_data(drawn, first),
        plotly=_plotly(),
        script=script("report"),
    )


def _saved(saved: Sequence[Saving]) -> str:
    """The figure that compares whole runs stands here, and below it what each policy needs."""
    if not saved:
        return ""
    first = saved[0]
    rows = ""
    for one in saved:
        cells = "".join(f"<td>{_escape(each)}</td>" for each in needed(one))
        rows += f'<tr><th scope="row">{_escape(one.policy)}</th>{cells}</tr>'
    money = amount(first.unit, first.rival_money)
    reached = f"for {percent(first.accuracy, 1)}, which {first.rival} reaches for {money} a round"
    return f"""<section aria-labelledby="money"><h2 id="money">Money for the same accuracy</h2>
<div id="over-money"></div>
<div class="scroll"><table class="summary"><thead><tr><th scope="col">Policy</th><th scope="col">Needs a round</th>
<th scope="col">Of what {_escape(first.rival)} spends (95 % interval)</th></tr></thead><tbody>{rows}</tbody></table></div>
<p class="hint">What each policy needs {_escape(reached)}. Accuracy is that of the last tenth of the rounds, mean over seeds; \
between budgets it is interpolated. The figures over rounds below are of the runs at {first.budget:g} a round.</p></section>"""


def _facts(run: RunFolder, named: bool) -> str:
    """What was run, in a few words each."""
    state, environment, buffers = run.state, run.environment, run.buffers
    status = {
        "finished": f"finished, {run.rounds} rounds",
        "running": f"running, round {state['round']} of {run.rounds}",
        "interrupted": f"interrupted at round {state['round']} of {run.rounds}",
        "diverged": f"all models diverged, round {state['round']} of {run.rounds}",
    }[run.status]
    machine = [environment[key] for key in ("executor", "device", "dtype") if environment.get(key)]
    took = state.get("elapsed_s")
    facts = [
        ("State", status),
        ("Policies", len(state["policies"])),
        ("Seeds", len(state["seeds"])),
        ("Clients", f"{len(buffers):,} with room for {sum(buffers):,} samples"),
        ("Budget", f"{run.budget:g} a round"),
        ("Data", run.kind("data") or ""),
        ("Model", run.kind("model") or ""),
        ("Computed with", ", ".join(map(str, machine))),
        ("Time", duration(float(took)) if isinstance(took, int | float) and 0 <= took < math.inf else ""),
    ]
    items = "".join(f"<div><dt>{_escape(key)}</dt><dd>{_escape(value)}</dd></div>" for key, value in facts if value != "")
    heading = f'<h2 class="run">{_escape(run.name)}</h2>' if named else ""
    return f'{heading}<dl class="facts">{items}</dl>'


def _table(summaries: Sequence[PolicySummary], look_of: Sequence[LineStyle], shown: Sequence[Column]) -> str:
    head = "".join(f'<th scope="col">{_indexed(column.title)}</th>' for column in shown)
    rows = "".join(_row(look, s, shown) for look, s in zip(look_of, summaries, strict=True))
    meanings = "".join(f"<div><dt>{_indexed(c.title)}</dt><dd>{_escape(c.meaning)}</dd></div>" for c in shown)
    return f"""<div class="scroll" tabindex="0" role="region" aria-label="Results of each policy">
<table class="summary"><thead><tr><th scope="col">Policy</th>{head}</tr></thead>
<tbody>{rows}</tbody></table></div>
<details><summary>What the columns say</summary><dl class="meanings">{meanings}</dl></details>"""


def _row(look: LineStyle, s: PolicySummary, shown: Sequence[Column]) -> str:
    swatch = f'<span class="swatch c{look.colour} d{look.dash}" aria-hidden="true"></span>'
    kinds = [' class="over"' if c.broken(s) else "" for c in shown]
    cells = "".join(f"<td{kind}>{_escape(c.text(s))}</td>" for c, kind in zip(shown, kinds, strict=True))
    return f'<tr><th scope="row"><span class="name">{swatch}{_escape(s.policy)}</span></th>{cells}</tr>'


def _indexed(text: str) -> str:
    """Vio_S as Vio with a small S below."""
    return re.sub(r"_(\w+)", r"<sub>\1</sub>", _escape(text))


def _settings(run: RunFolder) -> str:
    rows = "".join(
        f'<tr><th scope="row">{_escape(key)}</th><td>{_escape(value)}</td></tr>' for key, value in run.environment.items()
    )
    return f"""<details><summary>{_escape(run.name)}</summary>
<h3>Environment</h3><div class="scroll"><table class="plain"><tbody>{rows}</tbody></table></div>
<h3>Settings</h3><pre tabindex="0">{_escape(run.config_text())}</pre></details>"""


# What the figures are drawn from


def _data(policies: Sequence[Runs], first: Sequence[Panel] = ()) -> str:
    """JSON that can stand inside a script element."""
    data = {
        "series": [{"name": p.label, **look._asdict()} for p, look in zip(policies, line_styles(policies), strict=True)],
        "panels": [_panel_data(panel) for panel in (*first, *panels(policies))],
        "heats": [heat._asdict() for heat in heats(policies)],
    }
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _panel_data(panel: Panel) -> dict[str, Any]:
    same = {name: getattr(panel, name) for name in ("key", "title", "x", "y", "digits", "log", "log_x")}
    curves = [
        {
            "series": curve.policy,
            "t": None if curve.t is None else curve.t.tolist(),
            "x": rounded(curve.x) if curve.t is None else None,
            "mean": rounded(curve.mean),
            "half": None if np.isnan(curve.half).all() else rounded(curve.half),
        }
        for curve in panel.curves
    ]
    gap = None if panel.gap is None else panel.gap._asdict()
    return {**same, "curves": curves, "levels": [level._asdict() for level in panel.levels], "gap": gap}
