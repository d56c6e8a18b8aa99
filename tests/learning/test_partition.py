import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import SettingError
from headgate.learning.partition import ByColumn, Dirichlet, Iid, Pairs

LABELS = np.repeat(np.arange(10), 50)[np.argsort(np.arange(500) * 7919 % 500)]


def test_pairs_hold_two_classes_and_at_most_so_many_of_each():
    owned = Pairs(per_class=20).split(LABELS, 10, seed=3, columns={})
    for m, rows in enumerate(owned):
        classes, counts = np.unique(LABELS[rows], return_counts=True)
        assert set(classes) == {m, (m + 1) % 10}
        assert counts.tolist() == [20, 20]
        assert len(set(rows)) == 40
    ones = [set(rows[LABELS[rows] == 1]) for rows in owned[:2]]
    assert ones[0] != ones[1]  # drawn independently
    assert [len(rows) for rows in Pairs().split(LABELS, 12, 3, {})] == [100] * 12


@pytest.mark.parametrize("rule", [Pairs(20), Iid(), Iid(per_client=30), Dirichlet(0.3)])
def test_a_seed_fixes_the_owners_and_another_changes_them(rule):
    one, again, other = (rule.split(LABELS, 10, seed, {}) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(one, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@given(st.integers(1, 40), st.integers(0, 5))
def test_iid_and_dirichlet_give_every_image_to_one_client(clients, seed):
    for rule in (Iid(), Dirichlet(5.0)):
        owned = rule.split(LABELS, clients, seed, {})
        assert sorted(np.concatenate(owned)) == list(range(500))
        assert all(rows.size for rows in owned)


def test_iid_is_even_and_capped():
    assert {len(rows) for rows in Iid().split(LABELS, 7, 0, {})} <= {71, 72}
    assert {len(rows) for rows in Iid(per_client=10).split(LABELS, 7, 0, {})} == {10}


def test_small_alpha_is_more_uneven_than_large():
    def unevenness(alpha):
        return np.mean(
            [
                np.std(
                    [len(rows) for rows in Dirichlet(alpha).split(LABELS, 5, seed, {})]
                )
                for seed in range(10)
            ]
        )

    assert unevenness(0.3) > 3 * unevenness(100.0)


WRITER = np.arange(500) % 6


def test_a_column_names_the_owner():
    owned = ByColumn("writer").split(LABELS, 3, 0, {"writer": WRITER})
    assert [set(WRITER[rows]) for rows in owned] == [{0, 3}, {1, 4}, {2, 5}]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Pairs(0), "^per_class = 0"),
        (lambda: Iid(0), "^per_client = 0"),
        (lambda: Dirichlet(0.0), "^alpha = 0"),
        (
            lambda: Dirichlet(1e-4).split(LABELS, 100, 0, {}),
            "data.alpha = 0.0001: in 100 draws some of the 100 clients",
        ),
        (
            lambda: ByColumn("author").split(LABELS, 3, 0, {"writer": WRITER}),
            "data.column = author: the data set has no such",
        ),
        (
            lambda: ByColumn("writer").split(LABELS, 7, 0, {"writer": WRITER}),
            "6 values for 7 clients",
        ),
        (
            lambda: Iid().split(np.zeros(3, dtype=np.int64), 5, 0, {}),
            "client 3 would have no data",
        ),
    ],
)
def test_bad_settings_are_named(make, message):
    with pytest.raises(SettingError, match=message):
        make()
