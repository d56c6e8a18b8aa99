"""Changes the code that handles money, one small change at a time, and asks the tests whether they notice.

    python tools/mutants.py [--only apportion] [--sample 40] [--processes 2] [--afresh] [--page]

A mutant is a module with one change: a comparison moved by its edge, plus for minus, a constant one higher, `and` for `or`,
a condition turned round, the other of two names (least and most, any and all), nothing returned, a statement dropped. Each
lives in a forked process; no file is touched. A changed function is put in the place of the imported one and meets the tests
that run it, the quickest first. A change outside functions is imported anew and meets all tests of its module.
What was noticed is kept under build/ until its module changes, so a run that was stopped goes on. Those that no test notices
are tried again each time, and are to be answered in mutants.toml. The outcomes go to mutants.json in
docs/understand, and mutants.md beside it is made of both.
"""

import argparse
import ast
import gc
import hashlib
import importlib.machinery
import importlib.util
import inspect
import json
import os
import random
import resource
import signal
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from mutating import Mutant, mutants

ROOT = Path(__file__).parent.parent
ANSWERS, DOCS = ROOT / "tools" / "mutants.toml", ROOT / "docs" / "understand"
RESULTS, PAGE = DOCS / "mutants.json", DOCS / "mutants.md"
KEPT = ROOT / "build" / "mutants"
UNANSWERED = "not answered yet"
PRELOADED = ("numpy", "polars", "pydantic", "pytest", "flwr.clientapp", "flwr.serverapp")
"""imported once for all forks"""
EXAMPLES = "mutants"
"""the profile of Hypothesis in tests/conftest.py: few examples, none made smaller"""
QUIET = ["--no-header", "-Wignore::pytest.PytestAssertRewriteWarning", f"--hypothesis-profile={EXAMPLES}"]
LONGEST = 1800.0
"""seconds by the clock after which a mutant is given up; what it may compute is measured by its tests without a change"""


class Changed(importlib.machinery.SourceFileLoader):
    """Finds one module, changed; the others are found as always."""

    def __init__(self, name: str, path: Path, tree: ast.Module) -> None:
        super().__init__(name, str(path))
        self.tree = tree

    def get_code(self, fullname: str):  # type: ignore[no-untyped-def]
        return compile(self.tree, self.path, "exec")

    def find_spec(self, fullname: str, path: object = None, target: object = None):  # type: ignore[no-untyped-def]
        return importlib.util.spec_from_file_location(fullname, self.path, loader=self) if fullname == self.name else None


class Watching:
    """Of each test the functions of one file that it ran, and the seconds it took."""

    def __init__(self, module: str, path: Path) -> None:
        self.path, self.ran = str(path), dict[str, tuple[float, list[str]]]()
        own = vars(importlib.import_module(f"headgate.{module}")).values()
        self.caches = [each for each in own if hasattr(each, "cache_clear")]

    def pytest_runtest_protocol(self, item: Any) -> None:
        for each in self.caches:  # else only the first test that asks would count
            each.cache_clear()
        self.test, self.begun, self.seen = item.nodeid, time.monotonic(), set[str]()
        threading.settrace(self._called)
        sys.settrace(self._called)

    def _called(self, frame: Any, event: str, argument: object) -> None:
        if frame.f_code.co_filename == self.path:
            self.seen.add(_plain(frame.f_code))

    def pytest_runtest_logfinish(self) -> None:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        self.ran[self.test] = time.monotonic() - self.begun, sorted(self.seen)


class Chosen:
    """Some of the tests, in this order."""

    def __init__(self, tests: list[str]) -> None:
        self.order = {test: place for place, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = sorted((item for item in items if item.nodeid in self.order), key=lambda item: self.order[item.nodeid])


def _plain(code: CodeType) -> str:
    """A function's name as mutants have it."""
    return code.co_qualname.replace("<locals>.", "")


def _codes(code: CodeType) -> Iterator[CodeType]:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield inner
            yield from _codes(inner)


def _functions(tree: ast.Module, path: Path) -> dict[tuple[str, int], CodeType]:
    """By name and line, since a name may come twice."""
    every = _codes(compile(tree, str(path), "exec"))
    return {(_plain(code), code.co_firstlineno): code for code in every if code.co_flags & inspect.CO_OPTIMIZED}


def _exchange(tree: ast.Module, path: Path) -> None:
    """Put the functions of the tree in the place of the imported ones."""
    after = _functions(tree, path)
    gc.unfreeze()  # tests/conftest.py freezes what is imported, and what is frozen is not found
    for found in gc.get_objects():
        if type(found) is FunctionType and found.__code__.co_filename == str(path):
            found.__code__ = after[_plain(found.__code__), found.__code__.co_firstlineno]


def _import_anew(module: str, tree: ast.Module, path: Path) -> None:
    """Forget whatever may have taken something from the module; what is imported next is the changed one."""
    ours = tuple(str(ROOT / each) + os.sep for each in ("src", "tests"))
    for name, each in list(sys.modules.items()):
        if str(getattr(each, "__file__", None)).startswith(ours):
            del sys.modules[name]
    sys.meta_path.insert(0, Changed(f"headgate.{module}", path, tree))  # type: ignore[arg-type]


class Judge:
    """The tests of one module, imported once: each mutant meets them in a fork."""

    def __init__(self, module: str, tests: list[str]) -> None:
        import pytest

        self.module, self.tests, self.path, self.run = module, tests, source(module), pytest.main
        self.tree = ast.parse(self.path.read_text("utf-8"))
        self.functions = {name for name, _ in _functions(self.tree, self.path)}
        importlib.import_module(f"headgate.{module}")
        _silenced(lambda: self.run(["--collect-only", *QUIET, *tests]))
        self.ran, self.seconds = self._unchanged()

    def _unchanged(self) -> tuple[dict[str, tuple[float, list[str]]], float]:
        """What the tests run without a change, and the seconds of computing that takes."""
        reads, writes = os.pipe()

        def told() -> int:
            watching = Watching(self.module, self.path)
            code = self.run([*QUIET, *self.tests], plugins=[watching])
            with open(writes, "w") as pipe:
                json.dump(watching.ran, pipe)
            return int(code)

        child = _forked(told)
        os.close(writes)
        with open(reads) as pipe:
            said = pipe.read()
        _, status, used = os.wait4(child, 0)
        if status != 0:
            sys.exit(f"{self.module}: its tests fail without any change")
        return json.loads(said), used.ru_utime + used.ru_stime

    def meeting(self, name: str) -> list[str]:
        """The tests that a mutant meets, the quickest first."""
        where = name.split(":")[0]
        every = where not in self.functions
        return sorted(
            (test for test, (_, seen) in self.ran.items() if every or where in seen), key=lambda test: self.ran[test][0]
        )

    def fork(self, mutant: Mutant) -> int:
        longest = int(10 + 3 * self.seconds)

        def judged() -> int:
            resource.setrlimit(resource.RLIMIT_CPU, (longest, longest + 1))
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, LONGEST)
            if mutant.name.split(":")[0] in self.functions:
                _exchange(mutant.tree, self.path)
            else:
                _import_anew(self.module, mutant.tree, self.path)
            return int(self.run(["-x", *QUIET, *self.tests], plugins=[Chosen(self.meeting(mutant.name))]))

        return _forked(judged)

    def outcomes(self, chosen: list[Mutant], processes: int) -> Iterator[tuple[str, str]]:
        """Of each mutant `killed`, `late` (killed for its time) or `survived`, as they come."""
        waiting, running = [each for each in chosen if self.meeting(each.name)], dict[int, str]()
        yield from ((each.name, "survived") for each in chosen if not self.meeting(each.name))
        while waiting or running:
            while waiting and len(running) < processes:
                mutant = waiting.pop(0)
                running[self.fork(mutant)] = mutant.name
            child, status = os.wait()
            code = os.waitstatus_to_exitcode(status)
            late = code in (-signal.SIGXCPU, -signal.SIGKILL, -signal.SIGALRM)
            yield running.pop(child), "late" if late else "killed" if code else "survived"


def _forked(work: Callable[[], int]) -> int:
    """A process of its own that says nothing and ends with what `work` returns."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            code = _silenced(work)
        finally:
            os._exit(code)
    return child


def _silenced(work: Callable[[], int]) -> int:
    kept, quiet = [os.dup(each) for each in (1, 2)], os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1), os.dup2(quiet, 2)
    try:
        return work()
    finally:
        os.dup2(kept[0], 1), os.dup2(kept[1], 2)


def source(module: str) -> Path:
    return ROOT / "src" / "headgate" / f"{module.replace('.', '/')}.py"


def _code(tree: ast.Module) -> str:
    """Without what is there to be read."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            prose = [one for one in node.body if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)]
            node.body = [one for one in node.body if one not in prose] or [ast.Pass()]
    return ast.dump(tree)


class Kept:
    """The outcomes of a module's mutants so far, a line each, for as long as the module is the same."""

    def __init__(self, module: str, afresh: bool) -> None:
        digest = hashlib.sha256(_code(ast.parse(source(module).read_text("utf-8"))).encode()).hexdigest()[:16]
        self.path = KEPT / f"{module}.{digest}.jsonl"
        KEPT.mkdir(parents=True, exist_ok=True)
        if afresh:
            self.path.unlink(missing_ok=True)
        lines = self.path.read_text("utf-8").splitlines() if self.path.is_file() else []
        self.noticed = {name: result for name, result in map(json.loads, lines) if result != "survived"}

    def add(self, name: str, result: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([name, result], ensure_ascii=False) + "\n")


def tried(module: str, tests: list[str], sample: int, processes: int, afresh: bool = False) -> dict[str, object]:
    """How many mutants a module has, how many were tried, and which survived."""
    every, kept, begun = mutants(ast.parse(source(module).read_text("utf-8"))), Kept(module, afresh), time.monotonic()
    chosen = every if not sample else random.Random(0).sample(every, min(sample, len(every)))
    results = {each.name: kept.noticed.get(each.name, "") for each in chosen}
    if open_ := [each for each in chosen if not results[each.name]]:
        for name, result in Judge(module, tests).outcomes(open_, processes):
            kept.add(name, result)
            results[name] = result
            done, seconds = sum(map(bool, results.values())), time.monotonic() - begun
            print(f"{module} {done}/{len(chosen)} {seconds:.0f} s: {result} {name}", file=sys.stderr, flush=True)
    survived = sorted(name for name, result in results.items() if result == "survived")
    late = sum(result == "late" for result in results.values())
    print(f"{module}: {len(chosen)} of {len(every)} tried, {len(survived)} survived", flush=True)
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


def _apart(module: str, tests: list[str], told: argparse.Namespace) -> None:
    """In a process of its own, which imports the module and its tests."""
    child = os.fork()
    if child == 0:
        own = tried(module, tests, told.sample, told.processes, told.afresh)
        results = {**_results(), module: own}
        RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False, sort_keys=True) + "\n", "utf-8")
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit(1)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--sample", type=int, default=0, help="mutants of each file at most; 0: all")
    asked.add_argument("--only", default="", help="files whose name holds this")
    asked.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="mutants at a time")
    asked.add_argument("--afresh", action="store_true", help="try those again that were noticed before")
    asked.add_argument("--page", action="store_true", help="try nothing, only write the page")
    told = asked.parse_args()
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT / "src"))
    judges = tomllib.loads(ANSWERS.read_text("utf-8"))
    if not told.page:
        for name in PRELOADED:
            importlib.import_module(name)
        for module in judges:
            if told.only in module:
                _apart(module, judges[module]["tests"], told)
    PAGE.write_text(text := page(_results(), judges), "utf-8")
    if open_ := text.count(UNANSWERED):
        sys.exit(f"{open_} mutants survived and are not answered in {ANSWERS.name}")


PAGE_TEXT = """# Mutants

How well the tests guard the code that handles money.

`make mutants` changes the code that handles money, one small change at a time, and runs the tests of the changed file.
A change that no test notices is a mutant that survived: a gap in the tests, or a change that changes nothing.
The gaps found so are closed by tests. The answers to the others are in `tools/mutants.toml`.
Where fewer were tried than there are, nothing is known of the others.

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
