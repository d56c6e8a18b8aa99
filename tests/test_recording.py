"""The picture that plays one run: of a real run folder, small, and with what happened in it."""

import re
import runpy
import xml.etree.ElementTree as tree
from pathlib import Path

import pytest

import headgate

ROOT = Path(__file__).parent.parent
TOOL = runpy.run_path(str(ROOT / "tools" / "recording.py"))
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("recorded") / "run"
    headgate.run(headgate.load("digits", "run.rounds=6", "run.seeds=1", 'run.policies=["headgate"]'), out, quiet=True)
    return out


def test_it_plays_what_the_record_has(folder):
    run, rows = TOOL["recorded"](folder), headgate.open(folder).frame
    text = TOOL["Film"](run).drawn()
    picture = tree.fromstring(text)
    said = [each.text for each in picture.iter(f"{SVG}text")]
    for price, admitted in zip(rows["price"], rows["admitted"], strict=True):
        assert f"price of a sample: {price:.2f}" in said
        assert f"{admitted} in" in said
    assert f"money left: {run.money - rows['spend'].sum():,.0f} of {run.money:,.0f}" in said
    assert f"best test accuracy so far: {100 * rows['test_accuracy'].max():.1f} %" in said
    for each in (*picture.iter(f"{SVG}animate"), *picture.iter(f"{SVG}animateTransform")):
        assert each.get("dur") == "20s"
        rounds = run.rounds + (each.get("calcMode") == "linear")
        assert len(each.get("values").split(";")) == rounds
    assert all(one <= room for held in run.held for one, room in zip(held, run.buffers, strict=True))


def test_a_round_stands_still(folder):
    run = TOOL["recorded"](folder)
    still = TOOL["Film"](run, at=2).drawn()
    assert "<animate" not in still
    assert f"price of a sample: {run.price[2]:.2f}" in still


def test_the_one_of_the_site_is_small_loads_nothing_and_knows_light_and_dark():
    text = (ROOT / "docs" / "figures" / "gate.svg").read_text("utf-8")
    assert len(text) < 500_000
    assert text.count("<animate") > 20
    assert "prefers-color-scheme: dark" in text
    assert not re.search(r"<script|<image|href=|url\(http", text)
    assert "round 40 of 40" in text
    assert "figures/gate.svg" in (ROOT / "docs" / "index.md").read_text("utf-8")
