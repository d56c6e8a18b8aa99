"""Every claim of the paper's experiments (claims.toml), and how a study is asked whether it holds."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from headgate.analysis.formatting import percent
from headgate.analysis.intervals import Estimate
from headgate.analysis.pages import words
from headgate.analysis.runs import Runs
from headgate.studies.paper import verdicts
from headgate.studies.paper.batches import EQUAL, HORIZON, NAMES, RELEASED, SHARED_ORACLE, WRITTEN, about
from headgate.studies.paper.decomposition import Side, of_equal_means
from headgate.studies.paper.outcomes import Outcomes
from headgate.studies.paper.verdicts import Finding, Judge, missing

OURS = {WRITTEN: "acdpp", RELEASED: "released"}
"""the policy that goes by the name of ACDPP in each flavour"""
FAIR = {WRITTEN: (WRITTEN, "acdpp_capped"), RELEASED: (EQUAL, "released_fair")}
"""the same rule within budget and buffers"""
OWN = "(our question)"
"""stands in the paper's column where the paper says nothing"""
CALLED = {"constant": "constant admission", "hybrid": "the hybrid"}
ALONE = ("keeps_budget", "debt_is_stable", "keeps_buffers", "never_above_buffers")
"""rules that are asked of our side alone"""
LONGER = "keeps_budget"
"""the rule that is shown a longer run of the same policy too"""


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper, or a question of our own beside it."""

    key: str
    study: str
    text: str
    place: str
    paper: str
    """the paper's number, as it stands there"""
    rule: str
    """a function of `verdicts`"""
    claimed: float | None
    target: float
    other: str
    """the policy it is compared with"""
    subject: str | None = None
    """the policy it is about, where it is not ACDPP"""
    fair: bool = False
    """asked of the rule within budget and buffers"""

    def finding(self, outcomes: Outcomes, flavour: str) -> Finding:
        ours, other = self.sides(outcomes, flavour)
        if ours is None or (other is None and self.rule not in ALONE):
            return missing()
        judge: Judge = getattr(verdicts, self.rule)
        if self.rule in ALONE:
            return judge(ours, _longer(outcomes, ours)) if self.rule == LONGER else judge(ours)
        asked: dict[str, tuple[Any, ...]] = {
            "gain": (self.claimed,),
            "faster": (self.claimed, self.target),
            "never_reaches": (self.target,),
            "below_oracle": (outcomes.get((flavour, "constant")),),
        }
        return judge(ours, other, *asked.get(self.rule, ()))

    def sides(self, found: Mapping[tuple[str, str], Side], flavour: str) -> tuple[Side | None, Side | None]:
        """Whom it is about and whom they are compared with, of what is known by run folder and policy."""
        ours = found.get(FAIR[flavour] if self.fair else (flavour, self.subject or OURS[flavour]))
        if self.fair and flavour == RELEASED:
            return ours, of_equal_means(found, self.other)
        shared = self.other == "oracle" and flavour == RELEASED and self.study in SHARED_ORACLE
        return ours, found.get((WRITTEN if shared else flavour, self.other))


def _longer(outcomes: Outcomes, ours: Runs) -> Runs | None:
    """What the same policy spent over a longer horizon, where that was run; what it learnt there does not matter for money."""
    return next((one for (part, name), one in outcomes.items() if part.startswith(HORIZON) and name == ours.policy), None)


@dataclass(frozen=True)
class ClaimRow:
    """A line of the claims table."""

    key: str
    study: str
    claim: str
    place: str
    paper: str
    written: Finding
    released: Finding
    command: str

    @property
    def own(self) -> bool:
        """Whether it is a question of ours rather than a claim of the paper."""
        return self.paper == OWN


def claims() -> list[Claim]:
    return [
        _claim(study, raw, other, claimed)
        for study in NAMES
        for raw in words(__file__, "claims.toml")["claim"]
        if study in raw.get("data", NAMES)
        for other, claimed in _asked(about(study), raw)
    ]


def _asked(said: Mapping[str, Any], raw: Mapping[str, Any]) -> list[tuple[str, float | None]]:
    """Of whom it is asked, and what is claimed."""
    if "each" in raw:
        return list(said[raw["each"]].items())
    other, claimed = raw.get("other", "constant"), raw.get("claimed")
    return [(other, said[claimed][other] if isinstance(claimed, str) else claimed)]


def _claim(study: str, raw: Mapping[str, Any], other: str, claimed: float | None) -> Claim:
    said, place = about(study), raw["place"]
    numbers = {**said, "target": percent(said["target"]), "other": other, "called": CALLED.get(other), "claimed": claimed}
    place = place if isinstance(place, str) else place.get(study, place["others"])
    texts = {"key": f"{study}-{raw['key']}", "text": f"{said['title']}: {raw['text']}", "place": place, "paper": raw["paper"]}
    told = {name: text.format(**numbers) for name, text in texts.items()}
    rest = {name: raw[name] for name in ("rule", "subject", "fair") if name in raw}
    return Claim(study=study, claimed=claimed, target=said["target"], other=other, **told, **rest)


def study_rows(study: str, outcomes: Outcomes, command: str) -> list[ClaimRow]:
    """The claims about one data set, judged; without outcomes they are marked as not run."""
    own = [claim for claim in claims() if claim.study == study]
    sides = [(claim.finding(outcomes, WRITTEN), claim.finding(outcomes, RELEASED)) for claim in own]
    told = zip(own, sides, strict=True)
    return [ClaimRow(one.key, study, one.text, one.place, one.paper, *found, command) for one, found in told]


# As JSON and back


def row_to_json(row: ClaimRow) -> dict[str, Any]:
    told = asdict(row)
    for side in ("written", "released"):
        value = getattr(row, side).value
        told[side]["value"] = None if value is None else value.three
    return told


def row_from_json(raw: Mapping[str, Any]) -> ClaimRow:
    return ClaimRow(**{**raw, "written": _finding(raw["written"]), "released": _finding(raw["released"])})


def _finding(raw: Mapping[str, Any]) -> Finding:
    value = raw["value"]
    return Finding(**{**raw, "value": None if value is None else Estimate(*value), "spend": tuple(raw["spend"])})
