"""The rows of the training set from which the samples that clients hold come.

Control numbers the admissions of each client. If clients buy the next samples of their
streams, the world does not change and labels are available at once, the i-th admission
is the i-th sample of the stream, and nothing is stored (`StreamSource`). Otherwise each
sample is stored from its admission until it is dropped (`PurchaseSource`): its row,
which also identifies its appearance in its concept, its number among all samples, and
the round. A sample that is under way is stored, too, with the round in which it
arrives.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.control.randomness import Purpose
from headgate.control.ranking import Candidates, chosen
from headgate.control.scores import Scores
from headgate.control.selection import Selection
from headgate.control.types import Bools, Ints, Ledger
from headgate.learning.data import Data
from headgate.learning.drift import DriftingStream, World
from headgate.learning.streams import Stream, StreamRows, spans

ScoreRows = Callable[[tuple[str, ...], Ints, Ints], Scores]
"""(names of the scores, places of the runs' seeds, rows of the training set) → the
scores of each row
"""
ADMISSIONS = 40
"""low bits of a key, which hold the number of an admission; the bits above hold the
owner, the place of a client among the clients of all runs
"""
UNDER_WAY = 1 << ADMISSIONS - 1
"""bit of the key of a sample that is under way; the bits below hold its number among
the client's orders
"""


def key_of(owner: Ints, admissions: Ints) -> Ints:
    """Return the owner and the admission of each sample in one number."""
    return (owner << ADMISSIONS) + admissions


class TrainingSamples(NamedTuple):
    """The samples on which the clients of one policy train, sorted by run and client;
    each field has one entry per sample.
    """

    owner: Ints
    """place of the sample's client among the training clients of all runs"""
    seeds: Ints
    """place of the run's seed among all seeds"""
    clients: Ints
    admissions: Ints
    """number of the sample among its client's admissions"""
    new: Bools
    """whether the sample was admitted in this round or, if labels are late, received
    its label in it
    """


def held_admissions(ledger: Ledger, clients: Ints) -> tuple[Ints, Ints]:
    """Return (place of the client, admission) of every sample that these clients (S, C)
    hold, sorted by run and client.
    """
    places = ledger.contents.places
    if places is not None:
        held = np.take_along_axis(places, clients[..., None], axis=1)
        held = held.reshape(clients.size, -1)
        owner, slot = np.nonzero(held >= 0)
        return owner, held[owner, slot]

    first = np.take_along_axis(ledger.dropped, clients, axis=1).ravel()
    last = np.take_along_axis(ledger.admitted, clients, axis=1).ravel()
    owner = np.repeat(np.arange(clients.size), last - first)
    return owner, spans(first, last - first)


@dataclass(
    frozen=True,
    eq=False,
)
class PurchaseTable:
    """The purchased samples that clients hold, in all runs of one policy; a table is
    replaced, never changed in place.
    """

    key: Ints
    """run, client and admission of each sample in one number, ascending"""
    rows: NDArray[np.int32]
    """row of the training set of each sample"""
    samples: NDArray[np.int32]
    """number of each sample among all samples of the run's seed"""
    round: NDArray[np.int32]
    """round in which each sample was admitted or, under way, arrives"""
    looked: Ints
    """samples of its stream that each client has been offered so far, (S, M)"""
    spare: Ints
    """(place among the offered samples, number, row) of the unlabelled samples that
    each client keeps, the newest last, filled up with −1, (S, M, keep, 3)"""
    passed: Ints
    """samples of its stream that each client missed because they passed by, (S, M)"""

    def find(self, keys: Ints) -> Ints:
        """Return the places of the samples with these keys."""
        return np.searchsorted(self.key, keys)

    def only(self, keys: Ints) -> "PurchaseTable":
        """Return the table reduced to the samples with these keys, which must
        ascend.
        """
        at = self.find(keys)
        return replace(
            self,
            key=keys,
            rows=self.rows[at],
            samples=self.samples[at],
            round=self.round[at],
        )

    @property
    def under_way(self) -> Ints:
        """The keys of the samples that are under way."""
        return self.key[self.key & UNDER_WAY > 0]

    def arrived(self, t: int, had: Ints) -> "PurchaseTable":
        """Return the table in which the samples that arrive in round t are admitted.

        Clients had admitted `had` samples before, (S, M).
        """
        due = np.flatnonzero((self.key & UNDER_WAY > 0) & (self.round == t))
        owner = self.key[due] >> ADMISSIONS
        nth = np.arange(due.size) - np.searchsorted(owner, owner)
        key = self.key.copy()
        key[due] = key_of(owner, had.ravel()[owner] + nth)
        order = np.argsort(key)
        columns = {
            name: getattr(self, name)[order] for name in ("rows", "samples", "round")
        }
        return replace(self, key=key[order], **columns)

    def with_new(
        self,
        t: int | Ints,
        key: Ints,
        samples: Ints,
        rows: Ints,
    ) -> "PurchaseTable":
        """Return the table extended by samples of round t, or each of its own."""
        at = np.searchsorted(self.key, key)
        new = {
            "key": key,
            "rows": rows,
            "samples": samples,
            "round": np.full(key.shape, t),
        }
        columns = {
            name: np.insert(getattr(self, name), at, values)
            for name, values in new.items()
        }
        return replace(self, **columns)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that `restored` needs, by name."""
        return {own.name: getattr(self, own.name) for own in fields(self)}

    def restored(self, saved: Mapping[str, NDArray[Any]]) -> "PurchaseTable":
        """Return the saved table; raise ValueError if it has another number of runs,
        clients or spare places.
        """
        for name in ("looked", "spare", "passed"):
            found, wanted = saved[name].shape, getattr(self, name).shape
            if found != wanted:
                raise ValueError(f"{name} is {found}, must be {wanted}")
        own = self.tensors().items()
        return PurchaseTable(
            **{name: saved[name].astype(array.dtype) for name, array in own}
        )


Known = PurchaseTable | None
"""the purchased samples that clients hold; None: nothing is stored"""


@dataclass(
    frozen=True,
    eq=False,
)
class StreamSource:
    """The source of the samples of one policy's clients, in all of its runs.

    The i-th admission of a client is the i-th sample of its stream. Nothing is stored,
    so the table `known` is None.
    """

    streams: Sequence[Stream | DriftingStream]
    """the streams of each seed"""
    ends: Ints | None
    """positions at which the streams end, (S, M); None: they are endless"""
    labels: Ints
    """labels of the rows of the training set"""
    score: ScoreRows
    clients: int
    seeds: Ints

    @property
    def looks(self) -> bool:
        """Whether clients pay to look at samples before they buy."""
        return False

    def looking(self, before: Ledger) -> Bools:
        """Return which clients look at samples in the next round, (S, M)."""
        return np.zeros(before.admitted.shape, dtype=bool)

    def open(self) -> Known:
        """Return the table of purchases before round 1; None: nothing is stored."""
        return None

    def available(
        self,
        known: Known,
        before: Ledger,
        ordered: Ints,
    ) -> Ints:
        """Return how many of the ordered samples each client can admit, (S, M): at most
        what its stream has left.
        """
        return self._left(before.ordered, ordered)

    def _left(self, had: Ints, wanted: Ints) -> Ints:
        """Return how many of the samples that are wanted each stream has left, (S, M),
        after it gave `had` of them.
        """
        if self.ends is None:
            return wanted
        return np.asarray(np.minimum(wanted, np.maximum(self.ends - had, 0)))

    def after_purchase(
        self,
        t: int,
        known: Known,
        before: Ledger,
        admitted: Ints,
    ) -> Known:
        """Return the table of purchases after each client admitted `admitted` samples
        in round t, (S, M).
        """
        return None

    def after_round(self, known: Known, after: Ledger) -> Known:
        """Return the table of purchases without samples that are no longer held."""
        return None

    def find(
        self,
        known: Known,
        seeds: Ints,
        clients: Ints,
        admissions: Ints,
    ) -> StreamRows:
        """Return the sample numbers and rows of these admissions of clients; `seeds`
        are places among all seeds.
        """
        return self.stream_rows(seeds, clients, admissions)

    def stream_rows(
        self,
        seeds: Ints,
        clients: Ints,
        positions: Ints,
        concepts: Ints | None = None,
    ) -> StreamRows:
        """Return the sample numbers and rows at these positions of the streams."""
        samples = np.empty_like(positions)
        rows = np.empty_like(positions)
        for s, stream in enumerate(self.streams):
            own = np.flatnonzero(seeds == s)
            if own.size:
                of_concept = None if concepts is None else concepts[own]
                found = stream.at(clients[own], positions[own], of_concept)
                samples[own], rows[own] = found
        return StreamRows(samples, rows)

    def trainable(
        self,
        t: int,
        known: Known,
        before: Ledger,
        after: Ledger,
        clients: Ints,
    ) -> TrainingSamples:
        """Return the samples on which these clients (S, C) train in round t."""
        owner, admissions = held_admissions(after, clients)
        seeds = owner // clients.shape[1]
        whose = clients.ravel()[owner]
        new = admissions >= before.admitted[seeds, whose]
        return TrainingSamples(owner, seeds, whose, admissions, new)


@dataclass(
    frozen=True,
    eq=False,
)
class PurchaseSource(StreamSource):
    """A source that stores the samples that clients admit, because the world changes or
    labels are late.
    """

    world: World
    data: Data

    def open(self) -> Known:
        shape = (len(self.streams), self.clients)
        none = np.zeros(0, np.int32)
        looked = np.zeros(shape, np.int64)
        spare = np.full((*shape, self.data.keep, 3), -1, np.int64)
        return PurchaseTable(
            np.zeros(0, np.int64), none, none, none, looked, spare, looked
        )

    def after_purchase(
        self,
        t: int,
        known: Known,
        before: Ledger,
        admitted: Ints,
    ) -> Known:
        assert known is not None
        known = self._later(t, known, before.ordered)
        count = admitted.ravel()
        owner = np.repeat(np.arange(count.size), count)
        numbers = spans(before.ordered.ravel(), count)

        seeds, clients = np.divmod(owner, self.clients)
        positions = numbers + known.passed[seeds, clients]
        concepts = self.world.at(t)[seeds, clients]
        found = self.stream_rows(seeds, clients, positions, concepts)
        return self._bought(t, known, before, key_of(owner, numbers), found)

    def _bought(
        self,
        t: int,
        known: PurchaseTable,
        before: Ledger,
        key: Ints,
        found: StreamRows,
    ) -> PurchaseTable:
        """Return the table with samples that were ordered in round t, and with those
        admitted that arrive in it.

        The key of a sample holds its owner and its number among the orders.
        """
        delays = self.data.delays
        if delays is None:
            return known.with_new(t, key, *found)
        owner, numbers = key >> ADMISSIONS, key & UNDER_WAY - 1
        seeds, clients = np.divmod(owner, self.clients)
        places = delays.drawn(self.seeds[seeds], clients, numbers)
        due = t + delays.rounds[places]
        waiting = known.with_new(due, key | UNDER_WAY, *found)
        return waiting.arrived(t, before.admitted)

    def _later(
        self,
        t: int,
        known: PurchaseTable,
        had: Ints,
    ) -> PurchaseTable:
        """Return the table with `passed` as of round t, where clients have taken `had`
        samples of their streams, (S, M).
        """
        by_now = self.data.stream.passing * (t - 1)
        return replace(known, passed=np.maximum(known.passed, by_now - had))

    def after_round(self, known: Known, after: Ledger) -> Known:
        assert known is not None
        everybody = np.broadcast_to(np.arange(self.clients), after.admitted.shape)
        held = key_of(*held_admissions(after, everybody))
        return known.only(np.union1d(held, known.under_way))

    def find(
        self,
        known: Known,
        seeds: Ints,
        clients: Ints,
        admissions: Ints,
    ) -> StreamRows:
        assert known is not None
        at = self._places(known, seeds, clients, admissions)
        samples, rows = known.samples[at], known.rows[at]
        return StreamRows(samples.astype(np.int64), rows.astype(np.int64))

    def _places(
        self,
        known: PurchaseTable,
        seeds: Ints | int,
        clients: Ints,
        admissions: Ints,
    ) -> Ints:
        """Return the places in the table of these admissions of clients."""
        return known.find(key_of(seeds * self.clients + clients, admissions))

    def trainable(
        self,
        t: int,
        known: Known,
        before: Ledger,
        after: Ledger,
        clients: Ints,
    ) -> TrainingSamples:
        assert known is not None
        held = super().trainable(t, known, before, after, clients)
        at = self._places(known, held.seeds, held.clients, held.admissions)
        labelled = known.round[at] + self.data.late
        there = labelled <= t
        return TrainingSamples(
            held.owner[there],
            held.seeds[there],
            held.clients[there],
            held.admissions[there],
            labelled[there] == t,
        )


@dataclass(
    frozen=True,
    eq=False,
)
class ChoosingSource(PurchaseSource):
    """A source whose clients choose what they buy in a window of samples, and may keep
    some of the others.
    """

    rule: Selection

    @property
    def looks(self) -> bool:
        return self.rule.looks

    def looking(self, before: Ledger) -> Bools:
        return self.rule.looking(before)

    def available(
        self,
        known: Known,
        before: Ledger,
        ordered: Ints,
    ) -> Ints:
        assert known is not None
        spare = (known.spare[..., 0] >= 0).sum(axis=-1)
        return np.asarray(np.minimum(ordered, self._fresh(known, ordered) + spare))

    def _fresh(self, known: PurchaseTable, ordered: Ints) -> Ints:
        """Return how many new samples of its stream each client is offered, (S, M)."""
        return self._left(known.looked, self.data.window * ordered)

    def after_purchase(
        self,
        t: int,
        known: Known,
        before: Ledger,
        admitted: Ints,
    ) -> Known:
        """Process one run at a time: the results do not depend on other runs, and
        memory is needed for one run only.
        """
        assert known is not None
        known = self._later(t, known, known.looked)
        fresh = self._fresh(known, admitted)
        concepts = self.world.at(t)
        looking = self.looking(before)
        spare = known.spare.copy()
        keys = [np.zeros(0, np.int64)]
        bought = [np.zeros((0, 3), np.int64)]

        for s, looks in product(range(len(self.streams)), (False, True)):
            clients = np.flatnonzero((admitted[s] > 0) & (looking[s] == looks))
            if not clients.size:
                continue
            rule = self.rule.now(looks)
            count = admitted[s, clients]
            offer = self._offer(known, s, clients, fresh[s, clients], concepts[s])
            candidates = self._candidates(rule, known, before, s, clients, offer, count)
            takes = chosen(rule, candidates)

            left = candidates.there & ~takes
            spare[s, clients] = _newest(offer, left, self.data.keep)
            owner = s * self.clients + clients
            bought.append(offer[takes])
            keys.append(spans(key_of(owner, before.ordered[s, clients]), count))

        key = np.concatenate(keys)
        order = np.argsort(key)
        _, samples, rows = np.concatenate(bought)[order].T
        after = replace(
            known,
            looked=known.looked + fresh,
            spare=spare,
        )
        return self._bought(t, after, before, key[order], StreamRows(samples, rows))

    def _offer(
        self,
        known: PurchaseTable,
        s: int,
        clients: Ints,
        fresh: Ints,
        concepts: Ints,
    ) -> Ints:
        """Return (place, number, row) of the samples that these clients are offered,
        kept ones and new ones, filled up with −1, (C, W, 3)."""
        nth = np.arange(int(fresh.max(initial=0)))
        owner, place = np.nonzero(nth < fresh[:, None])
        whose = clients[owner]
        had = known.looked[s, whose] + place
        positions = had + known.passed[s, whose]
        found = self.streams[s].at(whose, positions, concepts[whose])

        new = np.full((len(clients), nth.size, 3), -1, np.int64)
        new[owner, place] = np.stack([had, *found], axis=1)
        return np.concatenate([known.spare[s, clients], new], axis=1)

    def _candidates(
        self,
        rule: Selection,
        known: PurchaseTable,
        before: Ledger,
        s: int,
        clients: Ints,
        offer: Ints,
        count: Ints,
    ) -> Candidates:
        """Return the offered samples as candidates, with the scores and held features
        that the rule needs.
        """
        found = Candidates(
            position=offer[..., 0],
            room=count[:, None],
            seed=np.full((len(clients), 1), self.seeds[s]),
            client=clients[:, None],
            purpose=Purpose.SELECTION,
        )
        if rule.looks:
            scores = self._scores(rule.scores, s, offer[..., 2], found.there)
            found = found._replace(scores=scores)
        if rule.beside_held:
            rows = self._held_rows(known, before, s, clients)
            features = self._scores(("features",), s, rows, rows >= 0).features
            found = found._replace(
                held=features,
                held_there=rows >= 0,
            )
        return found

    def _held_rows(
        self,
        known: PurchaseTable,
        before: Ledger,
        s: int,
        clients: Ints,
    ) -> Ints:
        """Return the rows of the samples that clients hold, filled up with −1."""
        run = before.of_runs(slice(s, s + 1))
        owner, admissions = held_admissions(run, clients[None])
        nth = np.arange(owner.size) - np.searchsorted(owner, owner)
        rows = np.full((len(clients), int(nth.max(initial=-1)) + 1), -1, np.int64)
        at = self._places(known, s, clients[owner], admissions)
        rows[owner, nth] = known.rows[at]
        return rows

    def _scores(
        self,
        asked: tuple[str, ...],
        s: int,
        rows: Ints,
        there: Bools,
    ) -> Scores:
        """Return the scores of rows (C, W) of the training set; `there` marks the
        places that hold a row.
        """
        seeds = np.full(int(there.sum()), s)
        return self.score(asked, seeds, rows[there]).placed(there)


def find_all(
    held: Sequence[tuple[StreamSource, Known, TrainingSamples]],
) -> StreamRows:
    """Return the sample numbers and rows of the samples of several policies, one policy
    after the other.

    Policies without a table are looked up in one call, because a stream caches only the
    passes of its last call.
    """
    ends = np.cumsum([0, *(len(samples.owner) for *_, samples in held)])
    found = StreamRows(np.empty(ends[-1], np.int64), np.empty(ends[-1], np.int64))
    groups: dict[int, list[int]] = {}
    for number, (_, known, _) in enumerate(held):
        groups.setdefault(-1 if known is None else number, []).append(number)

    for group in groups.values():
        source, known, _ = held[group[0]]
        seeds, clients, admissions = (
            np.concatenate([getattr(held[number][2], name) for number in group])
            for name in ("seeds", "clients", "admissions")
        )
        places = np.concatenate(
            [np.arange(ends[number], ends[number + 1]) for number in group]
        )
        rows = source.find(known, seeds, clients, admissions)
        found.samples[places], found.rows[places] = rows
    return found


def _newest(
    offer: Ints,
    left: Bools,
    keep: int,
) -> Ints:
    """Return the newest `keep` of the samples that each client did not buy, ascending
    as in the offer, filled up with −1, (C, keep, 3).
    """
    newer = left.sum(
        axis=1,
        keepdims=True,
    ) - np.cumsum(left, axis=1)
    newest = left & (newer < keep)
    slot = np.cumsum(newest, axis=1) - 1
    owner, place = np.nonzero(newest)
    kept = np.full((len(offer), keep, 3), -1, np.int64)
    kept[owner, slot[owner, place]] = offer[owner, place]
    return kept


# how often each run has trained on each sample


class UseCounts:
    """The number of times that each run has trained on each of its samples.

    Only training counts: a sample is not used in a round in which its client does not
    train, and a sample that is in the buffer twice is used twice. An image that leaves
    a buffer and returns with a later pass of the stream is the same sample and keeps
    its count, so samples are never removed from the table. The table grows with the
    distinct samples used, at most to the number of images that the clients own.
    """

    def __init__(self, runs: int, samples: int) -> None:
        self.runs, self.samples = runs, samples
        self._keys = np.array([-1])
        """keys run·samples + sample, ascending after a −1"""
        self._counts = np.zeros(1, dtype=np.int32)
        """the count of each key"""
        self.distinct = np.zeros(runs, dtype=np.int64)
        self.total = np.zeros(runs, dtype=np.int64)
        self.squares = np.zeros(runs, dtype=np.int64)

    def table(self) -> tuple[Ints, NDArray[np.int32]]:
        """Return (run·samples + sample, count) of all samples ever used, as `restored`
        needs them.
        """
        return self._keys[1:], self._counts[1:]

    @classmethod
    def restored(
        cls,
        runs: int,
        samples: int,
        keys: Ints,
        counts: NDArray[np.int32],
    ) -> "UseCounts":
        """Return the counts of a saved table; the sums are computed from it."""
        uses = cls(runs, samples)
        uses.use(*np.divmod(keys, samples), counts.astype(np.int64))
        return uses

    def use(
        self,
        runs: Ints,
        samples: Ints,
        times: Ints | None = None,
    ) -> None:
        """Count a use of samples[i] by runs[i] for every i, or `times`[i] uses of
        samples that differ, in ascending order.
        """
        keys = runs * self.samples + samples
        if times is None:
            keys, times = np.unique(keys, return_counts=True)
        places = np.asarray(np.searchsorted(self._keys, keys))
        new = self._keys.take(places, mode="clip") != keys
        self._keys = np.insert(self._keys, places[new], keys[new])
        self._counts = np.insert(self._counts, places[new], 0)
        places += np.cumsum(new) - new  # inserting a key moves the keys behind it
        before = self._counts[places].astype(np.int64)
        self._counts[places] += times.astype(np.int32)

        edges = np.searchsorted(keys, np.arange(self.runs + 1) * self.samples)

        def of_runs(terms: NDArray[Any]) -> Ints:
            sums = np.concatenate([[0], np.cumsum(terms, dtype=np.int64)])
            return np.diff(sums[edges])

        self.distinct += of_runs(before == 0)
        self.total += of_runs(times)
        self.squares += of_runs(times * (2 * before + times))
