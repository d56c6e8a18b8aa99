"""A study as a page of Markdown: tables, figures, how it was made, what differs from the paper."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headgate.experiments.reproduce.claims import TARGETS, TITLES, Outcomes, Row
from headgate.experiments.reproduce.claims_page import claims_table
from headgate.experiments.reproduce.decomposition import Way, decompose, equal_means_outcome
from headgate.experiments.reproduce.outcomes import Fate, Outcome, difference, estimate
from headgate.experiments.reproduce.studies import BROKEN, EQUAL, HORIZON, OPEN, RATES, RELEASED, WRITTEN, Study
from headgate.experiments.reproduce.text import DASH, QUICK_WARNING, interval, number, percent, table
from headgate.experiments.summary import duration

HEADINGS = {
    "accuracy": "Test accuracy, best so far (the paper's Figure 1)",
    "money": "The same against the money really spent",
    "resources": "Buffer occupancy, money and debt (the paper's Figure 2)",
    "memory": "Memory beside B_m",
}
CURVES = (
    "Curves are running bests, means over seeds with the 80 % interval of the mean (Student). All policies of a seed meet "
    "the same prices and samples. The tables' accuracy is the running best at the end."
)
TEXT = (
    "K = 10, Λ̄ = C/c̄, prices uniform on [1, 10]. Open values: V = √T, ρ = 1 − 1/√T, the bound's constants of the released "
    "script; the hybrid's stale clients get their samples for nothing in round 1."
)
SCRIPTS = "Models are averaged by B_m, the hybrid's admitting clients keep 2·B_m, and ACDPP is what the scripts call so."
EQUAL_MEANS = (
    "How much of the released policy's gain over constant admission is its rule, and how much is more money and more memory? "
    "`released_fair` need not buy in every round, keeps samples for the text's K = 10 rounds, has the largest V (of two "
    "digits) with which a rehearsal of control keeps the budget, and no client holds more than B_m; `released_budget` is the "
    "same without that cap, `released_capped` is the released policy with the cap alone. `constant_spend` admits at the rate "
    "that spends what the released policy spends, with K so that the buffers hold it; `constant_both` also holds as many "
    "samples in the mean. `acdpp_capped` is the text's rule with `burst` and `capacity` at B_m."
)
LEFT_OPEN = (
    "Logistic regression with plain gradient descent, lr 0.5, as written otherwise. `acdpp` has V = √T = 10, "
    "ρ = 1 − 1/√T = 0.9, K = 10, N(0) = 0; every line beside it changes one of them. `hybrid` fills its stale clients in "
    "round 1 for nothing."
)
CHOSEN = (
    "Constant admission, judged on a tenth of the training images that no client gets (`data.validation = 0.1`), never on "
    "the test set."
)


def study_page(
    study: Study,
    outcomes: Outcomes,
    fates: Mapping[tuple[str, str], Fate],
    rows: Sequence[Row],
    figures: Sequence[Path],
    facts: Mapping[str, Any],
) -> str:
    """The whole page; `facts` say how the runs were made."""
    target = TARGETS[study.name]
    parts = [
        f"# {TITLES[study.name]}, reproduced",
        *([QUICK_WARNING] if facts["quick"] else []),
        in_short(study.name, rows),
        how_made(facts),
        "What differs from the paper:\n\n" + "\n".join(f"- {each}" for each in study.differs),
        CURVES,
    ]
    released = f"Prices are whole numbers from 1 to {study.highest_price}. {SCRIPTS}"
    for part, title, text in ((WRITTEN, "As written", TEXT), (RELEASED, "As released", released)):
        own = [outcome for (batch, _), outcome in outcomes.items() if batch == part]
        if own:
            parts += [f"## {title}", text, policy_table(own, target)]
    parts += [f"## {HEADINGS[kind]}\n\n![{HEADINGS[kind]}](figures/{path.name})" for kind, path in _shown(figures)]
    parts += _equal(outcomes, target) + _open(study, outcomes, target) + _rates(study, outcomes, fates)
    parts += ["## Claims", "The rules are those of [claims.md](claims.md).", claims_table(rows)]
    return "\n\n".join(parts) + "\n"


def in_short(study: str, rows: Sequence[Row]) -> str:
    """The gain over constant admission in both flavours, what it cost, and what is left of it within budget and buffers."""
    by_key = {row.key.removeprefix(f"{study}-"): row for row in rows}
    said = []
    for flavour in (WRITTEN, RELEASED):
        found = {key: getattr(row, flavour) for key, row in by_key.items()}
        gain, cost, fair = found["gain-constant"], found["cost"], found.get("gain-fair")
        if gain.value is None or cost.value is None:
            continue
        text = f"As {flavour}, ACDPP gains {interval(gain.value, signed=True)} points on constant admission"
        text += f" for {cost.value.mean:.0f} % of the budget"
        if fair is not None and fair.value is not None:
            text += f"; held to budget and buffers it gains {interval(fair.value, signed=True)}"
        said.append(f"{text}.")
    return " ".join(said)


def how_made(facts: Mapping[str, Any]) -> str:
    where = "; ".join(facts["devices"])
    spent = f", {duration(facts['elapsed_s'])} in all" if facts.get("elapsed_s") else ""
    return f"Made by `{facts['command']}` on {facts['date']} from {facts['commit']}. Runs: {where}{spent}."


def policy_table(outcomes: Iterable[Outcome], target: float | None = None) -> str:
    header = [
        "policy",
        "seeds",
        "accuracy (%)",
        "money a round",
        "of budget",
        "mean n",
        "peak n",
        "fullest client, mean / peak",
    ]
    if target is not None:
        header.append(f"round at {percent(target)}")
    lines = []
    for one in outcomes:
        broken = [f"{one.diverged} diverged"] * (one.diverged > 0) + [f"{one.guessing} guess"] * (one.guessing > 0)
        line = [
            one.policy,
            ", ".join([str(len(one.seeds)), *broken]),
            interval(estimate(100 * one.final)),
            number(one.spend.mean()),
            f"{percent(one.spend.mean() / one.budget)}",
            number(one.n.mean()),
            f"{one.peak} of {one.buffers.sum()}",
            f"{percent(one.fullest)} / {percent(one.peak_over)}",
        ]
        if target is not None:
            first = one.first_round(target)
            line.append("never" if first is None else str(first))
        lines.append(line)
    return table(header, lines)


def _shown(figures: Sequence[Path]) -> Iterable[tuple[str, Path]]:
    for path in figures:
        kind = path.stem.rpartition("-")[2]
        if kind in HEADINGS:
            yield kind, path


def _equal(outcomes: Outcomes, target: float) -> list[str]:
    ways = decompose(outcomes)
    if not ways:
        return []
    own = [outcome for (batch, _), outcome in outcomes.items() if batch == EQUAL]
    borrowed = [equal_means_outcome(outcomes, name) for name in ("constant", "released")]
    shown = {one.policy: one for one in [*borrowed, *own] if one is not None}
    return [
        "## At equal spend and with buffers capped",
        EQUAL_MEANS,
        policy_table(shown.values(), target),
        *(_way(way) for way in ways),
    ]


def _way(way: Way) -> str:
    lines = [
        [step.what, step.policy, interval(step.gain, signed=True), number(step.spend), str(step.peak)] for step in way.steps
    ]
    lines.append(["**the whole gain**", "", f"**{interval(way.whole, signed=True)}**", "", ""])
    return f"From constant admission to the released policy, {way.name}:\n\n" + table(
        ["step", "leads to", "gain (points)", "money a round", "peak n"], lines
    )


def _open(study: Study, outcomes: Outcomes, target: float) -> list[str]:
    own = [outcome for (batch, _), outcome in outcomes.items() if batch == OPEN]
    if not own:
        return []
    base = {name: outcomes[OPEN, name] for name in ("acdpp", "hybrid") if (OPEN, name) in outcomes}
    lines = []
    for one in own:
        like = base.get("hybrid" if one.policy.startswith("hybrid") else "acdpp")
        versus = "" if like is None or one is like or one.policy in ("oracle", "constant") else interval(
            difference(one, like).scaled(100), signed=True
        )  # fmt: skip
        spend = f"{number(one.spend.mean())} ({percent(one.spend.mean() / one.budget)})"
        lines.append([one.policy, interval(estimate(100 * one.final)), versus, spend, f"{one.peak}"])
    parts = [
        "## What the text leaves open",
        LEFT_OPEN,
        table(["policy", "accuracy (%)", "against acdpp or hybrid (points)", "money a round", "peak n"], lines),
    ]
    longer = [outcome for (batch, _), outcome in outcomes.items() if batch.startswith(HORIZON)]
    if longer:
        parts += [f"The same over {longer[0].rounds} rounds:", policy_table(longer, target)]
    return parts


def _rates(study: Study, outcomes: Outcomes, fates: Mapping[tuple[str, str], Fate]) -> list[str]:
    parts: list[str] = []
    judged = [key for key in fates if key[0].startswith(RATES)]
    if judged:
        parts += [
            "## Learning rate",
            f"{CHOSEN} Running best after {fates[judged[0]].rounds} rounds.",
            table(
                ["settings", "accuracy (%)", "runs that learnt nothing"],
                [[key[0].removeprefix(f"{RATES}-"), _ended(outcomes.get(key)), _lost(fates[key])] for key in judged],
            ),
        ]
    broken = [key for key in fates if key[0].startswith(BROKEN)]
    if broken:
        lines = [[key[1], str(fates[key].rounds), _ended(outcomes.get(key)), _lost(fates[key])] for key in broken]
        parts += [
            f"With the learning rate of the text, {study.stated_rate}:",
            table(["policy", "rounds", "accuracy of what is left (%)", "runs that learnt nothing"], lines),
        ]
    return parts


def _ended(outcome: Outcome | None) -> str:
    return DASH if outcome is None else interval(estimate(100 * outcome.final))


def _lost(fate: Fate) -> str:
    """Diverged: not finite any more. Guessing: finite, but no better than chance."""
    what = [f"{fate.diverged} diverged"] * (fate.diverged > 0) + [f"{fate.guessing} guess"] * (fate.guessing > 0)
    return f"{fate.lost} of {fate.runs}" + (f" ({', '.join(what)})" if what else "")
