"""Tables of one's own: the same from every format, split once and for all, and refused
by row and column.
"""

import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import DataError, HeadgateError, Interrupted, SettingError
from headgate.experiment import load
from headgate.learning.data import Data, TableFile
from headgate.learning.datasets import Dataset
from headgate.records.owner import OwnedRun
from headgate.simulation.run import examine, play_chunk

from .said import refused

HEIGHTS, WEIGHTS = [1.5, 1.25, 2.0, 1.75, 0.5, 3.0], [7, 9, 8, 6, 5, 4]
KINDS = ["cat", "dog", "cat", "dog", "cat", "dog"]


def read(path: Path, **settings: object) -> Dataset:
    return Data(TableFile(str(path), **{"label": "y", "test": 0.4, **settings})).load()


def write(folder: Path, suffix: str, labels: list[object]) -> Path:
    path, frame = (
        folder / f"x.{suffix}",
        pl.DataFrame({"height": HEIGHTS, "y": labels, "weight": WEIGHTS}),
    )
    if suffix == "csv":
        frame.write_csv(path)
    elif suffix == "parquet":
        frame.write_parquet(path)
    else:
        np.savez(path, x=np.array([HEIGHTS, WEIGHTS]).T, y=np.array(labels))
    return path


def of_text(folder: Path, text: str | bytes) -> Path:
    path = folder / "x.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("labels", "classes"),
    [(KINDS, ("cat", "dog")), ([10, 9, 10, 9, 10, 9], ("9", "10"))],
)
@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz"])
def test_every_format_gives_the_same_data_set(tmp_path, suffix, labels, classes):
    data = read(write(tmp_path, suffix, labels))
    assert data.classes == classes
    first = labels[0] == classes[0]
    assert data.test_labels.tolist() == [
        1 - first,
        first,
    ] or data.test_labels.tolist() == [first, 1 - first]
    assert data.train_images.shape == (4, 1, 1, 2)
    judged = read(write(tmp_path, "parquet", labels))
    for name in ("train_images", "train_labels", "test_images", "test_labels"):
        np.testing.assert_array_equal(getattr(data, name), getattr(judged, name))
    np.testing.assert_allclose(
        data.train_images.reshape(4, 2).mean(axis=0), 0, atol=1e-6
    )


@given(
    st.lists(st.integers(0, 4), min_size=2, max_size=60).filter(
        lambda each: len(set(each)) > 1
    ),
    st.floats(0.01, 0.99),
)
def test_every_row_is_in_one_set_and_every_class_in_training(
    tmp_path_factory, labels, share
):
    """Rows have a number each, which no scaling confuses."""
    path = tmp_path_factory.mktemp("split") / "x.npz"
    images = np.arange(len(labels), dtype=np.uint8).reshape(-1, 1, 1)
    np.savez(path, x=images, y=np.array(labels))
    if not any(int(share * labels.count(each)) for each in set(labels)):
        with pytest.raises(
            SettingError, match=r"^data.test = .*: holds no row for testing"
        ):
            read(path, test=share)
        return
    data = read(path, test=share)
    rows = np.concatenate([data.train_images, data.test_images]).ravel()
    own = np.concatenate([data.train_labels, data.test_labels])
    assert sorted(rows.tolist()) == list(range(len(labels)))
    assert [data.classes[label] for label in own] == [str(labels[row]) for row in rows]
    for number, each in enumerate(data.classes):
        assert (data.test_labels == number).sum() == int(
            share * labels.count(int(each))
        )
        assert number in data.train_labels


def test_a_fifth_is_held_unless_something_is_said(tmp_path):
    path = of_text(tmp_path, "a,y\n" + "".join(f"{i},{i % 2}\n" for i in range(100)))
    assert len(read(path, test=None).test_labels) == 20
    (tmp_path / "later.csv").write_text("y,b,a\n1,0,50\n")
    data = read(path, test=None, test_file=str(tmp_path / "later.csv"))
    assert (len(data.train_labels), data.test_labels.tolist()) == (100, [1])
    assert data.test_images.item() == pytest.approx((50 - 49.5) / np.arange(100).std())


def test_columns_that_are_no_features_may_deal_the_rows(tmp_path):
    path = of_text(
        tmp_path,
        "shop,a,note,y\n"
        + "".join(f"s{i % 3},{i},{'hi' * (i + 1) ** 3},{i % 2}\n" for i in range(30)),
    )
    data = read(path, features=("a",))
    assert data.shape == (1, 1, 1)
    assert set(data.columns) == {"shop", "note"}
    assert len(data.columns["shop"]) == len(data.train_labels)
    by_shop = "data.partition={kind='column', column='shop'}"
    table = f"data={{kind='table', file='{path}', label='y', features=['a']}}"
    experiment = load("digits", [table, by_shop, "system.clients=3"])
    owned = experiment.data.partition.split(data.train_labels, 3, 0, data.columns)
    assert [set(data.columns["shop"][rows]) for rows in owned] == [{1}, {2}, {3}]


def test_odd_but_plain_tables_are_read(tmp_path):
    """A mark of the byte order, blanks behind commas, Windows' ends of lines, truth
    values.
    """
    data = read(
        of_text(
            tmp_path, b"\xef\xbb\xbfa,b,y\r\n 1, 2,true\r\n" + b" 3, 4,false\r\n" * 5
        )
    )
    assert data.classes == ("false", "true")
    assert data.shape == (1, 1, 2)
    kinds = pl.Series(KINDS, dtype=pl.Categorical)
    pl.DataFrame(
        {"*": WEIGHTS, "^.*$": HEIGHTS, "a": [1] * 6, "y": KINDS}
    ).write_parquet(tmp_path / "x.parquet")
    assert read(tmp_path / "x.parquet", features=("*", "^.*$")).shape == (1, 1, 2)
    pl.DataFrame({"a": [True, False] * 3, "shop": kinds, "y": kinds}).write_parquet(
        tmp_path / "x.parquet"
    )
    data = read(tmp_path / "x.parquet", features=("a",))
    assert data.classes == ("cat", "dog")
    assert (data.columns["shop"] == data.train_labels + 1).all()
    np.savez_compressed(
        tmp_path / "x.npz", only=np.arange(6), other=1, y=np.arange(6) % 2 == 0
    )
    assert read(tmp_path / "x.npz", features=("only",)).classes == ("false", "true")


def test_rows_with_empty_cells_are_left_out_where_that_is_asked_for(tmp_path):
    path = tmp_path / "x.csv"
    whole = "".join(f"{i},{i % 2},{i % 3},s{i % 2}\n" for i in range(1, 11))
    path.write_text("a,y,b,site\n" + whole)
    wanted = read(path, features=("a", "b"))
    path.write_text("a,y,b,site\n,0,1,s0\n" + whole + "3,,1,s1\n4,1,,s0\n")
    found = read(path, features=("a", "b"), missing="drop")
    for name in ("train_images", "train_labels", "test_images", "test_labels"):
        assert (getattr(found, name) == getattr(wanted, name)).all()
    assert (found.columns["site"] == wanted.columns["site"]).all()
    path.write_text("a,y\n,0\n,1\n")
    with pytest.raises(DataError, match="no row is left without empty cells"):
        read(path, missing="drop")
    with pytest.raises(SettingError, match="missing"):
        load("digits", [f'data={{kind="table", file="{path}", missing="keep"}}'])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", 'no column "y"; it has "a", "b"'),
        ("a,y\n1,0\n,1\n", 'column "a" is empty or not finite in row 2; fill them in'),
        (
            "a,b,y\n,1,0\n1,,1\n,3,1\n",
            'column "a" is empty or not finite in row 1, 3; column "b" is empty or not'
            ' finite in row 2; fill them in, or leave these rows out: missing = "drop"',
        ),
        (
            "a;b;y\n1,5;2;0\n",
            "has semicolons between its columns; save it as CSV with commas",
        ),
        (
            'a,y\n"1.234,5",0\n"2,5",1\n',
            '("1.234,5" in row 1); write it with a point: 1234.5; make numbers',
        ),
        ("a,y\n1,0\n1e999,1\n", 'column "a" is empty or not finite in row 2'),
        (
            "a,city,y\n1,3,0\n2,Rome,1\n",
            'column "city" holds text ("Rome" in row 2); make numbers of it, or name',
        ),
        ("a,y\n1,0\n2,\n", 'column "y" is empty in row 2; every row needs a label'),
        (
            "a,y\n1,0.5\n2,1\n",
            'column "y" holds Float64; labels are whole numbers or text',
        ),
        (
            "a,y\n1,0\n2,0\n",
            'column "y" has 1 different labels; there must be at least 2',
        ),
        (
            "a,y\n" + "".join(f"1,{i}\n" for i in range(1001)),
            'column "y" has 1,001 different labels; at most 1,000',
        ),
        ("a,y\n", "holds no row"),
        ("y\n1\n2\n", "holds no column beside y"),
        ("a,a,y\n1,2,3\n", '2 columns are called "a"'),
        (",a,y\n0,1,0\n1,2,1\n", "column 1 has no name"),
        ("a,y\n1,0,3\n", "cannot be read as csv (found more fields"),
        ("a\x1b,y\n1,0\n", r'the name "a\x1b" of column 1'),
        (b"a,\xff\n1,0\n", "byte 3 is not UTF-8 text; save the file as CSV UTF-8"),
        (b"x\x01a,y\n", "of column 1 has characters that cannot be shown"),
        ("", "cannot be read as csv (empty CSV)"),
        (",".join(map(str, range(100_001))), "100,001 columns; at most 100,000"),
        (
            ",".join(map(str, range(10_000))) + "\n" * 10_000,
            "10,000 rows of 10,000 columns take about 3.7 GiB",
        ),
    ],
)
def test_what_is_wrong_with_a_csv_is_said_with_its_place(tmp_path, text, message):
    path = of_text(tmp_path, text)
    refused(HeadgateError, lambda: read(path), path, message)


def header_of(shape: str, kind: str) -> bytes:
    head = (
        f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    )
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head


def test_what_is_wrong_with_arrays_is_said(tmp_path, monkeypatch):
    path, y = tmp_path / "x.npz", np.arange(6) % 2
    for arrays, message in (
        ({"x": y}, 'no array "y"; it has "x"'),
        ({"y": y}, 'needs one array beside "y", has none'),
        (
            {"x": y, "z": y, "y": y},
            'needs one array beside "y", has x, z; name it: features = ["x"]',
        ),
        ({"x": np.zeros((5, 2)), "y": y}, '"x" is (5, 2), "y" (6,); must be'),
        ({"x": np.array(3), "y": y}, '"x" is (), "y" (6,)'),
        ({"x": np.zeros((0, 2)), "y": y[:0]}, '"x" is (0, 2), "y" (0,)'),
        (
            {"x": np.array([[1, np.nan]] * 6), "y": y},
            "column 2 is empty or not finite in row 1",
        ),
        (
            {"x": np.zeros((6, 2, 2)), "y": y},
            "of uint8 in 0..255, or features (N, d), is (4, 2, 2) of float64",
        ),
        (
            {"x": np.array([{}] * 6), "y": y},
            "cannot be read as npz (Object arrays cannot be loaded",
        ),
        ({"x": np.array(["a"] * 6), "y": y}, "must be"),
        (
            {"x": y, "y": y / 2},
            'column "y" holds Float64; labels are whole numbers or text',
        ),
    ):
        np.savez(path, **arrays)
        refused(HeadgateError, lambda: read(path), message)
    for member, message in (
        (header_of(f"({10**12},)", "<f8"), "cannot be read as npz"),
        (b"no array", '"x" is (), "y" (1,)'),
        (bytes(80 << 20), "of memory; at most 0.05"),
    ):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("x.npy", member)
            archive.writestr("y.npy", header_of("(1,)", "<i8") + bytes(8))
        monkeypatch.setenv("HEADGATE_MEMORY", "0.05")
        refused(HeadgateError, lambda: read(path), path, message)
    path.write_bytes(b"PK nothing")
    refused(DataError, lambda: read(path), "cannot be read as npz")


def test_what_is_wrong_with_a_parquet_is_said(tmp_path):
    path = tmp_path / "x.parquet"
    pl.DataFrame({"a": [[1], [2], [3]], "y": [0, 1, 1]}).write_parquet(path)
    refused(
        DataError, lambda: read(path), path, 'column "a" holds List(Int64), no numbers'
    )
    path.write_bytes(b"PAR1" + bytes(50) + b"PAR1")
    refused(DataError, lambda: read(path), path, "is damaged")


def test_a_test_file_has_the_same_columns_and_no_other_labels(tmp_path):
    path, later = of_text(tmp_path, "a,y\n1,cat\n2,dog\n"), tmp_path / "later.csv"
    for text, message in (
        ("b,y\n1,cat\n", 'no column "a"'),
        ("a,y\n1,cat\n1,cow\n", '"cow" in row 2 of column "y" is a label'),
    ):
        later.write_text(text)
        refused(
            DataError,
            lambda: read(path, test=None, test_file=str(later)),
            later,
            message,
        )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("file='x.txt'", "data.file = "),
        ("file='none.csv'", "none.csv: cannot be read (No such file"),
        ("label='y'", "data.file: is missing"),
        (
            "file='x.csv', test=1.0",
            "data.test = 1.0: must lie strictly between 0 and 1",
        ),
        (
            "file='x.csv', test=0.5, test_file='x.csv'",
            "data.test = 0.5: with a test_file",
        ),
        ("file='x.csv', features=[]", "data.features = []: must name columns"),
        (
            "file='x.csv', label='y', features=['y']",
            "data.features = ['y']: must name columns, each once, and not the label",
        ),
        (
            "file='x.csv', features=['a', 'a']",
            "data.features = ['a', 'a']: must name columns, each once",
        ),
        ("file='x.csv', lable='y'", "data.lable: unknown key; did you mean label?"),
        ("file='x.csv', sha256='0'", "was changed since the run began"),
    ],
)
def test_settings_are_refused_before_anything_is_read(
    tmp_path, monkeypatch, settings, message
):
    of_text(tmp_path, "a,y\n1,0\n2,1\n")
    monkeypatch.chdir(tmp_path)
    refused(
        HeadgateError,
        lambda: load("digits", [f"data={{kind='table', {settings}}}"]),
        message,
    )


def test_a_link_is_not_followed_and_another_kind_drops_the_file(tmp_path):
    path = of_text(tmp_path, "a,y\n1,0\n2,1\n")
    (tmp_path / "link.csv").symlink_to(path)
    with pytest.raises(DataError, match="it is a link"):
        TableFile(str(tmp_path / "link.csv"))
    (tmp_path / "my.toml").write_text(
        'base = "digits"\ndata = { kind = "table", file = "x.csv", label = "y" }\n'
    )
    assert load(tmp_path / "my.toml", ["data.kind=digits"]).data.kind == "digits"


def test_a_recipe_beside_its_table_runs_and_a_changed_file_is_refused(
    tmp_path, monkeypatch, headgate
):
    """From another folder, with the default partition, in processes. One that was
    stopped goes on to the same bytes.
    """
    inside, rng = tmp_path / "deep", np.random.default_rng(0)
    inside.mkdir()
    monkeypatch.chdir(tmp_path)
    lines = [f"{y + rng.normal() / 4},{rng.normal()},c{y}" for y in np.arange(90) % 2]
    (inside / "x.csv").write_text("\n".join(["a,b,y", *lines, ""]))
    (inside / "my.toml").write_text(
        'base = "digits"\ndata = { kind = "table", file = "x.csv", label = "y" }\n'
    )
    few = (
        "--rounds",
        "3",
        "--seeds",
        "2",
        "--policies",
        "headgate,constant",
        "--processes",
        "2",
        "--out",
    )
    headgate("run", "deep/my.toml", *few, "whole")
    whole = Path("whole/metrics.parquet")
    assert pl.read_parquet(whole)["test_accuracy"].max() > 0.5

    done: list[int] = []
    experiment = load(
        "deep/my.toml",
        ["run.rounds=3", "run.seeds=2", 'run.policies=["headgate", "constant"]'],
    )
    data, stopped = experiment.data.load(), Path("stopped")
    made = examine(experiment, data, "cpu", "auto")[0]["environment"]
    (chunk,) = OwnedRun.begin(stopped, experiment, made, []).chunks
    with pytest.raises(Interrupted):
        play_chunk(chunk, data, "cpu", done.append, lambda: len(done) == 1)
    (inside / "x.csv").write_text("\n".join(["a,b,y", *lines[:-1], ""]))
    for words in (
        ("--resume", "stopped"),
        ("deep/my.toml", *few, "stopped"),
        ("deep/my.toml", *few, "whole"),
    ):
        _, said = headgate("run", *words, code=4)
        changed = f"file = {inside / 'x.csv'}: was changed since the run began"
        assert (
            changed
            if words[0] == "--resume"
            else "was begun with other settings (data.sha256"
        ) in " ".join(said.split())
    (inside / "x.csv").write_text("\n".join(["a,b,y", *lines, ""]))
    headgate("run", "--resume", "stopped")
    assert (stopped / "metrics.parquet").read_bytes() == whole.read_bytes()


def test_a_file_of_an_override_lies_in_the_working_folder(tmp_path, monkeypatch):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "my.toml").write_text('base = "digits"\n')
    path = of_text(tmp_path, "a,y\n1,0\n2,1\n")
    monkeypatch.chdir(tmp_path)
    source = load(
        "deep/my.toml", ["data={kind='table', file='x.csv', test_file='x.csv'}"]
    ).data.source
    assert (source.file, source.test_file) == (str(path), str(path))
