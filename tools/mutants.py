"""Changes the code that handles money, one small change at a time, and asks the tests whether they notice.

    python tools/mutants.py [--sample 40] [--only apportion] [--page]

A mutant is a module with one change: a comparison moved by its edge, plus for minus, a constant one higher, `and` for `or`,
a condition turned round, the other of two names (least and most, any and all), nothing returned, a statement dropped. Each
lives in a forked process in which the module is imported changed; no file is touched. Those that no test notices are to be
answered in mutants.toml. Outcomes go to docs/mutants.json, and docs/mutants.md is made of both.
"""

import argparse
import ast
import copy
import importlib.machinery
import importlib.util
import json
import os
import random
import signal
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
ANSWERS, RESULTS, PAGE = ROOT / "tools" / "mutants.toml", ROOT / "docs" / "mutants.json", ROOT / "docs" / "mutants.md"
UNANSWERED = "not answered yet"
PRELOADED = ("numpy", "polars", "pydantic", "pytest", "flwr.clientapp", "flwr.serverapp")
"""imported once for all forks"""
LONGEST, EXAMPLES = 600.0, "mutants"
"""seconds for tests without a change; the profile of Hypothesis in tests/conftest.py: few examples, none made smaller"""
EDGES = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
TESTS = {ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In}
SUMS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult}
BITS = {ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.RShift: ast.LShift, ast.LShift: ast.RShift}
SWAPS = {**EDGES, **TESTS, **SUMS, **BITS, ast.And: ast.Or, ast.Or: ast.And}
PAIRS = [("minimum", "maximum"), ("min", "max"), ("any", "all"), ("floor", "ceil"), ("zeros_like", "ones_like")]
LEFT_ALONE = ("annotation", "returns", "decorator_list", "bases", "exc", "msg", "names")
NAMES = {**dict(PAIRS), **{b: a for a, b in PAIRS}}


class Mutant(NamedTuple):
    name: str
    """function: before → after"""
    tree: ast.Module


def mutants(tree: ast.Module) -> list[Mutant]:
    """All of a module's, each with a name of its own."""
    found: list[Mutant] = []
    seen: dict[str, int] = {}
    for where, parent, field, index in list(_places(tree, "module")):
        node = _get(parent, field, index)
        shown = parent if isinstance(node, ast.Constant) or field == "func" else None  # alone they say little
        for after in _changes(node, field):
            before = _line(shown or node)
            _set(parent, field, index, after)
            name = f"{where}: {before} → {_line(shown or after)}"
            seen[name] = seen.get(name, 0) + 1
            again = f" (place {seen[name]})" if seen[name] > 1 else ""
            found.append(Mutant(name + again, ast.fix_missing_locations(copy.deepcopy(tree))))
            _set(parent, field, index, node)
    return found


def _places(node: ast.AST, where: str) -> Iterator[tuple[str, ast.AST, str, int | None]]:
    """(function, parent, field, place in the field) of what may be changed: not types, decorators, messages or axes."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        where = node.name if where == "module" else f"{where}.{node.name}"
    for field, value in ast.iter_fields(node):
        if field in LEFT_ALONE or isinstance(node, ast.arguments) or getattr(node, "arg", None) in ("axis", "dtype", "kind"):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.JoinedStr) or not isinstance(child, ast.AST):
                continue
            yield where, node, field, index
            yield from _places(child, where)


def _changes(node: ast.AST, field: str) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(left=left, ops=[op], comparators=right) if type(op) in SWAPS:
            yield ast.Compare(left, [SWAPS[type(op)]()], right)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in SWAPS:
            yield ast.BinOp(left, SWAPS[type(op)](), right)
        case ast.AugAssign(target=target, op=op, value=value) if type(op) in SWAPS:
            yield ast.AugAssign(target, SWAPS[type(op)](), value)
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(SWAPS[type(op)](), values)
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert(), operand=operand):
            yield operand
        case ast.IfExp(test=test, body=body, orelse=other):
            yield ast.IfExp(test, other, body)
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield ast.Constant(value + 1)
        case ast.Name(id=name) | ast.Attribute(attr=name) if field == "func" and name in NAMES:
            swapped = copy.copy(node)
            setattr(swapped, "id" if isinstance(node, ast.Name) else "attr", NAMES[name])
            yield swapped
        case ast.Return(value=value) if value is not None:
            yield ast.Return(ast.Constant(None))
        case ast.Raise() | ast.AugAssign() | ast.Expr(value=ast.Call() | ast.Yield() | ast.YieldFrom()):
            yield ast.Pass()
        case ast.Assign(targets=[ast.Subscript() | ast.Attribute()]):
            yield ast.Pass()


def _get(parent: ast.AST, field: str, index: int | None) -> ast.AST:
    value = getattr(parent, field)
    return value if index is None else value[index]


def _set(parent: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


def _line(node: ast.AST) -> str:
    return " ".join(ast.unparse(ast.fix_missing_locations(node)).split())


class Changed(importlib.machinery.SourceFileLoader):
    """Finds one module, changed; the others are found as always."""

    def __init__(self, name: str, path: Path, tree: ast.Module) -> None:
        super().__init__(name, str(path))
        self.tree = tree

    def get_code(self, fullname: str):  # type: ignore[no-untyped-def]
        return compile(self.tree, self.path, "exec")

    def find_spec(self, fullname: str, path: object = None, target: object = None):  # type: ignore[no-untyped-def]
        return importlib.util.spec_from_file_location(fullname, self.path, loader=self) if fullname == self.name else None


def noticed(module: str, tree: ast.Module, tests: list[str], longest: float = LONGEST) -> str:
    """`killed`, `late` (killed for its time) or `survived`, by the tests in a process of its own."""
    child = os.fork()
    if child == 0:
        _judge(module, tree, tests)
    end = time.monotonic() + longest
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return "survived" if os.waitstatus_to_exitcode(status) == 0 else "killed"
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "late"


def _judge(module: str, tree: ast.Module, tests: list[str]) -> None:
    import pytest

    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1), os.dup2(quiet, 2)
    sys.meta_path.insert(0, Changed(f"headgate.{module}", source(module), tree))  # type: ignore[arg-type]
    code = 2
    try:
        code = pytest.main(
            ["-x", "--no-header", "-Wignore::pytest.PytestAssertRewriteWarning", f"--hypothesis-profile={EXAMPLES}", *tests]
        )
    finally:
        os._exit(int(code))


def source(module: str) -> Path:
    return ROOT / "src" / "headgate" / f"{module.replace('.', '/')}.py"


def tried(module: str, tests: list[str], sample: int) -> dict[str, object]:
    """How many mutants a module has, how many were tried, and which survived."""
    tree, begun = ast.parse(source(module).read_text("utf-8")), time.monotonic()
    if noticed(module, tree, tests) != "survived":
        sys.exit(f"{module}: its tests fail or take too long without any change")
    every, longest = mutants(tree), 10 + 3 * (time.monotonic() - begun)
    chosen = every if not sample else random.Random(0).sample(every, min(sample, len(every)))
    results = {each.name: noticed(module, each.tree, tests, longest) for each in chosen}
    survived = sorted(name for name, result in results.items() if result == "survived")
    late = sum(result == "late" for result in results.values())
    print(
        f"{module}: {len(chosen)} of {len(every)} tried, {len(survived)} survived; {time.monotonic() - begun:.0f} s", flush=True
    )
    for name in survived:
        print(f"  {name}", flush=True)
    return {"mutants": len(every), "tried": len(chosen), "late": late, "survived": survived}


def page(results: dict[str, Any], judges: dict[str, Any]) -> str:
    rows, lines = [], []
    for module in judges:
        if (own := results.get(module)) is None:
            rows.append(f"| {module} | not tried yet | | | | |")
            continue
        counts = own["mutants"], own["tried"], own["tried"] - len(own["survived"]), own["late"], len(own["survived"])
        rows.append(f"| {module} | {' | '.join(map(str, counts))} |")
        for name in own["survived"]:
            answer = judges[module].get("answers", {}).get(name, UNANSWERED)
            lines.append(f"| {module} | `{name.replace('|', chr(92) + '|')}` | {answer} |")
    return PAGE_TEXT.format(rows="\n".join(rows), survived="\n".join(lines))


def _results() -> dict[str, Any]:
    return json.loads(RESULTS.read_text("utf-8")) if RESULTS.is_file() else {}


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--sample", type=int, default=40, help="mutants of each file at most; 0: all")
    asked.add_argument("--only", default="", help="files whose name holds this")
    asked.add_argument("--page", action="store_true", help="try nothing, only write the page")
    told = asked.parse_args()
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT / "src"))
    for name in PRELOADED:
        importlib.import_module(name)
    judges = tomllib.loads(ANSWERS.read_text("utf-8"))
    for module in judges:
        if told.only in module and not told.page:
            own = tried(module, judges[module]["tests"], told.sample)
            results = {**_results(), module: own}
            ordered = {name: results[name] for name in judges if name in results}
            RESULTS.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", "utf-8")
    PAGE.write_text(text := page(_results(), judges), "utf-8")
    if open_ := text.count(UNANSWERED):
        sys.exit(f"{open_} mutants survived and are not answered in {ANSWERS.name}")


PAGE_TEXT = """# Mutants

`make mutants` changes the code that handles money, one small change at a time, and runs the tests of the changed file.
A change that no test notices is a mutant that survived: a gap in the tests, or a change that changes nothing.
The gaps found so are closed by tests. The answers to the others are in `tools/mutants.toml`.
Where a file has many mutants, a sample with a fixed seed is tried.

| module | mutants | tried | noticed | of these by time | survived |
|---|---|---|---|---|---|
{rows}

Those that survived, and why that is in order:

| module | mutant | why |
|---|---|---|
{survived}
"""

if __name__ == "__main__":
    main()
