"""The clients' buffers: the samples in them, and how often dropped ones were used.

All rules share this bookkeeping. Windows are computed from counts alone: for K-step
retention from the admissions of the last K rounds, for a capacity from the end of the
window. Other rules choose which samples stay, for each client to which samples are
added.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.control.ranking import Candidates, chosen
from headgate.control.retention import KStep, Retention, WindowRule
from headgate.control.scores import Scores, ScoresAt
from headgate.control.types import (
    UNSEEN,
    Bools,
    Contents,
    Ints,
    Ledger,
    SampleView,
    System,
)
from headgate.errors import SettingError
from headgate.limits import check_memory

BY_CLIENT, BY_PLACE, BY_CHOSEN_PLACE = 160, 56, 120
"""upper bounds in bytes for a client, a place under a window rule and a place under
other rules, temporary arrays included
"""


class Settled(NamedTuple):
    """The clients' buffers after a round, and the samples dropped in it.

    Parameters
    ----------
    contents : Contents
        The contents of the buffers.
    unused : array of int or int
        Samples dropped in the round in which they were admitted, (R,).
    uses : array of int
        Sum of the use counts of all dropped samples, (R,).
    """

    contents: Contents
    unused: Ints | int
    uses: Ints


class Buffers:
    """The buffers of all clients of all runs under one retention rule."""

    def __init__(
        self,
        rule: Retention,
        system: System,
        runs: int,
        seeds: Ints,
    ) -> None:
        if not isinstance(rule, Retention):
            raise SettingError(
                f"retention = {rule!r}: must be a Retention, as in"
                " headgate.control.Fifo()"
            )
        self.rule = rule
        self.runs = runs
        self.clients = system.clients
        self.seeds = seeds
        self.limit = rule.limit(system)
        self.window = isinstance(rule, WindowRule)
        if self.limit is None and not self.window:
            raise SettingError(
                f"{type(rule).__name__}: needs a capacity; only window rules go without"
            )
        rule.check()
        self.K: int | None = None
        self.forever: Bools | None = None
        if isinstance(rule, KStep):
            self.K = rule.K
            if rule.forever:
                self.forever = np.isin(np.arange(system.clients), rule.forever)
        self._check_memory(system.horizon)

    def _check_memory(self, horizon: int | None) -> None:
        """Raise SettingError if the arrays by client, round and place are too large."""
        K = self.K or 0
        rounds = min(K, horizon or K)
        many = self.runs * self.clients
        of = f"{self.runs} runs of {self.clients} clients"
        by_client = BY_CLIENT + 8 * rounds
        what = f"K = {K}: {of}, and what they admitted in {rounds} rounds, take"
        check_memory(what, many * by_client)
        if self.limit is not None:
            most = int(self.limit.max())
            by_place = BY_PLACE if self.window else BY_CHOSEN_PLACE
            what = f"capacity = {most}: {of} with so many places each take"
            check_memory(what, many * (BY_CLIENT + by_place * most))

    def open(self) -> Contents:
        """Return the empty buffers before round 1."""
        none = np.zeros((self.runs, self.clients), dtype=np.int64)
        recent = (none,) * (self.K or 0)
        if self.limit is None:
            return Contents(recent)
        most = int(self.limit.max())
        if self.window:
            places_first = np.zeros((most, *none.shape), dtype=kind_of(0))
            return Contents(recent, np.moveaxis(places_first, 0, -1))
        shape = (*none.shape, most)
        born = np.zeros(shape, dtype=np.int32)
        labels = np.zeros(shape, dtype=np.int32) if self.rule.by_class else None
        return Contents(recent, born, np.full(shape, -1, dtype=np.int64), labels)

    def kept_from(self, ledger: Ledger, t: int) -> Ints:
        """Return where the windows begin in round t before admission, (R, M).

        Samples that left by age are excluded.
        """
        if self.K is None:
            return ledger.dropped
        gone = ledger.contents.recent[t % self.K]
        if self.limit is not None:
            gone = np.maximum(ledger.dropped, gone)
        if self.forever is not None:
            gone = np.where(self.forever, ledger.dropped, gone)
        return gone

    def first(self, kept_from: Ints, last: Ints) -> Ints:
        """Return where the windows begin after admission up to `last`, (R, M).

        This equals the samples ever dropped.
        """
        if self.limit is None:
            return kept_from
        first: Ints = last - self.limit
        np.maximum(kept_from, first, out=first)
        return first

    def settle(
        self,
        ledger: Ledger,
        t: int,
        first: Ints,
        last: Ints,
        samples: SampleView = UNSEEN,
    ) -> Settled:
        """Return the buffers after admission up to `last`.

        The windows begin at `first`.
        """
        contents = ledger.contents
        if self.K is not None:
            # references to the last K cumulative admissions, without copies
            recent = list(contents.recent)
            recent[t % self.K] = last
            contents = contents._replace(recent=tuple(recent))
        if self.limit is None:
            assert self.K is not None
            left = (first - ledger.dropped).sum(axis=-1)
            return Settled(contents, 0, np.asarray(left * self.K))
        if self.window:
            return self._window(ledger, contents, t, first, last)
        return self._chosen(ledger, contents, t, last, samples)

    def erased(self, ledger: Ledger, client: int) -> tuple[Contents, Ints]:
        """Return the buffers without a client's samples, and how often they were used.

        The sum of their use counts, (R,), is that after round ledger.t.
        """
        contents = ledger.contents
        if contents.born is None or self.limit is None:
            raise SettingError(
                f"{type(self.rule).__name__}: has no capacity, so how often samples"
                " were used is not known"
            )
        if contents.places is None:
            begin = ledger.dropped[:, client, None]
            count = ledger.occupancy[:, client, None]
            limit = self.limit[client, None]
            there = within(contents.born.shape[-1], begin, count, limit)[..., 0].T
        else:
            there = contents.places[:, client] >= 0
        age = ledger.t + 1 - contents.born[:, client].astype(np.int64)
        uses = np.where(there, age, 0).sum(axis=-1)

        emptied: dict[str, Any] = {}
        for name, nothing in (("born", 0), ("places", -1), ("labels", 0)):
            array = getattr(contents, name)
            if array is not None:
                emptied[name] = array.copy()
                emptied[name][:, client] = nothing
        return contents._replace(**emptied), np.asarray(uses)

    def without(
        self,
        ledger: Ledger,
        client: int,
        place: int,
    ) -> Ledger:
        """Return the ledger of one run without a sample that a client holds: it was
        given back, so its uses count no more. A sample that left before stays counted.
        """
        held = ledger.dropped[0, client] <= place < ledger.admitted[0, client]
        contents = ledger.contents
        if contents.places is not None:
            held = bool((contents.places[0, client] == place).any())
        if not held:
            return ledger
        dropped = ledger.dropped.copy()
        dropped[0, client] += 1
        if contents.born is None or self.limit is None:
            return replace(ledger, dropped=dropped)
        slots = np.arange(ledger.dropped[0, client], place + 1) % self.limit[client]
        if contents.places is not None:
            slots = np.flatnonzero(contents.places[0, client] == place)
        used = ledger.t + 1 - int(contents.born[0, client, slots[-1]])
        after: dict[str, Any] = {}
        for name, nothing in (("born", 0), ("places", -1), ("labels", 0)):
            array = getattr(contents, name)
            if array is None:
                continue
            after[name] = array.copy()
            own = after[name][0, client]
            if contents.places is None:  # older samples move up in the window
                own[slots[1:]] = own[slots[:-1]]
                own[slots[0]] = nothing
            else:
                own[slots[0] :] = [*own[slots[0] + 1 :], nothing]
        return replace(
            ledger,
            contents=contents._replace(**after),
            dropped=dropped,
            unused=ledger.unused + 1,
            uses=ledger.uses - used,
            squared_uses=ledger.squared_uses - used**2,
            uses_in_memory=ledger.uses_in_memory - used,
        )

    # windows with a capacity

    def _window(
        self,
        ledger: Ledger,
        contents: Contents,
        t: int,
        first: Ints,
        last: Ints,
    ) -> Settled:
        """Settle windows with a capacity.

        Sample i of a client is in place i mod its limit; `born` is 0 beyond the limit.
        """
        assert contents.born is not None
        assert self.limit is not None
        none_left = np.array_equal(first, ledger.dropped)
        if none_left and np.array_equal(last, ledger.admitted):
            return Settled(contents, 0, np.zeros(self.runs, dtype=np.int64))

        places_first = np.ascontiguousarray(np.moveaxis(contents.born, -1, 0))
        born = places_first.astype(kind_of(t), copy=False)
        begin = np.maximum(ledger.admitted, first)
        gone = np.minimum(ledger.admitted, first) - ledger.dropped
        leaves = within(len(born), ledger.dropped, gone, self.limit)
        comes = within(len(born), begin, last - begin, self.limit)

        # A sample is used once in every round from its admission to t − 1.
        rounds = (born * leaves).sum(
            axis=0,
            dtype=kind_of(len(born) * t),
        )
        uses = t * gone.sum(axis=-1) - rounds.sum(
            axis=-1,
            dtype=np.int64,
        )
        unused = (begin - ledger.admitted).sum(axis=-1)
        after = np.where(comes, born.dtype.type(t), born)
        contents = contents._replace(born=np.moveaxis(after, 0, -1))
        return Settled(contents, unused, uses)

    # rules that choose

    def _chosen(
        self,
        ledger: Ledger,
        contents: Contents,
        t: int,
        last: Ints,
        samples: SampleView,
    ) -> Settled:
        """Settle a rule that chooses which samples stay."""
        assert contents.places is not None
        assert contents.born is not None
        assert self.limit is not None
        runs = len(last)
        run, client = np.nonzero(last > ledger.admitted)
        if run.size == 0:
            return Settled(contents, 0, np.zeros(runs, dtype=np.int64))
        most = int((last - ledger.admitted).max())
        position = ledger.admitted[run, client, None] + np.arange(most)
        arriving = np.where(position < last[run, client, None], position, -1)

        held: dict[str, NDArray[Any]]
        held = {"places": contents.places, "born": contents.born}
        came: dict[str, NDArray[Any]] = {
            "places": arriving,
            "born": np.full(arriving.shape, t, dtype=np.int32),
        }
        if contents.labels is not None:
            held["labels"] = contents.labels
            came["labels"] = _labels(samples, run, client, arriving)
        both = {
            name: np.concatenate([array[run, client], came[name]], axis=1)
            for name, array in held.items()
        }
        age = np.where(both["places"] >= 0, t - both["born"], -1)
        candidates = Candidates(
            position=both["places"],
            age=age,
            label=both.get("labels"),
            seed=self.seeds[run, None],
            client=client[:, None],
            room=self.limit[client, None],
        )
        if self.rule.scores and samples.scores is not None:
            stays = self._scored(samples.scores, run, client, candidates)
        else:
            stays = chosen(self.rule, candidates)

        # The samples that stay move to the first places, in their order.
        slots = contents.places.shape[-1]
        slot = np.argsort(
            ~stays,
            axis=1,
            kind="stable",
        )[:, :slots]
        empty = ~np.take_along_axis(stays, slot, axis=1)
        after = {name: array.copy() for name, array in held.items()}
        for name, array in after.items():
            nothing = -1 if name == "places" else 0
            moved = np.take_along_axis(both[name], slot, axis=1)
            array[run, client] = np.where(empty, nothing, moved)

        # A sample is used once in every round since its admission, a new one never.
        left = candidates.there & ~stays
        unused = _by_run(runs, run, left & candidates.new)
        uses = _by_run(runs, run, np.where(left, age, 0))
        return Settled(Contents(contents.recent, **after), unused, uses)

    def _scored(
        self,
        scores: ScoresAt,
        run: Ints,
        client: Ints,
        given: Candidates,
    ) -> Bools:
        """Return which samples stay under a rule that looks.

        Clients with room for all their samples need no scores. Runs are handled one
        after another, so no number depends on another run and the scores of one run
        only are kept.
        """
        stays = given.there.copy()
        crowded = np.flatnonzero(stays.sum(axis=1) > given.room[:, 0])
        for number in np.unique(run[crowded]):
            own = crowded[run[crowded] == number]
            some = given.of(own)
            row, nth = np.nonzero(some.there)
            who, position = own[row], some.position[row, nth]
            found = scores(run[who], client[who], position, self.rule.scores)
            scored = some._replace(scores=found.placed(some.there))
            stays[own, : some.position.shape[1]] = chosen(self.rule, scored)
        return stays


def _labels(
    samples: SampleView,
    run: Ints,
    client: Ints,
    arriving: Ints,
) -> NDArray[np.int32]:
    """Return the classes of the new samples, and 0 for places without a sample."""
    labels = np.zeros(arriving.shape, dtype=np.int32)
    if samples.labels is not None:
        row, nth = np.nonzero(arriving >= 0)
        labels[row, nth] = samples.labels(run[row], client[row], arriving[row, nth])
    return labels


def keeps_alone(
    rule: Retention,
    room: int,
    seed: int,
    client: int,
    position: Ints,
    age: Ints,
    labels: Ints | None = None,
    scores: Scores | None = None,
) -> Bools:
    """Return which samples of a single client stay.

    `position` holds their ascending positions in its stream, and `scores` are their
    scores, for a rule that looks. The result equals that of a batch with the same seed.
    """
    if not (age == 0).any():
        return np.ones(position.size, dtype=bool)
    if scores is not None:
        scores = scores.placed(np.ones((1, position.size), dtype=bool))
    given = Candidates(
        position=position.astype(np.int64)[None],
        age=age.astype(np.int64)[None],
        label=None if labels is None else np.asarray(labels)[None],
        seed=np.array([[seed]]),
        client=np.array([[client]]),
        room=np.array([[room]]),
        scores=scores,
    )
    return np.asarray(chosen(rule, given)[0])


def kind_of(t: int) -> type[np.signedinteger[Any]]:
    """Return the narrowest integer type that holds t.

    With a million clients, moving their arrays takes the most time.
    """
    for kind in (np.int8, np.int16, np.int32):
        if t <= np.iinfo(kind).max:
            return kind
    return np.int64


def within(
    places: int,
    begin: Ints,
    count: Ints,
    limit: Ints,
) -> Bools:
    """Return which places (B, R, M) hold the `count` samples from `begin` on.

    At most `limit` of them are held.
    """
    kind = kind_of(2 * places)
    first = (begin % limit).astype(kind)
    many, most = count.astype(kind), limit.astype(kind)
    after = np.arange(places, dtype=kind)[:, None, None] - first
    before_end = (after >= 0) & (after < np.minimum(many, most - first))
    from_start = after + most < many
    return np.asarray(before_end | from_start)


def _by_run(
    runs: int,
    run: Ints,
    counts: NDArray[Any],
) -> Ints:
    """Return the counts of all rows, summed for each run, (R,); exact below 2^53."""
    return np.bincount(
        run,
        weights=counts.sum(axis=1),
        minlength=runs,
    ).astype(np.int64)
