"""Tables as Markdown."""

from collections.abc import Callable, Iterable, Sequence

from headgate.analysis.formatting import DASH, interval, number, percent
from headgate.analysis.intervals import estimate
from headgate.analysis.runs import Runs


def table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """
    >>> print(table(["a", "b"], [["1", "x|y"]]))
    | a | b |
    |---|---|
    | 1 | x\\|y |
    """
    rows = [header, *lines]
    text = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    text.insert(1, "|" + "---|" * len(header))
    return "\n".join(text)


def policy_table(outcomes: Iterable[Runs], label: Callable[[str], str], target: float) -> str:
    """One line a policy: what it learnt, spent and held."""
    header = [
        "policy",
        "seeds",
        "accuracy (%)",
        "gained late (points)",
        "money a round",
        "of budget",
        "without price luck",
        "mean n",
        "peak n",
        "fullest client, mean / peak",
        f"round at {percent(target)}",
    ]
    lines = []
    for one in outcomes:
        broken = [f"{one.lost_runs} diverged"] * (one.lost_runs > 0) + [f"{one.guessing} guess"] * (one.guessing > 0)
        first = one.first_round(target)
        lines.append(
            [
                label(one.policy),
                ", ".join([str(len(one.learnt)), *broken]),
                interval(estimate(100 * one.best)) if one.learnt else DASH,
                f"{100 * one.late_gain.mean():.1f}" if one.learnt else DASH,
                number(one.spend.mean()),
                percent(one.spend.mean() / one.budget),
                percent(one.expected_spend.mean() / one.budget),
                number(one.column("n").mean()),
                f"{one.peak_n} of {one.buffers.sum()}",
                f"{percent(one.fullest)} / {percent(one.peak_share)}",
                "never" if first is None else str(first),
            ]
        )
    return table(header, lines)
