"""What the pages name is there: commands, options, keys, executors, files; and they are
short.
"""

import re
import runpy
from dataclasses import fields
from pathlib import Path

import pytest
import typer.main

from headgate.cli.commands import app
from headgate.simulation.executors import SHIPPED
from tools.words import words

ROOT = Path(__file__).parent.parent
MADE = runpy.run_path(str(ROOT / "docs" / "_extensions" / "from_the_code.py"))
READ = [ROOT / name for name in words()]
PAGES = [
    *READ,
    *(ROOT / "contributing").glob("*.md"),
    *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md")),
]
CODE = re.compile(r"```[^\n`]*\n(.*?)```|`([^`\n]+(?:\n[^`\n]+)?)`", re.DOTALL)
"""blocks of code, and code in a sentence; Python is run by other tests"""
CALL = re.compile(r"^(?:\$ )?headgate ([a-z][\w-]*(?: [a-z][\w-]*)?)([^\n|`;&]*)", re.M)
KEY = re.compile(r"(?<![\w./\"])(system|run|data|training|bound)\.([a-z]\w*)(?![\w(.])")
EXECUTORS = re.compile(
    r"executors? (`\w+`(?:(?:, | and | or )`\w+`)*)|--executor (\w+)"
)


def code(page):
    """Return the code of a page, with lines joined that a backslash breaks."""
    text = page.read_text("utf-8").replace("\\\n", " ")
    text = re.sub(r"```python\n.*?```", "", text, flags=re.DOTALL)
    blocks = [block or span for block, span in CODE.findall(text)]
    return "\n".join(block for block in blocks if "──" not in block)  # no output


def commands():
    """Return the options of each command and group, by the words after headgate."""
    found = {}

    def walk(command, path):
        found[" ".join(path)] = {
            option
            for each in command.params
            for option in (*each.opts, *each.secondary_opts)
        } | {"--help", "--version"}
        for name, each in getattr(command, "commands", {}).items():
            walk(each, [*path, name])

    walk(typer.main.get_command(app), [])
    return found


KNOWN = commands()


def unknown_calls(text):
    """Yield the commands and options of a text that are not there."""
    for said, rest in CALL.findall(text):
        first, _, second = said.partition(" ")
        group = any(each.startswith(f"{first} ") for each in KNOWN)
        command = said if group and second else first
        if command not in KNOWN:
            yield f"headgate {command}"
            continue
        for option in re.findall(r"(?<!\S)(--[a-z][\w-]*)", rest):
            if option not in KNOWN[command]:
                yield f"headgate {command} {option}"


def keys(section):
    """Return the keys that a section may have, of every kind that may fill it."""
    sections = {
        "system": ["headgate.experiment.sections:SystemTable"],
        "run": ["headgate.experiment.sections:RunTable"],
        "training": ["headgate.experiment.sections:Training"],
        "bound": ["headgate.theory.bound:BoundConstants"],
    }
    kinds = [MADE["named"](path) for path in sections.get(section, [])]
    if section == "data":
        kinds = [
            MADE["named"]("headgate.learning.data:Data"),
            *MADE["named"](MADE["SLOTS"]["data"]).kinds.values(),
        ]
    return {each.name for kind in kinds for each in fields(kind)} | {"kind", "toml"}


KEYS = {name: keys(name) for name in ("system", "run", "data", "training", "bound")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_options_keys_and_executors_are_there(page):
    text = code(page)
    assert [*unknown_calls(text)] == []
    assert [
        f"{section}.{key}"
        for section, key in KEY.findall(text)
        if key not in KEYS[section]
    ] == []
    named = [
        name
        for several, one in EXECUTORS.findall(page.read_text("utf-8"))
        for name in (re.findall(r"`(\w+)`", several) or [one])
    ]
    assert {*named} - {*SHIPPED} - {"auto", "module", "my_executor"} == set()


def test_what_is_not_there_is_found():
    assert [*unknown_calls("headgate list --format json")] == ["headgate list"]
    assert [*unknown_calls("headgate runs --nothing")] == ["headgate runs --nothing"]
    assert [*unknown_calls("headgate ledger amendd x")] == ["headgate ledger amendd"]
    assert [*unknown_calls("headgate plan digits --set run.seeds=2")] == []
    assert "packed" not in SHIPPED
    assert KEY.findall("run.ronds=3") == [("run", "ronds")]
    assert "ronds" not in KEYS["run"]


@pytest.mark.parametrize(
    "page",
    [*PAGES, *ROOT.glob("*/README.md"), *(ROOT / "studies").rglob("*.md")],
    ids=lambda page: page.name,
)
def test_links_lead_somewhere_in_a_checkout(page):
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)\s#]+)", page.read_text("utf-8"))
    missing = [link for link in links if not (page.parent / link).exists()]
    assert [link for link in missing if not link.startswith("../gallery")] == []


def test_pages_list_what_the_site_makes_from_the_code():
    recipes = (ROOT / "docs" / "reference" / "recipes.md").read_text("utf-8")
    blocks = re.findall(r"```\{(keys|kinds)\} (\S+)\n(.*?)```", recipes, re.DOTALL)
    assert len(blocks) > 10
    for directive, argument, body in blocks:
        said = " ".join(body.split()).split(", ")
        assert said == MADE["names"](directive, argument), argument
    page = (ROOT / "docs" / "reference" / "commands.md").read_text("utf-8")
    listed = re.findall(r"^\| `headgate ([^`]+)` \|", page, re.MULTILINE)
    groups = {each.rpartition(" ")[0] for each in KNOWN if " " in each}
    assert listed == [each for each in KNOWN if each and each not in groups]


def test_the_documentation_is_short():
    counted = words()
    assert len(counted) > 15
    assert sum(counted.values()) <= 29_000
    assert max(counted.values()) <= 2_300
