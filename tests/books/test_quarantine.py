"""Books with `offences`: a client whose reports are refused too often gets no
purchases, and holds no money.
"""

import pytest

from headgate import Books, Delivery, System
from headgate.books.statement import opened
from headgate.control.policies import Headgate
from headgate.errors import SettingError

from .kept import begun

NOTHING = Delivery(cancelled=1_000)
"""all of it was skipped"""


def books(folder, **given):
    return Books(
        folder,
        System([8, 9, 10], budget=20.0, horizon=100),
        Headgate(fill=8.0),
        **given,
    )


def test_after_so_many_offences_a_client_gets_no_purchases_until_it_is_lifted(place):
    with books(place, offences=2) as own:
        for t in (1, 2):
            assert [each.client for each in own.begin(1.0)] == [0, 1, 2]
            own.settle({0: NOTHING, 2: NOTHING}, {1: "lies"})
            assert own.quarantined == ({1} if t == 2 else set())
        assert own.statement().reserved == 0
        assert [each.client for each in own.begin(1.0, present=[0, 1])] == [0]
        own.settle()
        own.audit()
    with books(place, offences=2) as again:
        assert [each.client for each in again.begin(1.0)] == [0, 2]
        with opened(place, writes=True) as store:
            assert store.lift(1)
            assert not store.lift(1)
        again.settle()
        late = again.begin(1.0)[1]
        again.settle({1: [Delivery(late.samples), Delivery(3, round=1)]})
        found = again.audit()
    lines = [line for line in found.lines if line.client == 1]
    assert [(line.delivered, line.beyond) for line in lines] == [
        (0, 3),  # it was cancelled with the quarantine: recorded, and not charged
        (0, 0),
        (late.samples, 0),
    ]


def test_without_it_no_client_is_ever_in_quarantine(place):
    with books(place) as own:
        for _ in range(10):
            own.begin(1.0)
            own.settle({0: NOTHING, 2: NOTHING}, {1: "lies"})
        assert own.quarantined == set()
        assert own.statement().reserved > 0


@pytest.mark.parametrize("offences", [0, -1, 2.0, "3", True])
def test_a_number_of_offences_that_is_none_is_refused_and_leaves_nothing(
    place, offences
):
    with pytest.raises(SettingError, match=r"^Books: offences = "):
        books(place / "accounts", offences=offences)
    assert not begun(place / "accounts")


@pytest.mark.parametrize(
    "open_", [False, True], ids=["between rounds", "in an open round"]
)
def test_after_a_quarantine_was_lifted_offences_count_from_the_beginning(place, open_):
    with books(place, offences=2) as own:
        for _ in range(2):
            own.begin(1.0)
            own.settle({0: NOTHING, 2: NOTHING}, {1: "lies"})
        if open_:
            own.begin(1.0)
        with opened(place, writes=True) as store:
            assert store.lift(1)
        for t in (1, 2):
            own.begin(1.0)
            own.settle({0: NOTHING, 2: NOTHING}, {1: "lies"})
            assert own.quarantined == ({1} if t == 2 else set())


@pytest.mark.parametrize("offences", [1, None])
def test_keys_in_an_answer_that_is_refused_are_kept_if_it_is_paid(place, offences):
    with books(place, offences=offences) as own:
        own.begin(3.0, present=[0])
        own.settle({0: Delivery(2, ["a", "b"])}, {0: "lies"})
        (line,) = own.audit().lines
        paid = (2, ("a", "b")) if offences else (0, ())
        assert (line.delivered, line.keys) == paid
