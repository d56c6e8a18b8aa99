"""Makes studies/paper/errata.md from errata.toml, the numbers computed now, and tests: python -m studies.paper.errata.page"""

import re
import textwrap
from collections.abc import Sequence

from studies import HOME
from studies.paper.errata.listing import Erratum, counted, listed, numbers_as_text

ROOT = HOME.parent
PAGE = ROOT / "studies" / "paper" / "errata.md"
TEST = re.compile(r"^def (test_(\d+)_\w+)", re.MULTILINE)


def numbered_tests() -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for path in sorted((ROOT / "tests" / "studies" / "paper").glob("test_errata_*.py")):
        for name, number in TEST.findall(path.read_text("utf-8")):
            found.setdefault(int(number), []).append(f"{path.name}::{name}")
    return found


PAGES = re.compile(r"studies/paper/(\w+\.md)|(docs/studies/\w+\.md)")


def wrapped(text: str, first: str = "", rest: str = "") -> list[str]:
    """Lines of a page; other pages that are named become links."""
    return textwrap.wrap(
        PAGES.sub(lambda found: "[{0}]({0})".format(found[1] or f"../../{found[2]}"), text),
        118,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def entry(each: Erratum, tests: Sequence[str] = ()) -> list[str]:
    """Return the lines of one erratum, with the numbers that show it computed now."""
    said = [
        ("The paper", f"{each.says} ({', '.join(f'`{label}`' for label in each.labels)})"),
        ("True is", each.is_),
        ("Survives", each.survives),
        ("Shown by", f"{numbers_as_text(each)}."),
    ]
    lines = [f"### {each.number}. {each.title}", "", f"*{each.place}*", ""]
    for word, text in said:
        lines += wrapped(f"{word}: {text}", "- ", "  ")
    lines += wrapped(f"Test: {', '.join(f'`{name}`' for name in tests)}", "- ", "  ") if tests else []
    return [*lines, ""]


def page() -> str:
    errata, tests = listed(), numbered_tests()
    lines = ["# Errata of the paper", "", "What is wrong or missing in the paper, why, and what of it survives.", ""]
    lines += wrapped(
        "Z. Zhao and B. Liang, *Adaptive Data Admission and Retention for Streaming Federated Learning*, 2026. Where its "
        f"text cannot be taken literally: {counted()}. Each was derived again from the paper's source; each has a test that "
        "fails if the erratum is untrue. Made by `python -m studies.paper.errata.page` from `errata.toml` beside the code that "
        "computes the numbers; `python -m studies theory errata` prints the same. Report a wrong one as a bug."
    )
    lines += ["", "## What is right", ""]
    for said in errata.right:
        lines += wrapped(said, "- ", "  ")
    for weight, heading in errata.weights.items():
        own = errata.of(weight)
        lines += ["", f"## {heading} ({len(own)})", ""]
        for each in own:
            lines += entry(each, tests.get(each.number, []))
        lines.pop()
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
