"""What `make` installs is pinned with its hashes, and nothing that it needs is
missing.
"""

import importlib.metadata
import json
import re
import runpy
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
TOOL = runpy.run_path(str(ROOT / "tools" / "pins.py"))
PINS = {pin.name: pin for pin in TOOL["committed"]()}
MAIN = {pin.name: pin for pin in TOOL["committed"](["pins/run.txt"])}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
GROUPS = {
    "build": PROJECT["build-system"]["requires"],
    "headgate": PROJECT["project"]["dependencies"],
    **PROJECT["project"]["optional-dependencies"],
}
del GROUPS["hub"]  # not among what the tests install: they put a stand-in in its place


def unmet(requirement, pins):
    pin = pins.get(canonicalize_name(requirement.name))
    return pin is None or not requirement.specifier.contains(
        pin.version, prereleases=True
    )


def test_the_files_are_as_the_tool_writes_them():
    files = TOOL["written"](TOOL["committed"](), MAIN)
    assert {file: (ROOT / file).read_text("utf-8") for file in files} == files, (
        "run python tools/pins.py"
    )
    assert len(PINS) == len(TOOL["committed"]()) > len(MAIN) > 0
    assert [pin.name for pin in PINS.values() if not pin.hashes] == []
    assert not {"torch", "numba", "scikit-learn", "scipy", "flwr"} & MAIN.keys()


def test_label_studio_is_pinned_with_its_hashes():
    text = (ROOT / TOOL["LABELS"]).read_text("utf-8")
    pins = TOOL["read"](text)
    assert TOOL["listing"](TOOL["LABELS_HEAD"], map(str, sorted(pins))) == text, (
        "run python tools/pins.py"
    )
    assert [pin.name for pin in pins if not pin.hashes] == []
    assert {"label-studio", "django"} <= {pin.name for pin in pins}


@pytest.mark.parametrize(("groups", "pins"), [(["headgate"], MAIN), (GROUPS, PINS)])
def test_nothing_that_the_pins_need_is_missing(groups, pins):
    """They are installed without what they ask for: it must be among them. Seen as it
    is installed here.
    """
    first = [Requirement(text) for group in groups for text in GROUPS[group]]
    asked = [(requirement, "") for requirement in first]
    seen, missing = set(), []
    while asked:
        requirement, extra = asked.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        if unmet(requirement, pins):
            missing.append(str(requirement))
        for wanted in {"", *requirement.extras} - {
            extra for name, extra in seen if name == requirement.name
        }:
            seen.add((requirement.name, wanted))
            asked += [
                (Requirement(text), wanted)
                for text in importlib.metadata.requires(requirement.name) or []
            ]
    assert missing == []
    assert {own.name for own in first} <= {name for name, _ in seen}


def test_torch_keeps_the_hashes_of_its_other_builds_with_its_version(monkeypatch):
    pin = PINS["torch"]._replace(hashes=frozenset("i"))
    report = {
        "install": [{"download_info": {"archive_info": {"hashes": {"sha256": "l"}}}}]
    }
    monkeypatch.setitem(
        TOOL["with_other_builds"].__globals__, "pip", lambda *_: json.dumps(report)
    )
    assert TOOL["with_other_builds"](pin, [pin._replace(hashes={"k"})]).hashes == set(
        "ilk"
    )
    assert TOOL["with_other_builds"](
        pin, [pin._replace(version="1.0", hashes={"k"})]
    ).hashes == set("il")
    monkeypatch.setitem(TOOL["with_other_builds"].__globals__, "pip", lambda *_: "")
    assert TOOL["with_other_builds"](pin, []).hashes == {"i"}


def test_make_installs_nothing_without_its_hash_but_headgate():
    made = re.search(
        r"^\$\(MAIN\):.*^run:",
        (ROOT / "Makefile").read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )[0]
    command = r"(?:pip install|\$\((?:PIP|INSTALL|HASHED)\)).*"
    assert [each.removesuffix(" \\") for each in re.findall(command, made)] == [
        "$(HASHED) -r pins/run.txt",
        "$(INSTALL) --no-build-isolation -e .",
        "$(HASHED) -r pins/rest.txt",
        "$(HASHED) --no-index -r pins/torch.txt 2>/dev/null",
        "$(HASHED) -r pins/torch.txt -r pins/cuda.txt",
        "$(PIP) check",
    ]
