"""Names from recipes and run folders are shown as they are: in terminals, CSV, Markdown
and figures, and nothing happens.
"""

import ast
import csv
import io
import json
from pathlib import Path
from unicodedata import category

import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from headgate import cli, escaping
from headgate.analysis.display import StackedTable, show
from headgate.escaping import (
    cell,
    code,
    json_text,
    markdown,
    markup,
    one_line,
    printable,
    shown,
)

NASTY = [
    "a[/b]",
    "d[red]",
    "\x1b[2J\x1b]0;owned\x07",
    "=1+1",
    "@SUM(A1)",
    "a|b",
    "`x`",
    "$\\frac{",
    "‮txt.exe",
    "\x9b31m",
    "_x",
]


@given(st.text())
def test_nothing_that_a_terminal_obeys_gets_through(text):
    for made in (
        form(text)
        for form in (printable, one_line, shown, cell, code, markdown, markup)
    ):
        assert all(c.isprintable() or category(c) == "Zs" for c in made)
        assert "\x1b" not in made
        assert "\n" not in made


@settings(
    max_examples=40
)  # large values take long to make, and the last step alone cuts them
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda own: st.lists(own) | st.dictionaries(st.text(), own),
    )
)
def test_any_value_is_shown_on_one_short_line(value):
    assert len(shown(value)) <= escaping.LONGEST


@given(st.text())
def test_json_stays_the_same_json(text):
    assert json.loads(
        json_text(json.dumps({"a": text}, ensure_ascii=False, indent=1))
    ) == {"a": text}


@given(st.text())
def test_markup_is_taken_literally(text):
    file = io.StringIO()
    Console(
        file=file, width=10_000, highlight=False, soft_wrap=True, emoji=False
    ).print(markup(text), end="")
    expected = printable(text)
    if expected.endswith("\\") and not expected.endswith("\\\\"):
        expected += "\\"  # it must not escape markup that follows
    assert file.getvalue() == expected


def test_tables_and_sentences_show_names_as_they_are(capsys):
    show(
        StackedTable("d[red]", ["a[/b]", "\x1b[31m"], [["x[/]", "[bold]y"]]),
        "a sentence [/oops]",
    )
    shown_ = capsys.readouterr().out
    for part in (
        "d[red]",
        "a[/b]",
        "\\x1b[31m",
        "x[/]",
        "[bold]y",
        "a sentence [/oops]",
    ):
        assert part in shown_


def test_policies_may_have_any_name(headgate, tmp_path):
    """On the terminal, as JSON and as CSV."""
    run, policies = (
        {"rounds": 4, "seeds": 2, "policies": NASTY},
        {name: {"kind": "constant"} for name in NASTY},
    )
    path = tmp_path / "nasty.toml"
    path.write_text(
        tomli_w.dumps({"base": "mnist", "run": run, "policies": policies}), "utf-8"
    )
    out = tmp_path / "rows.csv"
    printed, error = headgate("rehearse", path, "--out", out)
    assert "\x1b" not in printed + error
    assert "\x9b" not in printed + error
    for name in NASTY:
        assert "\x1b" in name or printable(name) in printed
    written = {
        row["policy"] for row in csv.DictReader(io.StringIO(out.read_text("utf-8")))
    }
    assert written == {cell(name) for name in NASTY}
    told = json.loads(headgate("rehearse", path, "--format", "json")[0])
    assert [row["policy"] for row in told] == NASTY


def test_an_error_shows_what_it_quotes_and_obeys_nothing(headgate):
    _, error = headgate(
        "rehearse", "mnist", "--set", "data.kind=\x1b[2J[red]x[/]", code=2
    )
    assert "data.kind = \\x1b[2J[red]x[/]" in error
    assert error.count("\n") == 1


def test_numbers_in_csv_stay_numbers():
    cells = [cell(text) for text in ("-1.5e-3", "+2", "-inf", "-a", "=2", "@x")]
    assert cells == ["-1.5e-3", "+2", "-inf", "'-a", "'=2", "'@x"]


def test_paths_that_are_said_are_obeyed_by_no_terminal(headgate, tmp_path):
    folder = tmp_path / "\x1b[2J\x1b]0;owned\x07\nfake"
    folder.mkdir()
    _, error = headgate("runs", folder)
    assert "\\x1b[2J\\x1b]0;owned\\x07\\nfake; headgate run makes one" in error
    printed, error = headgate(
        "rehearse",
        "mnist",
        "--rounds",
        "2",
        "--seeds",
        "1",
        "--out",
        folder / "rows.csv",
    )
    assert "\x1b]0;" not in printed + error
    assert "fake/rows.csv" in error


def test_commands_print_through_one_function():
    """What is printed in any other way would reach the terminal as it is."""
    folder = Path(cli.__file__).parent
    found = {
        path.name
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"
    }
    assert found == {"console.py"}
