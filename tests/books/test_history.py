"""Two processes write accounts, in a folder or in PostgreSQL, and odd values come in
everywhere: some hundred steps; 10,000 in the long run.
"""

import pytest

from headgate import Books, System
from headgate.books.statement import amend
from headgate.control import Amendment
from headgate.control.policies import Headgate
from headgate.errors import DataError

from .history import CASES, OPERATIONS, SOME, TheSecond, main, sweep
from .values import DATES, KEYS, ODD

RUNS = {"sqlite": (400, 20), "postgres": (60, 21)}
"""steps and seed of the usual runs: some 15 s on one core"""
VALUES = {*ODD, *KEYS, *DATES}
SLOTS = {
    f"{name}: {slot}"
    for name, operation in OPERATIONS.items()
    for slot in operation.slots
}


@pytest.fixture(scope="module", autouse=True)
def ends_the_second_process():
    yield
    TheSecond.end()


@pytest.fixture(scope="module", params=RUNS)
def history(request):
    """How many steps a run was to take, and what it did. The same in every run: it
    begins with the same seed.
    """
    database, (steps, seed) = None, RUNS[request.param]
    if request.param == "postgres":
        database = request.getfixturevalue("database")
    return steps, main(steps, seed, database, say=lambda *line, **more: None)


@pytest.fixture
def counts(history):
    return history[1]


def test_two_writers_and_odd_values_leave_accounts_that_open_again(history):
    steps, counts = history
    assert counts["steps",] >= steps


@pytest.mark.parametrize("history", ["sqlite"], indirect=True)
def test_every_call_of_both_processes_was_accepted_and_refused(counts):
    done = {what[1:] for what in counts if what[0] == "first"}
    assert {(name, "accepted") for name in OPERATIONS} <= done
    assert {
        (name, "refused") for name in OPERATIONS if name not in ("statement", "audit")
    } <= done
    for other in ("buffers", "budget"):
        assert counts["first", f"open with another {other}", "refused"] > 0
    assert counts["first", "open", "accepted"] > 0
    assert counts["second", "amend", "accepted"] > 0
    assert counts["second", "amend", "refused"] > 0
    assert counts["second", "show", "accepted"] > 0
    assert counts["second", "export", "accepted"] > 0
    assert counts["second", "play", "refused"] > 0
    assert counts["clock", "back"] > 0


def test_the_second_process_was_let_in_at_every_kind_of_moment(history):
    steps, counts = history
    places = {
        what[1]: count for what, count in counts.items() if what[0] == "failpoint"
    }
    assert set(places) == {
        "outside a transaction",
        "inside a transaction",
        "after the call",
    }
    assert min(places.values()) >= steps / 27


@pytest.mark.parametrize(
    "cases", [SOME, pytest.param(CASES, marks=pytest.mark.long)], ids=["some", "all"]
)
def test_each_odd_value_in_each_argument_is_refused_in_one_line_or_understood(cases):
    values, slots = tried(sweep(cases))
    assert values == VALUES
    assert slots == SLOTS


def tried(counts):
    """Return the odd values and the arguments that a run has tried."""
    return {what[1] for what in counts if what[0] == "odd"}, {
        what[1] for what in counts if what[0] == "slot"
    }


def test_accounts_that_one_process_opens_twice_keep_their_log(tmp_path):
    """SQLite's locks on a file belong to a process: closing any other descriptor of the
    file releases all of them. The next process that looks then takes itself for the
    only one, and removes the log that the first one goes on writing."""
    system, second = System([4, 3, 5], budget=12.0, horizon=60), TheSecond.get()
    with Books(tmp_path, system, Headgate(fill=8.0)) as own:
        own.begin(3.0)
        own.settle()
        with pytest.raises(DataError, match="in use"):
            Books(tmp_path, system, Headgate(fill=8.0))
        amend(tmp_path, Amendment(money=5.0), "anna", "in the same process")
        assert second.ask(
            "amend", str(tmp_path), {"money": 1.0}, "board", "looks, and writes"
        ) == ("accepted", None)
        own.begin(1.0)
        own.settle()
        outcome, (spent, _) = second.ask("show", str(tmp_path))
        assert (outcome, spent) == ("accepted", own.audit().spent)


@pytest.mark.long
@pytest.mark.parametrize("kind", RUNS)
def test_ten_thousand_steps_try_every_argument(request, kind):
    database = request.getfixturevalue("database") if kind == "postgres" else None
    found = main(10_000, 1_000, database)
    assert found["steps",] >= 10_000
    values, slots = tried(found)
    assert len(values) > 0.7 * len(VALUES)  # the sweep tries all
    assert slots == SLOTS
