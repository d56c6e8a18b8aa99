"""Runs side by side: added and taken away, with differences and settings."""

import re

import pytest

from ..folders import MadeUp

expect = pytest.importorskip("playwright.sync_api").expect


def test_runs_are_added_by_name_and_their_settings_compared(tab, served):
    page = tab(served, "/compare")
    expect(page.get_by_role("heading", name="Choose what to compare")).to_be_visible()
    field = page.get_by_role("combobox", name="Add a run")
    field.fill("done")
    expect(page.locator(".found [role=option]")).to_have_count(1)
    field.press("Enter")
    expect(page.get_by_role("row", name="headgate")).to_be_visible()
    field.fill("another")
    expect(page.locator(".found [role=option]")).to_have_count(1)
    field.press("ArrowDown")
    field.press("Enter")
    expect(page.get_by_role("row", name="another: constant")).to_be_visible()
    settings = page.get_by_role("region", name="Settings that differ")
    expect(settings.get_by_role("row", name="training.lr")).to_contain_text("0.125")
    expect(settings.get_by_role("row", name="policies.hybrid")).to_have_count(0)
    page.get_by_role("button", name="Remove done").click()
    expect(page.get_by_role("row", name="done: constant")).to_have_count(0)


def test_runs_at_several_budgets_begin_with_the_money_for_the_same_accuracy(
    tab, tmp_path
):
    for money in (10.0, 30.0):
        MadeUp(
            tmp_path / f"at-{money:g}",
            ("headgate", "constant"),
            system={"buffers": [4, 6, 5], "budget": money},
        ).finish()
    page = tab(tmp_path, "/compare?runs=at-10&runs=at-30")
    expect(page.locator(".needs")).to_have_text(
        re.compile("^headgate reaches the accuracy of constant admission for ")
    )
    page.get_by_role("button", name="Remove at-30").click()
    expect(page.get_by_role("row", name="headgate")).to_have_count(1)
    expect(page.locator(".needs")).to_be_hidden()


def test_the_line_to_compare_with(tab, served):
    page = tab(
        served, "/compare?runs=done&runs=another&policies=acdpp&policies=constant"
    )
    expect(page.locator("figure").first.locator("svg.main-svg").first).to_be_visible()
    page.get_by_label("What is compared").select_option("n")
    page.get_by_label("Compared with").select_option(label="another: acdpp")
    expect(page.locator(".gap-hint")).to_contain_text("Each line minus another: acdpp")
    expect(page.locator(".gap-hint")).to_contain_text(
        "seed by seed over the seeds that both have"
    )
    page.get_by_role("button", name="constant", exact=True).click()
    expect(page.locator(".scroll[aria-label='At the end'] tbody tr")).to_have_count(2)
    expect(page).to_have_url(re.compile("metric=n"))
    page.reload()
    expect(page.locator(".scroll[aria-label='At the end'] tbody tr")).to_have_count(2)
    expect(page.get_by_label("What is compared")).to_have_value("n")
