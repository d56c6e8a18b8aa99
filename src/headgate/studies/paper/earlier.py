"""Pages that were made by earlier rules, until their runs are made again: judged anew by the numbers that they kept.

Gains, money and distances to the oracle are of the same kind as today. Speed-ups have percentile intervals over the seeds of
then; debt and buffers keep their verdicts.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headgate.analysis.intervals import Estimate
from headgate.studies.paper.batches import RELEASED, WRITTEN
from headgate.studies.paper.claims import Claim, ClaimRow, claims, row_from_json
from headgate.studies.paper.verdicts import (
    CLOSE,
    UNTESTABLE,
    Finding,
    Money,
    above,
    decide,
    missing,
    spent_share,
    with_money,
)

Spent = Mapping[tuple[str, str], Money]


def judged_again(study: str, numbers: Mapping[str, Any]) -> list[ClaimRow]:
    """Today's claims about a data set, from the numbers on a page of earlier rules."""
    known = {row.key: row for row in map(row_from_json, numbers["claims"])}
    spent = {
        (each["batch"], each["policy"]): Money(each["policy"], Estimate(*each["spend"]), each["budget"])
        for each in numbers["policies"]
    }
    return [_row(claim, known, spent, numbers["command"]) for claim in claims() if claim.study == study]


def _row(claim: Claim, known: Mapping[str, ClaimRow], spent: Spent, command: str) -> ClaimRow:
    former = claim.key.replace("-sooner-", "-speed-").replace("-close", "-oracle")
    written, released = (
        _again(claim, getattr(known[former], flavour), *claim.sides(spent, flavour)) if former in known else missing()
        for flavour in (WRITTEN, RELEASED)
    )
    return ClaimRow(claim.key, claim.study, claim.text, claim.place, claim.paper, written, released, command)


def _again(claim: Claim, found: Finding, ours: Money | None, other: Money | None) -> Finding:
    if found.value is None or ours is None:
        return found
    if claim.rule == "keeps_budget":
        return spent_share(ours.spend.scaled(100 / ours.budget), ours.budget)
    if other is None:
        return found
    if claim.rule in ("faster", "never_reaches") and found.note.startswith("neither reaches"):
        return replace(found, verdict=UNTESTABLE, value=None, unit="", note=found.note.partition(";")[0])
    if claim.rule in ("gain", "faster", "sooner"):
        claimed = None if claim.rule == "sooner" else claim.claimed
        verdict, why = above(found.value, 0.0 if claim.rule == "gain" else 1.0, claimed)
        return with_money(replace(found, verdict=verdict, note=why), ours, other)
    if claim.rule == "below_oracle":
        way = found.note.partition("; ")[2]
        return replace(found, verdict=UNTESTABLE, note=f"the paper gives no number; {way}")
    if claim.rule == "close_to_oracle":
        judged = replace(found, verdict=decide(found.value, 100 * CLOSE, above=False), note="")
        return with_money(judged, ours, other, compare=ours.budget)
    return found
