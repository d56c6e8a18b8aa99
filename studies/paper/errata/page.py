"""Makes studies/paper/errata.md from errata.toml, the numbers computed now, and tests:
python -m studies.paper.errata.page
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from headgate.analysis.pages import words
from studies import HOME
from studies.pages import wrapped
from studies.paper.errata import numbers

ROOT = HOME.parent
PAGE = ROOT / "studies" / "paper" / "errata.md"
TESTS = ROOT / "tests" / "studies" / "paper" / "test_errata.py"
TEST = re.compile(r"^def (test_(\d+)_\w+)", re.MULTILINE)
PAGES = re.compile(r"studies/paper/(\w+\.md)|studies/(findings/\w+\.md)")
SHOWN = {
    int(name.split("_")[1]): made
    for name, made in vars(numbers).items()
    if name.startswith("shows_")
}
LISTED: dict[str, Any] = words(__file__, "errata.toml")
"""how the page begins; what is right; each weight and its heading, the heaviest first;
the errata, sorted by weight
"""


def counted() -> str:
    """Return the counts in words, as README and pages say them."""
    count = Counter(each["weight"] for each in LISTED["erratum"])
    return (
        f"{count['error']} errors, {count['gap']} gaps that can be closed,"
        f" {count['slip']} slips, {count['convention']} conventions and consequences"
    )


def numbered_tests() -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for name, number in TEST.findall(TESTS.read_text("utf-8")):
        found.setdefault(int(number), []).append(name)
    return found


def linked(text: str, bullet: str = "") -> str:
    """Return a paragraph in which other pages that are named are links."""
    return wrapped(
        PAGES.sub(
            lambda found: "[{0}]({0})".format(found[1] or f"../{found[2]}"), text
        ),
        bullet,
    )


def entry(each: dict[str, Any], tests: Sequence[str] = ()) -> list[str]:
    """Return the lines of one erratum, with the numbers that show it computed now."""
    values = SHOWN[each["number"]]()
    shown = "; ".join(
        f"{name}: {_short(value)}"
        for name, value in zip(each["shown"], values, strict=True)
    )
    said = [
        (
            f"The paper: {each['says']}"
            f" ({', '.join(f'`{label}`' for label in each['labels'])})"
        ),
        f"True is: {each['is']}",
        f"Survives: {each['survives']}",
        f"Shown by: {shown}.",
        *([f"Test: {', '.join(f'`{name}`' for name in tests)}"] if tests else []),
    ]
    lines = [linked(text, "- ") for text in said]
    return [
        f"### {each['number']}. {each['title']}",
        "",
        f"*{each['place']}*",
        "",
        *lines,
        "",
    ]


def _short(value: float) -> str:
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}".replace("-", "−")
    return (f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}").replace("-", "−")


def page() -> str:
    tests = numbered_tests()
    lines = [
        "# Errata of the paper",
        "",
        "What is wrong or missing in the paper, why, and what of it survives.",
        "",
    ]
    lines += [linked(LISTED["intro"].format(counted=counted())), ""]
    lines += ["## What is right", "", *(linked(said, "- ") for said in LISTED["right"])]
    for weight, heading in LISTED["weights"].items():
        own = [each for each in LISTED["erratum"] if each["weight"] == weight]
        lines += ["", f"## {heading} ({len(own)})", ""]
        lines += [
            line for each in own for line in entry(each, tests.get(each["number"], []))
        ][:-1]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
