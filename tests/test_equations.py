"""Every label of the paper is in the code and in a test, or excused with a reason; the
page says so.
"""

import runpy
from pathlib import Path

TOOL = Path(__file__).parent.parent / "tools" / "equations.py"


def test_no_label_is_nowhere_and_one_that_is_would_be_noticed(tmp_path, monkeypatch):
    tool = runpy.run_path(str(TOOL))
    assert tool["complaints"]() == []
    extended = tmp_path / "labels.toml"
    text = tool["LABELS"].read_text("utf-8")
    extended.write_text(
        text.replace("labels = [", 'labels = [\n  "eq:new-one",', 1).replace(
            '  "eq:Z-update",\n', "", 1
        )
    )
    monkeypatch.setitem(tool["complaints"].__globals__, "LABELS", extended)
    assert tool["complaints"]() == [
        "eq:new-one: neither in the code nor excused",
        "eq:Z-update: not a label of the paper",
    ]
