"""The border of the accounts: what is handed in by mistake is taken as the plain value
that it is, or refused in one line.

After each call the accounts can be opened, audited, stated and settled. A refused call
leaves every row as it was.
"""

import datetime
from decimal import Decimal

import numpy as np
import pytest

from headgate import Books, Delivery, System
from headgate.books.addresses import place_of
from headgate.books.opening import tables_at
from headgate.books.statement import opened
from headgate.control import Amendment
from headgate.control.policies import Headgate
from headgate.errors import HeadgateError, LedgerError, SettingError
from headgate.limits import LINE

from .kept import SYSTEM, InPostgres, begun, books, change, rows

NUMPY = [
    np.int8,
    np.int16,
    np.int32,
    np.int64,
    np.uint8,
    np.uint16,
    np.uint32,
    np.uint64,
    np.intp,
]
WHEN = "2026-11-18"


def shortly(value):
    return repr(value)[:40] if "object at" not in repr(value) else "a generator"


def play(folder, one):
    """Two rounds, an amendment of each kind and a refund, with every whole number made
    by `one`.
    """
    with books(folder) as own:
        own.begin(
            3.0,
            present=[one(0), one(2)],
            most=one(7),
            in_all=one(12),
            lot=one(2),
            when=WHEN,
            under_way=[one(20), one(20), one(20)],
            expires=one(5),
        )
        own.settle({one(0): Delivery(one(3), ["a", "b", "c"], one(1)), one(2): one(2)})
        own.begin(2.0, most=[one(9), one(9), one(9)], when=WHEN)
        late = Delivery(one(1), round=one(1), rejected={"a": "blurred"})
        own.settle(
            {one(0): [late, Delivery(one(0))], one(1): one(1)},
            refused={one(2): "why"},
            round=one(2),
        )
        own.amend(join=one(5), by="anna")
        own.amend(leave=one(1), by="anna")
        own.amend(horizon=one(90), by="anna")
        own.adjust(one(1), one(0), -1.5, by="anna")
        own.begin(2.5, when=WHEN)
        own.settle()
        assert own.order(one(1), one(0)).rejected == 1
        own.audit()
    found = rows(folder)
    names = found.pop("meta")
    assert names
    # without the account, the times and the hashes
    found["entries"] = [row[3:8] for row in found["entries"][1:]]
    return {name: [row[1:] for row in table] for name, table in found.items()}


@pytest.mark.parametrize("kind", NUMPY, ids=lambda kind: kind.__name__)
def test_a_whole_number_of_numpy_is_that_whole_number(place, kind):
    assert play(place / "numpy", kind) == play(place / "plain", int)
    assert used_afterwards(place / "numpy") > 0


def used_afterwards(folder):
    """Whatever came before, the accounts go on. Return what was spent before."""
    with books(folder) as own:
        before = own.audit().spent
        own.begin(3.0)
        own.settle()
        own.audit()
    return before


TAKEN = {
    "a mask": {"present": np.array([True, False, True])},
    "a mask as a list": {"present": [True, False, True]},
    "a set": {"present": {0, 2}},
    "an array of numbers": {"present": np.flatnonzero([1, 0, 1])},
    "an iterator": {"present": iter},
    "one client twice": {"present": [0, 0, 2]},
    "nobody": {"present": []},
    "a mask of nobody": {"present": np.zeros(3, dtype=bool)},
    "a price for each": {"price": [3.0, 2.0, 1.0]},
    "a price for each, as an array": {"price": np.array([3, 2, 1])},
    "a list of one price": {"price": [3.0]},
    "an array of no axis": {"price": np.array(3.0)},
    "a decimal": {"price": Decimal("3.10")},
    "a float of four bytes": {"price": np.float32(3.5)},
    "a whole number": {"price": 3},
    "nothing": {"price": 0.0},
    "a date": {"when": datetime.date(2026, 11, 18)},
    "a date and time": {"when": datetime.datetime(2026, 11, 18, 9, 30)},
    "an ISO date without hyphens": {"when": "20261118"},
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_begin_takes(place, name):
    given = {"price": 3.0, **TAKEN[name]}
    if given.get("present") is iter:
        given["present"] = iter((2, 0))
    with books(place) as own:
        found = own.begin(**given)
        own.settle()
    if "present" in given:
        clients = [] if "nobody" in name else [0, 2]
        assert [each.client for each in found] == clients
    if "when" in given:
        with opened(place) as journal:
            (begun,) = journal.tables.of_kinds("begun")
            assert begun.at[:10] == "2026-11-18"
    used_afterwards(place)


HUGE = 2**70
BEGIN = {
    "present = 3": {"present": 3},
    "present = all": {"present": "all"},
    "present[0] = 0.0": {"present": [0.0, 2.0]},
    "present[0] = '0'": {"present": ["0"]},
    "present[1] = 3": {"present": [0, 3]},
    "present[0] = -1": {"present": [-1]},
    f"present[0] = {HUGE}": {"present": [HUGE]},
    "present[0] = None": {"present": [None]},
    "present = [True, False]": {"present": [True, False]},
    "present: must be a list or an array of one axis": {
        "present": np.ones((3, 3), dtype=bool)
    },
    "most = nan": {"most": float("nan")},
    "most = 2.0": {"most": 2.0},
    "most[0] = 1.5": {"most": [1.5, 2, 3]},
    "most[2] = -1": {"most": [1, 2, -1]},
    "most = [1, 2]": {"most": [1, 2]},
    "most = '3'": {"most": "3"},
    "most = True": {"most": True},
    f"most = {HUGE}": {"most": HUGE},
    "in_all = 2.5": {"in_all": 2.5},
    "in_all = -1": {"in_all": -1},
    "in_all = '5'": {"in_all": "5"},
    f"in_all = {HUGE}": {"in_all": HUGE},
    "in_all = [5]": {"in_all": [5]},
    "lot = 0": {"lot": 0},
    "lot = 2.0": {"lot": 2.0},
    "lot = True": {"lot": True},
    "lot = None": {"lot": None},
    f"lot = {2**63}": {"lot": 2**63},
    "price = nan": {"price": float("nan")},
    "price = inf": {"price": float("inf")},
    "price = -1.0": {"price": -1.0},
    "price = '3'": {"price": "3"},
    "price = b'3'": {"price": b"3"},
    "price = None": {"price": None},
    "price = True": {"price": True},
    r"price = (3+1j)": {"price": 3 + 1j},
    "price = 1e+308": {"price": 1e308},
    "price = 4.94066e-324": {"price": 5e-324},
    "price = sNaN": {"price": Decimal("sNaN")},
    "price = [3.0, 4.0]": {"price": [3.0, 4.0]},
    "price[1] = nan": {"price": [3.0, float("nan"), 1.0]},
    "price[0] = [1.0, 2.0]": {"price": [[1.0, 2.0]] * 3},
    "price[0] = None": {"price": np.array([None, 1.0, 2.0])},
    "under_way = 2.5": {"under_way": 2.5},
    "under_way = -1": {"under_way": -1},
    "under_way[1] = None": {"under_way": [1, None, 2]},
    "under_way: must have a value for each of 3 clients, has 1": {"under_way": {0: 5}},
    "expires = -1": {"expires": -1},
    "expires = 2.5": {"expires": 2.5},
    "expires = '5'": {"expires": "5"},
    "expires = 0:00:00: must be longer": {"expires": datetime.timedelta(0)},
    "expires = 99999 days": {"expires": datetime.timedelta(days=99999)},
    "price: must have a value for each of 3 clients, has 2": {
        "price": {0: 1.0, 1: 2.0}
    },
    "when = 18/11/2026": {"when": "18/11/2026"},
    "when = tomorrow": {"when": "tomorrow"},
    "when = 2026-9-1": {"when": "2026-9-1"},
    "when = 20261118": {"when": 20261118},
    "when = \\x00": {"when": "\0"},
    "when = 0001-01-01T00:00:00+14:00": {"when": "0001-01-01T00:00:00+14:00"},
}
SETTLE = {
    "reports[0] = 6.5": {0: 6.5},
    "reports[0] = 8.0": {0: 8.0},
    "reports[0] = nan": {0: float("nan")},
    "reports[0] = inf": {0: float("inf")},
    "reports[0] = -1": {0: -1},
    "reports[0] = True": {0: True},
    "reports[0] = '8'": {0: "8"},
    "reports[0] = None": {0: None},
    f"reports[0] = {HUGE}": {0: HUGE},
    "reports[0] = [8.0]": {0: np.array([8.0])},
    "reports: client = '0': is no client; the clients have numbers": {"0": 8},
    "reports: client = 0.0": {0.0: 8},
    "reports: client = True": {True: 8},
    "reports: client = -1": {-1: 8},
    "reports: client = 99": {99: 8},
    "reports = [8, 9, 10]: must be a dict": [8, 9, 10],
    "reports[0].delivered = 2.5": {0: Delivery(2.5)},
    "reports[0].cancelled = -1": {0: Delivery(8, cancelled=-1)},
    "reports[0].cancelled = 0.5": {0: Delivery(8, cancelled=0.5)},
    "reports[0].cancelled = True": {0: Delivery(8, cancelled=True)},
    "reports[0].rejected = [1]": {0: Delivery(8, rejected=[1])},
    "reports[0].rejected = 1:": {0: Delivery(8, rejected={1: "why"})},
    "reports[0].rejected[a] = None": {0: Delivery(8, rejected={"a": None})},
    "reports[0].round = '1'": {0: Delivery(8, round="1")},
    "reports[0].round = 0": {0: Delivery(8, round=0)},
    "reports[0].round = 1.0": {0: [Delivery(8, round=1.0)]},
    "reports: has two reports of client 0 on round 2": {0: [Delivery(8), Delivery(1)]},
    "reports[0].keys = abc": {0: Delivery(3, keys="abc")},
    "reports[0].keys = None": {0: Delivery(3, keys=None)},
    "reports[0].keys[0] = b'a'": {0: Delivery(1, keys=[b"a"])},
    "reports[0].keys[0] = None": {0: Delivery(1, keys=[None])},
    "reports[0].keys[0] = 1": {0: Delivery(1, keys=[np.int64(1)])},
    "reports[0].keys[0] = '\\ud800'": {0: Delivery(1, keys=["\ud800"])},
    "reports[0].keys[0] = 'a\\x00b'": {0: Delivery(1, keys=["a\0b"])},
    "reports[0].keys[0] = 'a\\nb'": {0: Delivery(1, keys=["a\nb"])},
    "reports[0].keys[0] = 'kkkk": {0: Delivery(1, keys=["k" * 10**6])},
}
CONTRADICTS = {
    "round 9: client 0: delivered 2 samples, none were ordered": {
        0: Delivery(2, round=9)
    },
    "client 0: key 'a': cannot be rejected, it was not delivered": {
        0: Delivery(8, rejected={"a": "blurred"})
    },
    "reports[0].keys: 1 keys for 2 samples": {0: Delivery(2, keys=["a"])},
    "reports[0].keys: a is there twice; every sample has a key of its own": {
        0: Delivery(2, keys=["a", "a"])
    },
    "reports[0].keys: 3 keys for 2 samples": {
        0: Delivery(2, keys=(str(n) for n in range(10**9)))
    },
}
REFUSED = {
    "refused = why: must be a dict": "why",
    "refused: client = 0.0": {0.0: "why"},
    "refused: client = True": {True: "why"},
    "refused[0] = None": {0: None},
    "refused[0] = b'why'": {0: b"why"},
}
NAN = float("nan")
AMEND = {
    "money = nan": {"money": NAN},
    "money = '5'": {"money": "5"},
    "money = True": {"money": True},
    "money = 1e+18": {"money": 1e18},
    "money = None": {"money": None},
    "money = [5.0]": {"money": [5.0]},
    "budget = 0.0": {"budget": 0.0},
    "budget = inf": {"budget": float("inf")},
    "horizon = '50'": {"horizon": "50"},
    "horizon = 50.5": {"horizon": 50.5},
    "horizon = 0": {"horizon": 0},
    f"horizon = {HUGE}": {"horizon": HUGE},
    "join = 5.0": {"join": 5.0},
    "join = True": {"join": True},
    "join = 0": {"join": 0},
    "weight = nan": {"join": 5, "weight": NAN},
    "weight = 2: is for a client that joins": {"weight": 2.0},
    "leave = 1.0": {"leave": 1.0},
    "leave = True": {"leave": True},
    "leave = -1": {"leave": -1},
    "leave = 3: is not a client": {"leave": 3},
    "suspend = 1": {"suspend": 1},
    "suspend = 'yes'": {"suspend": "yes"},
    "month = nan": {"month": NAN},
    "month = -1": {"month": -1},
    "places: is none of money": {"places": 5},
    "adjust: is none of money": {"adjust": 5.0},
    "by = 5": {"money": 1.0, "by": 5},
    "why = None": {"money": 1.0, "why": None},
    "key = 5": {"money": 1.0, "key": 5},
    "key = ' '": {"money": 1.0, "key": " "},
    "the amendment changes nothing": {},
}
ADJUST = {
    "round = 1.0": (1.0, 0, -1.0),
    "round = '1'": ("1", 0, -1.0),
    "round = 0": (0, 0, -1.0),
    "round = True": (True, 0, -1.0),
    "client = -1": (1, -1, -1.0),
    "client = None": (1, None, -1.0),
    "amount = nan": (1, 0, NAN),
    "amount = 1e+300": (1, 0, 1e300),
    "amount = '5'": (1, 0, "5"),
    "amount = 0: changes nothing": (1, 0, 0.0),
}


def refused(folder, call, said, error=HeadgateError):
    """A call is refused in one line that says what is wrong, and every row stays as it
    was.
    """
    with books(folder) as own:
        own.begin(3.0)
        own.settle({0: 4, 1: 9})
        if call[0] in ("settle", "check"):
            own.begin(3.0)
        before = rows(folder)
        with pytest.raises(error) as caught:
            getattr(own, call[0])(*call[1], **call[2])
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)
        assert rows(folder) == before
    used_afterwards(folder)


@pytest.mark.parametrize(("said", "given"), BEGIN.items(), ids=shortly)
def test_begin_refuses_in_one_line(place, said, given):
    refused(
        place, ("begin", (), {"price": 3.0, **given}), f"begin: {said}", SettingError
    )


@pytest.mark.parametrize(("said", "reports"), SETTLE.items(), ids=shortly)
def test_settle_refuses_in_one_line(place, said, reports):
    refused(place, ("settle", (reports,), {}), f"settle: {said}", SettingError)


@pytest.mark.parametrize(("said", "reports"), CONTRADICTS.items(), ids=shortly)
def test_a_report_that_contradicts_the_purchases_settles_nothing(place, said, reports):
    with books(place) as own:
        own.begin(3.0)
        before = rows(place)
        with pytest.raises(LedgerError) as caught:
            own.settle(reports)
        assert said in str(caught.value)
        assert rows(place) == before
    used_afterwards(place)


@pytest.mark.parametrize(("said", "given"), REFUSED.items(), ids=shortly)
def test_reasons_are_text_by_client(place, said, given):
    refused(place, ("settle", ({1: 9}, given), {}), f"settle: {said}", SettingError)


def test_a_client_that_is_refused_exists(place):
    refused(
        place,
        ("settle", ({1: 9}, {99: "why"}), {}),
        "settle: refused: client = 99: must be a whole number from 0 to 2",
        SettingError,
    )


def test_a_refused_answers_report_is_charged_at_quarantine(
    place,
):
    for offences, charged in ((2, 15), (None, 0)):
        with books(place / str(offences), offences=offences) as own:
            for _ in range(2):
                own.begin(3.0, present=[0])
                own.settle({0: 5}, {0: "its model is not finite"})
            found = own.audit()
            assert found.spent == charged
            assert (found.reserved == 0) == bool(offences)


@pytest.mark.parametrize(
    ("said", "report"),
    [("client = '0': is no client", ("0", 8)), ("report[0] = 2.5", (0, 2.5))],
)
def test_check_refuses_in_one_line(place, said, report):
    refused(place, ("check", report, {}), f"check: {said}", SettingError)


@pytest.mark.parametrize(("said", "given"), AMEND.items(), ids=shortly)
@pytest.mark.parametrize("open_", [False, True], ids=["idle", "open"])
def test_amend_refuses_in_one_line(place, said, given, open_):
    call = ("amend", (), given)
    if not open_:
        refused(place, call, said, SettingError)
        return
    with books(place) as own:
        own.begin(3.0)
        before = rows(place)
        with pytest.raises(SettingError, match=r"^amend: |^the amendment"):
            own.amend(**given)
        assert rows(place) == before
    used_afterwards(place)


@pytest.mark.parametrize(("said", "given"), ADJUST.items(), ids=shortly)
def test_adjust_refuses_in_one_line(place, said, given):
    refused(place, ("adjust", given, {}), f"adjust: {said}", SettingError)


@pytest.mark.parametrize(
    ("said", "given"), [("prices = 3.0", (3.0,)), ("rounds = 2.5", (None, 2.5))]
)
def test_a_forecast_refuses_in_one_line(place, said, given):
    from headgate.control.prices import Uniform

    given = (Uniform(1.0, 10.0) if given[0] is None else given[0], *given[1:])
    refused(place, ("rest", given, {}), f"rest: {said}", SettingError)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"system": [8, 9, 10]}, "Books: system = [8, 9, 10]"),
        ({"policy": "headgate"}, "Books: policy = headgate: must be"),
        ({"policy": Headgate}, "Books: policy = Headgate: is a class"),
        ({"seed": 1.5}, "Books: seed = 1.5"),
        ({"seed": -1}, "Books: seed = -1"),
        ({"seed": "1"}, "Books: seed = '1'"),
    ],
    ids=shortly,
)
def test_accounts_that_cannot_be_leave_nothing(place, given, said):
    with pytest.raises(HeadgateError) as caught:
        Books(
            place / "accounts",
            **{"system": SYSTEM, "policy": Headgate(fill=8.0), **given},
        )
    assert said in str(caught.value)
    assert not begun(place / "accounts")


@pytest.mark.parametrize("folder", [5, None, b"accounts", "", "a\0b", ["accounts"]])
def test_a_folder_is_a_path(folder):
    with pytest.raises(SettingError, match=r"^Books: folder = "):
        Books(folder, SYSTEM, Headgate(fill=8.0))


def test_a_system_of_numpy_is_written_as_plain_numbers(place):
    system = System(
        np.array([8, 9, 10], np.int32),
        np.float32(20.0),
        np.int64(100),
        np.array([1, 1, 1]),
        "EUR",
    )
    with Books(place, system, Headgate(fill=8.0), np.int64(3)) as own:
        own.begin(3.0)
        own.settle()
        assert own.audit().spent == Decimal("81.0")
    with Books(
        place, System([8, 9, 10], 20.0, 100, currency="EUR"), Headgate(fill=8.0), 3
    ) as again:
        assert again.audit().system.horizon == 100


@pytest.mark.parametrize("horizon", [100.0, "100", True, 0, -3, float("nan")])
def test_a_horizon_is_a_whole_number(horizon):
    with pytest.raises(SettingError, match=r"^horizon = "):
        System([8], 20.0, horizon)


def test_who_and_why_are_kept_in_one_line_that_can_be_printed(place):
    with books(place) as own:
        own.amend(by="\x1b]0;x\x07", why="=1+1\n<script>\ud800", money=1.0)
        (made,) = own.statement().amendments
    assert made.by.isprintable()
    assert made.why.isprintable()
    assert len(made.why.splitlines()) == 1


def test_a_long_reason_is_shortened_and_a_key_is_never_empty(place):
    with books(place) as own:
        own.amend(by="anna" * 1000, why="because " * 1000, money=1.0)
        (made,) = own.statement().amendments
        assert len(made.by) == len(made.why) == LINE
        own.begin(3.0)
        with pytest.raises(
            SettingError,
            match=(
                r"settle: reports\[0\]\.keys\[1\]: a key is empty; give every sample a"
                r" key, or none"
            ),
        ):
            own.settle({0: Delivery(2, ["a", ""])})


def test_a_round_is_settled_once(place):
    with books(place) as own:
        own.begin(3.0)
        own.settle()
        before = rows(place)
        for call in (own.settle, lambda: own.check(0, Delivery(8))):
            with pytest.raises(SettingError, match="no round was begun"):
                call()
        assert rows(place) == before


# the second line: the database itself


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE orders SET asked = x'0800000000000000'",
        "UPDATE orders SET asked = 0",
        "UPDATE orders SET delivered = 6.5",
        "UPDATE orders SET delivered = asked + 1",
        "UPDATE orders SET delivered = NULL",
        "UPDATE orders SET cancelled = asked - delivered + 1",
        "UPDATE orders SET rejected = delivered + 1",
        "UPDATE orders SET beyond = -1",
        "UPDATE orders SET price = NULL",
        "UPDATE orders SET free = asked + 1",
        "UPDATE orders SET client = -1",
        "UPDATE entries SET number = 0",
        "UPDATE entries SET body = NULL",
        "UPDATE entries SET body = x'00'",
        "UPDATE entries SET number = number - 1",
        "UPDATE entries SET request = 'begun 1'",
        "INSERT INTO samples VALUES ('a', x'61', 0, 1, 0, 'delivered', '')",
        "INSERT INTO samples VALUES ('a', 'k', 0, 1, -1, 'delivered', '')",
    ],
)
def test_the_database_refuses_a_value_that_no_ledger_holds(place, statement):
    with books(place) as own:
        own.begin(3.0)
        own.settle({0: 4, 1: 9, 2: 10})
        own.amend(money=5.0)
    store = tables_at(place_of("place", place))
    before = rows(place)
    if isinstance(place, InPostgres):  # it rounds a number, and all else can be text
        statement = statement.replace("6.5", "'6.5'")
        statement = statement.replace("x'00'", "NULL").replace("x'61'", "NULL")
    with pytest.raises(
        HeadgateError, match=r"refuses a value \(.*\); nothing was written"
    ):
        store._run(statement)
    store.close()
    assert rows(place) == before


@pytest.mark.parametrize("value", ["6.5", "x'0800000000000000'", "'eight'", "-1"])
def test_a_value_that_came_in_behind_the_rules_is_found_when_the_accounts_are_opened(
    tmp_path, value
):
    with books(tmp_path) as own:
        own.begin(3.0)
        own.settle({0: 4, 1: 9, 2: 10})
    change(
        tmp_path,
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = replace(sql, ' STRICT', '') WHERE name ="
        " 'orders'",
    )
    change(tmp_path, f"UPDATE orders SET delivered = {value} WHERE client = 0")
    change(
        tmp_path,
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = sql || ' STRICT' WHERE name = 'orders'",
    )
    with pytest.raises(HeadgateError, match=r"ledger\.sqlite: is damaged \("):
        books(tmp_path)


def test_amendments_of_numpy_are_plain_values():
    made = Amendment(
        money=np.float32(5.5),
        horizon=np.int64(50),
        join=np.uint8(5),
        weight=np.float64(0.5),
        suspend=np.bool_(True),
    )
    kinds = [
        type(value)
        for value in (made.money, made.horizon, made.join, made.weight, made.suspend)
    ]
    assert kinds == [float, int, int, float, bool]


# the commands


COMMANDS = {
    "money = nan": ("amend", "--money", "nan"),
    "money = inf": ("amend", "--money", "inf"),
    "money = 1e+18": ("amend", "--money", "1e18"),
    "horizon = 5.5": ("amend", "--horizon", "5.5"),
    "horizon = 0": ("amend", "--horizon", "0"),
    "horizon = 99": ("amend", "--horizon", "99" * 20),
    "join = 0": ("amend", "--join", "0"),
    "weight = 2": ("amend", "--weight", "2"),
    "leave = -1": ("amend", "--leave", "-1"),
    "Invalid value for '--join': 'five' is not a valid integer.": (
        "amend",
        "--join",
        "five",
    ),
    "Invalid value for '--round': '1.0' is not": (
        "adjust",
        "--round",
        "1.0",
        "--client",
        "0",
        "--amount",
        "1",
    ),
    "Missing option '--amount'": ("adjust", "--round", "1", "--client", "0"),
    "No such option": ("amend", "--places", "5"),
    "leave = 3": ("amend", "--leave", "3"),
    "month = -5.0": ("amend", "--month", "-5"),
    "key = ' '": ("amend", "--money", "1", "--key", " "),
    "changes nothing": ("amend",),
    "amount = nan": ("adjust", "--round", "1", "--client", "0", "--amount", "nan"),
    "amount = 0": ("adjust", "--round", "1", "--client", "0", "--amount", "0"),
    "order = round 9, client 0": (
        "adjust",
        "--round",
        "9",
        "--client",
        "0",
        "--amount",
        "1",
    ),
    "round = -1": ("adjust", "--round", "-1", "--client", "0", "--amount", "1"),
    "is more than the 12": (
        "adjust",
        "--round",
        "1",
        "--client",
        "0",
        "--amount",
        "-13",
    ),
}


@pytest.mark.parametrize(("said", "words"), COMMANDS.items(), ids=shortly)
def test_the_commands_refuse_in_one_line(place, headgate, said, words):
    with books(place) as own:
        own.begin(3.0)
        own.settle({0: 4, 1: 9, 2: 10})
    before = rows(place)
    command, *more = words
    code = 5 if said.startswith(("order", "is more")) else 2
    _, err = headgate("ledger", command, place, *more, code=code)
    assert said in err
    assert err.count("\n") == 1
    assert rows(place) == before
    used_afterwards(place)
