"""Looking at all places at once is to look for each of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.control import Controller, Report, System
from headgate.control import buffers as buffers_module
from headgate.control import renewed as renewed_module
from headgate.control.policies import Headgate
from headgate.control.renewed import Spans, by_client, by_place, renewed, worth_it


@st.composite
def windows(draw):
    """Places since when they are taken, limits, and whose samples come and go, of some runs and clients."""
    runs, limit = draw(st.integers(1, 3)), np.array(draw(st.lists(st.sampled_from([1, 2, 5, 12, 130]), min_size=1, max_size=9)))
    shape = runs, len(limit)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    born = rng.integers(0, 1000, (*shape, limit.max())).astype(np.int32)
    far = draw(st.sampled_from([1, 50, 2**40, 2**52]))
    spans = [Spans(rng.integers(0, far, shape), rng.integers(0, limit + 1, shape)) for _ in range(2)]
    return born, limit, spans[0], spans[1] if draw(st.booleans()) else None


@settings(max_examples=150)
@given(windows(), st.integers(1, 5), st.booleans())
def test_it_is_one_sample_after_the_other(given, block, places_first):
    born, limit, gone, come = given
    expected, since = born.copy(), np.zeros(len(born), dtype=np.int64)
    for r, m in np.ndindex(gone.begin.shape):
        for i in range(gone.size[r, m]):
            since[r] += born[r, m, (gone.begin[r, m] + i) % limit[m]]
        for i in range((come or gone).size[r, m]):
            expected[r, m, ((come or gone).begin[r, m] + i) % limit[m]] = 1001
    before = born.copy()
    whole, block_before = by_client(by_place(born)) if places_first else born, renewed_module.BLOCK
    renewed_module.BLOCK = block
    try:
        found, sums = renewed(whole, 1001, limit, gone, come)
    finally:
        renewed_module.BLOCK = block_before
    assert found.dtype == np.int32
    assert np.array_equal(found, expected)
    assert np.array_equal(sums, since)
    assert np.array_equal(whole, before)


def played(rounds=12):
    """Ledgers in which buffers fill by and by, some are renewed, and some clients admit less than they were told."""
    controller = Controller(System(np.array([3, 1, 7, 4, 5]), 11.0, rounds), Headgate(), 3)
    ledger = controller.open()
    for t in range(rounds):
        orders = controller.decide(ledger, np.array([1.0 + t % 4, 3.0, 9.0 - t % 5]))
        ledger = controller.post(ledger, orders, Report(orders.admitted * (np.arange(5) != t % 5)))
        yield ledger


def test_a_ledger_is_the_same_whichever_way_is_quicker(monkeypatch):
    """Also where born may hold what nobody asks for any more: no bit hangs on how many runs there are beside."""
    monkeypatch.setattr(renewed_module, "BLOCK", 2)
    asked = []
    for all_at_once in (False, True):
        monkeypatch.setattr(buffers_module, "worth_it", lambda *_, chosen=all_at_once: chosen)
        asked.append(list(played()))
    for looked_for, at_once in zip(*asked, strict=True):
        for name in ("uses", "squared_uses", "uses_in_memory", "admitted", "dropped", "spent"):
            assert np.array_equal(getattr(looked_for, name), getattr(at_once, name))
        assert np.array_equal(looked_for.contents.born, at_once.contents.born)
    assert at_once.uses_in_memory.min() > 0


@pytest.mark.parametrize(
    ("moved", "places", "worth"), [(2500, 20_000, True), (2499, 20_000, False), (1000, 1000, False), (2048, 2**14, True)]
)
def test_it_is_for_many_places_of_which_not_few_change_hands(moved, places, worth):
    assert worth_it(moved, places) is worth
