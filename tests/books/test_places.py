"""Every test of accounts is run in a folder and in PostgreSQL, but for those about
files as such: what is listed here, and why.
"""

import ast
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FOLDERS, DATABASES = {"tmp_path", "tmp_path_factory"}, {"database", "own_server"}
"""fixtures that folders and PostgreSQL come from"""
ABOUT_FILES = {
    "test_lost.py": "files that are missing, old, damaged, links or cannot be written",
    "test_upgrade.py": "formats before PostgreSQL could hold accounts",
    "test_border.py::test_a_value_that_came_in_behind_the_rules_is_found_when_the"
    "_accounts_are_opened": "types that SQLite checks only in tables that are STRICT",
    "test_history.py::test_accounts_that_one_process_opens_twice_keep_their_log": (
        "locks of a file"
    ),
    "test_journal.py::test_accounts_of_the_format_before_are_not_opened_and_named": (
        "a file of that format"
    ),
    "test_killed_between.py::test_a_commit_is_on_disk_when_it_returns": (
        "settings of SQLite; PostgreSQL has those of its server"
    ),
}
"""file, or test in it → why it is run in a folder only"""


def functions_of(source):
    """Return function → the arguments it has, and the fixtures that it names."""
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            parts = list(ast.walk(node))
            named = {each.value for each in parts if isinstance(each, ast.Constant)}
            found[node.name] = named | {
                each.arg for each in parts if isinstance(each, ast.arg)
            }
    return found


SHARED = functions_of((HERE / "conftest.py").read_text("utf-8"))


def needs_of(name, functions):
    """Return the fixtures that a function needs, and those that these need."""
    found, left = set(), [name]
    while left:
        asked = functions.get(left.pop(), set()) - found
        found |= asked
        left += asked
    return found


def in_folders_only(source):
    """Return the tests of a file that need a folder, and PostgreSQL nowhere."""
    functions = SHARED | functions_of(source)
    tests = {
        name: needs_of(name, functions)
        for name in functions
        if name.startswith("test_")
    }
    return [
        name
        for name, needs in tests.items()
        if needs & FOLDERS and not needs & DATABASES
    ]


def test_what_is_run_in_a_folder_only_is_about_files():
    found = [
        (path.name, f"{path.name}::{name}")
        for path in sorted(HERE.glob("test_*.py"))
        for name in in_folders_only(path.read_text("utf-8"))
    ]
    assert [test for file, test in found if not ABOUT_FILES.keys() & {file, test}] == []
    assert {name for names in found for name in names} >= ABOUT_FILES.keys()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def test_it(tmp_path): pass", ["test_it"]),
        ("def test_it(place, tmp_path): pass", []),
        ("def own(tmp_path): pass\ndef test_it(own): pass", ["test_it"]),
        ("def own(place): pass\ndef test_it(own, tmp_path): pass", []),
        ("def test_it(own_server, tmp_path): pass", []),
        ("def test_it(): pass", []),
    ],
)
def test_a_new_test_in_folders_only_is_found(source, said):
    assert in_folders_only(source) == said
