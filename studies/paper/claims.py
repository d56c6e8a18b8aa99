"""Every claim of the paper's experiments (claims.toml), and how a study is asked
whether it holds.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from headgate.analysis.formatting import percent
from headgate.analysis.intervals import Estimate
from headgate.analysis.pages import words
from studies.paper import verdicts
from studies.paper.batches import (
    EQUAL,
    HORIZON,
    NAMES,
    OURS,
    RELEASED,
    SHARED_ORACLE,
    WRITTEN,
    about,
)
from studies.paper.outcomes import Side, Sides
from studies.paper.verdicts import (
    ALPHA,
    FAR,
    REACH,
    UNTESTABLE,
    Finding,
    Judge,
    corrected,
    missing,
)

FAIR = {WRITTEN: (WRITTEN, "acdpp_capped"), RELEASED: (EQUAL, "released_fair")}
"""the same rule within budget and buffers; in longer runs: acdpp_tuned"""
OWN = "(our question)"
"""stands in the paper's column where the paper says nothing"""
CALLED = {"constant": "constant admission", "hybrid": "the hybrid"}
ALONE = ("keeps_budget", "debt_is_stable", "keeps_buffers", "never_above_buffers")
"""rules that are asked of our side alone, of what was rehearsed"""


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

    def finding(self, found: Sides, flavour: str, alpha: float = ALPHA) -> Finding:
        """`alpha`: the largest p that counts."""
        batch = self.judged_in(found, flavour)
        ours, other = self.sides(found, flavour, batch)
        judge: Judge = getattr(verdicts, self.rule)
        if self.rule in ALONE:
            return (
                judge(ours.control, alpha=alpha)
                if ours is not None and ours.control
                else missing()
            )
        if ours is None or other is None:
            return missing()
        asked: dict[str, tuple[Any, ...]] = {
            "gain": (self.claimed,),
            "faster": (self.claimed, self.target),
            "never_reaches": (self.target,),
            "below_oracle": (found.get((batch, "constant")),),
        }
        made = judge(ours, other, *asked.get(self.rule, ()), alpha=alpha)
        oracle = self._of(found, flavour, batch, "oracle")
        if batch != flavour:
            made = replace(
                made,
                note="; ".join(
                    filter(None, (f"T = {ours.rounds}, {batch}", made.note))
                ),
            )
        if (
            made.verdict == UNTESTABLE
            or oracle is None
            or not oracle.best
            or self._reaches(oracle)
        ):
            return made
        note = (
            f"the oracle ends at {percent(oracle.mean, 1)}, the paper's target is"
            f" {percent(self.target)}"
        )
        return replace(made, verdict=FAR, note=note, tests=())

    def judged_in(self, found: Sides, flavour: str) -> str:
        """The flavour's own run folder, or a longer one that comes within reach of the
        paper's accuracy where that does not.
        """
        longer = (
            sorted({batch for batch, _ in found if batch.startswith(HORIZON)})
            if flavour == WRITTEN
            else []
        )
        for batch in (flavour, *longer) if self.rule not in ALONE else ():
            if self._reaches(
                self._of(found, flavour, batch, "oracle")
            ) and None not in self.sides(found, flavour, batch):
                return batch
        return flavour

    def _reaches(self, oracle: Side | None) -> bool:
        return (
            oracle is not None
            and bool(oracle.best)
            and oracle.mean >= REACH * self.target
        )

    def sides(
        self, found: Sides, flavour: str, batch: str
    ) -> tuple[Side | None, Side | None]:
        """Whom it is about and whom they are compared with, of what is known by run
        folder and policy.
        """
        fair = FAIR[flavour] if batch == flavour else (batch, "acdpp_tuned")
        ours = found.get(fair if self.fair else (batch, self.subject or OURS[flavour]))
        if (
            self.fair and flavour == RELEASED
        ):  # at equal means, with what that borrows from the flavour it is run in
            home = WRITTEN if (EQUAL, "released") in found else RELEASED
            return ours, found.get((EQUAL, self.other)) or found.get((home, self.other))
        return ours, self._of(found, flavour, batch, self.other)

    def _of(self, found: Sides, flavour: str, batch: str, policy: str) -> Side | None:
        shared = (
            policy == "oracle" and flavour == RELEASED and self.study in SHARED_ORACLE
        )
        return found.get((WRITTEN if shared else batch, policy))


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


def _asked(
    said: Mapping[str, Any], raw: Mapping[str, Any]
) -> list[tuple[str, float | None]]:
    """Of whom it is asked, and what is claimed."""
    if "each" in raw:
        return list(said[raw["each"]].items())
    other, claimed = raw.get("other", "constant"), raw.get("claimed")
    return [(other, said[claimed][other] if isinstance(claimed, str) else claimed)]


def _claim(
    study: str, raw: Mapping[str, Any], other: str, claimed: float | None
) -> Claim:
    said, place = about(study), raw["place"]
    numbers = {
        **said,
        "target": percent(said["target"]),
        "other": other,
        "called": CALLED.get(other),
        "claimed": claimed,
    }
    place = place if isinstance(place, str) else place.get(study, place["others"])
    texts = {
        "key": f"{study}-{raw['key']}",
        "text": f"{said['title']}: {raw['text']}",
        "place": place,
        "paper": raw["paper"],
    }
    told = {name: text.format(**numbers) for name, text in texts.items()}
    rest = {name: raw[name] for name in ("rule", "subject", "fair") if name in raw}
    return Claim(
        study=study, claimed=claimed, target=said["target"], other=other, **told, **rest
    )


def study_rows(
    study: str, found: Sides, command: str, alpha: float = ALPHA
) -> list[ClaimRow]:
    """The claims about one data set, judged; what was not run is marked so."""
    rows = []
    for one in (claim for claim in claims() if claim.study == study):
        written, released = (
            one.finding(found, flavour, alpha) for flavour in (WRITTEN, RELEASED)
        )
        rows.append(
            ClaimRow(
                one.key,
                study,
                one.text,
                one.place,
                one.paper,
                written,
                released,
                command,
            )
        )
    return rows


def judge_all(
    studies: Mapping[str, Sides], command: Callable[[str], str]
) -> tuple[list[ClaimRow], int, float]:
    """The claims of all data sets; how many tests they rest on, corrected together, and
    the largest p that counts.
    """

    def rows(alpha: float) -> list[ClaimRow]:
        return [
            row
            for name in NAMES
            for row in study_rows(name, studies.get(name, {}), command(name), alpha)
        ]

    tests = [
        p
        for row in rows(ALPHA)
        for side in (row.written, row.released)
        for p in side.tests
    ]
    alpha = corrected(tests)
    return rows(alpha), len(tests), alpha


# As JSON and back


def row_to_json(row: ClaimRow) -> dict[str, Any]:
    told = asdict(row)
    for side in ("written", "released"):
        value = getattr(row, side).value
        told[side]["value"] = None if value is None else value.three
    return told


def finding_of(raw: Mapping[str, Any]) -> Finding:
    return Finding(
        **{**raw, "value": None if raw["value"] is None else Estimate(*raw["value"])}
    )
