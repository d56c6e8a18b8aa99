"""The house: one name for one class, and pages of the docs state their purpose
first.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LONGEST = 120
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
SAYING = [
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "docs" / "tutorials").glob("[0-9]_*.py")),
]
FIRST = re.compile(
    r"(What|Which|How|Where|Whether|Who|From|Every|One|A|This page|headgate) [^|]+"
)
"""how a page says what it is for: no settings, no "Made by", no table"""
LINK = re.compile(r"!?\[[^\]]*\]\([^)]*\)|https?://\S+")


def prose(text):
    """The numbered lines of a page outside code and tables, without their links."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        if not (fence or fenced or line.startswith(("    ", "|"))):
            yield number, LINK.sub("", line)


def test_what_is_said_to_take_longest_is_there_once():
    named = (ROOT / "tests" / "longest.txt").read_text("utf-8").split()
    assert len(set(named)) == len(named) > 10
    assert [name for name in named if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_lines_of_the_docs_are_short(page):
    lines = dict(prose(page.read_text("utf-8")))
    assert any(lines.values())
    assert {number: line for number, line in lines.items() if len(line) > LONGEST} == {}


@pytest.mark.parametrize(
    "page", SAYING, ids=lambda page: f"{page.parent.name}/{page.name}"
)
def test_a_page_says_first_what_it_is_for(page):
    text = page.read_text("utf-8")
    title, said = (
        ast.get_docstring(ast.parse(text)) if page.suffix == ".py" else text
    ).split("\n\n")[:2]
    assert page.suffix == ".py" or re.fullmatch(r"# .+", title)
    assert FIRST.fullmatch(said), said
    assert len(said) <= 4 * LONGEST, "a page's purpose is said in a sentence or two"


def test_no_two_classes_have_one_name():
    """A search for a class finds one. Those with an underscore are their file's own,
    and kernels come in pairs.
    """
    found = {}
    for path in sorted((ROOT / "src" / "headgate").rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if (
                isinstance(node, ast.ClassDef)
                and not node.name.startswith("_")
                and path.parent.name != "kernels"
            ):
                found.setdefault(node.name, []).append(
                    path.relative_to(ROOT).as_posix()
                )
    assert len(found) > 200
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


def test_the_site_is_short():
    entries = re.findall(
        r"^(?:start|learn|do|reference|understand|studies)/[\w-]+$",
        (ROOT / "docs/index.md").read_text("utf-8"),
        re.M,
    )
    assert 10 < len(entries) <= 25
