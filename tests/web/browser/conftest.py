"""A real browser: Debian's Chromium, without a screen. Every tab fails its test on a
console error or a foreign request.
"""

import os
import re
import shutil
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ..folders import MadeUp
from ..served import Served

QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
]
QUIET += ["--disable-component-update", "--disable-sync"]
PATIENCE = 60_000  # ms: a busy machine is no failure


def chromium():
    return (
        os.environ.get("CHROMIUM")
        or shutil.which("chromium")
        or shutil.which("chromium-browser")
    )


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip(
        "playwright.sync_api",
        reason="browser tests need playwright: pip install 'headgate[dev]'",
    )
    if chromium() is None:
        pytest.skip(
            "browser tests need Chromium: apt-get install chromium, or name one in"
            " $CHROMIUM"
        )
    playwright.expect.set_options(timeout=PATIENCE)
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=chromium(), args=QUIET)
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def context(browser):
    """One for all tests: what the browser has fetched and compiled, it keeps."""
    made = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    made.set_default_timeout(PATIENCE)
    return made


@pytest.fixture(scope="session")
def served(tmp_path_factory):
    """Runs that are not played any more, for all who only look."""
    folder = tmp_path_factory.mktemp("served")
    MadeUp(
        folder / "done",
        policies=("acdpp", "hybrid", "constant", "headgate"),
        seeds=3,
        rounds=20,
    ).finish()
    MadeUp(
        folder / "another", seeds=3, training={"lr": 0.125, "evaluate_every": 2}
    ).finish()
    MadeUp(folder / "stopped", seeds=2).play(3).say(
        "interrupted", diverged=[("acdpp", 1)]
    )
    MadeUp(
        folder / "crowded",
        policies=("acdpp",),
        seeds=1,
        rounds=6,
        buffers=[5 + m % 4 for m in range(150)],
    ).finish()
    MadeUp(folder / "a-run-with-a-rather-long-name", seeds=2).finish()
    MadeUp(folder / "gamma <b>&amp;", policies=("headgate",), rounds=6).finish()
    with Served(folder) as one:
        yield one


@pytest.fixture(scope="session")
def elsewhere(served):
    """A picture, to leave a page for. On the same host: for `about:blank` the browser
    would start another process, and that would read and compile all of Plotly again."""
    return f"http://127.0.0.1:{served.port}/static/mark.svg"


@pytest.fixture(scope="session")
def standing(context, elsewhere):
    """One tab for all tests, one after the other, for the same reason."""
    page = context.new_page()
    page.goto(elsewhere)
    return page


@pytest.fixture
def tab(standing, elsewhere):
    """tab(served, path, …) opens a page of a server, or of the runs in a folder, which
    are then served until the test ends.

    `expected` are console messages that belong to the test. What breathes while one
    waits is drawn sixty times a second, by the processor: it stands `still` where no
    test looks at motion.
    """
    wrong, heard, servers = [], [], ExitStack()

    def open_tab(served, path="/", width=1280, dark=False, still=True, expected=None):
        assert not heard, "there is one tab"
        if isinstance(served, Path):
            served = servers.enter_context(Served(served))
        servers.callback(
            standing.goto, elsewhere
        )  # nothing of this test is there for the next, and no page misses its server
        page = standing
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce" if still else "no-preference",
        )

        def said(message):
            where = message.location["url"]
            # `elsewhere` names no icon: the browser asks for /favicon.ico once, at any
            # time in any test
            belongs = where.endswith("/favicon.ico") or (
                expected and re.search(expected, message.text)
            )
            if message.type in ("error", "warning") and not belongs:
                wrong.append(f"{message.type}: {message.text} ({where})")

        def asked(request):
            address = urlsplit(request.url)
            if (
                address.scheme not in ("data", "blob")
                and address.hostname != "127.0.0.1"
            ):
                wrong.append(f"request to another host: {request.url}")

        heard.extend(
            [
                ("console", said),
                ("pageerror", lambda error: wrong.append(f"uncaught: {error}")),
                ("request", asked),
            ]
        )
        for event, listener in heard:
            page.on(event, listener)
        page.goto(f"http://127.0.0.1:{served.port}{path}")
        return page

    yield open_tab
    for event, listener in heard:
        standing.remove_listener(event, listener)
    servers.close()
    assert not wrong
