"""Where the samples that clients hold come from: against a plain list of what each
client had before it.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.control.scores import Scores
from headgate.control.selection import KINDS
from headgate.learning.data import Data
from headgate.learning.purchases import (
    ChoosingSource,
    PurchaseSource,
    UseCounts,
    find_all,
    held_admissions,
)
from headgate.learning.streams import MarkovStream, StreamRows
from studies.zoo.kcentre import KCentre

CLIENTS, CONCEPTS = 3, 8
RULES = {
    "": None,
    **{name: kind() for name, kind in KINDS.items()},
    "beside held": KCentre(),
}


class Written:
    """A stream whose rows tell position, concept and client."""

    def at(self, clients, positions, concepts):
        rows = (positions * CONCEPTS + concepts) * CLIENTS + clients
        return StreamRows(rows + 1, rows)


def made_up(asked, seeds, rows):
    """What a model says of samples, by their rows alone."""
    x = np.sin(rows * 12.9898)
    some = np.stack([x, np.cos(3 * x), x**2], axis=-1)
    return Scores(
        **{name: np.abs(x) if name in ("entropy", "margin") else some for name in asked}
    )


def source_of(rule, data, ends):
    world = SimpleNamespace(at=lambda t: np.full((2, CLIENTS), t % CONCEPTS))
    known = [Written()] * 2, ends, np.arange(10**6), made_up, CLIENTS
    known = *known, np.array([4, 9]), world, data
    return ChoosingSource(*known, RULES[rule]) if rule else PurchaseSource(*known)


def ledger_of(admitted, held, places):
    """Clients hold the newest, or every other one of them where it is no window."""
    dropped = np.maximum(admitted - held, 0)
    each = dropped[..., None] + np.arange(held)
    table = (
        np.where((each < admitted[..., None]) & (each % 2 == 0), each, -1)
        if places
        else None
    )
    trial = {
        "memory": KINDS["adaptive"]().start(len(admitted)),
        "losses": None,
        "t": 1,
        "ever": admitted.sum(axis=-1),
    }
    ledger = SimpleNamespace(
        admitted=admitted,
        ordered=admitted,
        dropped=dropped,
        contents=SimpleNamespace(places=table),
        **trial,
    )
    ledger.of_runs = lambda own: ledger_of(admitted[own], held, places)
    return ledger


@pytest.mark.parametrize("places", [False, True])
@given(
    rule=st.sampled_from(sorted(RULES)),
    window=st.integers(1, 4),
    keep=st.integers(0, 5),
    end=st.none() | st.integers(0, 30),
    late=st.integers(0, 2),
    passing=st.sampled_from([0, 0, 3, 9]),
    rounds=st.lists(
        st.lists(st.integers(0, 4), min_size=2 * CLIENTS, max_size=2 * CLIENTS),
        min_size=1,
        max_size=8,
    ),
    held=st.integers(1, 6),
)
def test_nothing_is_bought_twice_and_what_is_held_is_known_as_it_came(
    places, rule, window, keep, end, late, passing, rounds, held
):
    """As many as were ordered or could be had; the newest of the rest are kept; labels
    come late; streams may flow on.
    """
    window, keep = (1, 0) if rule == "" else (window, keep)
    passing = passing if end is None else 0
    ends = None if end is None else np.full((2, CLIENTS), end)
    source = source_of(
        rule,
        Data(window=window, keep=keep, late=late, stream=MarkovStream(5.0, passing)),
        ends,
    )
    known, ledger = (
        source.open(),
        ledger_of(np.zeros((2, CLIENTS), np.int64), held, places),
    )
    bought = {(s, m): [] for s in range(2) for m in range(CLIENTS)}
    spare, looked, next_ = (
        {key: [] for key in bought},
        dict.fromkeys(bought, 0),
        dict.fromkeys(bought, 0),
    )
    everybody = np.tile(np.arange(CLIENTS), (2, 1))
    for t, orders in enumerate(rounds, start=1):
        ordered, before = np.array(orders).reshape(2, CLIENTS), ledger
        count = source.available(known, before, ordered)
        after = source.after_purchase(t, known, before, count)
        ledger = ledger_of(before.admitted + count, held, places)
        for (s, m), own in bought.items():
            next_[s, m] = max(next_[s, m], passing * (t - 1))
            fresh = window * int(count[s, m] if end is None else ordered[s, m])
            fresh = (
                fresh
                if end is None
                else min(window * int(count[s, m]), max(end - looked[s, m], 0))
            )
            before_it = [
                *spare[s, m],
                *((next_[s, m] + i, t % CONCEPTS) for i in range(fresh)),
            ]
            looked[s, m], next_[s, m] = looked[s, m] + fresh, next_[s, m] + fresh
            assert after.looked[s, m] == (looked[s, m] if rule else 0)
            each = np.arange(before.admitted[s, m], ledger.admitted[s, m])
            rows = source.find(after, each * 0 + s, each * 0 + m, each).rows
            assert (rows % CLIENTS == m).all()
            found = [divmod(int(row) // CLIENTS, CONCEPTS) for row in rows]
            assert len(found) == count[s, m] <= ordered[s, m]
            assert set(found) <= set(before_it)
            assert found == sorted(found)
            own += [(*one, t) for one in found]
            assert len({position for position, *_ in own}) == len(own)
            if count[s, m]:
                left = [one for one in before_it if one not in found]
                spare[s, m] = left[max(len(left) - keep, 0) :] if keep else []
            kept = after.spare[s, m]
            assert [
                divmod(row // CLIENTS, CONCEPTS)
                for p, _, row in kept.tolist()
                if p >= 0
            ] == spare[s, m]
        known = source.after_round(after, ledger)
        owner, admissions = held_admissions(ledger, everybody)
        assert len(known.key) == len(
            owner
        )  # of samples that are held, and of no others
        holds = [
            bought[divmod(int(who), CLIENTS)][i]
            for who, i in zip(owner, admissions, strict=True)
        ]
        trains = [
            (*one, int(who))
            for one, who in zip(holds, owner, strict=True)
            if one[2] + late <= t
        ]
        found = source.trainable(t, known, before, ledger, everybody)
        assert found.owner.tolist() == [who for *_, who in trains]
        samples, rows = find_all([(source, known, found)])
        assert rows.tolist() == [
            (p * CONCEPTS + c) * CLIENTS + who % CLIENTS for p, c, _, who in trains
        ]
        assert samples.tolist() == (rows + 1).tolist()
        assert found.new.tolist() == [born + late == t for _, _, born, _ in trains]
        again = source.open().restored(known.tensors())
        assert all(
            np.array_equal(array, again.tensors()[name])
            for name, array in known.tensors().items()
        )


def test_what_was_saved_of_other_clients_is_refused():
    source = source_of("random", Data(window=2, keep=3), None)
    saved = source.open().tensors()
    for name in ("looked", "spare", "passed"):
        with pytest.raises(ValueError, match=f"{name} is .*, must be"):
            source.open().restored({**saved, name: saved[name][:1]})


@given(
    rounds=st.lists(
        st.lists(st.tuples(st.integers(0, 2), st.integers(0, 11)), max_size=15),
        max_size=12,
    )
)
def test_use_counts_are_the_plain_ones(rounds):
    """Also from a saved table."""
    counts, plain = UseCounts(3, 12), np.zeros((3, 12), dtype=int)
    for used in rounds:
        runs, samples = np.array(used, dtype=np.int64).reshape(-1, 2).T
        counts.use(runs, samples)
        np.add.at(plain, (runs, samples), 1)
        assert (
            counts.distinct.tolist(),
            counts.total.tolist(),
            counts.squares.tolist(),
        ) == (
            (plain > 0).sum(axis=1).tolist(),
            plain.sum(axis=1).tolist(),
            (plain**2).sum(axis=1).tolist(),
        )
    keys, times = counts.table()
    assert keys.tolist() == np.flatnonzero(plain).tolist()
    assert times.tolist() == plain[plain > 0].tolist()
    again = UseCounts.restored(3, 12, keys, times)
    for name in ("distinct", "total", "squares"):
        assert np.array_equal(getattr(again, name), getattr(counts, name))
    more = np.array([0, 1]), np.array([3, 3])
    counts.use(*more)
    again.use(*more)
    assert all(
        np.array_equal(one, other)
        for one, other in zip(counts.table(), again.table(), strict=True)
    )
