"""The rows of the training set from which the samples that clients hold come.

Control numbers the admissions of each client. If clients buy the next samples of their
streams, the world does not change and labels are available at once, the i-th admission
is the i-th sample of the stream, and nothing is stored (`StreamSource`). Otherwise each
sample is stored from its admission until it is dropped (`PurchaseSource`): its row,
which also identifies its appearance in its concept, its number among all samples, and
the round.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.control.randomness import Purpose
from headgate.control.ranking import NOBODY, Candidates, chosen
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
"""low bits of a key, which hold the number of an admission; the bits above hold the run
and the client
"""


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
    if (places := ledger.contents.places) is not None:
        held = np.take_along_axis(places, clients[..., None], axis=1).reshape(
            clients.size, -1
        )
        owner, slot = np.nonzero(held >= 0)
        return owner, held[owner, slot]
    first, last = (
        np.take_along_axis(array, clients, axis=1).ravel()
        for array in (ledger.dropped, ledger.admitted)
    )
    owner = np.repeat(np.arange(clients.size), last - first)
    return (
        owner,
        np.arange(owner.size)
        + (first - (np.cumsum(last - first) - (last - first)))[owner],
    )


@dataclass(frozen=True, eq=False)
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
    """round in which each sample was admitted"""
    looked: Ints
    """samples of its stream that each client has been offered so far, (S, M)"""
    spare: Ints
    """(place among the offered samples, number, row) of the unlabelled samples that
    each client keeps, the newest last, filled up with −1, (S, M, keep, 3)"""
    passed: Ints
    """samples of its stream that each client missed because they passed by, (S, M)"""

    def find(self, keys: Ints) -> Ints:
        """Return the places of the samples with these keys."""
        return np.asarray(np.searchsorted(self.key, keys))

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

    def with_new(self, t: int, key: Ints, samples: Ints, rows: Ints) -> "PurchaseTable":
        """Return the table extended by samples that were admitted in round t."""
        at, now = np.searchsorted(self.key, key), np.full(key.shape, t)
        names = ("key", "rows", "samples", "round")
        columns = zip(names, (key, rows, samples, now), strict=True)
        return replace(
            self,
            **{name: np.insert(getattr(self, name), at, new) for name, new in columns},
        )

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that `restored` needs, by name."""
        return {own.name: getattr(self, own.name) for own in fields(self)}

    def restored(self, saved: Mapping[str, NDArray[Any]]) -> "PurchaseTable":
        """Return the saved table; raise ValueError if it has another number of runs,
        clients or spare places.
        """
        for name in ("looked", "spare", "passed"):
            if saved[name].shape != getattr(self, name).shape:
                raise ValueError(
                    f"{name} is {saved[name].shape}, must be"
                    f" {getattr(self, name).shape}"
                )
        return PurchaseTable(
            **{
                name: saved[name].astype(array.dtype)
                for name, array in self.tensors().items()
            }
        )


@dataclass(frozen=True, eq=False)
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

    @property
    def looks(self) -> bool:
        """Whether clients pay to look at samples before they buy."""
        return False

    def looking(self, before: Ledger) -> Bools:
        """Return which clients look at samples in the next round, (S, M)."""
        return np.zeros(before.admitted.shape, dtype=bool)

    def open(self) -> PurchaseTable | None:
        """Return the table of purchases before round 1; None: nothing is stored."""
        return None

    def available(
        self, known: PurchaseTable | None, before: Ledger, ordered: Ints
    ) -> Ints:
        """Return how many of the ordered samples each client can admit, (S, M): at most
        what its stream has left.
        """
        return (
            ordered
            if self.ends is None
            else np.minimum(ordered, np.maximum(self.ends - before.admitted, 0))
        )

    def after_purchase(
        self, t: int, known: PurchaseTable | None, before: Ledger, admitted: Ints
    ) -> PurchaseTable | None:
        """Return the table of purchases after each client admitted `admitted` samples
        in round t, (S, M).
        """
        return None

    def after_round(
        self, known: PurchaseTable | None, after: Ledger
    ) -> PurchaseTable | None:
        """Return the table of purchases without samples that are no longer held."""
        return None

    def find(
        self,
        known: PurchaseTable | None,
        seeds: Ints,
        clients: Ints,
        admissions: Ints,
        concepts: Ints | None = None,
    ) -> StreamRows:
        """Return the sample numbers and rows of these admissions of clients; `seeds`
        are places among all seeds.
        """
        samples, rows = np.empty_like(admissions), np.empty_like(admissions)
        for s, stream in enumerate(self.streams):
            own = np.flatnonzero(seeds == s)
            if own.size:
                of_concept = None if concepts is None else concepts[own]
                samples[own], rows[own] = stream.at(
                    clients[own], admissions[own], of_concept
                )
        return StreamRows(samples, rows)

    def trainable(
        self,
        t: int,
        known: PurchaseTable | None,
        before: Ledger,
        after: Ledger,
        clients: Ints,
    ) -> TrainingSamples:
        """Return the samples on which these clients (S, C) train in round t."""
        owner, admissions = held_admissions(after, clients)
        seeds, whose = owner // clients.shape[1], clients.ravel()[owner]
        return TrainingSamples(
            owner, seeds, whose, admissions, admissions >= before.admitted[seeds, whose]
        )


@dataclass(frozen=True, eq=False)
class PurchaseSource(StreamSource):
    """A source that stores the samples that clients admit, because the world changes or
    labels are late.
    """

    world: World
    data: Data

    def open(self) -> PurchaseTable | None:
        shape, none = (len(self.streams), self.clients), np.zeros(0, np.int32)
        spare = np.full((*shape, self.data.keep, 3), -1, np.int64)
        looked = np.zeros(shape, np.int64)
        return PurchaseTable(
            np.zeros(0, np.int64), none, none, none, looked, spare, looked
        )

    def after_purchase(
        self, t: int, known: PurchaseTable | None, before: Ledger, admitted: Ints
    ) -> PurchaseTable | None:
        assert known is not None
        each, count = np.arange(admitted.size), admitted.ravel()
        seeds, clients = np.divmod(np.repeat(each, count), self.clients)
        keys, known = (
            spans((each << ADMISSIONS) + before.admitted.ravel(), count),
            self._later(t, known, before.admitted),
        )
        positions = (keys & (1 << ADMISSIONS) - 1) + known.passed[seeds, clients]
        return known.with_new(
            t,
            keys,
            *super().find(
                None, seeds, clients, positions, self.world.at(t)[seeds, clients]
            ),
        )

    def _later(self, t: int, known: PurchaseTable, had: Ints) -> PurchaseTable:
        """Return the table with `passed` as of round t, where clients have taken `had`
        samples of their streams, (S, M).
        """
        by_now = self.data.stream.passing * (t - 1)
        return replace(known, passed=np.maximum(known.passed, by_now - had))

    def after_round(self, known: PurchaseTable | None, after: Ledger) -> PurchaseTable:
        assert known is not None
        owner, admissions = held_admissions(
            after, np.broadcast_to(np.arange(self.clients), after.admitted.shape)
        )
        return known.only((owner << ADMISSIONS) + admissions)

    def find(
        self,
        known: PurchaseTable | None,
        seeds: Ints,
        clients: Ints,
        admissions: Ints,
        concepts: Ints | None = None,
    ) -> StreamRows:
        assert known is not None
        at = known.find(self._key(seeds, clients, admissions))
        return StreamRows(
            known.samples[at].astype(np.int64), known.rows[at].astype(np.int64)
        )

    def _key(self, seeds: Ints | int, clients: Ints, admissions: Ints) -> Ints:
        return np.asarray((seeds * self.clients + clients << ADMISSIONS) + admissions)

    def trainable(
        self,
        t: int,
        known: PurchaseTable | None,
        before: Ledger,
        after: Ledger,
        clients: Ints,
    ) -> TrainingSamples:
        assert known is not None
        held = super().trainable(t, known, before, after, clients)
        labelled = (
            known.round[
                known.find(self._key(held.seeds, held.clients, held.admissions))
            ]
            + self.data.late
        )
        columns: list[Any] = [
            column[labelled <= t] for column in held._replace(new=labelled == t)
        ]
        return TrainingSamples(*columns)


@dataclass(frozen=True, eq=False)
class ChoosingSource(PurchaseSource):
    """A source whose clients choose what they buy in a window of samples, and may keep
    some of the others.
    """

    rule: Selection
    seeds: Ints

    @property
    def looks(self) -> bool:
        return self.rule.looks

    def looking(self, before: Ledger) -> Bools:
        return self.rule.looking(before)

    def available(
        self, known: PurchaseTable | None, before: Ledger, ordered: Ints
    ) -> Ints:
        assert known is not None
        spare = (known.spare[..., 0] >= 0).sum(axis=-1)
        return np.asarray(np.minimum(ordered, self._fresh(known, ordered) + spare))

    def _fresh(self, known: PurchaseTable, ordered: Ints) -> Ints:
        """Return how many new samples of its stream each client is offered, (S, M)."""
        asked = self.data.window * ordered
        return (
            asked
            if self.ends is None
            else np.minimum(asked, np.maximum(self.ends - known.looked, 0))
        )

    def after_purchase(
        self, t: int, known: PurchaseTable | None, before: Ledger, admitted: Ints
    ) -> PurchaseTable | None:
        """Process one run at a time: the results do not depend on other runs, and
        memory is needed for one run only.
        """
        assert known is not None
        spare, keys, bought = (
            known.spare.copy(),
            [np.zeros(0, np.int64)],
            [np.zeros((0, 3), np.int64)],
        )
        fresh, concepts, looking = (
            self._fresh(known, admitted),
            self.world.at(t),
            self.looking(before),
        )
        known = self._later(t, known, known.looked)
        for s, looks in itertools.product(range(len(self.streams)), (False, True)):
            clients, rule = (
                np.flatnonzero((admitted[s] > 0) & (looking[s] == looks)),
                self.rule.now(looks),
            )
            if not clients.size:
                continue
            offer = self._offer(
                self.streams[s], known, s, clients, fresh[s, clients], concepts[s]
            )
            count, there = admitted[s, clients], offer[..., 0] >= 0
            takes = chosen(
                rule, self._candidates(rule, known, before, s, clients, offer, count)
            )
            spare[s, clients] = _newest(offer, there & ~takes, spare.shape[2])
            bought.append(offer[takes])
            keys.append(
                spans(self._key(s, clients, before.admitted[s, clients]), count)
            )
        key, (_, samples, rows) = np.concatenate(keys), np.concatenate(bought).T
        order, after = (
            np.argsort(key),
            replace(known, looked=known.looked + fresh, spare=spare),
        )
        return after.with_new(t, key[order], samples[order], rows[order])

    def _offer(
        self,
        stream: Stream | DriftingStream,
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
        new = np.full((len(clients), nth.size, 3), -1, np.int64)
        new[owner, place] = np.stack(
            [had, *stream.at(whose, had + known.passed[s, whose], concepts[whose])],
            axis=1,
        )
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
        seed, client, there = (
            np.full((len(clients), 1), self.seeds[s]),
            clients[:, None],
            offer[..., 0] >= 0,
        )
        found = Candidates(
            offer[..., 0], count[:, None], seed, client, purpose=Purpose.SELECTION
        )
        if rule.looks:
            found = found._replace(
                scores=self._scores(rule.scores, s, offer[..., 2], there)
            )
        if rule.beside_held:
            owner, admissions = held_admissions(
                before.of_runs(slice(s, s + 1)), clients[None]
            )
            nth = np.arange(owner.size) - np.searchsorted(owner, owner)
            rows = np.full((len(clients), int(nth.max(initial=-1)) + 1), -1, np.int64)
            rows[owner, nth] = known.rows[
                known.find(self._key(s, clients[owner], admissions))
            ]
            features = self._scores(("features",), s, rows, rows >= 0).features
            found = found._replace(held=features, held_there=rows >= 0)
        return found

    def _scores(
        self, asked: tuple[str, ...], s: int, rows: Ints, there: Bools
    ) -> Scores:
        """Return the scores of rows (C, W) of the training set; `there` marks the
        places that hold a row.
        """
        return self.score(asked, np.full(int(there.sum()), s), rows[there]).placed(
            there
        )


def find_all(
    held: Sequence[tuple[StreamSource, PurchaseTable | None, TrainingSamples]],
) -> StreamRows:
    """Return the sample numbers and rows of the samples of several policies, one policy
    after the other.

    Policies without a table are looked up in one call, because a stream caches only the
    passes of its last call.
    """
    ends = np.cumsum([0, *(len(own.owner) for *_, own in held)]).tolist()
    found = StreamRows(np.empty(ends[-1], np.int64), np.empty(ends[-1], np.int64))
    groups: dict[int, list[int]] = {}
    for number, (_, known, _) in enumerate(held):
        groups.setdefault(-1 if known is None else number, []).append(number)
    for group in groups.values():
        source, known, _ = held[group[0]]
        asked = (
            np.concatenate([held[number][2][column] for number in group])
            for column in (1, 2, 3)
        )
        places = np.concatenate(
            [np.arange(ends[number], ends[number + 1]) for number in group]
        )
        found.samples[places], found.rows[places] = source.find(known, *asked)
    return found


def _newest(offer: Ints, left: Bools, keep: int) -> Ints:
    """Return the newest `keep` of the samples that each client did not buy, ascending,
    filled up with −1, (C, keep, 3).
    """
    kept = np.full((len(offer), keep, 3), -1, np.int64)
    offer = np.where(left[..., None], offer, -1)
    newest = np.take_along_axis(
        offer, np.argsort(-offer[..., :1], axis=1, kind="stable")[:, :keep], axis=1
    )
    order = np.argsort(
        np.where(newest < 0, NOBODY, newest)[..., :1], axis=1, kind="stable"
    )
    kept[:, : newest.shape[1]] = np.take_along_axis(newest, order, axis=1)
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
        self._keys, self._counts = np.array([-1]), np.zeros(1, dtype=np.int32)
        """keys run·samples + sample, ascending after a −1, and the count of each key"""
        self.distinct, self.total, self.squares = (
            np.zeros(runs, dtype=np.int64) for _ in range(3)
        )

    def table(self) -> tuple[Ints, NDArray[np.int32]]:
        """Return (run·samples + sample, count) of all samples ever used, as `restored`
        needs them.
        """
        return self._keys[1:], self._counts[1:]

    @classmethod
    def restored(
        cls, runs: int, samples: int, keys: Ints, counts: NDArray[np.int32]
    ) -> "UseCounts":
        """Return the counts of a saved table; the sums are computed from it."""
        uses = cls(runs, samples)
        uses.use(*np.divmod(keys, samples), counts.astype(np.int64))
        return uses

    def use(self, runs: Ints, samples: Ints, times: Ints | None = None) -> None:
        """Count a use of samples[i] by runs[i] for every i, or `times`[i] uses of
        samples that differ, in ascending order.
        """
        keys = runs * self.samples + samples
        if times is None:
            keys, times = np.unique(keys, return_counts=True)
        places = np.asarray(np.searchsorted(self._keys, keys))
        new = self._keys.take(places, mode="clip") != keys
        self._keys, self._counts = (
            np.insert(self._keys, places[new], keys[new]),
            np.insert(self._counts, places[new], 0),
        )
        places += np.cumsum(new) - new  # inserting a key moves the keys behind it
        before = self._counts[places].astype(np.int64)
        self._counts[places] += times.astype(np.int32)
        edges = np.searchsorted(keys, np.arange(self.runs + 1) * self.samples)
        for sums, terms in (
            (self.distinct, before == 0),
            (self.total, times),
            (self.squares, times * (2 * before + times)),
        ):
            sums += np.diff(
                np.concatenate([[0], np.cumsum(terms, dtype=np.int64)])[edges]
            )
