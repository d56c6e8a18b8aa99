"""Pictures of every page, light and dark, wide and narrow, of runs that are played for
it: python tools/screenshots.py OUT

With --docs the one of the documentation is written to docs/figures as well.
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
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

ROOT = Path(__file__).parent.parent
PORT = 8047
SIZES = {"wide": (1280, 900), "narrow": (360, 780)}
PAGES = {
    "runs": "/",
    "run": "/run/digits-paper",
    "live": "/run/digits-live",
    "compare": (
        "/compare?runs=digits-paper&runs=digits-richer&policies=acdpp&policies=constant&x=money"
    ),
    "plan": "/plan",
}
IN_DOCS = {
    "run-light-wide": ("page-run", 1.14),
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
    """Two finished runs, to look at and to compare."""
    quiet = ["--progress", "none", "--format", "json"]
    subprocess.run(
        headgate("run", "digits", "--out", str(runs / "digits-paper"), *quiet),
        check=True,
        capture_output=True,
    )
    richer = [
        "--policies",
        "acdpp,constant",
        "--seeds",
        "10",
        "--set",
        "system.budget=80",
        "--out",
        str(runs / "digits-richer"),
    ]
    subprocess.run(
        headgate("run", "digits", *richer, *quiet), check=True, capture_output=True
    )


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
    for figure in page.locator("figure:visible .plot").all():
        figure.scroll_into_view_if_needed()
        expect(figure).not_to_have_class(re.compile("waiting"))
    page.evaluate("window.scrollTo(0, 0)")
    page.wait_for_timeout(300)


def take(browser: Browser, out: Path) -> Iterator[Path]:
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
                yield picture
            context.close()


def for_docs(out: Path) -> None:
    from PIL import Image

    for name, (target, ratio) in IN_DOCS.items():
        with Image.open(out / f"{name}.png") as picture:
            top = picture.convert("RGB").crop(
                (0, 0, picture.width, min(picture.height, round(picture.width * ratio)))
            )
            top.save(ROOT / "docs" / "figures" / f"{target}.png", optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--docs", action="store_true")
    asked = parser.parse_args()
    expect.set_options(timeout=30_000)
    asked.out.mkdir(parents=True, exist_ok=True)
    chromium = (
        os.environ.get("CHROMIUM")
        or shutil.which("chromium")
        or shutil.which("chromium-browser")
    )
    if chromium is None:
        sys.exit("no chromium: apt-get install chromium, or name one in $CHROMIUM")
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
            browser = playwright.chromium.launch(executable_path=chromium, args=QUIET)
            for picture in take(browser, asked.out):
                print(picture)
            browser.close()
    if asked.docs:
        for_docs(asked.out)


if __name__ == "__main__":
    main()
