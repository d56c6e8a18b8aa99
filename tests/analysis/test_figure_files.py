"""Figures for papers: of the size that was asked for, with a number at every tick."""

import re
import sys

import pytest

import headgate
from headgate.analysis.figure_files import ticks
from headgate.errors import SettingError


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    e = headgate.load("digits", "run.rounds=10", "run.seeds=2")
    folder = tmp_path_factory.mktemp("compared")
    return headgate.compare(e, budgets=[4, 10], out=folder, processes=1, quiet=True)


def test_a_figure_has_the_width_that_was_asked_for(found, tmp_path):
    page = found.figure(tmp_path / "x.pdf", width=3.3).read_bytes()
    (box,) = re.findall(rb"/MediaBox \[ 0 0 ([\d.]+) ", page)
    assert float(box) == pytest.approx(3.3 * 72, abs=0.5)


def test_the_same_figure_gives_the_same_bytes(found, tmp_path):
    for suffix in (".pdf", ".svg", ".png"):
        first, second = (
            found.figure(tmp_path / f"{name}{suffix}").read_bytes() for name in "ab"
        )
        assert first == second


@pytest.mark.parametrize("low", [0.0008, 0.9, 3.7, 110.0])
@pytest.mark.parametrize("factor", [1.9, 5.0, 40.0, 1e5])
def test_an_axis_has_a_few_round_numbers(low, factor):
    places = ticks(low, low * factor)
    assert 1 <= len(places) <= 12
    assert low <= min(places) <= max(places) <= low * factor
    if factor > 4:
        assert len(places) > 2


def test_what_cannot_be_drawn_is_said_in_one_line(found, tmp_path, monkeypatch):
    with pytest.raises(SettingError, match=r"x\.bmp: must end in \.svg, \.png, \.pdf"):
        found.figure(tmp_path / "x.bmp")
    with pytest.raises(SettingError, match="width = 0: must be a positive number"):
        found.figure(tmp_path / "x.pdf", width=0)
    monkeypatch.delitem(sys.modules, "headgate.analysis.figure_files")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SettingError, match=r"pip install 'headgate\[figures\]'"):
        found.figure(tmp_path / "x.pdf")


def test_what_policies_need_is_a_table_that_says_less_than_and_at_least(found):
    for needs in (found.money_for(0.01), found.saved_against()):
        assert len(needs) == needs.frame.height == len([*needs]) > 0
        assert all(str(one.policy) in repr(needs) for one in needs)
    assert {one.text[:9] for one in found.money_for(0.01)} == {"less than"}
    assert {one.text[:8] for one in found.money_for(0.999)} == {"at least"}


def test_the_command_draws_the_figure_and_refuses_a_name_before_it_learns(
    headgate, tmp_path
):
    words = ["compare", "digits", "--rounds", "5", "--seeds", "2", "--budgets", "5,10"]
    words += ["--processes", "1", "--quiet", "--out", tmp_path / "out"]
    _, error = headgate(*words, "--figure", tmp_path / "x.gif", code=2)
    assert "x.gif: must end in .svg, .png, .pdf" in error
    assert not (tmp_path / "out").exists()
    said, _ = headgate(*words, "--figure", tmp_path / "x.svg")
    assert said.endswith(f"figure: {tmp_path / 'x.svg'}\n")
    assert (tmp_path / "x.svg").stat().st_size > 1000
