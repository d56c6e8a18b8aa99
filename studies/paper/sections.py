"""The parts of a study's page beside its two flavours: longer horizons, equal means, open values, learning rates."""

from collections.abc import Iterable, Sequence

from headgate.analysis.formatting import DASH, by_column, interval, number, percent
from headgate.analysis.intervals import estimate
from headgate.analysis.pages import table
from headgate.analysis.runs import Runs, difference
from studies.paper.batches import CONSTANTS, EQUAL, FAIR_V, HORIZON, OPEN, RATES, STATED, WRITTEN, recipes_of
from studies.paper.decomposition import Way, decompose, of_equal_means
from studies.paper.outcomes import Outcomes
from studies.paper.scene import WORDS, Scenes, constants, label, settings, training

PROSE = WORDS["prose"]
NEAR = 1.05
"""of the budget: still near it"""


def policy_table(outcomes: Iterable[Runs], target: float) -> str:
    """One line a policy: what it learnt, spent and held."""
    columns = by_column(
        outcomes,
        ("policy", lambda one: label(one.policy)),
        ("seeds", lambda one: ", ".join([str(len(one.learnt)), *_broken(one)])),
        ("accuracy (%)", _ended),
        ("gained late (points)", lambda one: f"{100 * one.late_gain.mean():.1f}" if one.learnt else DASH),
        ("money a round", lambda one: number(one.spend.mean())),
        ("of budget (%)", lambda one: interval(estimate(100 * one.spend / one.budget))),
        ("mean n", lambda one: number(one.column("n").mean())),
        ("peak n", lambda one: f"{one.peak_n} of {one.buffers.sum()}"),
        ("fullest client, mean / peak", lambda one: f"{percent(one.fullest)} / {percent(one.peak_share)}"),
        (f"round at {percent(target)}", lambda one: str(one.first_round(target) or "never")),
    )
    return table(*columns)


def _broken(one: Runs) -> list[str]:
    """Diverged: not finite any more. Guessing: finite, but no better than chance."""
    return [f"{one.lost_runs} diverged"] * (one.lost_runs > 0) + [f"{one.guessing} guess"] * (one.guessing > 0)


def _of(outcomes: Outcomes, part: str) -> list[Runs]:
    return [outcome for (batch, _), outcome in outcomes.items() if batch == part or batch.startswith(f"{part}-")]


# Have the curves settled?


def horizon_section(data: str, outcomes: Outcomes, scenes: Scenes, target: float) -> list[str]:
    heading = f"## A longer horizon: does anybody reach {percent(target)}?"
    longer = [one for one in _of(outcomes, HORIZON) if one.learnt]
    if not longer:
        longest = next(part.rpartition("-")[2] for part, _ in recipes_of(data) if part.startswith(HORIZON))
        return [heading, f"{longest} rounds: not run here."]
    reached = [f"{label(one.policy)} in round {first}" for one in longer if (first := one.first_round(target)) is not None]
    best = max(longer, key=lambda one: float(one.best.mean()))
    answer = f"Yes: {', '.join(reached)}." if reached else (
        f"No: the best, {label(best.policy)}, ends at {100 * best.best.mean():.1f} %."
    )  # fmt: skip
    late = max(100 * float(one.late_gain.mean()) for one in longer)
    settled = f"The last quarter of the rounds still adds up to {late:.1f} points."
    scene = scenes[longer[0].folder]
    return [heading, f"{answer} {settled} As written otherwise: {training(scene)}.", policy_table(longer, target)]


# Equal means


def equal_section(data: str, outcomes: Outcomes, scenes: Scenes, target: float) -> list[str]:
    heading = "## At equal spend and with buffers capped"
    if EQUAL not in dict(recipes_of(data)):
        return [heading, PROSE["no_equal"]]
    ways = decompose(outcomes)
    if not ways:
        return []
    borrowed = [of_equal_means(outcomes, name) for name in ("constant", "released")]
    shown = {one.policy: one for one in [*borrowed, *_of(outcomes, EQUAL)] if one is not None}
    return [
        heading,
        PROSE["equal_means"],
        f"Here: {settings(scenes[EQUAL])}.",
        policy_table(shown.values(), target),
        PROSE["bounds"],
        *(_way(way) for way in ways),
        *_fair_values(outcomes),
    ]


def _way(way: Way) -> str:
    header, lines = by_column(
        way.steps,
        ("step", lambda step: step.what),
        ("leads to", lambda step: label(step.to.policy)),
        ("gain (points)", lambda step: interval(step.gain, signs=True)),
        ("money a round", lambda step: number(step.to.spend.mean())),
        ("mean n", lambda step: number(step.to.column("n").mean())),
        ("peak n", lambda step: str(step.to.peak_n or 0)),
    )
    lines.append(["**the whole gain**", "", f"**{interval(way.whole, signs=True)}**", "", "", ""])
    return f"From constant admission to the released policy, {way.name}:\n\n{table(header, lines)}"


def _fair_values(outcomes: Outcomes) -> list[str]:
    own = _of(outcomes, FAIR_V)
    if not own:
        return []
    constant = next(one for one in own if one.policy == "constant")
    near = [one for one in own if one is not constant and one.learnt and one.spend.mean() <= NEAR * one.budget]
    said = ""
    if near and constant.learnt:
        best = max(near, key=lambda one: float(one.best.mean()))
        gain = interval(difference(best, constant).scaled(100), signs=True)
        share = percent(best.spend.mean() / best.budget)
        said = f" The best that spends at most {percent(NEAR - 1)} too much is V = {best.policy.rpartition('_')[2]}: {gain} "
        said += f"points for {share} of the budget, so a V chosen for a hard limit undersells the rule a little."
        said = said if difference(best, constant).mean > 0 else ""
    return [
        "The same rule, held to B_m and free not to buy, for other V (test accuracy taken every 5 rounds)." + said,
        _against("constant admission", own, [constant] * len(own)),
    ]


# What the text leaves open


def open_section(outcomes: Outcomes, scenes: Scenes) -> list[str]:
    own = _of(outcomes, OPEN)
    if not own:
        return []
    others = [
        None
        if one.policy in ("oracle", "constant")
        else outcomes.get((OPEN, "hybrid" if one.policy.startswith("hybrid") else "acdpp"))
        for one in own
    ]
    scene = scenes[OPEN]
    said = f"{training(scene)}; as written otherwise, every line changes one value. {settings(scene, ('acdpp', 'hybrid'))}."
    return ["## What the text leaves open", f"Here: {said}", _against("ACDPP or hybrid", own, others)]


def constants_section(outcomes: Outcomes, scenes: Scenes) -> list[str]:
    own = _of(outcomes, CONSTANTS)
    if not own:
        return []
    text = f"The bound's constants, one changed at a time from {constants(scenes[CONSTANTS])}; training as above:"
    return [text, _against("ACDPP", own, [outcomes.get((CONSTANTS, "acdpp"))] * len(own))]


def _against(whom: str, own: Sequence[Runs], others: Sequence[Runs | None]) -> str:
    lines = []
    for one, other in zip(own, others, strict=True):
        paired = other is not None and other is not one and one.learnt and other.learnt
        versus = interval(difference(one, other).scaled(100), signs=True) if paired else ""  # type: ignore[arg-type]
        spend = f"{number(one.spend.mean())} ({percent(one.spend.mean() / one.budget)})"
        lines.append([label(one.policy), _ended(one), versus, spend, f"{one.peak_n}"])
    return table(["policy", "accuracy (%)", f"against {whom} (points)", "money a round", "peak n"], lines)


# Learning rates


def rates_section(outcomes: Outcomes, scenes: Scenes) -> list[str]:
    parts: list[str] = []
    judged = _of(outcomes, RATES)
    if judged:
        lines = [[_rate(one.folder), interval(estimate(100 * one.held_out)), _lost(one)] for one in judged]
        parts += [
            "## Learning rate",
            f"{PROSE['chosen']} Running best after {judged[0].rounds} rounds. {_choice(judged, scenes)}",
            table(["settings", "accuracy (%)", "runs that learnt nothing"], lines),
        ]
    broken = _of(outcomes, STATED)
    if broken:
        lines = [[label(one.policy), str(one.rounds), _ended(one), _lost(one)] for one in broken]
        parts += [
            f"With the learning rate of the text, {broken[0].folder.removeprefix(f'{STATED}-')}:",
            table(["policy", "rounds", "accuracy of what is left (%)", "runs that learnt nothing"], lines),
        ]
    return parts


def _rate(batch: str) -> str:
    """
    >>> _rate("learning-rate-momentum=0.9,lr=0.005")
    'momentum 0.9, lr 0.005'
    """
    return batch.removeprefix(f"{RATES}-").replace(",", ", ").replace("=", " ")


def _choice(judged: Sequence[Runs], scenes: Scenes) -> str:
    """Which settings are best on the split, and whether they are those that are used."""
    left = [one for one in judged if one.learnt and not one.guessing]
    if not left:
        return "None of them learns."
    best = max(left, key=lambda one: float(one.held_out.mean()))
    if WRITTEN not in scenes:
        return f"Best: {_rate(best.folder)}."
    used, found = scenes[WRITTEN].training, scenes[best.folder].training
    same = (used.lr, used.momentum) == (found.lr, found.momentum)
    chosen = f"momentum {used.momentum:g}, lr {used.lr:g}" if used.momentum else f"lr {used.lr:g}"
    return f"Best: {_rate(best.folder)}; used as written: {chosen}{', the same' if same else ', **which is not the best**'}."


def _ended(outcome: Runs) -> str:
    return interval(estimate(100 * outcome.best)) if outcome.learnt else DASH


def _lost(one: Runs) -> str:
    what = _broken(one)
    return f"{one.lost_runs + one.guessing} of {len(one.seeds)}" + (f" ({', '.join(what)})" if what else "")
