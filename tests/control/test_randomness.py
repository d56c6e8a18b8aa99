import numpy as np
import pytest

from headgate.control import randomness
from headgate.control.randomness import Purpose, permutations, philox, uniform
from headgate.errors import SettingError


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [  # the known answers published with Random123
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (
            (0xFFFFFFFF,) * 4,
            (0xFFFFFFFF,) * 2,
            (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        ),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_known_answers(counter, key, expected):
    words = philox(
        tuple(np.uint64([c]) for c in counter), tuple(np.uint64([k]) for k in key)
    )
    assert tuple(int(word[0]) for word in words) == expected


def test_every_part_of_the_address_matters():
    draws = {
        float(uniform(s, p, i, m))
        for s in (0, 1, 2**32)
        for p in Purpose
        for i in (0, 1, 2**32)
        for m in (0, 1, 7)
    }
    assert len(draws) == 3 * len(Purpose) * 3 * 3


@pytest.mark.parametrize("seed", [-1, 1.5])
def test_a_bad_seed_is_named(seed):
    with pytest.raises(SettingError, match="seed = "):
        uniform(seed, Purpose.PRICE, 1)


def test_orders_of_clients_are_permutations_and_the_same_however_many_come_at_a_time(
    monkeypatch,
):
    places, clients = np.arange(7), np.arange(5)
    purpose = next(iter(Purpose))
    together = list(permutations(3, purpose, places, clients))
    assert [(some.start, orders.shape) for some, orders in together] == [(0, (5, 7))]
    monkeypatch.setattr(randomness, "_BLOCK", 14)
    by_two = list(permutations(3, purpose, places, clients))
    assert [some.start for some, _ in by_two] == [0, 2, 4]
    orders = np.concatenate([orders for _, orders in by_two])
    assert np.array_equal(orders, together[0][1])
    assert np.array_equal(np.sort(orders, axis=1), np.tile(places, (5, 1)))
    assert len({tuple(order) for order in orders.tolist()}) == 5
    later = np.concatenate(
        [orders for _, orders in permutations(3, purpose, places, clients, 7)]
    )
    assert not np.array_equal(later, orders)
