"""Every claim of the paper's experiments with its place, its number, and how a study is asked whether it holds."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from headgate.analysis.formatting import percent
from headgate.analysis.intervals import Estimate
from headgate.analysis.runs import Runs
from headgate.studies.paper import verdicts
from headgate.studies.paper.batches import EQUAL, NAMES, RELEASED, SHARED_ORACLE, WRITTEN, about
from headgate.studies.paper.decomposition import equal_means_outcome
from headgate.studies.paper.outcomes import Outcomes
from headgate.studies.paper.verdicts import Finding, Judge, LoneJudge, missing

OURS = {WRITTEN: "acdpp", RELEASED: "released"}
"""the policy that goes by the name of ACDPP in each flavour"""
FAIR = {WRITTEN: (WRITTEN, "acdpp_capped"), RELEASED: (EQUAL, "released_fair")}
"""the same rule within budget and buffers"""
OWN = "(our question)"
"""stands in the paper's column where the paper says nothing"""


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper, or a question of our own beside it."""

    key: str
    study: str
    text: str
    place: str
    paper: str
    """the paper's number, as it stands there"""
    judge: Judge | None = None
    """asked of our side and another"""
    alone: LoneJudge | None = None
    """asked of our side alone"""
    other: str = "constant"
    """the policy it is compared with"""
    subject: str | None = None
    """the policy it is about, where it is not ACDPP"""
    fair: bool = False
    """asked of the rule within budget and buffers"""

    def finding(self, outcomes: Outcomes, flavour: str) -> Finding:
        ours = outcomes.get(FAIR[flavour] if self.fair else (flavour, self.subject or OURS[flavour]))
        if ours is None:
            return missing()
        if self.alone is not None:
            return self.alone(ours)
        other = self._other(outcomes, flavour)
        if other is None:
            return missing()
        if self.other == "oracle":
            return verdicts.close_to_oracle(ours, other, outcomes.get((flavour, "constant")))
        return self.judge(ours, other) if self.judge is not None else missing()

    def _other(self, outcomes: Outcomes, flavour: str) -> Runs | None:
        if self.fair and flavour == RELEASED:
            return equal_means_outcome(outcomes, self.other)
        if self.other == "oracle" and flavour == RELEASED and self.study in SHARED_ORACLE:
            return outcomes.get((WRITTEN, "oracle"))
        return outcomes.get((flavour, self.other))


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
    return [claim for study in NAMES for claim in _of_study(study)]


def _of_study(study: str) -> Iterator[Claim]:
    title = about(study)["title"]
    yield from _gains(study)
    yield from _speeds(study)
    yield Claim(
        f"{study}-oracle", study, f"{title}: ACDPP stays close to the oracle", "abstract, §7.2", "close", other="oracle"
    )
    yield from _constraints(study)


def _gains(study: str) -> Iterator[Claim]:
    said = about(study)
    figure, title, gains = f"§7.2, Figure 1({said['panel']})", said["title"], said["gains"]
    for other, points in gains.items():
        text = f"{title}: ACDPP ends above {_called(other)}"
        yield Claim(f"{study}-gain-{other}", study, text, figure, f"+{points} points", verdicts.gain(points), other=other)
    if study != "imagenette":
        text = f"{title}: ACDPP held to the budget and to buffers of B_m ends above constant admission"
        yield Claim(f"{study}-gain-fair", study, text, "–", OWN, verdicts.gain(gains["constant"]), fair=True)
    if study == "cifar10":
        text = "CIFAR-10: constant admission ends substantially above the hybrid"
        paper = "substantially; 26.7 − 3.5 = 23.2 points by our subtraction"
        yield Claim("cifar10-hybrid-worse", study, text, "§7.2", paper, verdicts.gain(23.2), other="hybrid", subject="constant")


def _speeds(study: str) -> Iterator[Claim]:
    title, target, speeds = (about(study)[key] for key in ("title", "target", "speeds"))
    for other in ("hybrid", "constant"):
        if other not in speeds:
            text = f"{title}: {_called(other)} never reaches {percent(target)}, ACDPP does"
            yield Claim(f"{study}-reach-{other}", study, text, "§7.2", "never", verdicts.never_reaches(target), other=other)
        else:
            text = f"{title}: ACDPP reaches {percent(target)} sooner than {_called(other)}"
            judge, paper = verdicts.faster(speeds[other], target), f"{speeds[other]}× faster"
            yield Claim(f"{study}-speed-{other}", study, text, "§7.2", paper, judge, other=other)
    if study == "mnist":
        text = "MNIST: the hybrid can be faster than constant admission"
        yield Claim("mnist-hybrid-faster", study, text, "§7.2", "faster", verdicts.faster(None, target), subject="hybrid")


def _constraints(study: str) -> Iterator[Claim]:
    """The paper shows them for ImageNette and says that the other data sets behave alike."""
    for key, text, judge, panel in (
        ("cost", "ACDPP keeps the sampling-cost constraint", verdicts.keeps_budget, "b"),
        ("debt", "the cost-debt queue is stable", verdicts.debt_is_stable, "b"),
        ("buffer", "ACDPP keeps the buffer constraint (on average over rounds)", verdicts.keeps_buffers, "a"),
        ("peak", "buffer occupancy remains within the memory", verdicts.never_above_buffers, "a"),
    ):
        shown = f"§7.2, Figure 2({panel})" if study == "imagenette" else "§7.2, said, not shown"
        place = f"abstract, {shown}" if key in ("cost", "buffer") else shown
        yield Claim(f"{study}-{key}", study, f"{about(study)['title']}: {text}", place, "satisfied", alone=judge)


def _called(policy: str) -> str:
    return "constant admission" if policy == "constant" else f"the {policy}"


def study_rows(study: str, outcomes: Outcomes, command: str) -> list[ClaimRow]:
    """The claims about one data set, judged; without outcomes they are marked as not run."""
    return [
        ClaimRow(
            claim.key,
            study,
            claim.text,
            claim.place,
            claim.paper,
            claim.finding(outcomes, WRITTEN),
            claim.finding(outcomes, RELEASED),
            command,
        )
        for claim in claims()
        if claim.study == study
    ]


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
