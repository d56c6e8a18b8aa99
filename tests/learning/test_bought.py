"""Where in its stream each sample lies that a client bought: against a plain list of what it had before it."""

from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headgate.control.scores import Scores
from headgate.control.selection import KINDS
from headgate.learning.bought import seen_at
from headgate.learning.data import Data
from headgate.simulation.buying import Buying

CLIENTS = 3


def made_up(asked, run, clients, positions, concepts):
    """What a model says of samples, by their places alone."""
    x = np.sin(positions * 12.9898 + clients)
    some = np.stack([x, np.cos(3 * x), x**2], axis=-1)
    return Scores(**{name: np.abs(x) if name in ("entropy", "margin") else some for name in asked})


@given(
    rule=st.sampled_from(sorted(KINDS)),
    window=st.integers(1, 4),
    keep=st.integers(0, 5),
    end=st.none() | st.integers(0, 30),
    rounds=st.lists(st.lists(st.integers(0, 4), min_size=2 * CLIENTS, max_size=2 * CLIENTS), min_size=1, max_size=8),
    held=st.integers(0, 6),
)
def test_nothing_is_bought_twice_and_only_what_was_before_a_client(rule, window, keep, end, rounds, held):
    """As many as were ordered or could be had; the newest of the rest are kept; what may be held is known as it was bought."""
    ends = None if end is None else np.full((2, CLIENTS), end)
    buying = Buying(KINDS[rule](), Data(window=window, keep=keep), np.array([4, 9]), ends, made_up)
    known = buying.open(CLIENTS)
    admitted = np.zeros((2, CLIENTS), np.int64)
    bought = {(s, m): [] for s in range(2) for m in range(CLIENTS)}
    spare, looked = {key: [] for key in bought}, dict.fromkeys(bought, 0)
    for t, orders in enumerate(rounds):
        ordered, today = np.array(orders).reshape(2, CLIENTS), np.full((2, CLIENTS), t % 4)
        could = buying.admits(known, ordered)
        ledger = SimpleNamespace(admitted=admitted, dropped=np.maximum(admitted - held, 0), places=None)
        known = buying.after(known, ledger, ordered, today)
        before, admitted = admitted, admitted + (ordered if could is None else could)
        for (s, m), own in bought.items():
            many, wanted = int((admitted - before)[s, m]), int(ordered[s, m])
            fresh = window * wanted if end is None else min(window * wanted, max(end - looked[s, m], 0))
            before_it = [*spare[s, m], *((looked[s, m] + i, t % 4) for i in range(fresh))]
            assert many == min(wanted, len(before_it))
            looked[s, m] += fresh
            assert known.looked[s, m] == looked[s, m]
            each = np.arange(before[s, m], admitted[s, m])
            found = list(zip(*(x.tolist() for x in seen_at(known.sights.at(each * 0 + s, each * 0 + m, each))), strict=True))
            assert len(set(found)) == many
            assert set(found) <= set(before_it)
            assert found == sorted(found)
            own += found
            if wanted:
                left = [one for one in before_it if one not in found]
                spare[s, m] = left[max(len(left) - keep, 0) :] if keep else []
            kept = list(zip(*(x.tolist() for x in seen_at(known.spare[s, m])), strict=True))
            assert [one for one in kept if one[0] >= 0] == spare[s, m]
            still = np.arange(max(admitted[s, m] - held, 0), admitted[s, m])
            places, concepts = seen_at(known.sights.at(still * 0 + s, still * 0 + m, still))
            assert list(zip(places.tolist(), concepts.tolist(), strict=True)) == own[len(own) - len(still) :]
            assert len({place for place, _ in own}) == len(own)
        again = buying.open(CLIENTS).restored(known.tensors())
        assert all(np.array_equal(array, again.tensors()[name]) for name, array in known.tensors().items())
