"""The house: one name for one class, no more code than was agreed, and pages of the
docs state their purpose first.
"""

import ast
import re
from pathlib import Path

import pytest

from tools.density import KERNELS, SOURCE, Size, measure, rooms, total

ROOT = Path(__file__).parent.parent
MOST_TOKENS = {
    "analysis": 30_600,
    "books": 47_100,
    "cli": 10_000,
    "control": 46_000,
    "experiment": 6_800,
    "flower": 37_700,
    "labels": 20_100,
    "learning": 26_000,
    "nvflare": 5_800,
    "records": 16_300,
    "simulation": 30_300,
    "theory": 2_600,
    "top": 12_800,
    "web": 26_500,
}
"""room → most tokens; `python tools/density.py --table` prints it anew"""
MOST_IN_ALL = 293_000
MOST_KERNELS = 36_400
DENSEST, DENSEST_KERNELS = 8.3, 9.5
"""most tokens a line of code"""
LONGEST = 120
PAGES = [
    *ROOT.glob("*.md"),
    *(ROOT / "contributing").glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
]
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
    assert len(set(named)) == len(named) > 0
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
    """A search for a class finds one. Those with an underscore are their file's own."""
    paths = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                paths.setdefault(node.name, []).append(path.relative_to(ROOT))
    assert paths
    assert {name: found for name, found in paths.items() if len(found) > 1} == {}


@pytest.fixture(scope="module")
def counted():
    """Room → its size."""
    return rooms()


def test_every_room_of_the_table_is_there(counted):
    assert counted.keys() == MOST_TOKENS.keys()


@pytest.mark.parametrize("room", MOST_TOKENS)
def test_a_room_has_no_more_code_than_it_may(room, counted):
    size = counted[room]
    assert size.tokens <= MOST_TOKENS[room]
    assert size.density <= DENSEST
    assert size.wide == 0


def test_the_package_has_no_more_code_than_it_may(counted):
    assert sum(size.tokens for size in counted.values()) <= MOST_IN_ALL


def test_the_package_of_kernels_has_no_more_code_than_it_may():
    size = total(KERNELS.rglob("*.py"))
    assert 0 < size.tokens <= MOST_KERNELS
    assert size.density <= DENSEST_KERNELS
    assert size.wide == 0


def test_tokens_are_counted_without_docstrings_and_comments(tmp_path):
    path = tmp_path / "counted.py"
    path.write_text('"""Two words."""\n\nx = 1  # a comment\ny = "a" + x\n', "utf-8")
    assert measure(path) == Size(tokens=3 + 5, code_lines=2, wide=0)


def is_there(file, name):
    """Return whether there is a file, and a class or function of a name in it."""
    found = [folder / file for folder in (SOURCE, ROOT) if (folder / file).exists()]
    if not found or not name:
        return bool(found)
    defines = re.compile(rf"^ *(class|def) {name}\b", re.M)
    return bool(defines.search(found[0].read_text("utf-8")))


def test_what_the_page_on_design_names_is_there():
    page = (ROOT / "contributing" / "design.md").read_text("utf-8")
    places = re.findall(r"`([\w/]+\.py)`(?:: `(?:\w+\.)?(\w+)`)?", page)
    assert places
    assert [place for place in places if not is_there(*place)] == []


def test_the_site_is_short():
    entries = re.findall(
        r"^(?:start|learn|do|reference|understand|studies)/[\w-]+$",
        (ROOT / "docs/index.md").read_text("utf-8"),
        re.M,
    )
    assert 0 < len(entries) <= 25
