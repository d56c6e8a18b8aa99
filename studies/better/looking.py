"""How many, which to buy and which to keep: what each rule that looks at samples is worth at equal spend, looks included."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from headgate.analysis.formatting import DASH, interval, listed, percent, plus_minus
from headgate.analysis.intervals import Difference, Estimate
from headgate.analysis.limits import holm
from headgate.analysis.pages import beside, filled, read_numbers, table, write
from headgate.experiment import load
from studies import recipe
from studies.better.seed_by_seed import Row, paired, rows_of_all, with_p
from studies.better.studies import study, title

PAGE = "looking.md"
CALM = "looking-calm"
LOOKING = (
    CALM,
    "looking-sudden",
    "looking-lenet-calm",
    "looking-lenet-sudden",
    "looking-cifar10-calm",
    "looking-cifar10-sudden",
)
"""the comparisons, each a recipe better/NAME"""
COMES_ROUND = "looking-cifar10-calm"
"""where clients have so few samples that they see each of them more than once"""
STILL, MOVING = ("best", "last", "mean"), ("daily", "last", "depth")
"""what is told of a world"""
BUYING = ("entropy", "margin", "vessal", "coreset")
KEEPING = ("gss", "balancer", "cbrs", "ode", "reservoir")
HOW_MANY = {"headgate": "random", "constant": "constant-random"}
"""the policy that draws lots, beside which those that look are put"""
Found = Mapping[str, Sequence[Row]]


def measures(name: str) -> tuple[str, ...]:
    return STILL if name.endswith("calm") else MOVING


def conclude_looking(folder: Path, quick: bool) -> list[Path]:
    """looking.md from the numbers beside it. What takes a GPU and was not run is left out."""
    run = [name for name in LOOKING if not study(name).needs_gpu or read_numbers(folder / f"{name}.json")]
    return write(folder, {PAGE: looking_page(rows_of_all(run, folder), quick)})


def looking_page(found: Found, quick: bool = False) -> str:
    data = load(recipe(f"better/{CALM}")).data
    return filled(
        beside(__file__, "looking.md"),
        quick,
        seeds=found[CALM][0]["seeds"],
        left_out=_left_out(found),
        window=data.window,
        look=f"{data.look:g}",
        verdict=_verdict(found),
        oracle=_beside_the_oracle(found),
        again=_distinct(found.get(COMES_ROUND, ())),
        buying="\n\n".join(f"### {title(name)}\n\n{_buying(name, rows)}" for name, rows in found.items()),
        keeping="\n\n".join(f"### {title(name)}\n\n{_keeping(name, rows)}" for name, rows in found.items()),
        everything="\n\n".join(f"### {title(name)}\n\n{_everything(name, rows)}" for name, rows in found.items()),
    )


def _left_out(found: Found) -> str:
    absent = [f"{title(name)} (`{study(name).command}`)" for name in LOOKING if name not in found]
    return f" Not run yet: {'; '.join(absent)}." if absent else ""


def _distinct(rows: Sequence[Row]) -> dict[str, str]:
    """Of what two policies bought, how much was new to the client."""
    named = _named(rows)
    return {rule: percent(named[rule]["N"] / bought(named[rule])) if named else DASH for rule in ("entropy", "random")}


def _named(rows: Sequence[Row]) -> dict[str, Row]:
    return {row["policy"]: row for row in rows}


def _said(gap: Difference | None) -> str:
    return DASH if gap is None else with_p(gap)


def gaps_beside_lots(rows: Sequence[Row], many: str, key: str) -> dict[str, Difference | None]:
    """Each buying rule that looks and was tried, less lots, with p after Holm's correction."""
    named, prefix = _named(rows), "" if many == "headgate" else f"{many}-"
    tried = {rule: named[prefix + rule] for rule in BUYING if prefix + rule in named}
    return holm({rule: paired(row, named[HOW_MANY[many]], key) for rule, row in tried.items()})


def _buying(name: str, rows: Sequence[Row]) -> str:
    named, lines = _named(rows), []
    for many in HOW_MANY:
        gaps = {key: gaps_beside_lots(rows, many, key) for key in measures(name)}
        prefix = "" if many == "headgate" else f"{many}-"
        for rule in gaps[measures(name)[0]]:
            row = named[prefix + rule]
            told = (_said(gaps[key][rule]) for key in measures(name))
            lines.append([many, rule, *told, f"{bought(row):.0f}", f"{row['N']:.0f}", _money(row)])
    header = ["how many", "which to buy", *(f"{key} (points)" for key in measures(name)), "bought", "N", "money a round"]
    return table(header, lines)


def bought(row: Row) -> float:
    """Labels that were paid for in a run; more than N where a stream comes round and a sample is bought again."""
    return float(row["spend"] * row["rounds"] / row["price_paid"])


def _keeping(name: str, rows: Sequence[Row]) -> str:
    named, lines = _named(rows), []
    for bought, base in (("first come", "headgate"), ("margin", "margin"), ("vessal", "vessal")):
        prefix = "" if base == "headgate" else f"{base}-"
        if prefix + KEEPING[0] not in named:
            continue
        gaps = {key: holm({rule: paired(named[prefix + rule], named[base], key) for rule in KEEPING}) for key in measures(name)}
        for rule in KEEPING:
            own = named[prefix + rule]
            lines.append([bought, rule, *(_said(gaps[key][rule]) for key in measures(name)), f"{own['N']:.0f}"])
    return table(["bought", "which to keep", *(f"{key} (points)" for key in measures(name)), "N"], lines)


def _everything(name: str, rows: Sequence[Row]) -> str:
    lines = [
        [
            f"`{row['policy']}`",
            *(DASH if row.get(key) is None else interval(Estimate(*row[key]).scaled(100), 2) for key in measures(name)),
            f"{row['N']:.0f}",
            _money(row),
            "reference" if row["reference"] else "kept" if row["kept_limits"] else "broken",
        ]
        for row in rows
    ]
    return table(["policy", *(f"{key} (%)" for key in measures(name)), "N", "money a round", "limits"], lines)


def _money(row: Row) -> str:
    return f"{row['spend']:.2f}"


def _verdict(found: Found) -> str:
    """Which buying rules are clearly ahead of lots, and which clearly behind, world by world."""
    said = []
    for name, rows in found.items():
        key = measures(name)[0]
        for many in HOW_MANY:
            gaps = {rule: gap for rule, gap in gaps_beside_lots(rows, many, key).items() if gap and gap.low is not None}
            ahead = [f"{rule} {plus_minus(gap, 2, signs=True)}" for rule, gap in gaps.items() if (gap.low or 0) > 0]
            behind = [f"{rule} {plus_minus(gap, 2, signs=True)}" for rule, gap in gaps.items() if (gap.high or 0) < 0]
            parts = [f"ahead of lots: {listed(ahead)}"] if ahead else ["none is ahead of lots"]
            parts += [f"behind: {listed(behind)}"] if behind else []
            said.append(f"- {title(name)}, `{many}`, {key}: {'; '.join(parts)}.")
    return "\n".join(said)


def _beside_the_oracle(found: Found) -> str:
    """What headgate that buys by margin ends at beside the oracle, which buys whatever comes, world by world."""
    said = []
    for name, rows in found.items():
        named = _named(rows)
        own, oracle = named["margin"], named["oracle"]
        gaps = [(key, paired(own, oracle, key)) for key in measures(name)[:2]]
        told = listed([f"{key} {plus_minus(gap, 2, signs=True)}" for key, gap in gaps if gap])
        said.append(f"- {title(name)}, {percent(own['spend'] / oracle['spend'])} of the oracle's money: {told}.")
    return "\n".join(said)
