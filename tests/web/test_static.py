"""The files of the page: in one piece, from nowhere else, and in the colours of the report."""

import re
from pathlib import Path

import headgate.web
from headgate.analysis.curves import COLOURS
from headgate.analysis.pages import EXPORT, IMPORT, script
from headgate.web.serving import DRAWING

STATIC = Path(headgate.web.__file__).parent / "static"
MODULES = sorted([*STATIC.rglob("*.js"), *DRAWING.glob("*.js")])
STYLES = sorted([*STATIC.rglob("*.css"), *DRAWING.glob("*.css")])


def file_of(name, beside=STATIC):
    """Where the server finds it: /static/drawing lies in another folder."""
    path = (beside / name).resolve()
    return DRAWING / path.name if path.parent == STATIC / "drawing" else path


def test_every_import_and_every_link_leads_to_a_file_that_offers_it():
    seen = 0
    for path in MODULES:
        text = path.read_text("utf-8")
        for source in re.findall(r"""(?:from|import\()\s*["'](\.[^"']+)["']""", text):
            assert file_of(source, path.parent).is_file(), f"{path.name} imports {source}"
            seen += 1
        for names, source in re.findall(r"""import \{([^}]+)\} from ["'](\.[^"']+)["']""", text):
            offered = file_of(source, path.parent).read_text("utf-8")
            for name in (one.split(" as ")[0].strip() for one in names.split(",")):
                declared = rf"export (?:async )?(?:const|function|class) {name}\b"
                assert re.search(declared, offered), f"{path.name} imports {name} from {source}"
    assert seen > 50
    for name in re.findall(r'(?:href|src)="/static/([^"]+)"', (STATIC / "index.html").read_text("utf-8")):
        assert file_of(name).is_file(), name


def test_nothing_is_fetched_from_elsewhere_and_nothing_is_run_from_text():
    for path in [*MODULES, *STYLES, STATIC / "index.html"]:
        text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|@import|innerHTML|outerHTML|insertAdjacentHTML|\beval\(|new Function", text), path.name
    page = (STATIC / "index.html").read_text("utf-8")
    assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=|\sstyle=", page)


def test_policies_have_the_colours_of_the_report():
    light, dark = re.findall(r"^  --c0:.*$", (DRAWING / "base.css").read_text("utf-8"), re.MULTILINE)
    assert re.findall(r"#\w{6}", light) == list(COLOURS)
    on_dark = {"#0072B2": "#4A9FDB", "#000000": "#E4E4E0"}  # hard to see there
    assert re.findall(r"#\w{6}", dark) == [on_dark.get(colour, colour) for colour in COLOURS]


def test_what_the_report_holds_is_one_script_of_the_same_modules():
    text = script("report")
    assert not IMPORT.search(text)
    assert not EXPORT.search(text)
    assert "import(" not in text
    assert "</script" not in text.lower()
    assert "<!--" not in text
    order = re.findall(r"^const (\w+)Module = ", text, re.MULTILINE)
    assert order[-1] == "report"
    assert len(order) == len(set(order)) >= 8
    for name in order:
        for _, other in IMPORT.findall((DRAWING / f"{name}.js").read_text("utf-8")):
            assert order.index(other) < order.index(name)
