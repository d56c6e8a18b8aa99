"""Pictures of every page, light and dark, wide and narrow, of runs that are made for
it: python tools/screenshots.py OUT

With --docs those of the documentation are written to docs/figures as well. With --axe
it also looks for barriers on every page, everything unfolded, and ends with 1 where
axe-core finds one.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

ROOT = Path(__file__).parent.parent
PORT = 8047
SIZES = {"wide": (1280, 900), "narrow": (390, 844)}
PAGES = {
    "runs": "/",
    "run": "/run/digits-paper",
    "live": "/run/digits-live",
    "compare": (
        "/compare?runs=digits~system.budget%3D10.0&runs=digits~system.budget%3D20.0"
    ),
    "plan": "/plan?recipe=runs%2Fdigits",
    "missing": "/nopage",
}
IN_DOCS = {
    "run-light-wide": ("page-run", 1.14),
    "plan-light-wide": ("page-plan", 0.8),
}
"""with how much of them, as height over width"""
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
]
QUIET += ["--disable-component-update", "--disable-sync"]


def headgate(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "headgate.cli", *arguments]


@contextmanager
def started(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def play(runs: Path) -> None:
    """Make a finished run, and a comparison at three budgets."""
    quiet = ["--progress", "none", "--format", "json"]
    run = headgate("run", "digits", "--out", str(runs / "digits-paper"), *quiet)
    budgets = ["--budgets", "5,10,20", "--seeds", "10"]
    compare = headgate("compare", "digits", *budgets, "--out", str(runs / "digits"))
    for command in (run, compare):
        subprocess.run(command, check=True, capture_output=True)


def wait_for(address: str) -> None:
    for _ in range(200):
        try:
            with urllib.request.urlopen(address):
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    sys.exit(f"{address} does not answer")


def settle(page: Page) -> None:
    """All figures are drawn when they come into view, so each is looked at once."""
    expect(page.locator("h1")).to_be_visible()
    expect(page.locator(".skeleton")).to_have_count(0)
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    for figure in page.locator("figure:visible .plot").all():
        figure.scroll_into_view_if_needed()
        expect(figure).not_to_have_class(re.compile("waiting"))
    page.evaluate("window.scrollTo(0, 0)")
    page.wait_for_timeout(300)


def unfold(page: Page) -> None:
    page.evaluate(
        "document.querySelectorAll('details').forEach((d) => { d.open = true; })"
    )


def barriers(page: Page) -> list[str]:
    """Return what axe-core finds on the page as it stands."""
    page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text())
    found = page.evaluate("axe.run()")["violations"]
    return [f"{each['id']}: {node['html']}" for each in found for node in each["nodes"]]


def take(
    browser: Browser,
    out: Path,
    axe: bool,
) -> Iterator[tuple[Path, list[str]]]:
    for theme in ("light", "dark"):
        for size, (width, height) in SIZES.items():
            context = browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme=theme,
                reduced_motion="reduce",
                device_scale_factor=1.5,
            )
            page = context.new_page()
            for name, path in PAGES.items():
                page.goto(f"http://127.0.0.1:{PORT}{path}")
                settle(page)
                picture = out / f"{name}-{theme}-{size}.png"
                page.screenshot(path=picture, full_page=True)
                if axe:
                    unfold(page)
                    settle(page)
                yield picture, barriers(page) if axe else []
            context.close()


def for_docs(out: Path) -> None:
    from PIL import Image

    for name, (target, ratio) in IN_DOCS.items():
        with Image.open(out / f"{name}.png") as picture:
            top = picture.convert("RGB").crop(
                (0, 0, picture.width, min(picture.height, round(picture.width * ratio)))
            )
            top.save(ROOT / "docs" / "figures" / f"{target}.png", optimize=True)


def chromium() -> str:
    """Return the browser's program."""
    found = (
        os.environ.get("CHROMIUM")
        or shutil.which("chromium")
        or shutil.which("chromium-browser")
    )
    if found is None:
        sys.exit("no chromium: apt-get install chromium, or name one in $CHROMIUM")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--docs", action="store_true")
    parser.add_argument("--axe", action="store_true")
    asked = parser.parse_args()
    wrong = 0
    expect.set_options(timeout=30_000)
    asked.out.mkdir(parents=True, exist_ok=True)
    program = chromium()
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder)
        play(runs)
        live = [
            "--rounds",
            "4000",
            "--seeds",
            "3",
            "--policies",
            "acdpp,headgate,constant",
            "--processes",
            "1",
        ]
        with (
            started(
                headgate(
                    "run",
                    "digits",
                    *live,
                    "--out",
                    str(runs / "digits-live"),
                    "--progress",
                    "none",
                )
            ),
            started(headgate("serve", str(runs), "--port", str(PORT))),
            sync_playwright() as playwright,
        ):
            wait_for(f"http://127.0.0.1:{PORT}/api/runs/digits-live/curves")
            browser = playwright.chromium.launch(executable_path=program, args=QUIET)
            for picture, found in take(browser, asked.out, asked.axe):
                print(picture, *found, sep="\n  ")
                wrong += len(found)
            browser.close()
    if asked.docs:
        for_docs(asked.out)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
