"""What accuracy depends on: how many distinct samples, and how long buffers stand still. Measured with `periodic`, drawn."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

from headgate.analysis.curves import COLOURS
from headgate.analysis.figures import STYLE, save_figure
from headgate.analysis.formatting import plus_minus
from headgate.analysis.intervals import Estimate, means, student
from headgate.analysis.pages import table
from headgate.control.policies import Periodic
from studies.better.studies import RESPONSES, study, title

Row = Mapping[str, Any]


def schedules(name: str) -> dict[str, tuple[float, int]]:
    """(share, every) of the recipe's periodic policies."""
    found = study(name).points[0][1].policies
    return {own: (policy.share, policy.every) for own, policy in found.items() if isinstance(policy, Periodic)}


def standing_still(rows: Sequence[Row], kinds: Mapping[str, tuple[float, int]], key: str) -> Estimate:
    """What twice as long between renewals, of twice as much, changes in points: the same samples a round, fewer at a time.

    Within every set of schedules that renew equally many places a round: the slope over log2(every), seed by seed.
    """
    named = {row["policy"]: row for row in rows}
    above = below = np.zeros(1)
    for rate in {share / every for share, every in kinds.values()}:
        own = [policy for policy, (share, every) in kinds.items() if share / every == rate]
        doublings = np.log2([kinds[policy][1] for policy in own])
        apart = (doublings - doublings.mean())[:, None]
        above = above + (apart * 100 * np.array([named[policy][f"{key}_by_seed"] for policy in own])).sum(axis=0)
        below = below + (apart**2).sum()
    return student(above / below)


def response_table(found: Mapping[str, Sequence[Row]]) -> str:
    """A line for each study that was run."""
    lines = []
    for name in (name for name in RESPONSES if name in found):
        kinds = schedules(name)
        slopes = [plus_minus(standing_still(found[name], kinds, key), 2, signs=True) for key in ("best", "last", "mean")]
        lines.append([f"[{title(name)}]({name}.md)", str(found[name][0]["seeds"]), *slopes])
    return table(["study", "seeds", "best (points)", "last (points)", "mean (points)"], lines)


def draw_response(found: Mapping[str, Sequence[Row]], path: Path, quick: bool = False) -> None:
    """The last models' accuracy against the samples bought, a line for every time between renewals."""
    shown = [name for name in RESPONSES if name in found]
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(1, len(shown), figsize=(4.2 * len(shown), 4), layout="constrained", squeeze=False)
        for axes, name in zip(grid[0], shown, strict=True):
            named, kinds = {row["policy"]: row for row in found[name]}, schedules(name)
            for colour, every in zip(COLOURS, sorted({every for _, every in kinds.values()}), strict=False):
                own = sorted((policy for policy, (_, each) in kinds.items() if each == every), key=lambda own: named[own]["N"])
                last = [means(100 * np.array(named[policy]["last_by_seed"])) for policy in own]
                mean, half = ([float(each[part]) for each in last] for part in (0, 1))
                label = "every round" if every == 1 else f"every {every} rounds"
                axes.errorbar(
                    [named[policy]["N"] for policy in own], mean, half, fmt="o-", color=colour, label=label, capsize=2
                )
            axes.set(title=title(name), xscale="log", xlabel="distinct samples N")
            axes.xaxis.set_major_locator(FixedLocator([250 * 2**k for k in range(8)]))
            axes.xaxis.set_major_formatter(ScalarFormatter())
            axes.xaxis.set_minor_locator(NullLocator())
        grid[0, 0].set_ylabel("accuracy in the last tenth of the rounds (%)")
        if quick:
            figure.suptitle("trial run: these numbers mean nothing", color="#B00020")
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, title="a share of the places renewed")
        save_figure(figure, path)
