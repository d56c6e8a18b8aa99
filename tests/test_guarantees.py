"""Every promise of contributing/guarantees.md names a test, and the test is there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def promises():
    """(promise, mechanism, tests) of each row of the tables."""
    lines = (ROOT / "contributing" / "guarantees.md").read_text("utf-8").splitlines()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines
        if line.startswith("| ")
    ]
    assert rows
    return [row for row in rows if row[0] != "promise"]


@pytest.mark.parametrize("row", promises(), ids=lambda row: row[0][:60])
def test_a_promise_has_a_mechanism_and_a_test_that_is_there(row):
    promise, mechanism, tests = row
    assert promise
    assert mechanism
    named = NAMED.findall(tests)
    assert named, f"{tests}: names no test"
    for file, function in named:
        tree = ast.parse((ROOT / file).read_text("utf-8"))
        functions = {
            node.name
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
        }
        assert (
            function in functions
            if function
            else any(name.startswith("test_") for name in functions)
        ), f"{file}::{function}"
