"""tools/mutants.py changes what it says, one thing at a time, and sees whether tests notice."""

import ast
import gc
import importlib.util
import json
import runpy
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))  # as for a script there
TOOL = runpy.run_path(str(ROOT / "tools" / "mutants.py"))


def test_each_mutant_has_one_change_and_a_name_of_its_own():
    code = "def f(a: int, b):\n    if a < b and not b:\n        raise ValueError(1)\n    c = b.shape[-1]\n"
    code += "    return min(a, 2) + b.sum(axis=1)\n"
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


def test_no_answer_is_missing():
    results, judges = json.loads(TOOL["RESULTS"].read_text("utf-8")), tomllib.loads(TOOL["ANSWERS"].read_text("utf-8"))
    assert results.keys() <= judges.keys()
    for module, own in results.items():
        answers = judges[module].get("answers", {})
        assert [name for name in own["survived"] if not answers.get(name)] == [], module
        assert answers.keys() <= set(own["survived"]), f"{module}: an answer to a mutant that is noticed"


def test_a_changed_function_takes_the_place_of_the_imported_one(tmp_path):
    code = "class A:\n    @property\n    def b(self):\n        return [x + 1 for x in (1, 2)]\n\ndef c():\n    return 3\n"
    path = tmp_path / "exchanged.py"
    path.write_text(code)
    spec = importlib.util.spec_from_file_location("exchanged", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    imported = module.A, module.c  # as another module has them
    gc.freeze()  # as conftest.py does
    found = {mutant.name: mutant for mutant in TOOL["mutants"](ast.parse(code))}
    TOOL["_exchange"](found["A.b: x + 1 → x - 1"].tree, path)
    assert (imported[0]().b, imported[1]()) == ([0, 1], 3)
    TOOL["_exchange"](found["c: return 3 → return None"].tree, path)
    assert (imported[0]().b, imported[1]()) == ([2, 3], None)


def test_what_was_noticed_is_kept_until_the_module_changes(tmp_path, monkeypatch):
    own = TOOL["Kept"].__init__.__globals__
    monkeypatch.setitem(own, "KEPT", tmp_path)
    monkeypatch.setitem(own, "source", lambda module: tmp_path / module)
    (tmp_path / "purse").write_text("x = 1\n")
    kept = TOOL["Kept"]("purse", afresh=False)
    kept.add("a", "killed"), kept.add("b", "survived"), kept.add("c", "late")
    assert TOOL["Kept"]("purse", afresh=False).noticed == {"a": "killed", "c": "late"}
    (tmp_path / "purse").write_text('"""What x is."""\n\nx = 1\n')
    assert TOOL["Kept"]("purse", afresh=False).noticed == {"a": "killed", "c": "late"}  # the same code
    (tmp_path / "purse").write_text("x = 2\n")
    assert TOOL["Kept"]("purse", afresh=False).noticed == {}
    (tmp_path / "purse").write_text("x = 1\n")
    assert TOOL["Kept"]("purse", afresh=True).noticed == {}
