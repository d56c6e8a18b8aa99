"""Every claim of the paper with its place, its number, and how a study is asked whether it holds."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from headgate.experiments.rates import Rates
from headgate.experiments.reproduce import verdicts
from headgate.experiments.reproduce.decomposition import equal_means_outcome
from headgate.experiments.reproduce.outcomes import Estimate, Outcome
from headgate.experiments.reproduce.studies import EQUAL, RELEASED, WRITTEN
from headgate.experiments.reproduce.text import percent
from headgate.experiments.reproduce.verdicts import FAILS, HOLDS, UNTESTABLE, Finding, Judge, missing

Outcomes = Mapping[tuple[str, str], Outcome]
OURS = {WRITTEN: "acdpp", RELEASED: "released"}
"""the policy that goes by the name of ACDPP in each flavour"""
FAIR = {WRITTEN: (WRITTEN, "acdpp_capped"), RELEASED: (EQUAL, "released_fair")}
"""the same rule within budget and buffers"""
THEORY = "theory"


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper."""

    key: str
    study: str
    text: str
    place: str
    paper: str
    """the paper's number, as it stands there"""
    judge: Judge | None = None
    other: str = "constant"
    """the policy it is compared with"""
    subject: str | None = None
    """the policy it is about, where it is not ACDPP"""
    fair: bool = False
    """asked of the rule within budget and buffers"""

    def finding(self, outcomes: Outcomes, flavour: str) -> Finding:
        ours = outcomes.get(FAIR[flavour] if self.fair else (flavour, self.subject or OURS[flavour]))
        if self.fair and ours is not None and self.judge is not None:
            constant = equal_means_outcome(outcomes, self.other) if flavour == RELEASED else outcomes.get((flavour, self.other))
            return missing() if constant is None else self.judge(ours, constant)
        # the oracle may have been run in one flavour only, where both would give the same models
        other = outcomes.get((flavour, self.other)) or (outcomes.get((WRITTEN, "oracle")) if self.other == "oracle" else None)
        if self.judge is None or ours is None or other is None:
            return missing()
        return self.judge(ours, other)


@dataclass(frozen=True)
class Row:
    """A line of the claims table."""

    key: str
    study: str
    claim: str
    place: str
    paper: str
    written: Finding
    released: Finding
    command: str


TITLES = {"mnist": "MNIST", "cifar10": "CIFAR-10", "imagenette": "ImageNette"}
PANEL = {"mnist": "a", "cifar10": "b", "imagenette": "c"}
GAINS = {"mnist": (1.9, 3.5), "cifar10": (26.7, 3.5), "imagenette": (4.1, 1.8)}
"""percentage points over hybrid and constant admission, as the paper has them"""
SPEEDS = {"mnist": (2.3, 2.6), "cifar10": (None, 1.7), "imagenette": (2.2, 1.3)}
"""times faster than hybrid and constant admission, as the paper has them"""
TARGETS = {"mnist": 0.85, "cifar10": 0.7, "imagenette": 0.7}


def claims() -> list[Claim]:
    return [claim for study in TITLES for claim in _of_study(study)]


def _of_study(study: str) -> Iterator[Claim]:
    figure, title, target = f"§7.2, Figure 1({PANEL[study]})", TITLES[study], TARGETS[study]
    for other, points in zip(("hybrid", "constant"), GAINS[study], strict=True):
        text = f"{title}: ACDPP ends above {_called(other)}"
        yield Claim(f"{study}-gain-{other}", study, text, figure, f"+{points} points", verdicts.gain(points), other)
    if study != "imagenette":
        text, points = f"{title}: the same within the budget and with buffers capped at B_m", GAINS[study][1]
        yield Claim(f"{study}-gain-fair", study, text, figure, f"+{points} points", verdicts.gain(points), fair=True)
    for other, times in zip(("hybrid", "constant"), SPEEDS[study], strict=True):
        if times is None:
            text = f"{title}: {_called(other)} never reaches {percent(target)}, ACDPP does"
            yield Claim(f"{study}-reach-{other}", study, text, "§7.2", "never", verdicts.never_reaches(target), other)
        else:
            text = f"{title}: ACDPP reaches {percent(target)} sooner than {_called(other)}"
            judge = verdicts.faster(times, target)
            yield Claim(f"{study}-speed-{other}", study, text, "§7.2", f"{times}× faster", judge, other)
    if study == "mnist":
        text = "MNIST: the hybrid can be faster than constant admission"
        judge = verdicts.faster(None, target)
        yield Claim("mnist-hybrid-faster", study, text, "§7.2", "faster", judge, "constant", subject="hybrid")
    if study == "cifar10":
        text = "CIFAR-10: constant admission ends far above the hybrid"
        yield Claim(
            "cifar10-hybrid-worse", study, text, "§7.2", "26.7 − 3.5 points", verdicts.gain(23.2), "hybrid", subject="constant"
        )
    near = "abstract, §7.2, §8"
    yield Claim(
        f"{study}-oracle", study, f"{title}: ACDPP stays close to the oracle", near, "close", verdicts.close_to_oracle, "oracle"
    )
    for key, text, judge in (
        ("cost", "ACDPP keeps the sampling-cost constraint", verdicts.keeps_budget),
        ("debt", "the cost-debt queue is stable", verdicts.debt_is_stable),
        ("buffer", "ACDPP keeps the buffer constraint (on average over rounds)", verdicts.keeps_buffers),
        ("peak", "buffer occupancy remains within the memory", verdicts.never_above_buffers),
    ):
        place = "§7.2, Figure 2(b)" if key in ("cost", "debt") else "§7.2, Figure 2(a)"
        yield Claim(f"{study}-{key}", study, f"{title}: {text}", place, "satisfied", judge)


def _called(policy: str) -> str:
    return "constant admission" if policy == "constant" else f"the {policy}"


def study_rows(study: str, outcomes: Outcomes, command: str) -> list[Row]:
    """The claims about one data set, judged; without outcomes they are marked as not run."""
    return [
        Row(
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


# Theory


RATES = {
    "regret": ("Reg(T) grows no faster than claimed (V = T^½, ρ = 1 − T^−½)", "Theorem 2 and the remark after Theorem 3"),
    "cost_violation": ("Vio_S(T) grows no faster than claimed", "Theorem 3 and the remark after it"),
    "buffer_violation": ("Vio_B(T) is bounded", "remark on the buffer violation, §6.4"),
    "omega1": ("Ω_1(T) is bounded", "Lemma 2"),
    "omega2": ("Ω_2(T) grows no faster than claimed", "Lemma 3"),
    "omega3": ("Ω_3(T) grows no faster than claimed", "Lemma 4"),
}


def theory_rows(rates: Rates | None, command: str) -> list[Row]:
    """The rates of the theorems. Only in the text do V and ρ follow T, so as released there is nothing to test."""
    fits = {fit.quantity: fit for fit in rates.fits} if rates is not None else {}
    not_released = Finding(UNTESTABLE, note="V and the interval are fixed there, whatever T is")
    rows = []
    for name, (text, place) in RATES.items():
        fit = fits.get(name)
        if fit is None:
            found = missing()
        elif fit.exponent is None:
            found = Finding({True: HOLDS, None: UNTESTABLE, False: FAILS}[fit.holds], None, "", "zero at long horizons")
        else:
            half = fit.half_width
            value = Estimate(fit.exponent, *((None, None) if half is None else (fit.exponent - half, fit.exponent + half)))
            found = Finding(
                HOLDS if fit.holds else FAILS, value, "exponent of T (95 % interval)", _aside(name, bool(fit.holds))
            )
        paper = fit.claim if fit is not None else {"buffer_violation": "O(1)", "omega1": "O(1)"}.get(name, "O(…)")
        rows.append(Row(f"theory-{name}", THEORY, text, place, paper, found, not_released, command))
    fit = fits.get("regret")
    sublinear = missing()
    if fit is not None and fit.exponent is not None:
        high = fit.exponent + (fit.half_width or 0.0)
        value = Estimate(fit.exponent, fit.exponent - (fit.half_width or 0.0), high)
        sublinear = Finding(HOLDS if high < 1 else FAILS, value, "exponent of T (95 % interval)")
    text = "Reg(T) is sublinear"
    rows.insert(
        0, Row("theory-sublinear", THEORY, text, "abstract, Theorem 2", "exponent below 1", sublinear, not_released, command)
    )
    return rows


MEETS_RUN = {
    "inequality": ("Theorem 1's bound is above the measured cumulative excess risk", "Theorem 1", "bounds it"),
    "informative": ("Theorem 1's bound says something about the measured excess risk", "Theorem 1", "characterises it"),
    "ranks": ("the surrogate penalty ranks policies as the measured excess risk does", "§5", "surrogate"),
}
"""what a run with logistic regression is asked about Theorem 1, as `experiments.theory_run` names it"""


def excess_risk_rows(answers: Mapping[str, tuple[str, str]] | None, command: str) -> list[Row]:
    """What runs say about Theorem 1. `answers`: (yes, no or partly; a sentence with the numbers) by question."""
    rows = []
    for key, (text, place, paper) in MEETS_RUN.items():
        answer, sentence = (answers or {}).get(key, ("", ""))
        found = Finding(HOLDS if answer == "yes" else FAILS, note=sentence) if answer else missing()
        not_released = Finding(UNTESTABLE, note="the theorem is about the rule of the text")
        rows.append(Row(f"theory-{key}", THEORY, text, place, paper, found, not_released, command))
    return rows


def _aside(name: str, holds: bool) -> str:
    if name == "buffer_violation" and not holds:
        return "with Corollary 2's K; the remark leaves another K open, which `headgate plan` looks for"
    if name in ("regret", "omega3") and not holds:
        return "Ω_3 is Θ(√(T log T)): erratum 14"
    return ""


# As JSON and back


def row_to_json(row: Row) -> dict[str, Any]:
    return asdict(row)


def row_from_json(raw: Mapping[str, Any]) -> Row:
    return Row(**{**raw, "written": _finding(raw["written"]), "released": _finding(raw["released"])})


def _finding(raw: Mapping[str, Any]) -> Finding:
    value = raw["value"]
    return Finding(**{**raw, "value": None if value is None else Estimate(*value), "spend": tuple(raw["spend"])})
