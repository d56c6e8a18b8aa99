"""The claims table as a page of Markdown."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from re import sub
from typing import Any

from headgate.analysis.formatting import DASH, interval, money, percent
from headgate.analysis.pages import beside, bullets, filled, runs_of, table, with_doubts
from studies.paper.batches import NAMES, OURS, about
from studies.paper.claims import ClaimRow, JudgedClaims
from studies.paper.control import Controls
from studies.paper.scene import label
from studies.paper.theory_claims import THEORY_RULES
from studies.paper.verdicts import NOT_RUN, RULES, Finding

PRECISE = ("×", "exponent", "points below", "left", "Spearman", "η")
"""units whose numbers want two digits"""


def claims_page(judged: JudgedClaims, facts: Sequence[dict[str, Any]], control: Mapping[str, Controls]) -> str:
    """All claims. `facts` say of each study that has been run how it was made, `control` what was rehearsed for it."""
    made = []
    for each in facts:
        said = f"{each['study']}: `{each['command']}`; runs: {runs_of(each)} on {'; '.join(each['devices'])}."
        made.append(with_doubts(said, each))
    rows = judged.rows
    theirs, own = [row for row in rows if not row.own], [row for row in rows if row.own]
    return filled(
        beside(__file__, "claims_page.md"),
        any(each["quick"] for each in facts),
        summary=summary(rows),
        departures=bullets(_departures(facts)),
        claims=claims_table(theirs),
        own=claims_table(own),
        tests=judged.tests,
        alpha=f"{judged.alpha:.2g}",
        control=control_table(control),
        rules=f"{RULES}\n{THEORY_RULES}".strip(),
        made=bullets(made) or "Nothing has been run yet.",
    )


def _departures(facts: Sequence[dict[str, Any]]) -> Iterator[str]:
    """What each data set's recipe says of itself, and how far its runs got beside the paper's target."""
    found = {each["study"]: each["ended"] for each in facts if "ended" in each}
    for name in NAMES:
        title, target = about(name)["title"], percent(about(name)["target"])
        yield from (f"{title}: {said}" for said in about(name)["differs"])
        if name in found:
            after, T = found[name]["accuracy"], found[name]["rounds"]
            ends = [f"{label(policy)} at {percent(after[policy], 1)}" for policy in ("oracle", "acdpp") if policy in after]
            yield f"{title}: T = {T}, where the text gives none; then, as written, {', '.join(ends)}. Its target is {target}."


def control_table(control: Mapping[str, Controls]) -> str:
    """Expected spend, debt and memory of the policies that claims are about, by horizon."""
    lines = []
    for name, found in control.items():
        for (batch, policy), own in ((key, own) for key, own in found.items() if key[0] in OURS and key[1] != "oracle"):
            for one in own:
                of_C = 100 / one.budget
                growth = DASH if one.growth is None else interval(one.above("growth", scale=of_C))
                told = interval(one.above("spend", scale=of_C)), growth, interval(one.above("fullest", scale=100.0))
                who = about(name)["title"], f"as {batch}", label(policy), str(one.rounds)
                lines.append([*who, *told, percent(one.peak_share)])
    header = ["data", "flavour", "policy", "T", "spend (% of C)", "debt's growth (% of C a round)"]
    return table([*header, "fullest client, mean (% of B_m)", "its peak"], lines)


def summary(rows: Sequence[ClaimRow]) -> str:
    """How many claims of the paper hold, per flavour."""
    said = []
    theirs = [row for row in rows if not row.own]
    for flavour in ("written", "released"):
        counted = Counter(_kind(getattr(row, flavour).verdict) for row in theirs)
        said.append(f"as {flavour}: " + ", ".join(f"{count} {kind}" for kind, count in sorted(counted.items())))
    return f"{len(theirs)} claims of the paper; {'; '.join(said)}."


def _kind(verdict: str) -> str:
    """
    >>> _kind("holds only with overspend of 4 %"), _kind("holds in direction, not in size, both over budget (1 % and 2 %)")
    ('hold only with overspend', 'hold in direction, not in size, both over budget')
    """
    return sub(r"( of \d+ %| \(.*\))$", "", verdict).replace("holds", "hold").replace("does not", "do not")


def claims_table(rows: Sequence[ClaimRow]) -> str:
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
    digits = 2 if finding.unit.startswith(PRECISE) else 1
    if finding.at_least:
        low = "" if finding.value.low is None else f" (from {finding.value.low:.{digits}f})"
        return f"≥ {finding.value.mean:.{digits}f}{low} {finding.unit}"
    return f"{interval(finding.value, digits, signs=finding.unit == 'points')} {finding.unit}".strip()


def _verdict(finding: Finding) -> str:
    verdict = finding.verdict if finding.verdict == NOT_RUN else f"**{finding.verdict}**"
    return verdict + (f": {finding.note}" if finding.note else "")


def _spend(row: ClaimRow) -> str:
    """Ours and the other side's, in each flavour, and the budget."""
    said = []
    for name, finding in (("written", row.written), ("released", row.released)):
        if finding.spend:
            said.append(f"{name}: {' and '.join(map(money, finding.spend))} of {finding.budget or 0:g}")
    return "; ".join(said) or DASH
