import numpy as np
import polars as pl
import pytest

from headgate.control.prices import Markov, Seasonal, Trace, UniformInteger
from headgate.errors import DataError

SEEDS = np.arange(4)
MARKOV = Markov((1.0, 5.0, 9.0), ((0.9, 0.1, 0.0), (0.1, 0.8, 0.1), (0.0, 0.1, 0.9)))


def test_whole_prices_are_whole_and_reach_both_ends():
    path = UniformInteger(1, 10).path(np.arange(50), 1, 201)
    assert set(np.unique(path)) == set(range(1, 11))


def test_markov_follows_its_transitions():
    path = MARKOV.path(np.arange(200), 1, 501)
    assert set(np.unique(path)) == {1.0, 5.0, 9.0}
    from_low = path[:, 1:][path[:, :-1] == 1.0]
    assert np.mean(from_low == 1.0) == pytest.approx(0.9, abs=0.01)
    assert not np.any(from_low == 9.0)
    assert MARKOV.equilibrium == pytest.approx([1 / 3] * 3)


def test_seasonal_mean_over_a_part_of_a_season():
    assert Seasonal(5, 3, 24).mean(6) > 6
    assert Seasonal(5, 3, 24).mean(24) == pytest.approx(5)


def test_traces_from_csv_and_parquet(tmp_path):
    (tmp_path / "prices.csv").write_text("day,cost\n1,2.5\n2,4\n3,1e0\n")
    pl.DataFrame({"price": [2.5, 4.0, 1.0]}).write_parquet(tmp_path / "prices.parquet")
    one = Trace(file=str(tmp_path / "prices.csv"))
    two = Trace(file=str(tmp_path / "prices.parquet"), column="price")
    assert one.path(SEEDS, 1, 4).tolist() == two.path(SEEDS, 1, 4).tolist() == [[2.5, 4.0, 1.0]] * 4
    assert one.mean(None) == one.mean(3) == pytest.approx(2.5)
    assert one.mean(2) == pytest.approx(3.25)


def test_a_trace_remembers_its_file_and_refuses_another_content(tmp_path):
    path = tmp_path / "prices.csv"
    path.write_text("price,cost\n2,9\n3,9\n")
    begun = Trace(file=str(path))
    assert begun.path(SEEDS[:1], 1, 3).tolist() == [[2.0, 3.0]]  # price is taken before cost
    assert Trace(file=str(path), sha256=begun.sha256).sha256 == begun.sha256
    path.write_text("price,cost\n2,9\n4,9\n")
    with pytest.raises(DataError, match="was changed since the run began"):
        Trace(file=str(path), sha256=begun.sha256)


def test_a_trace_that_ends_early_says_so_or_starts_over():
    with pytest.raises(DataError, match="ends after 3 rounds, round 5 was asked for"):
        Trace((1.0, 2.0, 3.0)).path(SEEDS, 1, 6)
    assert Trace((1.0, 2.0, 3.0), "repeat").path(SEEDS, 3, 6)[0].tolist() == [3.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "cost\n1\n-2\n", "price -2.0 in row 2"),
        ("a.csv", "cost\n1\nnan\n", "price nan in row 2"),
        ("a.csv", "cost\n1\nmany\n", '"many" in row 2 of column "cost" is not a number'),
        ("a.csv", "day\n1\n", 'no column "price"; its header names "day"'),
        ("a.csv", "cost\n", "holds no prices"),
        ("a.csv", "cost\n0\n0\n", "every price is zero"),
        ("a.csv", b"\xff\xfe\x00", "cannot be read as CSV"),
        ("a.parquet", b"not parquet", "cannot be read as parquet"),
        ("a.txt", "cost\n1\n", "must end in .csv or .parquet"),
    ],
)
def test_an_unreadable_trace_is_refused_in_one_line(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(DataError) as refusal:
        Trace(file=str(path))
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert name in str(refusal.value)


def test_missing_and_wrongly_typed_parquet_columns(tmp_path):
    path = tmp_path / "a.parquet"
    pl.DataFrame({"price": ["x"], "gap": [None]}, schema={"price": pl.String, "gap": pl.Float64}).write_parquet(path)
    with pytest.raises(DataError, match="not numbers"):
        Trace(file=str(path))
    with pytest.raises(DataError, match='no column "cost"'):
        Trace(file=str(path), column="cost")
    with pytest.raises(DataError, match="price nan in row 1"):
        Trace(file=str(path), column="gap")
    with pytest.raises(DataError, match="no such file"):
        Trace(file=str(tmp_path / "none.csv"))
