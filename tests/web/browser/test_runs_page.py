"""The list of runs: empty, searched, sorted, chosen from, and growing."""

import re
import shutil

import pytest

from headgate.analysis.formatting import percent
from headgate.web.runs import Library

from ..folders import MadeUp, sweep

expect = pytest.importorskip("playwright.sync_api").expect


def names(page):
    return page.locator("tbody tr .name-link")


def test_an_empty_folder_says_what_to_do_and_the_first_run_appears(tab, tmp_path):
    page = tab(tmp_path)
    expect(page.get_by_role("heading", name="No runs yet")).to_be_visible()
    expect(page.locator("pre")).to_have_text("headgate run digits")
    MadeUp(tmp_path / "first").play(1)
    expect(names(page)).to_have_text(["first"])


def test_search_sort_and_states(tab, served):
    page = tab(served, "/?sort=name&order=asc")
    listed = [
        "a-run-with-a-rather-long-name",
        "another",
        "crowded",
        "done",
        "gamma <b>&amp;",
        "stopped",
    ]
    expect(names(page)).to_have_text(listed)
    expect(page.locator("tr[data-name=stopped] .state")).to_have_text("interrupted")
    expect(page.locator("tr[data-name=done] .spark path")).to_have_count(1)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(names(page)).to_have_text(listed[::-1])
    page.get_by_role("searchbox", name="Search runs").fill("constant inter")
    expect(names(page)).to_have_text(["stopped"])
    expect(page.locator(".count")).to_have_text("1 of 6 runs")
    page.reload()
    expect(names(page)).to_have_text(["stopped"])
    page.get_by_role("searchbox", name="Search runs").fill("nothing of the kind")
    page.get_by_role("button", name="Show all runs").click()
    expect(names(page)).to_have_count(6)


def test_spend_is_that_of_the_best_and_red_only_where_that_broke_a_limit(tab, tmp_path):
    MadeUp(tmp_path / "kept", policies=("acdpp", "headgate", "released")).finish()
    MadeUp(tmp_path / "broken", policies=("acdpp", "released")).finish()
    page = tab(tmp_path)
    kept, broken = (
        page.locator(f"tr[data-name={name}] .cell-spend") for name in ("kept", "broken")
    )
    share = Library(tmp_path).rows(["kept"])[0]["spend_share"]
    expect(kept).to_have_text(
        f"{percent(share)}1 other over budget".replace(" %", "\u00a0%")
    )
    expect(kept.locator(".over")).to_have_count(0)
    expect(broken.locator(".over")).to_have_count(2)
    expect(broken).to_contain_text("released broke money")


def test_numbers_are_rounded_as_in_the_terminal(tab, served):
    """0.6655 was 66.6 % on the page and 66.5 % in the terminal."""
    shares = [
        *(k / n for n in (7, 400, 10_000) for k in range(n)),
        0.6655,
        0.66249999999999998,
    ]
    written = (
        "async (all) => { const say = await import('/static/drawing/format.js'); return"
        " all.map((one) => say.percent(one)); }"
    )
    texts = tab(served).evaluate(written, shares)
    assert [text.replace("\u00a0", " ") for text in texts] == [
        percent(share, 1) for share in shares
    ]


def test_runs_of_a_sweep_have_names_that_one_can_say(tab, tmp_path):
    labels = ("system.budget=10.0", "training.lr=0.5,system.budget=2.5")
    sweep(tmp_path / "digits", labels, rounds=4)
    page = tab(tmp_path, "/?sort=name&order=asc")
    said = ["digits at 10 a round", "digits at lr 0.5, 2.5 a round"]
    expect(names(page)).to_have_text(said)
    page.get_by_label(f"Choose {said[0]}").check()
    names(page).first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(said[0])
    expect(page).to_have_title(f"{said[0]} · headgate")
    written = (
        "async (all) => { const said = await import('/static/js/words.js'); return"
        " all.map(said.runTitle); }"
    )
    odd = ["plain", "a=b", "x~y", "x~a=1=2", "x~b=[8,9],c="]
    assert [text.replace("\u00a0", " ") for text in page.evaluate(written, odd)] == [
        "plain",
        "a=b",
        "x~y",
        "x at a 1=2",
        "x at b [8,9], c ",
    ]


def test_an_address_that_is_no_page_is_answered_with_a_page(tab, served):
    page = tab(served, "/nopage", expected="404")
    expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()
    page.get_by_role("link", name="All runs").click()
    expect(names(page)).to_have_count(6)


def test_choosing_runs_leads_to_their_comparison(tab, served):
    page = tab(served)
    page.get_by_label("Choose done").check()
    page.get_by_label("Choose stopped").check()
    page.get_by_role("button", name="Compare 2 runs").click()
    expect(page).to_have_url(re.compile("compare.runs=done&runs=stopped"))
    expect(page.get_by_role("row", name="stopped: constant")).to_be_visible()
    page.go_back()
    expect(names(page)).to_have_count(6)


def test_many_runs_are_shown_a_page_at_a_time(tab, tmp_path):
    MadeUp(tmp_path / "run-000", policies=("constant",), seeds=1, rounds=2).finish()
    for number in range(1, 60):
        shutil.copytree(tmp_path / "run-000", tmp_path / f"run-{number:03d}")
    page = tab(tmp_path, "/?sort=name&order=asc")
    expect(names(page)).to_have_count(50)
    page.get_by_role("button", name="Next page").click()
    expect(names(page).first).to_have_text("run-050")
    expect(page).to_have_url(re.compile("page=2"))
