"""Imports go downward only, and the control core needs numpy alone."""

import ast
from pathlib import Path

import headgate

SOURCE = Path(headgate.__file__).parent
FLOOR = {
    "errors": 0, "escaping": 0, "limits": 0, "reading": 0, "writing": 0, "theory": 0,
    "control": 1, "registry": 1, "learning": 2, "experiment": 2, "records": 2,
    "books": 2, "simulation": 3, "kernels": 3, "flower": 3, "nvflare": 3, "testing": 3,
    "progress": 3, "analysis": 4, "web": 5, "api": 5, "cli": 6,
}  # fmt: skip
SIBLINGS = {
    ("simulation", "flower"),
    ("flower", "simulation"),
    ("nvflare", "flower"),
    ("flower", "nvflare"),
}


def imported_names(path):
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += (
            [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        )
        if isinstance(node, ast.ImportFrom) and node.module == "headgate":
            names += [f"headgate.{alias.name}" for alias in node.names]
        yield from (name.split(".") for name in names)


def test_imports_go_downward_only_and_never_to_a_study():
    seen = 0
    for path in SOURCE.rglob("*.py"):
        own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        names = list(imported_names(path))
        assert "studies" not in {parts[0] for parts in names}, path.name
        if (
            own == "__init__" or "template" in path.parts
        ):  # a template becomes an app of the user's, which may import all
            continue
        for other in (
            parts[1]
            for parts in names
            if parts[0] == "headgate" and parts[1:2] and parts[1] in FLOOR
        ):
            seen += 1
            assert FLOOR[other] <= FLOOR[own], (
                f"{path.name} on floor {own} imports {other}"
            )
            assert (own, other) not in SIBLINGS
            assert other != "kernels" or own == "kernels", (
                f"{path.name} imports kernels, which come in by entry point"
            )
    assert seen > 50


def test_theory_never_imports_control_and_control_needs_numpy_alone(python):
    blocked = [
        "pydantic",
        "typer",
        "rich",
        "polars",
        "matplotlib",
        "torch",
        "sklearn",
        "flwr",
        "starlette",
        "plotly",
        "scipy",
    ]
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({blocked!r}))\n"
        "import headgate.theory.comparison, headgate.theory.bound\n"
        "assert not any(name.startswith('headgate.control') for name in"
        " sys.modules)\n"
        "import headgate.control.policies, headgate.control.prices.processes,"
        " headgate.control.rehearse\n"
        "import headgate.control.files, headgate.testing\n"
    )
    python("-c", code)
