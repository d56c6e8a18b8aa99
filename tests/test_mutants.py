"""tools/mutants.py changes what it says, one thing at a time, and sees whether tests notice."""

import ast
import json
import runpy
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
TOOL = runpy.run_path(str(ROOT / "tools" / "mutants.py"))


def test_each_mutant_has_one_change_and_a_name_of_its_own():
    code = "def f(a: int, b):\n    if a < b and not b:\n        raise ValueError(1)\n    return min(a, 2) + b.sum(axis=1)\n"
    tree = ast.parse(code)
    found = TOOL["mutants"](tree)
    assert sorted(mutant.name for mutant in found) == sorted(
        [
            "f: a < b and (not b) → a < b or not b",
            "f: a < b → a <= b",
            "f: not b → b",
            "f: raise ValueError(1) → pass",
            "f: return min(a, 2) + b.sum(axis=1) → return None",
            "f: min(a, 2) + b.sum(axis=1) → min(a, 2) - b.sum(axis=1)",
            "f: min(a, 2) → max(a, 2)",
            "f: min(a, 2) → min(a, 3)",
        ]
    )
    assert ast.unparse(tree) == ast.unparse(ast.parse(code))  # left as it was
    assert len({ast.unparse(mutant.tree) for mutant in found} | {ast.unparse(tree)}) == len(found) + 1


def test_every_module_has_tests_that_judge_it_and_every_answer_a_mutant():
    judges = tomllib.loads(TOOL["ANSWERS"].read_text("utf-8"))
    assert len(judges) > 9
    for module, own in judges.items():
        names = {mutant.name for mutant in TOOL["mutants"](ast.parse(TOOL["source"](module).read_text("utf-8")))}
        assert own.get("answers", {}).keys() <= names, module
        files = [ROOT / each for each in own["tests"] if each.startswith("tests/")]
        assert files
        assert all(file.is_file() for file in files), module


def test_the_page_says_what_was_found_and_answered():
    results, judges = json.loads(TOOL["RESULTS"].read_text("utf-8")), tomllib.loads(TOOL["ANSWERS"].read_text("utf-8"))
    assert TOOL["PAGE"].read_text("utf-8") == TOOL["page"](results, judges), "run python tools/mutants.py --page"
