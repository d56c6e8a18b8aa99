"""What the pages of our comparisons share: which were run, their rows, and differences taken seed by seed."""

from collections.abc import Sequence
from pathlib import Path

from headgate.analysis.formatting import DASH, listed, plus_minus
from headgate.analysis.intervals import Difference
from headgate.analysis.pages import of_one_sort, read_numbers
from headgate.analysis.savings import Row, paired
from headgate.errors import DataError

SMALL = 1e-12
"""p values below it are not told apart"""


def not_run(names: Sequence[str], folder: Path, quick: bool) -> list[str]:
    """The comparisons that have no numbers in `folder`; refused where it holds trials and results would join them."""
    return [name for name in names if not of_one_sort(folder / f"{name}.json", quick)]


def rows_of_all(names: Sequence[str], folder: Path) -> dict[str, Sequence[Row]]:
    """The rows of each comparison; refused where one was not run."""
    found = {name: read_numbers(folder / f"{name}.json").get("rows") for name in names}
    if absent := [name for name, rows in found.items() if not rows]:
        raise DataError(f"{folder}: has no numbers of {listed(absent)}")
    return found  # type: ignore[return-value]


def gap(one: Row, other: Row, key: str) -> str:
    """Seed by seed, in points, with its 95 % interval; nothing where a side was lost."""
    both = one[f"{key}_by_seed"] and other[f"{key}_by_seed"]
    return plus_minus(paired(one, other, key), 2, signs=True) if both else DASH


def with_p(gap: Difference, digits: int = 2, unit: str = "") -> str:
    """A difference with its 95 % interval and p."""
    said = plus_minus(gap, digits, signs=True) + (f" {unit}" if unit else "")
    if gap.p is None:
        return said
    p = f"p < {SMALL:.0e}" if gap.p < SMALL else f"p = {gap.p:.2g}"
    return f"{said} ({p.replace('-', '−')})"
