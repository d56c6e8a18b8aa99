"""One run: its figures, what is saved of them, and what moves while it is played."""

import csv
import io
import re

import pytest

from ..folders import MadeUp
from ..served import Served

expect = pytest.importorskip("playwright.sync_api").expect


def plot(page, title):
    return page.locator("figure", has_text=title).locator(".plot")


def test_every_figure_has_its_text_and_a_link_reproduces_the_view(tab, served):
    page = tab(served, "/run/done")
    expect(page.get_by_role("heading", level=1)).to_have_text("done")
    expect(page.locator(".plot")).to_have_count(11)
    for figure in page.locator(".plot").all():
        figure.scroll_into_view_if_needed()
        expect(figure.locator("svg.main-svg").first).to_be_visible()
        expect(figure).to_have_attribute(
            "aria-label", re.compile(r"at the end|held \d+")
        )
    page.get_by_role("button", name="constant", exact=True).click()
    page.get_by_label("Policy of the buffer map").select_option("headgate")
    expect(page).to_have_url(re.compile(r"hide=constant.*policy=headgate"))
    page.reload()
    expect(page.get_by_role("button", name="constant", exact=True)).to_have_attribute(
        "aria-pressed", "false"
    )
    expect(page.get_by_label("Policy of the buffer map")).to_have_value("headgate")


def test_numbers_one_click_away_and_three_ways_to_save(tab, served):
    page = tab(served, "/run/done")
    expect(plot(page, "Test accuracy").locator("svg.main-svg").first).to_be_visible()
    page.get_by_role("button", name="Numbers of Test accuracy").click()
    table = page.get_by_role("region", name="Test accuracy: numbers")
    expect(table.locator("thead th")).to_have_text(
        ["Round", "acdpp", "hybrid", "constant", "headgate"]
    )
    expect(table.locator("tbody tr")).to_have_count(10)
    for ending, begins in (
        ("SVG", b"<svg"),
        ("PNG", b"\x89PNG"),
        ("CSV", b"policy,series,t,mean,half"),
    ):
        page.get_by_label("Save Test accuracy").click()
        with page.expect_download() as caught:
            page.get_by_role("button", name=ending, exact=True).click()
        saved = caught.value
        assert saved.suggested_filename.endswith(ending.lower())
        with open(saved.path(), "rb") as file:
            content = file.read()
        assert content.startswith(begins)
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    assert {row["policy"] for row in rows} == {
        "acdpp",
        "hybrid",
        "constant",
        "headgate",
    }


def test_rounds_appear_as_they_land_until_the_run_is_finished(tab, tmp_path):
    made = MadeUp(tmp_path / "live", rounds=12).play(2)
    page = tab(tmp_path, "/run/live")
    expect(page.locator(".live-mark")).to_have_text("live")
    expect(page.locator(".status-line")).to_contain_text("round 2 of 12")
    drawn = plot(page, "Test accuracy")
    expect(drawn).to_have_attribute("data-points", re.compile(r"\d"))
    before = drawn.get_attribute("data-points")
    made.play(6)
    expect(page.locator(".status-line")).to_contain_text("round 8 of 12")
    expect(drawn).not_to_have_attribute("data-points", before)
    assert int(drawn.get_attribute("data-points")) > int(before)
    meaning = page.get_by_text("What the columns mean")
    meaning.click()
    meaning.focus()
    made.play(1)
    expect(page.locator(".status-line")).to_contain_text("round 9 of 12")
    expect(meaning).to_be_focused()
    expect(page.locator(".meaning")).to_have_js_property("open", True)
    made.finish()
    expect(page.locator(".state")).to_have_text("finished")
    expect(page.locator(".live-mark")).to_have_text("")


def test_a_lost_connection_is_said_and_what_was_missed_is_caught_up(
    tab, tmp_path, elsewhere
):
    made = MadeUp(tmp_path / "live", rounds=12).play(2)
    with Served(tmp_path) as served:
        page = tab(
            served,
            "/run/live",
            expected="ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY|Failed to load",
        )
        expect(page.locator(".live-mark")).to_have_text("live")
    expect(page.locator(".live-mark")).to_have_text("reconnecting")
    made.play(5)
    with Served(tmp_path, port=served.port):
        expect(page.locator(".status-line")).to_contain_text("round 7 of 12")
        expect(page.locator(".live-mark")).to_have_text("live")
        page.goto(elsewhere)


def test_what_is_not_there_is_said(tab, served):
    page = tab(served, "/run/nobody", expected="404")
    expect(page.get_by_role("alert")).to_contain_text("nobody")
