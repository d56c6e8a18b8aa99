"""Tables where there is little room."""

from hypothesis import given
from hypothesis import strategies as st

import headgate
from headgate.analysis.display import StackedTable
from headgate.analysis.tables import list_rows, list_tables, run_tables

from .made_up import printed

CELLS = st.text("abcdefghij.%", min_size=1, max_size=9)


@given(
    st.integers(30, 300),
    st.lists(st.lists(CELLS, min_size=6, max_size=6), min_size=1, max_size=4),
)
def test_nothing_is_shortened_or_lost_however_narrow_the_terminal_is(width, lines):
    columns = ["policy", *(f"column {i}" for i in range(1, 6))]
    shown = printed(StackedTable("the title", columns, lines), width=width)
    text = "\n".join(shown)
    assert "…" not in text
    assert max(map(len, shown)) <= width
    assert text.count("the title") == 1
    words = text.replace("column ", "column-").split()
    tables = words.count("policy")
    for line in lines:
        for i, cell in enumerate(line):
            assert words.count(cell) >= (tables if i == 0 else 1)
    assert [word for word in words if word.startswith("column-")] == [
        f"column-{i}" for i in range(1, 6)
    ]


def test_two_columns_stay_together():
    table = StackedTable(
        "", ["", ""], [["expected spend", "54.73 a round of a budget of 55"]]
    )
    assert sum("expected" in line for line in printed(table, width=30)) == 1


def test_a_finished_run_and_the_list_of_runs_are_one_table_in_a_terminal(tmp_path):
    e = headgate.load("digits", "run.rounds=3", "run.seeds=3")
    run = headgate.run(e, tmp_path / "digits-20261117-225221", processes=1, quiet=True)
    (folder,) = run.folders
    for table in (run_tables(folder, run.runs)[0], *list_tables(list_rows([folder]))):
        for width in (80, 120):
            lines = printed(table, width=width)
            assert max(map(len, lines)) <= width
            assert sum("policy" in line or "  run " in line for line in lines) == 1
            assert any("headgate" in line for line in lines)
    (header,) = (
        line
        for line in printed(run_tables(folder, run.runs, wide=True)[0], width=400)
        if "policy" in line
    )
    assert {"Mean", "Paid in all", "Over budget", "Vio_S", "N_eff"} <= {
        word.strip() for word in header.split("  ")
    }
