"""What axe-core finds on a page, light and dark, wide and narrow."""

import pytest


def check_barriers(page):
    """Everything is unfolded before axe looks."""
    pytest.importorskip("axe_playwright_python", reason="needs the extra dev")
    from playwright.sync_api import expect

    from tools.screenshots import barriers, unfold

    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator(".skeleton")).to_have_count(0)
    unfold(page)
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            expect(page.locator("html")).to_have_attribute("data-theme", scheme)
            assert barriers(page) == [], (width, scheme)
