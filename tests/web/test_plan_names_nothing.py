"""A request to the planner cannot have a module imported or a file read, however deep it hides the name."""

import sys

import pytest

from headgate.errors import HeadgateError
from headgate.web.planning import Planner

SYSTEM = {"buffers": [4, 6, 5], "budget": 20.0}
PRICES = {"kind": "uniform", "low": 1, "high": 10}
ASKED = {"system": SYSTEM, "prices": PRICES, "rounds": 10, "seeds": 2}
OUTSIDE = "planted_by_a_visitor:Part"
PER_CLIENT = {"kind": "per-client", "factors": [1.0, 1.0, 1.0]}


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A module in the working folder, which says so when it is imported, and a file of prices beside it."""
    (tmp_path / "planted_by_a_visitor.py").write_text("raise SystemExit('imported')")
    (tmp_path / "prices.csv").write_text("price\n" + "1\n" * 40)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "planted_by_a_visitor", raising=False)


@pytest.mark.parametrize(
    "more",
    [
        {"policy": OUTSIDE},
        {"options": {"kind": OUTSIDE}},
        {"options": {"rule": OUTSIDE}},
        {"options": {"rule": {"kind": OUTSIDE}}},
        {"policy": "constant", "options": {"rule": OUTSIDE}},
        {"policy": "acdpp", "options": {"bound": {"kind": OUTSIDE}}},
        {"prices": {"kind": OUTSIDE}},
        {"prices": {**PER_CLIENT, "common": OUTSIDE}},
        {"prices": {**PER_CLIENT, "common": {"kind": OUTSIDE}}},
        {"prices": {**PER_CLIENT, "common": {**PER_CLIENT, "common": OUTSIDE}}},
        {"system": {**SYSTEM, "kind": OUTSIDE}},
        {"bound": {"kind": OUTSIDE}},
    ],
)
def test_no_module_is_imported(planted, more):
    with pytest.raises(HeadgateError) as refused:
        Planner().answer({**ASKED, **more})
    assert "planted_by_a_visitor" not in sys.modules
    assert "imported" not in str(refused.value)


TRACE = {"kind": "trace", "file": "prices.csv"}


@pytest.mark.parametrize(
    "prices",
    [
        TRACE,
        {**TRACE, "prices": [1.0]},
        {**PER_CLIENT, "common": TRACE},
        {**PER_CLIENT, "common": {**PER_CLIENT, "common": TRACE}},
        {**PRICES, "folder": "/"},
    ],
)
def test_no_file_is_read(planted, prices):
    with pytest.raises(HeadgateError, match="a plan names no file"):
        Planner().answer({**ASKED, "prices": prices})


def test_what_is_shipped_may_be_nested():
    told = Planner().answer(
        {**ASKED, "prices": {**PER_CLIENT, "common": PRICES}, "options": {"rule": {"kind": "static", "ratio": 0.5}}}
    )
    assert told["policy"] == "headgate"
    assert told["spend"] <= 20.0 * (1 + 1e-9)
