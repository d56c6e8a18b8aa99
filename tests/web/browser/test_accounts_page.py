"""The pages of accounts: money over time, what is under way, the statement, and what
people with that role change.
"""

import pytest

from ..served import Kept
from .barriers import check_barriers

expect = pytest.importorskip("playwright.sync_api").expect


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    with Kept(tmp_path_factory.mktemp("accounts") / "accounts") as one:
        a = one.began(
            "clinic", buffer={"north": 8, "south": 9, "west": 10}, currency="EUR"
        )
        one.began("labs")
        for t in range(1, 13):
            asked = one.all.post(f"{a}/rounds", {"price": 2.0}).json["purchases"]
            reports = {each["client"]: max(each["samples"] - 1, 0) for each in asked}
            one.all.settle(a, t, {"reports": reports})
        yield one


@pytest.fixture
def signed_in(tab, kept):
    """signed_in(path, account, role, …) opens a page with a token for some accounts."""

    def go(path, account="*", role="amend", **more):
        name = f"{role}-{len(kept.service.tokens.holders())}"
        token = kept.service.tokens.make(name, account, role)
        return tab(kept.served, f"{path}?token={token}", **more), name

    return go


def test_all_accounts_are_listed_with_their_money(signed_in):
    page, _ = signed_in("/accounts")
    expect(page.locator("tbody th")).to_have_text(["clinic", "labs"])
    expect(page.locator("tbody tr").first).to_contain_text("12 / 50")
    expect(page.locator("tbody tr").nth(1)).to_contain_text("0 of 1,000")
    page.get_by_role("link", name="clinic").click()
    expect(page.get_by_role("heading", name="clinic", level=1)).to_be_visible()
    assert "token" not in page.url


def test_a_token_for_some_accounts_leads_to_these_alone(signed_in):
    page, _ = signed_in("/", "labs", "read")
    expect(page.locator("tbody th")).to_have_text(["labs"])
    expect(page.get_by_role("link", name="Runs")).to_be_hidden()
    page.get_by_role("link", name="labs").click()
    expect(page.get_by_role("heading", name="labs", level=1)).to_be_visible()
    expect(page.get_by_role("button", name="Amend")).to_have_count(0)


def test_one_account_shows_money_orders_and_statement(signed_in, kept):
    page, _ = signed_in("/accounts/clinic", "clinic", "read")
    spent = float(kept.all.get("/clinic/balance").json["spent"])
    expect(page.locator(".tile", has_text="Spent")).to_contain_text(f"{spent:.0f}")
    expect(page.locator(".plot .main-svg").first).to_be_visible()
    under = page.get_by_role("region", name="Orders under way").locator("tbody tr")
    orders = kept.all.get("/clinic/orders?limit=20").json["orders"]
    expect(under).to_have_count(len(orders))
    lines = page.get_by_role("region", name="Statement").locator("tbody tr")
    before = min(20, len(kept.all.get("/clinic/statement?limit=1000").json["lines"]))
    expect(lines).to_have_count(before)
    with page.expect_download() as loading:
        page.get_by_role("link", name="CSV").click()
    assert loading.value.suggested_filename == "clinic.csv"


def test_an_amendment_is_made_by_keyboard_and_signed_by_the_token(signed_in, kept):
    page, name = signed_in("/accounts/clinic", "clinic", "amend", width=390)
    expect(page.locator(".plot .main-svg").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_label("Money approved in addition").focus()
    page.keyboard.type("120.5")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.type("second order of the board")
    page.keyboard.press("Enter")
    made = page.get_by_role("region", name="Amendments and invoices")
    expect(made).to_contain_text("money 120.5")
    expect(made).to_contain_text(name)
    (found,) = kept.all.get("/clinic/amendments").json["amendments"]
    assert (found["by"], found["why"]) == (name, "second order of the board")


def test_a_refund_is_refused_or_made(signed_in, kept):
    page, name = signed_in(
        "/accounts/clinic", "clinic", "amend", expected="status of 409"
    )
    form = page.get_by_role("form", name="Invoice or refund")
    form.get_by_label("Round of the order").fill("1")
    form.get_by_label("Invoice less").fill("-1000")
    form.get_by_label("Reason").fill("too much")
    form.get_by_role("button").click()
    expect(form.get_by_role("status")).to_contain_text("is more than the")
    form.get_by_label("Invoice less").fill("-1.25")
    form.get_by_role("button").click()
    expect(form.get_by_role("status")).to_contain_text("done")
    made = page.get_by_role("region", name="Amendments and invoices")
    expect(made).to_contain_text("adjust -1.25 of round 1, client 0")
    last = kept.all.get("/clinic/amendments").json["amendments"][-1]
    assert (last["by"], last["change"]) == (name, {"adjust": -1.25})


@pytest.mark.parametrize("path", ["/accounts", "/accounts/clinic"])
def test_axe_finds_no_barrier(signed_in, path):
    page, _ = signed_in(path)
    check_barriers(page)
