"""The files of the page: in one piece, from nowhere else, and in the colours of the
report.
"""

import re
from pathlib import Path

import headgate.web
from headgate.analysis.curves import COLOURS
from headgate.analysis.pages import EXPORT, IMPORT, script
from headgate.web.serving import DRAWING

STATIC = Path(headgate.web.__file__).parent / "static"
MODULES = sorted([*STATIC.rglob("*.js"), *DRAWING.glob("*.js")])
STYLES = sorted([*STATIC.rglob("*.css"), *DRAWING.glob("*.css")])


def test_nothing_is_fetched_from_elsewhere_and_nothing_is_run_from_text():
    for path in [*MODULES, *STYLES, STATIC / "index.html"]:
        text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(
            r"https?://|@import|innerHTML|outerHTML|insertAdjacentHTML|\beval\(|new"
            r" Function",
            text,
        ), path.name
    page = (STATIC / "index.html").read_text("utf-8")
    assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=|\sstyle=", page)


def test_policies_have_the_colours_of_the_report():
    light, dark = re.findall(
        r"^  --c0:.*$", (DRAWING / "base.css").read_text("utf-8"), re.MULTILINE
    )
    assert re.findall(r"#\w{6}", light) == list(COLOURS)
    on_dark = {"#0072B2": "#4A9FDB", "#000000": "#E4E4E0"}  # hard to see there
    assert re.findall(r"#\w{6}", dark) == [
        on_dark.get(colour, colour) for colour in COLOURS
    ]


def test_what_the_report_holds_is_one_script_of_the_same_modules():
    text = script("report")
    assert not re.search(r"</script|<!--|import\(", text, re.IGNORECASE)
    assert not IMPORT.search(text)
    assert not EXPORT.search(text)
