"""For everybody: by keyboard, on a phone, in the dark, and with the colours of the
report.
"""

from pathlib import Path

import pytest

from headgate import Books, System
from headgate.control.policies import Headgate

from ..folders import MadeUp
from ..served import Served
from .barriers import check_barriers

expect = pytest.importorskip("playwright.sync_api").expect
READING = (Path(__file__).parent / "reading.js").read_text("utf-8").split("\n", 1)[1]
LONG = "a-run-with-a-rather-long-name"
PAGES = [
    "/",
    f"/run/{LONG}",
    f"/compare?runs={LONG}&runs=stopped",
    "/plan",
    "/nopage",
]


def settled(page):
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator(".skeleton")).to_have_count(0)


@pytest.fixture(scope="module")
def paid(tmp_path_factory):
    """A run with accounts, as those on real clients have them, and one without."""
    folder = tmp_path_factory.mktemp("paid")
    MadeUp(folder / "paid", policies=("headgate",), seeds=1).finish()
    MadeUp(folder / "other").finish()
    system = System([8, 9], budget=20.0, horizon=12, currency="$")
    with Books(folder / "paid", system, Headgate()) as books:
        for price in (3.0, 9.0, 1.0):
            books.begin(price)
            books.settle()
    with Served(folder) as one:
        yield one


@pytest.mark.parametrize(
    "path", ["/", "/run/paid", "/plan", "/compare?runs=paid&runs=other"]
)
def test_axe_finds_no_barrier_with_everything_unfolded(tab, paid, path):
    check_barriers(tab(paid, path))


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (360, True)])
def test_names_contrast_and_width(tab, served, width, dark):
    page = tab(served, width=width, dark=dark, still=True, expected="404")
    for path in PAGES:
        page.goto(f"http://127.0.0.1:{served.port}{path}")
        settled(page)
        assert page.evaluate(READING) == [], path


def test_the_theme_is_the_systems_until_one_chooses(tab, served):
    page = tab(served, dark=True)
    root = page.locator("html")
    expect(root).to_have_attribute("data-theme", "dark")
    page.emulate_media(color_scheme="light")
    expect(root).to_have_attribute("data-theme", "light")
    page.get_by_role("button", name="Change to dark colours").click()
    expect(root).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(root).to_have_attribute("data-theme", "dark")
    expect(page.locator("body")).to_have_css("background-color", "rgb(20, 23, 26)")
    page.evaluate("() => localStorage.clear()")


def test_the_whole_way_by_keyboard(tab, served):
    page = tab(served)
    settled(page)
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("searchbox", name="Search runs")).to_be_focused()
    page.keyboard.type("rather long")
    expect(page.locator("tbody tr")).to_have_count(1)
    link = page.get_by_role("link", name=LONG)
    for _ in range(12):
        page.keyboard.press("Tab")
        if link.evaluate("node => node === document.activeElement"):
            break
    expect(link).to_be_focused()
    expect(link).to_have_css("outline-style", "solid")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(LONG)
    expect(page.locator("main")).to_be_focused()
    menu = page.get_by_label("Save Test accuracy")
    menu.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="SVG").first).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="SVG").first).to_be_hidden()
    expect(menu).to_be_focused()
