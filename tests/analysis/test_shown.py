"""Tables where there is little room."""

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from headgate.analysis.shown import a_table

CELLS = st.text("abcdefghij.%", min_size=1, max_size=9)


def printed(table, width):
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(table)
    return console.file.getvalue()


@given(st.integers(30, 300), st.lists(st.lists(CELLS, min_size=6, max_size=6), min_size=1, max_size=4))
def test_nothing_is_shortened_or_lost_however_narrow_the_terminal_is(width, lines):
    columns = ["policy", *(f"column {i}" for i in range(1, 6))]
    text = printed(a_table("the title", columns, lines), width)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    assert text.count("the title") == 1
    words = text.replace("column ", "column-").split()
    tables = words.count("policy")
    for line in lines:
        for i, cell in enumerate(line):
            assert words.count(cell) >= (tables if i == 0 else 1)
    assert [word for word in words if word.startswith("column-")] == [f"column-{i}" for i in range(1, 6)]


def test_where_there_is_room_it_is_one_table():
    lines = [["headgate", "86.1 ± 0.6 %", "54.89"], ["constant", "84.8 ± 0.7 %", "54.71"]]
    wide, narrow = (printed(a_table("first", ["policy", "best", "spend a round"], lines), width) for width in (80, 36))
    assert wide.count("headgate") == 1
    assert narrow.count("headgate") == 2


def test_two_columns_stay_together():
    assert printed(a_table("", ["", ""], [["expected spend", "54.73 a round of a budget of 55"]]), 30).count("expected") == 1
