"""Price processes, traces from files, and what markets recorded."""

import numpy as np
import polars as pl
import pytest

from headgate.control.prices import (
    Markov,
    PerClient,
    Switches,
    Trace,
    Uniform,
)
from headgate.control.prices.trace import Ercot, market_table
from headgate.errors import DataError
from headgate.experiment import load

SEEDS = np.arange(4)
MARKOV = Markov((1.0, 5.0, 9.0), ((0.9, 0.1, 0.0), (0.1, 0.8, 0.1), (0.0, 0.1, 0.9)))


def test_markov_follows_its_transitions():
    path = MARKOV.path(np.arange(200), 1, 501)
    assert set(np.unique(path)) == {1.0, 5.0, 9.0}
    from_low = path[:, 1:][path[:, :-1] == 1.0]
    assert np.mean(from_low == 1.0) == pytest.approx(0.9, abs=0.01)
    assert not np.any(from_low == 9.0)
    assert MARKOV.equilibrium == pytest.approx([1 / 3] * 3)


def test_traces_from_csv_and_parquet(tmp_path):
    (tmp_path / "prices.csv").write_text("day,cost\n1,2.5\n2,4\n3,1e0\n")
    pl.DataFrame({"price": [2.5, 4.0, 1.0]}).write_parquet(tmp_path / "prices.parquet")
    one = Trace(file=str(tmp_path / "prices.csv"))
    two = Trace(file=str(tmp_path / "prices.parquet"), column="price")
    assert (
        one.path(SEEDS, 1, 4).tolist()
        == two.path(SEEDS, 1, 4).tolist()
        == [[2.5, 4.0, 1.0]] * 4
    )
    assert one.mean(None) == one.mean(3) == pytest.approx(2.5)
    assert one.mean(2) == pytest.approx(3.25)


def test_a_trace_remembers_its_file_and_refuses_another_content(tmp_path):
    path = tmp_path / "prices.csv"
    path.write_text("price,cost\n2,9\n3,9\n")
    begun = Trace(file=str(path))
    assert begun.path(SEEDS[:1], 1, 3).tolist() == [
        [2.0, 3.0]
    ]  # price is taken before cost
    assert Trace(file=str(path), sha256=begun.sha256).sha256 == begun.sha256
    path.write_text("price,cost\n2,9\n4,9\n")
    with pytest.raises(DataError, match="was changed since the run began"):
        Trace(file=str(path), sha256=begun.sha256)


@pytest.mark.parametrize(
    ("process", "first", "expected"),
    [
        (Trace((1.0, 2.0, 3.0), "repeat"), 3, [3, 1, 2]),
        (Switches((1.0, 9.0), (2, 1)), 1, [1, 1, 9, 9, 9]),
        (Switches((1.0, 9.0), (2, 1), repeat=True), 2, [1, 9, 1, 1]),
    ],
)
def test_what_ends_stays_or_starts_over(process, first, expected):
    assert process.path(SEEDS, first, first + len(expected)).tolist() == [expected] * 4


@pytest.mark.parametrize(
    ("process", "rounds", "mean"),
    [
        (Switches((1.0, 9.0), (2, 2)), None, 9),
        (Switches((1.0, 9.0), (3, 1), repeat=True), None, 3),
    ],
)
def test_means_over_some_rounds_and_over_all(process, rounds, mean):
    assert process.mean(rounds) == pytest.approx(mean)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.csv", None, "no such file"),
        ("a.parquet", pl.DataFrame({"price": ["x"]}), "not numbers"),
        ("a.parquet", pl.DataFrame({"gap": [1.0]}), 'no column "price"'),
        (
            "a.parquet",
            pl.DataFrame({"price": [None]}, schema={"price": pl.Float64}),
            "price nan in row 1",
        ),
        ("a.csv", "cost\n1\n-2\n", "price -2.0 in row 2"),
        ("a.csv", "cost\n1\nnan\n", "price nan in row 2"),
        (
            "a.csv",
            "cost\n1\nmany\n",
            '"many" in row 2 of column "cost" is not a number',
        ),
        ("a.csv", "day\n1\n", 'no column "price"; its header names "day"'),
        ("a.csv", "cost\n", "holds no prices"),
        ("a.csv", "cost\n0\n0\n", "every price is zero"),
        ("a.csv", b"\xff\xfe\x00", "byte 1 is not UTF-8 text; save the file as CSV"),
        ("a.csv", "date;price\n1;1,5\n", "has semicolons between its columns; save it"),
        ("a.csv", 'price\n"1,5"\n', "is not a number; write it with a point: 1.5"),
        ("a.parquet", b"not parquet", "is damaged"),
        ("a.txt", "cost\n1\n", "must end in .csv or .parquet"),
    ],
)
def test_an_unreadable_trace_is_refused_in_one_line(tmp_path, name, content, message):
    path = tmp_path / name
    if isinstance(content, pl.DataFrame):
        content.write_parquet(path)
    elif content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(DataError) as refusal:
        Trace(file=str(path))
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert name in str(refusal.value)


def test_clients_have_prices_of_their_own():
    common = Uniform(1, 10)
    path = PerClient(common, (1.0, 2.0)).path(SEEDS, 1, 5)
    assert path.shape == (4, 4, 2)
    assert np.array_equal(path[..., 0], common.path(SEEDS, 1, 5))
    assert np.array_equal(path[..., 1], 2 * path[..., 0])
    noisy = PerClient(common, (1.0, 1.0), 0.5).path(SEEDS, 1, 5)
    assert not np.any(noisy[..., 0] == noisy[..., 1])


def test_the_files_hold_what_their_page_says():
    points, hours = market_table("ercot")
    assert (len(points), hours.shape) == (15, (91 * 24, 15))
    assert (
        (hours < 0).any(axis=0).sum() == 5
    )  # the panhandle, the south and the west: wind blows when nobody needs it
    assert hours.max() == pytest.approx(1252.79)
    _, days = market_table("brent")
    assert days.shape == (8195, 1)
    assert days[0, 0] == 18.63


def test_a_seed_s_prices_are_the_market_s_from_an_hour_on_and_around_the_end():
    points, hours = market_table("ercot")
    own = 0.1 * np.maximum(
        hours[:, [points.index("HB_WEST"), points.index("LZ_CPS")]], 0.0
    )
    paths = Ercot(points=("HB_WEST", "LZ_CPS")).path(np.arange(30), 1, len(own) + 1)
    firsts = set()
    for path in paths:
        begins = np.flatnonzero((own == path[0]).all(axis=1))
        firsts |= {
            k for k in begins.tolist() if np.array_equal(np.roll(own, -k, axis=0), path)
        }
    assert len(firsts) == 30
    assert (paths == 0).any()  # below zero the market pays; a sample is then free


@pytest.mark.parametrize("recipe", ["ercot", "brent"])
def test_the_recipes_have_a_tenth_of_the_money_for_full_buffers(recipe):
    e = load(recipe)
    assert e.system.budget == pytest.approx(
        0.1 * e.prices.mean(None) * e.system.all_places, rel=0.02
    )
