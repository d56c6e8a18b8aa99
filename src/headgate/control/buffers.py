"""The clients' memories: the samples in them, the rounds of their admission, and how
often dropped samples were used.

All rules share this bookkeeping. Windows are computed from counts alone: for K-step
retention from the admissions of the last K rounds, for a capacity from the end of the
window. Other rules choose which samples stay, for each client to which samples are
added.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.control.ranking import Candidates, chosen
from headgate.control.retention import KStep, Retention, WindowRule
from headgate.control.scores import Scores, ScoresAt
from headgate.control.types import (
    UNSEEN,
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
    """The clients' memories after a round, and the samples dropped in it.

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
    """The memories of all clients of all runs under one retention rule."""

    def __init__(self, rule: Retention, system: System, runs: int, seeds: Ints) -> None:
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
        self.K = rule.K if isinstance(rule, KStep) else None
        forever = rule.forever if isinstance(rule, KStep) else ()
        self.forever = np.isin(np.arange(system.clients), forever) if forever else None
        # check before allocating: arrays by client, those of the last K rounds, and the
        # places
        K = self.K or 0
        many, kept = runs * self.clients, min(K, system.horizon or K)
        what = f"{runs} runs of {self.clients} clients"
        wanted = f"K = {K}: {what}, and what they admitted in {kept} rounds, take"
        check_memory(wanted, many * (BY_CLIENT + 8 * kept))
        if self.limit is not None:
            most, place = (
                int(self.limit.max()),
                BY_PLACE if self.window else BY_CHOSEN_PLACE,
            )
            check_memory(
                f"capacity = {most}: {what} with so many places each take",
                many * (BY_CLIENT + place * most),
            )

    def open(self) -> Contents:
        """Return the empty memories before round 1."""
        none = np.zeros((self.runs, self.clients), dtype=np.int64)
        recent = (none,) * (self.K or 0)
        if self.limit is None:
            return Contents(recent)
        slots = (self.runs, self.clients, int(self.limit.max()))
        if self.window:
            return Contents(
                recent,
                np.moveaxis(
                    np.zeros((slots[-1], *slots[:-1]), dtype=kind_of(0)), 0, -1
                ),
            )
        born = np.zeros(slots, dtype=np.int32)
        labels = np.zeros(slots, dtype=np.int32) if self.rule.by_class else None
        return Contents(recent, born, np.full(slots, -1, dtype=np.int64), labels)

    def kept_from(self, ledger: Ledger, t: int) -> Ints:
        """Return where the windows begin in round t before admission, (R, M): samples
        that left by age are excluded.
        """
        if self.K is None:
            return ledger.dropped
        gone = ledger.contents.recent[t % self.K]
        if self.limit is not None:
            gone = np.maximum(ledger.dropped, gone)
        return (
            gone
            if self.forever is None
            else np.where(self.forever, ledger.dropped, gone)
        )

    def first(self, kept_from: Ints, last: Ints) -> Ints:
        """Return where the windows begin after admission up to `last`, which equals the
        samples ever dropped, (R, M).
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
        """Return the memories after admission up to `last`, with windows that begin at
        `first`.
        """
        contents = ledger.contents
        if (
            self.K is not None
        ):  # references to the last K cumulative admissions, without copies
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
        """Return the memories without a client's samples, and the sum of their use
        counts, (R,), after round ledger.t.
        """
        contents = ledger.contents
        if contents.born is None or self.limit is None:
            raise SettingError(
                f"{type(self.rule).__name__}: has no capacity, so how often samples"
                " were used is not known"
            )
        if contents.places is None:
            begin, count = (
                ledger.dropped[:, client, None],
                ledger.occupancy[:, client, None],
            )
            there = within(
                contents.born.shape[-1], begin, count, self.limit[client, None]
            )[..., 0].T
        else:
            there = contents.places[:, client] >= 0
        uses = np.where(
            there, ledger.t + 1 - contents.born[:, client].astype(np.int64), 0
        ).sum(axis=-1)
        emptied: dict[str, Any] = {}
        for name, nothing in (("born", 0), ("places", -1), ("labels", 0)):
            if (array := getattr(contents, name)) is not None:
                emptied[name] = array.copy()
                emptied[name][:, client] = nothing
        return contents._replace(**emptied), np.asarray(uses)

    # windows with a capacity

    def _window(
        self, ledger: Ledger, contents: Contents, t: int, first: Ints, last: Ints
    ) -> Settled:
        """Settle windows with a capacity: sample i of a client is in place i mod its
        limit; `born` is 0 beyond the limit.
        """
        assert contents.born is not None
        assert self.limit is not None
        if np.array_equal(first, ledger.dropped) and np.array_equal(
            last, ledger.admitted
        ):
            return Settled(contents, 0, np.zeros(self.runs, dtype=np.int64))
        born = np.ascontiguousarray(np.moveaxis(contents.born, -1, 0)).astype(
            kind_of(t), copy=False
        )  # places first
        begin, gone = (
            np.maximum(ledger.admitted, first),
            np.minimum(ledger.admitted, first) - ledger.dropped,
        )
        leaves = within(len(born), ledger.dropped, gone, self.limit)
        comes = within(len(born), begin, last - begin, self.limit)
        since = (
            (born * leaves)
            .sum(axis=0, dtype=kind_of(len(born) * t))
            .sum(axis=-1, dtype=np.int64)
        )
        uses = (
            t * gone.sum(axis=-1) - since
        )  # one use in every round from admission to t − 1
        after = np.moveaxis(
            np.where(comes, born.dtype.type(t), born), 0, -1
        )  # in the usual order of axes, (R, M, B)
        return Settled(
            contents._replace(born=after), (begin - ledger.admitted).sum(axis=-1), uses
        )

    # rules that choose

    def _chosen(
        self,
        ledger: Ledger,
        contents: Contents,
        t: int,
        last: Ints,
        samples: SampleView,
    ) -> Settled:
        assert contents.places is not None
        assert contents.born is not None
        assert self.limit is not None
        run, client = np.nonzero(last > ledger.admitted)
        if run.size == 0:
            return Settled(contents, 0, np.zeros(len(last), dtype=np.int64))
        slots, nth = (
            contents.places.shape[-1],
            np.arange((last - ledger.admitted).max()),
        )
        arriving = ledger.admitted[run, client, None] + nth
        arriving = np.where(arriving < last[run, client, None], arriving, -1)
        held: dict[str, NDArray[Any]] = {
            "places": contents.places,
            "born": contents.born,
        }
        came: dict[str, NDArray[Any]] = {
            "places": arriving,
            "born": np.full(arriving.shape, t, dtype=np.int32),
        }
        if contents.labels is not None:
            held["labels"], came["labels"] = (
                contents.labels,
                _labels(samples, run, client, arriving),
            )
        both = {
            name: np.concatenate([held[name][run, client], came[name]], axis=1)
            for name in held
        }
        age = np.where(both["places"] >= 0, t - both["born"], -1)
        given = Candidates(
            position=both["places"],
            age=age,
            label=both.get("labels"),
            seed=self.seeds[run, None],
            client=client[:, None],
            room=self.limit[client, None],
        )
        if self.rule.scores and samples.scores is not None:
            stays = self._scored(samples.scores, run, client, given)
        else:
            stays = chosen(self.rule, given)
        left = given.there & ~stays
        slot = np.argsort(~stays, axis=1, kind="stable")[
            :, :slots
        ]  # samples that stay, in their order, then the others
        empty = ~np.take_along_axis(stays, slot, axis=1)
        after = {name: array.copy() for name, array in held.items()}
        for name, array in after.items():
            nothing = -1 if name == "places" else 0
            array[run, client] = np.where(
                empty, nothing, np.take_along_axis(both[name], slot, axis=1)
            )
        used = np.where(
            left, age, 0
        )  # one use in every round since admission; none for a new sample
        unused = _by_run(len(last), run, left & given.new)
        return Settled(
            Contents(contents.recent, **after), unused, _by_run(len(last), run, used)
        )

    def _scored(
        self, scores: ScoresAt, run: Ints, client: Ints, given: Candidates
    ) -> NDArray[np.bool_]:
        """Return which samples stay under a rule that looks. Clients with room for all
        their samples need no scores.

        Runs are handled one after another, so no number depends on another run and
        memory holds the scores of one run only.
        """
        stays = given.there.copy()
        crowded = np.flatnonzero(stays.sum(axis=1) > given.room[:, 0])
        for own in np.split(
            crowded, np.flatnonzero(np.diff(run[crowded])) + 1 if crowded.size else []
        ):
            if own.size:
                some = given.of(own)
                row, nth = np.nonzero(some.there)
                who = own[row]
                found = scores(
                    run[who], client[who], some.position[row, nth], self.rule.scores
                )
                stays[own, : some.position.shape[1]] = chosen(
                    self.rule, some._replace(scores=found.placed(some.there))
                )
        return stays


def _labels(
    samples: SampleView, run: Ints, client: Ints, arriving: Ints
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
) -> NDArray[np.bool_]:
    """Return which samples of a single client stay; `position` holds their ascending
    positions in its stream.

    The result equals that of a batch with the same seed. `scores` are those of the
    samples, for a rule that looks.
    """
    if not (age == 0).any():
        return np.ones(position.size, dtype=bool)
    given = Candidates(
        position=position.astype(np.int64)[None],
        age=age.astype(np.int64)[None],
        label=None if labels is None else np.asarray(labels)[None],
        seed=np.array([[seed]]),
        client=np.array([[client]]),
        room=np.array([[room]]),
        scores=(
            None
            if scores is None
            else scores.placed(np.ones((1, position.size), dtype=bool))
        ),
    )
    return np.asarray(chosen(rule, given)[0])


def kind_of(t: int) -> type[np.signedinteger[Any]]:
    """Return the narrowest integer type that holds t: with a million clients, moving
    their arrays takes the most time.
    """
    return next(
        each
        for each in (np.int8, np.int16, np.int32, np.int64)
        if t <= np.iinfo(each).max
    )


def within(places: int, begin: Ints, count: Ints, limit: Ints) -> NDArray[np.bool_]:
    """Return which places (B, R, M) hold the `count` samples from `begin` on, at most
    `limit` of them.
    """
    kind = kind_of(2 * places)
    first, many, most = (each.astype(kind) for each in (begin % limit, count, limit))
    after = np.arange(places, dtype=kind)[:, None, None] - first
    return np.asarray(
        ((after >= 0) & (after < np.minimum(many, most - first)))
        | (after + most < many)
    )


def _by_run(runs: int, run: Ints, counts: NDArray[Any]) -> Ints:
    """Return the counts of all rows, summed for each run, (R,); exact below 2^53."""
    return np.bincount(run, weights=counts.sum(axis=1), minlength=runs).astype(np.int64)
