"""Purchases beside headgate's: within the money and the capacity, never below what was
possible, and said honestly.
"""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headgate
from headgate.analysis.display import plain_text
from headgate.analysis.replay import read_purchases
from headgate.control.prices import Trace
from headgate.control.rehearse import rehearse
from headgate.errors import DataError, SettingError
from headgate.limits import PURCHASES

from .made_up import printed

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "purchases.csv"
CELL = st.none() | st.tuples(
    st.integers(0, 2000).map(lambda cents: cents / 100), st.integers(0, 30)
)


@st.composite
def files(draw):
    """Rows by (time, client): some clients have no row at some times."""
    clients = draw(st.integers(1, 3))
    cells = draw(st.lists(st.tuples(*[CELL] * clients), min_size=1, max_size=12))
    rows = [
        (t, m, *cell)
        for t, row in enumerate(cells)
        for m, cell in enumerate(row)
        if cell is not None
    ]
    return [*rows, (99, 0, 3.0, draw(st.integers(1, 30)))]  # something was paid


def written(folder, rows, header="time,client,price,samples"):
    path = folder / "p.csv"
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("replay")


@settings(max_examples=20)
@given(rows=files(), capacity=st.none() | st.integers(1, 40))
def test_money_and_capacity_are_kept_and_nobody_is_cheaper_than_hindsight(
    folder, rows, capacity
):
    done = headgate.replay(written(folder, rows), capacity)
    you, much, many = done.you, done.as_much, done.as_many
    assert you.samples == sum(n for *_, n in rows)
    assert you.paid == pytest.approx(sum(price * n for *_, price, n in rows))
    most = {}
    for _, m, _, n in rows:
        most[m] = max(most.get(m, 0), n)
    assert done.capacity.tolist() == [
        n if capacity is None else capacity
        for _, n in sorted(most.items())
        if n or capacity
    ]
    assert much.paid <= you.paid * (1 + 1e-9)
    for bought in filter(
        lambda each: each is not None, (done.for_as_much, done.for_as_many)
    ):
        assert (bought <= np.where(done.purchases.offered, done.capacity, 0)).all()
    room = int((done.purchases.offered * done.capacity).sum())
    assert (many is None) == (done.cheapest is None) == (room < you.samples)
    if many is not None:
        assert many.samples >= you.samples
        assert many.paid >= done.cheapest * (1 - 1e-9)
        if capacity is None:
            assert done.cheapest <= you.paid * (1 + 1e-9)
        if much.samples >= you.samples:
            assert many.paid <= you.paid * (1 + 1e-9)
    assert done.frame.height == len(done.purchases.times)
    assert done.frame["paid"].sum() == pytest.approx(you.paid)
    assert done.frame["as_much_bought"].sum() == much.samples
    assert done.sentence in " ".join(repr(done).split())


@given(rows=files(), data=st.data())
def test_the_order_of_rows_does_not_matter(folder, rows, data):
    first, other = (
        read_purchases(written(folder, each))
        for each in (rows, data.draw(st.permutations(rows)))
    )
    assert first.times == other.times
    assert np.array_equal(first.price, other.price, equal_nan=True)
    assert np.array_equal(first.bought, other.bought)


def test_the_cheapest_possible_takes_the_lowest_prices_first(tmp_path):
    path = written(
        tmp_path, [(1, 0, 4.0, 10), (2, 0, 2.0, 0), (3, 0, 1.0, 0), (4, 0, 5.0, 10)]
    )
    assert [headgate.replay(path, capacity).cheapest for capacity in (10, 20)] == [
        30.0,
        20.0,
    ]


def test_no_later_price_changes_an_earlier_purchase(tmp_path):
    rows = [(t, 0, 1.0 + (7 * t) % 5, 6) for t in range(12)]
    other = [
        *rows[:8],
        *((t, 0, 1.5 if t % 2 else 9.0, 0) for t in range(8, 11)),
        (11, 0, 1.0, 0),
    ]
    money = sum(price * n for *_, price, n in rows)
    left = (money - sum(price * n for *_, price, n in other)) / 1.0
    other[-1] = (11, 0, 1.0, round(left))  # the same money and the same capacity
    first, second = (
        headgate.replay(written(tmp_path, each), 50) for each in (rows, other)
    )
    assert first.you.paid == second.you.paid
    assert first.for_as_much[:8].tolist() == second.for_as_much[:8].tolist()
    assert first.for_as_much[8:].tolist() != second.for_as_much[8:].tolist()


def test_clients_have_prices_and_capacities_of_their_own_and_need_an_offer(tmp_path):
    rows = [
        (t, m, 2.0 + (t * (m + 2)) % 5, 5 * (m + 1) if t % 3 == m else 0)
        for t in range(9)
        for m in range(2)
        if t != 4 or m
    ]
    done = headgate.replay(written(tmp_path, rows))
    assert done.capacity.tolist() == [5, 10]
    assert not done.purchases.offered[4, 0]
    assert done.frame["price"][4] == done.purchases.price[4, 1]
    assert "at most 10 samples a round and client (capacity)" in " ".join(
        repr(done).split()
    )


def test_what_is_said_where_nothing_could_be_saved_or_headgate_loses(tmp_path):
    same = headgate.replay(written(tmp_path, [(t, 0, 2.0, t % 3) for t in range(9)]))
    assert same.sentence.endswith(
        "The price never changed, so there was nothing to save."
    )
    full = headgate.replay(
        written(tmp_path, [(t, 0, 2.0 + t % 3, 5) for t in range(9)])
    )
    assert full.sentence.endswith(
        "With this capacity there was nothing to save; a larger one may be stated."
    )
    lucky = headgate.replay(
        written(
            tmp_path,
            [(t, 0, 9.0 - t, 20 if t == 8 else 1 if t > 5 else 0) for t in range(9)],
        )
    )
    assert lucky.as_many.paid > lucky.you.paid
    assert lucky.as_much.samples < lucky.you.samples
    assert lucky.sentence.endswith("Your own purchases were cheaper.")
    small = headgate.replay(
        written(tmp_path, [(t, 0, 2.0 + t % 3, 5) for t in range(9)]), 3
    )
    assert small.sentence.endswith(
        "headgate would have bought 27 for 81.00; this capacity does not allow as many."
    )
    assert small.frame["as_many_paid"].null_count() == 9
    assert "for as much money, 1 round a line" in repr(small)


HEADER = "time,price,samples\n"
REFUSED = {
    "": "cannot be read as CSV (empty CSV)",
    "time,price\n1,2\n": 'no column "samples"; its header names time, price',
    "time;price;samples\n1;2;3\n": "has semicolons between its columns",
    HEADER: "holds no purchases",
    f"{HEADER}1,-2,3\n": "line 2.price = -2: must be greater than or equal to 0",
    f"{HEADER}1,nan,3\n": "line 2.price = nan: must be a finite number",
    f"{HEADER}1,2,3\n2,$2,3\n": "line 3.price = $2: must be a valid number",
    f"{HEADER}1,2\n": "line 2.samples: is missing",
    f"{HEADER}1,2,2.5\n": "line 2.samples = 2.5: must be a valid integer",
    f"{HEADER}1,2,10000000000\n": (
        "line 2.samples = 10000000000: must be less than or equal to 1000000000"
    ),
    "time,Time,price,samples\n1,2,3,4\n": (
        "column with name 'time' has more than one occurrence"
    ),
    f"{HEADER}1,2,5,3\n": "cannot be read as CSV (found more fields than",
    f"{HEADER}Monday,2,3\n": "line 2.time = Monday: must be a valid number",
    f"{HEADER}1,2,3\n2026-01-05,2,3\n": "times must be all numbers, all dates",
    f"{HEADER}2026-01-05,2,3\n2026-01-05T09:00Z,2,3\n": (
        "all dates, or all dates with a time zone"
    ),
    f"{HEADER}2026-01-05,2,3\n2026-01-05T00:00,2,3\n": (
        "line 3: time = 2026-01-05T00:00: comes twice"
    ),
    "time,client,price,samples\n1,a,2,3\n1,a,2,4\n": "line 3: time = 1: comes twice",
    f"{HEADER}1,2,0\n": "0 was paid in all; must be more than nothing",
    f'{HEADER}1,2,"{"3" * 200_000}"\n': "line 2.samples = 333",
    HEADER
    + "".join(f"{t},1,1\n" for t in range(PURCHASES + 1)): "more than 20,000 purchases",
    "time,client,price,samples\n"
    + "".join(f"{t},c{t},1,1\n" for t in range(300)): "300 times and 300 clients",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: REFUSED[text][:30])
def test_what_is_refused_is_said_in_one_line(tmp_path, text):
    path = tmp_path / "p.csv"
    path.write_text(text)
    with pytest.raises(DataError) as refusal:
        headgate.replay(path)
    assert str(refusal.value).startswith(f"{path}: ")
    assert REFUSED[text] in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 1
    assert len(str(refusal.value)) < 500


def test_files_that_are_none_and_capacities_that_are_none_are_refused(tmp_path):
    (tmp_path / "link.csv").symlink_to(EXAMPLE)
    (tmp_path / "damaged.csv").write_bytes(b"\xff\xfe\x00")
    for name, why in (
        ("link.csv", "it is a link"),
        ("none.csv", "No such file"),
        ("damaged.csv", "not UTF-8 text"),
    ):
        with pytest.raises(DataError, match=why):
            headgate.replay(tmp_path / name)
    for capacity in (0, -1, 2.5, 10**10):
        with pytest.raises(
            SettingError,
            match=(
                f"capacity = {capacity}: must be a whole number from 1 to 1,000,000,000"
            ),
        ):
            headgate.replay(EXAMPLE, capacity)


def test_headers_may_be_as_a_spreadsheet_writes_them(tmp_path):
    (tmp_path / "p.csv").write_text(
        "\ufeffTime, Price ,Bought,note\n\n2026-01-06, 3.5 ,2.0,x\n2026-01-05,2,1,\n"
    )
    made = read_purchases(tmp_path / "p.csv")
    assert made.times == ("2026-01-05", "2026-01-06")
    assert made.price.tolist() == [[2.0], [3.5]]
    assert made.bought.tolist() == [[1], [2]]


def shown(result):
    return printed(
        *(
            plain_text(thing) if isinstance(thing, str) else thing
            for thing in result.render()
        )
    )


def test_the_page_shows_what_is_printed():
    done = headgate.replay(EXAMPLE, currency="$")
    page = (ROOT / "docs" / "do" / "data.md").read_text("utf-8")
    assert re.search(r"```text\n(.*?)```", page, re.DOTALL)[1].splitlines() == shown(
        done
    )
    assert done.cheapest < done.as_many.paid < done.you.paid
    assert done.as_much.samples > done.you.samples


@pytest.mark.parametrize("rounds", [1, 20, 21, 130])
def test_the_table_is_one_of_at_most_twenty_lines_at_eighty_columns(tmp_path, rounds):
    path = tmp_path / "p.csv"
    times = [f"2026-{1 + t // 28:02}-{1 + t % 28:02}T09:30:00Z" for t in range(rounds)]
    path.write_text(
        HEADER
        + "".join(
            f"{time},{900 + 37 * t % 250}.25,{t % 40 + 1}\n"
            for t, time in enumerate(times)
        )
    )
    lines = shown(headgate.replay(path, currency="EUR"))
    assert max(map(len, lines)) <= 80
    table = [line for line in lines if line.startswith("  2026")]
    assert len(table) <= 20
    assert (
        len([line for line in lines if "───" in line]) == 1
    )  # one header, so one table
    assert table[-1].split()[0] == times[-1]


# in the shadow of a pipeline: as in a run, knowing nothing of later rounds, and without
# buying


ALONE = "time,price,samples"


def an_experiment(*more):
    return headgate.load(
        "digits", 'run.policies=["headgate"]', "run.rounds=30", "run.seeds=1", *more
    )


def test_it_decides_what_a_run_at_these_prices_would(tmp_path):
    prices = np.random.default_rng(5).uniform(1, 10, 30).round(3)
    given = an_experiment()
    rows = [(t, price, 3) for t, price in enumerate(prices)]
    answer = headgate.shadow(written(tmp_path, rows, ALONE), given, "$")
    ((_, policy),) = given.policies.items()
    played = rehearse(given.system, policy, Trace(tuple(prices)), given.seeds, 30)
    assert answer.frame["ordered"].to_list() == played.admitted[0].tolist()
    assert answer.frame["cost"].to_list() == pytest.approx(played.spend[0].tolist())
    assert answer.frame["left"][-1] == pytest.approx(
        given.system.budget * 30 - played.spend.sum()
    )
    assert answer.frame["paid"].sum() == pytest.approx(3 * prices.sum())
    part = headgate.shadow(written(tmp_path, rows[:11], ALONE), given)
    assert part.frame.equals(answer.frame[:11]), "later rounds change nothing"
    assert "you bought 90 samples" in answer.sentence
    assert f"would have bought {played.admitted.sum():,} for" in " ".join(
        repr(answer).split()
    )


def test_a_client_without_an_offer_is_ordered_nothing(tmp_path):
    given = an_experiment("system.clients=2", "system.buffers=[5]", "system.budget=40")
    rows = [
        (1, "a", 2, 1),
        (1, "b", 2, 1),
        (2, "a", 1, 0),
        (3, "a", 1, 1),
        (3, "b", 1, 1),
    ]
    path = written(tmp_path, rows)
    answer = headgate.shadow(path, given)
    assert answer.frame["bought"].to_list() == [2, 0, 2]
    assert answer.frame["cost"].to_list() == pytest.approx(
        [2 * answer.frame["ordered"][0], *answer.frame["ordered"][1:]]
    )
    with pytest.raises(
        DataError, match=r"has 2 clients, the recipe has system\.clients = 10"
    ):
        headgate.shadow(path, an_experiment())


def test_what_does_not_fit_is_refused(tmp_path):
    rows = [(t, 2, 1) for t in range(31)]
    with pytest.raises(
        DataError, match=r"has 31 rounds, the recipe has run\.rounds = 30"
    ):
        headgate.shadow(written(tmp_path, rows, ALONE), an_experiment())
    with pytest.raises(SettingError, match="a shadow has one policy"):
        headgate.shadow(written(tmp_path, rows[:3], ALONE), "digits")
