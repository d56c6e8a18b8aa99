"""Who is in which concept when: the makers against what they say."""

from dataclasses import dataclass

import numpy as np
import pytest

from headgate.control.randomness import Purpose, uniform
from headgate.errors import SettingError
from headgate.experiment import load
from headgate.learning.concepts import (
    ConceptSchedule,
    DriftKind,
    Gradual,
    Recurring,
    Sudden,
)

from .said import refused

TWO = 'data.concepts=["same", "rotated"]'


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (Sudden(rounds=(3, 6), order=(0, 2, 1)), [[0, 0, 2, 2, 2, 1, 1, 1]] * 4),
        # one after the other, and some not at all
        (
            Sudden(rounds=(3,), stagger=2, clients=(0, 1, 3)),
            [[0, 0] + [1] * 8, [0] * 4 + [1] * 6, [0] * 10, [0] * 8 + [1] * 2],
        ),
        (Recurring(every=2, order=(1, 0, 2)), [[1, 1, 0, 0, 2, 2, 1]] * 4),
        (
            Recurring(every=2, stagger=1),
            [[0, 0, 1, 1, 0], [0, 0, 0, 1, 1], [0, 0, 0, 0, 1], [0] * 5],
        ),
    ],
)
def test_which_concept_each_client_is_in_round_by_round(changes, expected):
    rounds = range(1, len(expected[0]) + 1)
    assert (
        np.stack([changes.at(0, t, np.arange(4)) for t in rounds]).T.tolist()
        == expected
    )


def test_a_gradual_change_is_as_likely_as_it_says_and_drawn_by_address():
    changes, clients = Gradual(start=10, stop=20, order=(1, 0)), np.arange(20_000)
    for t, chance in ((1, 0.0), (10, 0.0), (13, 0.3), (19, 0.9), (20, 1.0), (99, 1.0)):
        new = changes.at(5, t, clients) == 0
        assert new.mean() == pytest.approx(chance, abs=0.02)
        assert np.array_equal(new, uniform(5, Purpose.CONCEPT, t, clients) < chance)
    assert not np.array_equal(changes.at(5, 15, clients), changes.at(6, 15, clients))
    assert np.array_equal(
        changes.at(5, 15, clients[7:9]), changes.at(5, 15, clients)[7:9]
    )


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (['data.concepts=["same"]'], "data.concepts, data.changes: one says"),
        (
            ["data.changes={kind='recurring', every=5}"],
            "data.concepts, data.changes: one says",
        ),
        (["data.concepts=3"], "data.concepts = 3: must be a list"),
        (
            ['data.concepts=["turned"]'],
            "data.concepts[0].kind = turned: no such concept",
        ),
        (
            ['data.concepts=["same", {kind="rotated", quarters=4}]'],
            "data.concepts[1].quarters = 4: must be 1, 2 or 3",
        ),
        (
            ["data.concepts=[{kind='swapped', to=[1, 1]}]"],
            "data.concepts[0].to = [1, 1]: must be the number of each",
        ),
        (
            ["data.concepts=[{kind='classes', classes=[]}]"],
            "data.concepts[0].classes = []",
        ),
        (
            ["data.concepts=[{kind='prior', weights=[2.0]}]"],
            "data.concepts[0].weights = [2.0]",
        ),
        (
            ["data.changes={kind='sudden', rounds=[1]}"],
            "data.changes.rounds = [1]: must be rounds from 2 on",
        ),
        (
            ["data.changes={kind='sudden', rounds=[9, 5]}"],
            "data.changes.rounds = [9, 5]",
        ),
        (
            ["data.changes={kind='sudden', rounds=[5], order=[0, 1, 0]}"],
            "data.changes.order: has 3 concepts for 1 changes",
        ),
        (["data.changes={kind='gradual', start=9, stop=9}"], "data.changes.start = 9"),
        (["data.changes={kind='recurring', every=0}"], "data.changes.every = 0"),
        (
            ["data.changes={kind='recurring', every=5, stagger=-1}"],
            "data.changes.stagger = -1",
        ),
        (
            [TWO, "data.changes={kind='sudden', rounds=[5, 9]}"],
            "order: names concept 2; data.concepts has 0 to 1",
        ),
        (
            [TWO, "data.changes={kind='sudden', rounds=[5], clients=[10]}"],
            "clients: names client 10; there are 0 to 9",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(settings, said):
    refused(SettingError, lambda: load("digits", settings), said)


@dataclass(frozen=True)
class Alternating(DriftKind):
    """Changes of a user's own; in round `wrong` it tells of a concept that is not
    there.
    """

    wrong: int = 99

    def at(self, seed, t, clients):
        return (t + clients) % (3 if t == self.wrong else 2)


def test_changes_of_ones_own():
    settings = [TWO, f"data.changes={{kind='{__name__}:Alternating', wrong=4}}"]
    e = load("digits", settings)
    assert load(e.tables()).data == e.data
    where = ConceptSchedule(e.data.changes, 2, e.seeds[:1], 3)
    assert where.at(3).tolist() == [[1, 0, 1]]
    with pytest.raises(
        SettingError,
        match=r"data\.changes: concept 2 in round 4; data\.concepts has 0 to 1",
    ):
        where.at(4)
    with pytest.raises(SettingError, match="must be a class, a subclass of DriftKind"):
        load("digits", [settings[0], "data.changes={kind='os:system'}"])


def test_shares_of_the_clients_and_what_changed():
    where = ConceptSchedule(Sudden(rounds=(3,), stagger=1), 2, np.array([7, 8]), 4)
    weight = np.array([0.4, 0.3, 0.2, 0.1])
    today = where.at(4)
    assert today.tolist() == [[1, 1, 0, 0]] * 2
    np.testing.assert_allclose(where.shares(4, weight), [[0.3, 0.7]] * 2)
    np.testing.assert_allclose(where.changed(4, weight), [0.3] * 2)
    assert where.changed(1, weight).tolist() == [0, 0]
    told = where.columns(4, weight, np.array([[0.5, 0.6]] * 4))
    assert list(told) == ["changed", "share_0", "accuracy_0", "share_1", "accuracy_1"]
    assert [len(column) for column in told.values()] == [4] * 5
