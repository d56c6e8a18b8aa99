"""What policies need for an accuracy, as a table that displays itself."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, overload

import polars as pl
from rich.console import RenderableType

from headgate.analysis.display import Displayed, StackedTable
from headgate.analysis.formatting import percent
from headgate.analysis.savings import Need, Saving, amount, needed

Entry = TypeVar("Entry", Need, Saving)


@dataclass(
    frozen=True,
    eq=False,
    repr=False,
)
class Needs(Displayed, Sequence[Entry], Generic[Entry]):
    """The result of `money_for` and `saved_against`: a sequence, shown as a table.

    Parameters
    ----------
    found : sequence of Need or Saving
        What each policy needs.

    Examples
    --------
    >>> found = Needs([Need("even", "last", "$", 0.8, None, (0.0, 5.0))])
    >>> found
      policy   for 80.0 % a round
     ─────────────────────────────
      even        less than $ 5.0
    >>> found[0].ends, found.frame["needs"].to_list()
    ((0.0, 5.0), ['less than $ 5.0'])
    """

    found: Sequence[Entry]

    def __len__(self) -> int:
        return len(self.found)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.found)

    @overload
    def __getitem__(self, at: int) -> Entry: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Entry]: ...

    def __getitem__(self, at: int | slice) -> Entry | Sequence[Entry]:
        return self.found[at]

    @property
    def frame(self) -> pl.DataFrame:
        """One row for each policy, and for each budget of a rival."""
        rows = [one.row() for one in self.found]
        return pl.DataFrame(rows, infer_schema_length=None)

    def render(self) -> list[RenderableType]:
        if not self.found:
            return [
                "nothing is known: policies must have learnt at two budgets or more"
            ]
        first = self.found[0]
        if isinstance(first, Saving):
            header = [f"{first.rival}, a round", "reaches", "policy", "needs", "share"]
        else:
            header = ["policy", f"for {percent(first.accuracy, 1)} a round"]
        return [StackedTable("", header, [_cells(one) for one in self.found])]


def _cells(one: Need | Saving) -> list[str]:
    if isinstance(one, Need):
        return [one.policy, one.text]
    spent = amount(one.unit, one.rival_money)
    money, share = needed(one)
    return [spent, percent(one.accuracy, 1), one.policy, money, share]
