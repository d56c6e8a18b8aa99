"""Numbers and tables as Markdown."""

from collections.abc import Sequence

from headgate.experiments.reproduce.outcomes import Estimate

DASH = "–"
QUICK_WARNING = (
    "> **A trial run** (`--quick`): two seeds, a few rounds, logistic regression on scikit-learn's digits. "
    "It shows that the chain works; its numbers and verdicts mean nothing."
)


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
