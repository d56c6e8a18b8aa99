"""Every label of the paper is in the code and in a test, or excused with a reason; the page says so."""

import runpy
from pathlib import Path

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "equations.py"


@pytest.fixture(scope="module")
def tool():
    return runpy.run_path(str(TOOL))


def test_no_label_is_nowhere(tool):
    assert tool["complaints"]() == []


def test_a_label_that_is_nowhere_is_noticed(tool, tmp_path, monkeypatch):
    extended = tmp_path / "labels.toml"
    text = tool["LABELS"].read_text("utf-8")
    extended.write_text(text.replace("labels = [", 'labels = [\n  "eq:new-one",', 1).replace('  "eq:Z-update",\n', "", 1))
    monkeypatch.setitem(tool["complaints"].__globals__, "LABELS", extended)
    assert tool["complaints"]() == [
        "eq:new-one: neither in the code nor excused",
        "eq:Z-update: not a label of the paper",
    ]
