"""Which samples a client buys, as an order states it: a buying rule by its name, the window, and how many it may keep.

The client chooses among its own samples with the model that came with the order. What it looks at never leaves it: the answer
tells how many were admitted, as without a choice.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from headgate.books.messages import Order
from headgate.control.randomness import Purpose
from headgate.control.ranking import Candidates, chosen
from headgate.control.scores import Scores, checked_scores
from headgate.control.selection import Selection
from headgate.errors import DataError
from headgate.flower.sources import HeldSample, SampleScorer
from headgate.limits import SAMPLES, WINDOW
from headgate.registry import SELECTION, fill, nearest


@dataclass(frozen=True, eq=False)
class StatedChoice:
    """What an order says about which samples to buy."""

    rule: Selection
    window: int
    keep: int

    def picks(
        self, order: Order, before_it: Sequence[HeldSample], held: Sequence[HeldSample], many: int, look: SampleScorer | None
    ) -> list[bool]:
        """Which of the samples before a client are bought; `many` are."""
        position = np.array([[sample.position for sample in before_it]], dtype=np.int64)
        room, seed, client = (np.array([[each]]) for each in (many, order.seed, order.client))
        offered = Candidates(position, room, seed, client, purpose=Purpose.SELECTION)
        if self.rule.looks:
            offered = offered._replace(scores=self._scores(before_it, self.rule.scores, look))
        if self.rule.beside_held:
            there = np.ones((1, len(held)), dtype=bool)
            features = self._scores(held, ("features",), look).features if held else np.zeros((1, 0, 0))
            offered = offered._replace(held=features, held_there=there)
        takes: list[bool] = chosen(self.rule, offered)[0].tolist()
        return takes

    def _scores(self, samples: Sequence[HeldSample], asked: tuple[str, ...], look: SampleScorer | None) -> Scores:
        """Of one client's samples, (1, W). Labels are not shown."""
        if look is None:
            name, hint = type(self.rule).__name__, "headgate_client(..., scores=...) says how"
            raise DataError(f"order.choice: {name} looks at samples, which this client was not told to do: {hint}")
        found = look([sample._replace(label=None) for sample in samples], asked)
        return checked_scores(found, asked, len(samples)).placed(np.ones((1, len(samples)), dtype=bool))


def choice_of(order: Order, own: Collection[type] = ()) -> StatedChoice | None:
    """What an order says; None: the next samples are bought. A client knows the shipped rules and its `own`; it imports
    nothing."""
    if not order.choice:
        return None
    try:
        said = json.loads(order.choice)
    except (ValueError, RecursionError):
        said = None
    table = said.get("rule") if isinstance(said, dict) else None
    if not isinstance(said, dict) or said.keys() != {"rule", "window", "keep"} or not isinstance(table, dict):
        raise DataError("order.choice: must be a JSON object with rule, window and keep")
    for key, least, most in (("window", 1, WINDOW), ("keep", 0, SAMPLES)):
        if type(said[key]) is not int or not least <= said[key] <= most:
            raise DataError(f"order.choice: {key} must be a whole number, {least} to {most:,}")
    kind = str(table.pop("kind", ""))
    mine = {f"{each.__module__}:{each.__qualname__}": each for each in own if issubclass(each, Selection)}
    known = {**SELECTION.kinds, **mine}
    if kind not in known:
        raise DataError(f"order.choice: this client does not know the rule {kind[:60]}{nearest(kind, list(known))}")
    rule: Selection = fill(known[kind], table, "order.choice.rule")
    rule.check()
    return StatedChoice(rule, said["window"], said["keep"])
