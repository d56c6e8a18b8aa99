"""Makes studies/paper/equations.md: each label of the paper, the code behind it and the
tests of that code.

python -m tools.equations
"""

import ast
import importlib
import pkgutil
import sys
import textwrap
import tomllib
from collections import defaultdict
from functools import cache
from pathlib import Path

import headgate
import studies

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "studies" / "paper" / "equations.md"
LABELS = ROOT / "studies" / "paper" / "labels.toml"


@cache
def code_by_label() -> dict[str, list[str]]:
    found = defaultdict(set)
    library = pkgutil.walk_packages(headgate.__path__, "headgate.")
    rooms = ("theory", "control", "learning", "simulation", "analysis")
    for info in [
        *(each for each in library if each.name.split(".")[1] in rooms),
        *pkgutil.walk_packages(studies.__path__, "studies."),
    ]:
        if info.name == "studies.__main__":
            continue
        module = importlib.import_module(info.name)
        for thing in vars(module).values():
            if getattr(thing, "__module__", None) == info.name:
                for label in (
                    vars(thing).get("__paper__", ())
                    if hasattr(thing, "__dict__")
                    else ()
                ):
                    found[label].add(
                        f"{info.name.removeprefix('headgate.')}.{thing.__qualname__}"
                    )
    return {label: sorted(names) for label, names in found.items()}


@cache
def tests_by_label() -> dict[str, list[str]]:
    found = defaultdict(set)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        file = path.relative_to(ROOT / "tests").as_posix()
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if "pytest.mark.paper" in text else ():
            if isinstance(node, ast.FunctionDef):
                for mark in node.decorator_list:
                    if (
                        isinstance(mark, ast.Call)
                        and ast.unparse(mark.func) == "pytest.mark.paper"
                    ):
                        for label in mark.args:
                            found[ast.literal_eval(label)].add(f"{file}::{node.name}")
    return {label: sorted(names) for label, names in found.items()}


def called() -> set[str]:
    """Names that code under src uses beyond defining and importing them."""
    found = set()
    for path in [
        *(ROOT / "src").rglob("*.py"),
        *(ROOT / "studies").rglob("*.py"),
    ]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            found |= (
                {node.id}
                if isinstance(node, ast.Name)
                else {node.attr}
                if isinstance(node, ast.Attribute)
                else set()
            )
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(
                    node.value.rpartition(":")[2]
                )  # kinds are named as "module:Class", executors as "Class"
    return found


def complaints() -> list[str]:
    paper = tomllib.loads(LABELS.read_text("utf-8"))
    code, tests = code_by_label(), tests_by_label()
    excused = {label for group in paper["no_code"] for label in group["labels"]}
    known = set(paper["labels"])
    return [
        *(
            f"{label}: neither in the code nor excused"
            for label in paper["labels"]
            if label not in code and label not in excused
        ),
        *(
            f"{label}: in the code but no test names it"
            for label in code
            if label not in tests
        ),
        *(
            f"{label}: excused although the code has it"
            for label in excused
            if label in code
        ),
        *(
            f"{label}: not a label of the paper"
            for label in sorted((set(code) | set(tests) | excused) - known)
        ),
    ]


def page() -> str:
    paper = tomllib.loads(LABELS.read_text("utf-8"))
    code, tests, used = code_by_label(), tests_by_label(), called()
    lines = [
        "# The paper's equations, and where they are",
        "",
        "Where each label of the paper is computed, and which tests cover it.",
        "",
        "Made by `python -m tools.equations`. Errata are in [errata.md](errata.md).",
        (
            "For Theorems 2 and 3 the code computes what is true instead"
            " ([regret.md](regret.md)). † marks what nothing in `src`"
        ),
        "calls, by its name: it is there to be read and tested.",
        "",
        "| label | code | tests |",
        "|---|---|---|",
    ]
    for label in paper["labels"]:
        if label in code:
            own = "<br>".join(
                f"`{name}`{'' if name.rpartition('.')[2] in used else ' †'}"
                for name in code[label]
            )
            lines.append(
                f"| `{label}` | {own} |"
                f" {'<br>'.join(f'`{name}`' for name in tests.get(label, []))} |"
            )
    lines += ["", "## Labels that need no code", ""]
    for group in paper["no_code"]:
        told = (
            f"- {group['reason']}:"
            f" {', '.join(f'`{label}`' for label in group['labels'])}"
        )
        lines += textwrap.wrap(
            told,
            118,
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    sys.exit("\n".join(complaints()) or None)
