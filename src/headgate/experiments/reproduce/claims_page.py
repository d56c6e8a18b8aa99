"""The claims table as a page of Markdown."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from headgate.experiments.reproduce import verdicts
from headgate.experiments.reproduce.claims import Row
from headgate.experiments.reproduce.text import DASH, QUICK_WARNING, interval, number, table
from headgate.experiments.reproduce.verdicts import NOT_RUN, Finding


def claims_page(rows: Sequence[Row], facts: Sequence[dict[str, Any]]) -> str:
    """All claims. `facts` say of each study that has been run how it was made."""
    rules = (verdicts.__doc__ or "").partition("\n\n")[2].strip()
    made = [f"- {each['study']}: `{each['command']}`, {each['date']}, {each['commit']}" for each in facts]
    parts = [
        "# The paper's claims",
        *([QUICK_WARNING] if any(each["quick"] for each in facts) else []),
        "Each claim with the paper's number, ours in both flavours with its 80 % interval, the money a round that both sides "
        "really spent, and a verdict that code works out from these numbers. *As written* follows the text, *as released* the "
        "published scripts ([paper.md](../paper.md)). Every row is made by its command.",
        summary(rows),
        claims_table(rows),
        "## Rules",
        rules,
        "## Made by",
        "\n".join(made) if made else "Nothing has been run yet.",
    ]
    return "\n\n".join(parts) + "\n"


def summary(rows: Sequence[Row]) -> str:
    """How many claims hold, per flavour."""
    said = []
    for flavour in ("written", "released"):
        counted = Counter(_kind(getattr(row, flavour).verdict) for row in rows)
        said.append(f"as {flavour}: " + ", ".join(f"{count} {kind}" for kind, count in sorted(counted.items())))
    return f"{len(rows)} claims; {'; '.join(said)}."


def _kind(verdict: str) -> str:
    return (
        "hold only with overspend" if "overspend" in verdict else verdict.replace("holds", "hold").replace("does not", "do not")
    )


def claims_table(rows: Sequence[Row]) -> str:
    header = ["claim", "where", "paper", "as written", "verdict", "as released", "verdict", "money a round", "command"]
    lines = []
    for row in rows:
        cells = [row.claim, row.place, row.paper]
        for finding in (row.written, row.released):
            cells += [_value(finding), _verdict(finding)]
        lines.append([*cells, _spend(row), f"`{row.command}`"])
    return table(header, lines)


def _value(finding: Finding) -> str:
    if finding.value is None:
        return DASH
    digits = 2 if finding.unit.startswith(("×", "exponent", "points below")) else 1
    return f"{interval(finding.value, digits, signed=finding.unit == 'points')} {finding.unit}".strip()


def _verdict(finding: Finding) -> str:
    if finding.verdict == NOT_RUN:
        return NOT_RUN
    return f"**{finding.verdict}**" + (f": {finding.note}" if finding.note else "")


def _spend(row: Row) -> str:
    """Ours and the other side's, in each flavour, and the budget."""
    said = []
    for name, finding in (("written", row.written), ("released", row.released)):
        if finding.spend:
            said.append(f"{name}: {' and '.join(number(each) for each in finding.spend)} of {number(finding.budget or 0)}")
    return "; ".join(said) or DASH
