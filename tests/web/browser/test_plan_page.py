"""The planner: what is dragged changes the answer, what is copied is the plan, what is
wrong is said where it is wrong.
"""

import re
import tomllib

import pytest

expect = pytest.importorskip("playwright.sync_api").expect


def tile(page, title):
    return page.locator(".tile", has_text=title).locator(".tile-value")


def test_a_slider_changes_the_plan_the_link_and_what_is_copied(tab, served):
    page = tab(served, "/plan?rounds=40&seeds=2&policy=acdpp")
    expect(tile(page, "Keep a sample")).to_have_text("10")
    expect(page.locator(".answer .plot svg.main-svg").first).to_be_visible()
    slider = page.get_by_role("slider", name="Budget")
    for _ in range(12):
        slider.press("PageUp")
    expect(tile(page, "Keep a sample")).not_to_have_text("10")
    kept = tile(page, "Keep a sample").text_content()
    budget = page.get_by_role("spinbutton", name="Budget").input_value()
    assert float(budget) > 100
    expect(page).to_have_url(re.compile(f"budget={budget}&"))
    page.reload()
    expect(tile(page, "Keep a sample")).to_have_text(kept)
    page.get_by_role("button", name="Copy as TOML").click()
    expect(page.locator("#said")).to_have_text("Copy as TOML: copied")
    plan = tomllib.loads(page.evaluate("() => navigator.clipboard.readText()"))
    assert plan["system"]["budget"] == float(budget)


def test_the_last_of_many_movements_is_answered(tab, served):
    page = tab(served, "/plan?rounds=40&seeds=2", expected="422")
    expect(page.locator(".tile")).to_have_count(7)
    field = page.get_by_role("spinbutton", name="Clients")
    for clients in range(11, 31):
        field.fill(str(clients))
    expect(page.locator(".tile", has_text="Most in memory")).to_contain_text("of 300")
    expect(page.locator(".answer")).to_have_attribute("aria-busy", "false")
    expect(page.locator(".tile", has_text="Most in memory")).to_contain_text("of 300")
    budget = page.get_by_role("spinbutton", name="Budget")
    budget.fill("-5")
    expect(
        page.locator(".field[data-setting='system.budget'] .field-wrong")
    ).to_contain_text("system.budget")
    budget.fill("50")
    expect(page.locator(".field-wrong:visible")).to_have_count(0)


def test_policy_K_prices_and_recipes(tab, served):
    page = tab(served, "/plan?rounds=40&seeds=2")
    expect(tile(page, "Policy")).to_have_text("headgate")
    assert (
        page.get_by_label("Policy").locator("option").first.text_content() == "headgate"
    )
    page.get_by_label("Policy").select_option("acdpp")
    expect(page.locator(".tile")).to_have_count(7)
    page.get_by_label("Choose K for me").uncheck()
    page.get_by_role("spinbutton", name="K,").fill("4")
    expect(tile(page, "Keep a sample")).to_have_text("4")
    page.get_by_label("Prices are").select_option("brent")
    expect(page.get_by_role("slider", name="Times $ per barrel")).to_be_visible()
    page.get_by_label("Policy").select_option("headgate")
    expect(tile(page, "Policy")).to_have_text("headgate")
    page.get_by_label("Start from").select_option("digits")
    expect(page.get_by_role("spinbutton", name="Horizon")).to_have_value("60")


def test_a_plan_that_breaks_a_limit_is_said_in_red_and_the_way_out_works(tab, served):
    page = tab(served, "/plan?rounds=60&seeds=3&policy=acdpp")
    said = page.locator(".note.broken")
    expect(said).to_contain_text("runs go over budget")
    expect(said).to_contain_text("take headgate, or set capacity")
    expect(page.locator(".tile.over", has_text="Runs over budget")).to_be_visible()
    page.get_by_label("Keep both limits").check()
    expect(said).to_be_hidden()
    expect(page).to_have_url(re.compile("limits=kept"))
    expect(page.locator(".tile.over")).to_have_count(0)
