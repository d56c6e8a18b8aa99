"""Tables where there is little room."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import headgate
from headgate.analysis.display import StackedTable
from headgate.analysis.tables import list_rows, list_tables, run_tables

CELLS = st.text("abcdefghij.%", min_size=1, max_size=9)


def printed(table, width):
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(table)
    return console.file.getvalue()


@given(st.integers(30, 300), st.lists(st.lists(CELLS, min_size=6, max_size=6), min_size=1, max_size=4))
def test_nothing_is_shortened_or_lost_however_narrow_the_terminal_is(width, lines):
    columns = ["policy", *(f"column {i}" for i in range(1, 6))]
    text = printed(StackedTable("the title", columns, lines), width)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    assert text.count("the title") == 1
    words = text.replace("column ", "column-").split()
    tables = words.count("policy")
    for line in lines:
        for i, cell in enumerate(line):
            assert words.count(cell) >= (tables if i == 0 else 1)
    assert [word for word in words if word.startswith("column-")] == [f"column-{i}" for i in range(1, 6)]


def test_two_columns_stay_together():
    assert (
        printed(StackedTable("", ["", ""], [["expected spend", "54.73 a round of a budget of 55"]]), 30).count("expected") == 1
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    e = headgate.load("digits", "run.rounds=3", "run.seeds=3")
    return headgate.run(e, tmp_path_factory.mktemp("runs") / "digits-20261117-225221", processes=1, quiet=True)


@pytest.mark.parametrize("width", [80, 120])
def test_a_finished_run_and_the_list_of_runs_are_one_table_in_a_terminal(run, width):
    (folder,) = run.folders
    for table in (run_tables(folder, run.runs)[0], *list_tables(list_rows([folder]))):
        text = printed(table, width)
        assert max(map(len, text.splitlines())) <= width
        assert text.count("policy") + text.count("  run ") == 1
        assert "headgate" in text
    every = printed(run_tables(folder, run.runs, wide=True)[0], 400)
    assert {"Mean", "Paid in all", "Over budget", "Vio_S", "N_eff"} <= {word.strip() for word in every.split("  ")}
