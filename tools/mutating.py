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


class Place(NamedTuple):
    """Of a node in a tree: its parent, the parent's field, and the place in the field where that is a list."""

    parent: ast.AST
    field: str
    index: int | None

    @property
    def node(self) -> ast.AST:
        value = getattr(self.parent, self.field)
        return value if self.index is None else value[self.index]

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


class Mutant(NamedTuple):
    name: str
    """function: before → after"""
    module: ast.Module
    """as it is"""
    place: Place
    after: ast.AST

    @property
    def tree(self) -> ast.Module:
        """A copy of the module with the change."""
        before = self.place.node
        self.place.put(self.after)
        changed = copy.deepcopy(self.module)
        self.place.put(before)
        return ast.fix_missing_locations(changed)


def mutants(tree: ast.Module) -> list[Mutant]:
    """All of a module's, each with a name of its own."""
    found: list[Mutant] = []
    seen: dict[str, int] = {}
    for where, place in list(_places(tree, "module")):
        node = place.node
        shown = place.parent if isinstance(node, ast.Constant) or place.field == "func" else None  # alone they say little
        for after in _changes(node, place.field):
            before = _line(shown or node)
            place.put(after)
            name = f"{where}: {before} → {_line(shown or after)}"
            place.put(node)
            seen[name] = seen.get(name, 0) + 1
            again = f" (place {seen[name]})" if seen[name] > 1 else ""
            found.append(Mutant(name + again, tree, place, after))
    return found


def _places(node: ast.AST, where: str) -> Iterator[tuple[str, Place]]:
    """(function, place) of what may be changed: not types, decorators, messages or axes."""
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
            yield where, Place(node, field, index)
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


def _line(node: ast.AST) -> str:
    return " ".join(ast.unparse(ast.fix_missing_locations(node)).split())
