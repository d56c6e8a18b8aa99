"""Clients that choose what they buy: one policy's, in all of its runs, by its buying rule."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headgate.control.ranking import Candidates
from headgate.control.scores import Scores
from headgate.control.selection import Selection
from headgate.control.types import Ints, Ledger
from headgate.learning.bought import Bought, Choice, offered, seen_at, split
from headgate.learning.data import Data
from headgate.learning.remembered import oldest_held
from headgate.simulation.rounds import Admissions, Prepared

Look = Callable[[tuple[str, ...], int, Ints, Ints, Ints], Scores]
"""(what is asked for, run of the policy, clients, places in their streams, concepts) → the scores of each sample"""


@dataclass(frozen=True, eq=False)
class Buying:
    """Run by run: no number hangs on the runs beside, and no more is in memory than one of them takes."""

    rule: Selection
    data: Data
    seeds: Ints
    ends: Ints | None
    """where each client's stream ends, (S, M); None: nowhere"""
    look: Look

    def open(self, clients: int) -> Bought:
        """Before round 1."""
        return Bought.nothing(len(self.seeds), clients, self.data.keep)

    def admits(self, known: Bought, ordered: Ints) -> Ints | None:
        """What clients can admit of what was ordered, (S, M), where streams end; None: all of it."""
        return None if self.ends is None else known.available(self.data.window, ordered, self.ends)

    def after(self, known: Bought, before: Ledger, ordered: Ints, today: Ints | None) -> Bought:
        """After clients have bought what they were ordered to, or what they could, (S, M); `before` is the ledger as it was."""
        looked, spare, bought = known.looked.copy(), known.spare.copy(), list[Ints]()
        counts = np.zeros_like(ordered)
        for run in range(len(self.seeds)):
            ends = None if self.ends is None else self.ends[run]
            choice = known.choice(run, self.data.window, ordered[run], ends, None if today is None else today[run])
            looked[run] += known.fresh(run, self.data.window, ordered[run], ends)
            counts[run, choice.clients] = choice.ordered
            if choice.clients.size:
                taken, kept = split(self.rule, choice, self._offered(known, before, run, choice), self.data.keep)
                spare[run, choice.clients] = kept
                bought.append(taken)
        sights = np.concatenate(bought) if bought else np.zeros(0, np.int64)
        made = known.sights.with_new(oldest_held([before]), before.admitted, before.admitted + counts, sights)
        return replace(known, looked=looked, spare=spare, sights=made)

    def _offered(self, known: Bought, before: Ledger, run: int, choice: Choice) -> Candidates:
        """With what the rule asks for."""
        seed = int(self.seeds[run])
        if not self.rule.looks:
            return offered(choice, seed)
        scores = self._scores(self.rule.scores, run, choice.clients, choice.sights)
        if not self.rule.beside_held:
            return offered(choice, seed, scores)
        held = _held(before, run, choice.clients)
        row, _ = np.nonzero(held >= 0)
        sights = np.full_like(held, -1)
        sights[held >= 0] = known.sights.at(np.full_like(row, run), choice.clients[row], held[held >= 0])
        beside = self._scores(("features",), run, choice.clients, sights)
        return offered(choice, seed, scores, beside.features, held >= 0)

    def _scores(self, asked: tuple[str, ...], run: int, clients: Ints, sights: Ints) -> Scores:
        """Of the samples at these sights, (C, W)."""
        there = sights >= 0
        row, _ = np.nonzero(there)
        return self.look(asked, run, clients[row], *seen_at(sights[there])).placed(there)


def looks_told(buying: Mapping[str, Buying], before: Admissions, now: Prepared, runs: int) -> dict[str, list[Any]]:
    """For the record, of all policies one after the other, `runs` of each: samples that clients looked at in the round, and
    what they paid for that; None where they do not look."""
    looked, paid = list[int | None](), list[float | None]()
    for name, ledger in now.after.items():
        if name not in buying or not buying[name].rule.looks:
            looked, paid = looked + [None] * runs, paid + [None] * runs
            continue
        before_it, after_it = (known.bought[name].looked.sum(axis=-1) for known in (before, now.admissions))
        looked += (after_it - before_it).tolist()
        earlier = now.before[name].looks
        paid += [0.0] * runs if ledger.looks is None or earlier is None else (ledger.looks - earlier).tolist()
    return {"looked": looked, "looks": paid}


def _held(ledger: Ledger, run: int, clients: Ints) -> Ints:
    """Which of their admissions clients hold, −1 at empty places, (C, B)."""
    if ledger.places is not None:
        return np.asarray(ledger.places[run, clients])
    first, last = ledger.dropped[run, clients, None], ledger.admitted[run, clients, None]
    each = first + np.arange(int((last - first).max(initial=0)))
    return np.asarray(np.where(each < last, each, -1))
