"""Numbers and tables as Markdown."""

from collections.abc import Callable, Iterable, Sequence

from headgate.analysis.outcomes import Estimate, Outcome, estimate

DASH = "–"


def number(value: float) -> str:
    """
    >>> number(1234.5), number(55.123), number(3.0)
    ('1,234', '55.1', '3.0')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}"


def percent(share: float) -> str:
    """
    >>> percent(0.85), percent(1.482)
    ('85 %', '148 %')
    """
    return f"{100 * share:.0f} %"


def interval(value: Estimate | None, digits: int = 1, signed: bool = False) -> str:
    """
    >>> interval(Estimate(3.14, 2.0, 4.0)), interval(Estimate(3.0, None, None), signed=True)
    ('3.1 (2.0 … 4.0)', '+3.0')
    """
    if value is None:
        return DASH
    sign = "+" if signed else ""
    text = f"{value.mean:{sign}.{digits}f}"
    if value.low is not None and value.high is not None:
        text += f" ({value.low:{sign}.{digits}f} … {value.high:{sign}.{digits}f})"
    return text.replace("-", "−")


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


def policy_table(outcomes: Iterable[Outcome], label: Callable[[str], str], target: float) -> str:
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
        broken = [f"{one.diverged} diverged"] * (one.diverged > 0) + [f"{one.guessing} guess"] * (one.guessing > 0)
        first = one.first_round(target)
        lines.append(
            [
                label(one.policy),
                ", ".join([str(len(one.seeds)), *broken]),
                interval(estimate(100 * one.final)) if one.learnt else DASH,
                f"{100 * one.late_gain.mean():.1f}" if one.learnt else DASH,
                number(one.spend.mean()),
                percent(one.spend.mean() / one.budget),
                percent(one.expected_spend.mean() / one.budget),
                number(one.n.mean()),
                f"{one.peak} of {one.buffers.sum()}",
                f"{percent(one.fullest)} / {percent(one.peak_over)}",
                "never" if first is None else str(first),
            ]
        )
    return table(header, lines)
