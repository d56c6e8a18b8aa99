"""What a mutant is: a module with one change."""

import ast
import copy
from collections.abc import Iterator
from typing import NamedTuple

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
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
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
        case ast.Constant(value=int(value) | float(value)) if value + 1 != value:
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
