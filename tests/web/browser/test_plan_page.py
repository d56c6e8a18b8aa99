"""The planner: money first; what is dragged changes the answer, what is copied is the
plan, what is wrong is said where it is wrong and in the words of the field.
"""

import json
import re
import tomllib

import pytest

from headgate.web.planning import PlanRequest, answer
from headgate.web.runs import Library

from ..folders import MadeUp

expect = pytest.importorskip("playwright.sync_api").expect


def tile(page, title):
    return page.locator(".tile", has_text=title).locator(".tile-value")


def more(page):
    page.get_by_text("More: memory, the bound").click()


def test_a_slider_changes_the_plan_the_link_and_what_is_copied(tab, served):
    page = tab(served, "/plan?rounds=40&seeds=2&policy=acdpp")
    more(page)
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
    more(page)
    expect(tile(page, "Keep a sample")).to_have_text(kept)
    page.get_by_role("button", name="Copy as TOML").click()
    expect(page.locator("#said")).to_have_text("Copy as TOML: copied")
    plan = tomllib.loads(page.evaluate("() => navigator.clipboard.readText()"))
    assert plan["system"]["budget"] == float(budget)


def test_it_says_first_what_it_costs_what_one_gets_and_what_one_saves(tab, served):
    page = tab(served, "/plan?budget=12.5&rounds=40&seeds=3&currency=€")
    asked = {
        "system": {"buffers": [8, 9, 10, 11, 12], "clients": 10, "budget": 12.5},
        "prices": {"kind": "uniform", "low": 1, "high": 10},
        "run": {"rounds": 40, "seeds": 3},
    }
    told = answer(PlanRequest(**asked), Library(served.library._root))
    tiles = page.locator(".answer > .tiles .tile-value")
    spent, labels = told.bought.spent.mean, told.bought.labels.mean
    expect(tiles).to_have_text(
        [
            f"€\u00a0{spent:.2f}",
            f"{labels:,.0f}",
            f"{100 * told.saved.mean:.0f}\u00a0%",
        ]
    )
    expect(page.locator(".answer > .tiles .tile-beside").first).to_have_text(
        "of at most €\u00a0500: €\u00a012.50 × 40 rounds"
    )
    row = page.get_by_role("row", name="Labels bought")
    of, evenly = told.bought.labels, told.evenly.labels
    for one in (of, evenly):
        expect(row).to_contain_text(f"{one.mean:,.0f}({one.low:.0f} … {one.high:.0f})")
    expect(page.get_by_text("of 3 rehearsals")).to_be_visible()
    expect(page.locator(".answer .grid").first.locator("figure")).to_have_count(3)
    expect(page.get_by_text("the paper’s violations")).to_be_hidden()
    more(page)
    expect(page.get_by_text("the paper’s violations")).to_be_visible()


def test_the_last_of_many_movements_is_answered_and_errors_name_their_field(
    tab, served
):
    page = tab(served, "/plan?rounds=40&seeds=2", expected="422|400")
    more(page)
    in_memory = page.locator(".tile", has_text="Most in memory")
    field = page.get_by_role("spinbutton", name="Clients")
    for clients in range(11, 31):
        field.fill(str(clients))
    expect(in_memory).to_contain_text("of 300")
    expect(page.locator(".answer")).to_have_attribute("aria-busy", "false")
    expect(in_memory).to_contain_text("of 300")
    wrong = page.locator(".field-wrong:visible")
    budget = page.get_by_role("spinbutton", name="Budget")
    budget.fill("0")
    expect(wrong).to_have_text("Budget a round: must be above 0")
    budget.fill("50")
    expect(wrong).to_have_count(0)
    rounds = page.get_by_role("spinbutton", name="Rounds")
    rounds.fill("5001")
    expect(wrong).to_have_text("Rounds: must be at most 5000")
    expect(rounds).to_have_attribute("aria-invalid", "true")


def test_policy_K_prices_and_recipes(tab, served):
    page = tab(served, "/plan?rounds=40&seeds=2")
    header = page.locator(".beside thead th").first
    expect(header).to_have_text("headgate")
    policy = page.get_by_label("Policy", exact=True)
    assert policy.locator("option").first.text_content() == "headgate"
    policy.select_option("below")
    expect(header).to_have_text("below")
    expect(page.get_by_role("spinbutton", name="Quantile")).to_have_value("0.5")
    policy.select_option("acdpp")
    expect(header).to_have_text("acdpp")
    page.get_by_label("Choose K for me").uncheck()
    page.get_by_role("spinbutton", name="K,").fill("4")
    more(page)
    expect(tile(page, "Keep a sample")).to_have_text("4")
    page.get_by_label("Prices are").select_option("brent")
    expect(page.get_by_role("slider", name="Times $ per barrel")).to_be_visible()
    policy.select_option("headgate")
    expect(header).to_have_text("headgate")
    page.get_by_label("Start from").select_option("digits")
    expect(page.get_by_role("spinbutton", name="Rounds")).to_have_value("60")


def test_a_price_list_of_ones_own_is_pasted_or_uploaded(tab, served, tmp_path):
    page = tab(served, "/plan?rounds=6&seeds=2&budget=20&currency=$", expected="422")
    page.get_by_label("Prices are").select_option("list")
    wrong = page.locator(".field-wrong:visible")
    expect(wrong).to_contain_text("Price list: paste your prices")
    area = page.get_by_label("Prices, one a round")
    area.fill("price\n0.25\ncheap\n")
    expect(wrong).to_have_text(
        'Price list: "cheap" in row 2 of column "price" is not a number'
    )
    file = tmp_path / "mine.csv"
    file.write_text("day,eur\n1,0.5\n2,0.25\n3,0.25\n")
    page.get_by_label("Price list, a CSV file").set_input_files(file)
    expect(wrong).to_have_text(
        'Price list: no column "price"; its header names "day", "eur"'
    )
    column = page.get_by_label("Column")
    above = area.bounding_box()
    assert column.bounding_box()["y"] > above["y"] + above["height"]
    assert column.bounding_box()["x"] == pytest.approx(above["x"], abs=2)
    expect(column.locator("option")).to_have_text(["choose the prices", "day", "eur"])
    column.select_option("eur")
    expect(wrong).to_have_count(0)
    expect(page.get_by_text("every rehearsal is alike")).to_be_visible()
    page.reload()
    expect(page.get_by_text("every rehearsal is alike")).to_be_visible()
    expect(page.get_by_label("Prices, one a round")).to_have_value(
        re.compile("day,eur")
    )
    page.get_by_label("Start over at its end").uncheck()
    expect(wrong).to_contain_text("Price list: ends after 3 rounds")
    page.get_by_role("button", name="Plan 3 rounds, one for each price").click()
    expect(wrong).to_have_count(0)
    expect(page.get_by_role("spinbutton", name="Rounds")).to_have_value("3")
    expect(page.get_by_role("button", name="one for each price")).to_have_count(0)
    page.get_by_label("Prices, one a round").fill("day;eur\nMo,0.5\nTu,0.25")
    expect(wrong).to_have_count(1)
    page.get_by_label("Prices, one a round").fill("day,eur\nMo,0.5\nTu,0.25\nWe,1")
    expect(page.get_by_label("Column")).to_have_value("eur")  # the only one of numbers
    expect(wrong).to_have_count(0)


def test_a_plan_begins_with_the_newest_finished_runs_and_tells_their_accuracy(
    tab, tmp_path
):
    labels = [f"system.budget={budget}" for budget in (10.0, 40.0)]
    for label in labels:
        system = {"buffers": [4, 6, 5], "budget": float(label.split("=")[1])}
        MadeUp(
            tmp_path / "mine" / label, ("headgate", "constant"), system=system
        ).finish()
    (tmp_path / "mine" / "sweep.json").write_text(json.dumps({"points": labels}))
    page = tab(tmp_path, "/plan")
    chosen = page.get_by_label("Start from").locator("option:checked")
    expect(chosen).to_have_text(re.compile("^mine: .*at 10, 40 a round$"))
    known = tile(page, "Test accuracy")
    expect(known).to_have_text(re.compile(r"^\d+\.\d.%$"))
    expect(page.locator(".beside")).to_contain_text("From mine:")
    page.get_by_role("spinbutton", name="Clients").fill("5")
    expect(known).to_have_count(0)
    expect(page.locator(".beside")).to_contain_text(
        "is not known: the runs that this began with have other settings (clients)"
    )


def test_money_that_never_runs_short_is_said_with_the_budget_where_it_does(tab, served):
    page = tab(served, "/plan?rounds=10&seeds=2&prices=constant&prices.value=0.25")
    note = page.locator(".beside .note")
    expect(note).to_contain_text("It buys all that fits into memory")
    said = re.search(r"a budget below (\d+) a round", note.text_content())
    expect(tile(page, "You save")).to_have_text("0\u00a0%")
    page.get_by_role("spinbutton", name="Budget").fill(str(int(said[1]) * 0.8))
    expect(note).to_have_count(0)


def test_on_a_phone_the_answer_comes_first_and_stays_in_view(tab, served):
    page = tab(served, "/plan?rounds=40&seeds=2", width=390)
    slider = page.get_by_role("slider", name="Buffer of a client")
    total = tile(page, "You spend in all")
    expect(total).to_have_text(re.compile(r"^2,\d\d\d$"))
    assert total.bounding_box()["y"] < slider.bounding_box()["y"]
    slider.scroll_into_view_if_needed()
    slider.press("PageUp")
    expect(total).to_be_in_viewport()
    expect(slider).to_be_in_viewport()


@pytest.mark.parametrize("width", [360, 414])
def test_a_currency_fits_a_phone(tab, served, width):
    page = tab(served, "/plan?rounds=100&seeds=2&currency=EUR", width=width)
    total = tile(page, "You spend in all")
    expect(total).to_contain_text("EUR")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    lines = "element => element.getClientRects().length"
    assert total.evaluate(lines) == 1
    line = "element => parseFloat(getComputedStyle(element).lineHeight)"
    assert total.bounding_box()["height"] < 1.5 * total.evaluate(line)


def test_a_plan_that_breaks_a_limit_is_said_in_red_and_the_way_out_works(tab, served):
    page = tab(served, "/plan?rounds=60&seeds=3&policy=acdpp")
    said = page.locator(".note.broken")
    expect(said).to_contain_text("runs go over budget")
    expect(said).to_contain_text("take headgate, or set capacity")
    expect(page.locator(".tile.over", has_text="You spend in all")).to_be_visible()
    page.get_by_label("Keep both limits").check()
    expect(said).to_be_hidden()
    expect(page).to_have_url(re.compile("limits=kept"))
    expect(page.locator(".tile.over")).to_have_count(0)
