"""What stands under the fields of a class, shown by `help()` as well. Sources are read when somebody asks, not before."""

import ast
import inspect
import textwrap
from typing import Any, TypeVar

TITLE = "Fields:"
"""after it come the fields, to the end of the docstring"""
Kind = TypeVar("Kind", bound=type)


def fields_in_help(kind: Kind) -> Kind:
    """The docstring of a class goes on with its fields and the words under each.

    Not for abstract classes: `help()` of Python 3.11 looks past their descriptors.
    """
    kind.__doc__ = _WithFields(kind.__doc__ or "")  # type: ignore[assignment]  # Python takes any descriptor there
    return kind


def field_docs(kind: type) -> dict[str, str]:
    """The words under each field, those of the classes above it first; nothing where there is no source.

    >>> from headgate.control.types import AdmissionRequest
    >>> field_docs(AdmissionRequest)["total"]
    "Λ(t), (R,), shared among the clients by the policy's shares"
    """
    said: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if each.__module__.startswith("headgate."):
            said |= _own(each)
    return said


class _WithFields:
    """A docstring that is made when it is asked for."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __get__(self, _: Any, kind: type) -> str:
        said = field_docs(kind)
        lines = [f"    {name}: {words}" if words else f"    {name}" for name, words in said.items()]
        return "\n".join([inspect.cleandoc(self.text), "", TITLE, *lines]) if lines else self.text


def _own(kind: type) -> dict[str, str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    except (OSError, TypeError, SyntaxError):  # no source, as in a frozen program
        return {}
    said: dict[str, str] = {}
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    for one, after in zip(body, [*body[1:], None], strict=True):
        if (
            isinstance(one, ast.AnnAssign)
            and isinstance(one.target, ast.Name)
            and "ClassVar" not in ast.unparse(one.annotation)
        ):
            under = after.value if isinstance(after, ast.Expr) else None
            words = under.value if isinstance(under, ast.Constant) and isinstance(under.value, str) else ""
            said[one.target.id] = " ".join(words.split())
    return said
