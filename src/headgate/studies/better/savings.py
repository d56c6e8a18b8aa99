"""Where headgate saves money and where it does not: one row for each model and kind of price."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headgate.analysis.compare.page import rows
from headgate.analysis.pages import as_json, write
from headgate.analysis.provenance import facts_of, machine
from headgate.analysis.runs import read_finished
from headgate.records.reader import RunFolder

SAVINGS = (
    "savings-logistic",
    "savings-lenet",
    "savings-cifar10",
    "savings-imagenette",
    "savings-ercot",
    "savings-ercot-lenet",
    "savings-brent",
    "savings-brent-lenet",
    "savings-night",
    "savings-night-lenet",
    "savings-tariff",
    "savings-tariff-lenet",
)
"""the comparisons, each a recipe better/NAME"""
KEPT = ("prices", "unit", "budget", "policy", "reference", "seeds", "diverged", "learnt", "rounds", "spend", "worst_spend")
KEPT_ALSO = (
    "price_paid",
    "price_offered",
    "overspent_runs",
    "worst_excess",
    "N",
    "kept_limits",
    "last_by_seed",
    "best_by_seed",
)


def conclude_runs(folders: Sequence[Path], pages: Path, name: str, command: str, quick: bool) -> list[Path]:
    """NAME.json: what the page needs of each policy at each budget, seed by seed."""
    facts = facts_of(command, [machine(RunFolder.open(each)) for each in folders], quick)
    found: list[dict[str, Any]] = [{key: row[key] for key in (*KEPT, *KEPT_ALSO)} for row in rows(read_finished(folders))]
    return write(pages, {f"{name}.json": as_json({**facts, "rows": found})})
