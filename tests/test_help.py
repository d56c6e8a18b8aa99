"""`help()` is enough: what is offered says what it takes, gives and refuses."""

import ast
import inspect
import re
import textwrap
from dataclasses import fields, is_dataclass
from importlib import import_module
from itertools import pairwise

import pytest

OFFERED = (
    "headgate",
    "headgate.control",
    "headgate.testing",
    "headgate.flower",
    "headgate.nvflare",
)
HEADINGS = ("Parameters", "Attributes", "Returns", "Yields", "Raises")


def sections(text):
    """Return the sections of a numpydoc docstring by their headings."""
    lines = inspect.cleandoc(text or "").splitlines()
    found, heading = {}, None
    for line, below in pairwise([*lines, ""]):
        if line in HEADINGS and re.fullmatch("-+", below):
            heading = line
            found[heading] = []
        elif re.fullmatch(r"\w+( \w+)?", line) and re.fullmatch("-+", below):
            heading = None
        elif heading and not re.fullmatch("-+", line):
            found[heading].append(line)
    return found


def described(text, *headings):
    """Return the names that the sections describe."""
    names = set()
    for heading in headings:
        lines = sections(text).get(heading, [])
        for line, below in pairwise([*lines, ""]):
            if line[:1].strip() and below[:1] == " ":
                names.update(line.partition(" :")[0].replace("*", "").split(", "))
    return names


def raises(function):
    """Return whether the function itself raises an error."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return any(isinstance(node, ast.Raise) and node.exc for node in ast.walk(tree))


def missing_in_function(function, own=True):
    text = inspect.getdoc(function) or ""
    taken = list(inspect.signature(function).parameters.values())
    if not own:
        taken = taken[1:]
    names = {each.name for each in taken}
    left = sorted(names - described(text, "Parameters"))
    given = inspect.signature(function).return_annotation
    nothing = (None, "None", inspect.Signature.empty, "NoReturn", "Never")
    if given not in nothing and not {"Returns", "Yields"} & sections(text).keys():
        left.append("Returns")
    if raises(function) and "Raises" not in sections(text):
        left.append("Raises")
    return left


def fields_of(kind):
    """Return the names with which a class is made, or which its objects have."""
    if is_dataclass(kind):
        return {each.name for each in fields(kind) if not each.name.startswith("_")}
    if hasattr(kind, "_fields"):
        return set(kind._fields)
    if "__init__" in vars(kind):
        return set(inspect.signature(kind.__init__).parameters) - {"self"}
    return set()


def methods_of(kind):
    """Return the public methods that this class adds, and no override of a base's."""
    for name, member in vars(kind).items():
        function = getattr(member, "__func__", member)
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        inherited = any(name in vars(base) for base in kind.__mro__[1:])
        if not inherited:
            yield name, function, not isinstance(member, staticmethod)


def missing_in_class(kind):
    text = kind.__doc__ or ""
    left = sorted(fields_of(kind) - described(text, "Parameters", "Attributes"))
    for name, function, bound in methods_of(kind):
        left += [f"{name}: {each}" for each in missing_in_function(function, not bound)]
    return left


def offers():
    for module in OFFERED:
        for name in import_module(module).__all__:
            yield f"{module}.{name}"


@pytest.mark.parametrize("module", OFFERED)
def test_a_package_says_what_it_offers(module):
    loaded = import_module(module)
    assert len(set(loaded.__all__)) == len(loaded.__all__) > 2
    assert {*loaded.__all__} <= {*dir(loaded)}


def test_everything_that_is_offered_explains_itself():
    left = {}
    for path in offers():
        module, _, name = path.rpartition(".")
        offered = getattr(import_module(module), name)
        if inspect.isclass(offered):
            missing = missing_in_class(offered)
        elif inspect.isfunction(offered):
            missing = missing_in_function(offered)
        else:
            continue
        if missing:
            left[path] = missing
    assert left == {}


def test_everything_that_is_offered_has_an_example_or_inherits_a_reason():
    """Errors apart from their base say in their sentence when they are raised."""
    left = {}
    for path in offers():
        module, _, name = path.rpartition(".")
        offered = getattr(import_module(module), name)
        if not (inspect.isclass(offered) or inspect.isfunction(offered)):
            continue
        text = offered.__doc__ or ""
        above = [base.__doc__ or "" for base in getattr(offered, "__mro__", ())[1:]]
        inherited = (
            issubclass(offered, Exception) if inspect.isclass(offered) else False
        )
        if ">>> " not in text and not (
            inherited and any(">>> " in each for each in above)
        ):
            left[path] = text.splitlines()[:1]
    assert left == {}


def test_what_is_not_explained_is_found():
    def silent(first, second=1) -> int:
        """Return a number.

        Parameters
        ----------
        first : int
            The number.
        """
        if second:
            raise ValueError(second)
        return first

    assert missing_in_function(silent) == ["second", "Returns", "Raises"]
