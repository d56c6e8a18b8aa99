"""Pages that are made of the code when the site is built: commands from the command
line, keys from the classes behind them.

`{commands}` is every command with its arguments and options. `{kinds} policy` is every
kind that fills a slot, with its settings. `{keys} module:Class` is the table of one
section of a recipe.
"""

import inspect
import re
from dataclasses import MISSING, fields
from importlib import import_module
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from docutils import nodes
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

WORDS = {
    int: "whole number",
    float: "number",
    str: "text",
    bool: "true or false",
    type(None): "",
}
SLOTS = {
    "policy": "headgate.registry:POLICY",
    "rule": "headgate.registry:RETENTION",
    "selection": "headgate.registry:SELECTION",
    "prices": "headgate.registry:PRICES",
    "data": "headgate.learning.data:DATA",
    "partition": "headgate.learning.partition:PARTITION",
    "stream": "headgate.learning.streams:STREAM",
    "concept": "headgate.learning.concepts:CONCEPT",
    "change": "headgate.learning.concepts:CHANGES",
    "model": "headgate.learning.models:MODEL",
    "server": "headgate.learning.server:SERVER",
}


def named(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def words(hint: Any) -> str:
    """A type as a user would say it."""
    origin, args = get_origin(hint), get_args(hint)
    if hint in WORDS:
        return WORDS[hint]
    if origin is Literal:
        return ", ".join(
            f"`{each!r}`" if not isinstance(each, str) else f'`"{each}"`'
            for each in args
        )
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(filter(None, map(words, args))))
    if origin is tuple:
        return f"list of {words(args[0])}s".replace("texts", "names").replace(
            "falses", "false"
        )
    if origin is np.ndarray:
        return "list"
    return "section"


def default(own: Any) -> str:
    if own.default is MISSING and own.default_factory is MISSING:
        return "needed"
    value = own.default if own.default is not MISSING else own.default_factory()
    if value is None:
        return "worked out, or none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, str):
        return f'`"{value}"`'
    if isinstance(value, tuple):
        return f"`{list(value)}`".replace("'", '"')
    return (
        f"`{value}`"
        if isinstance(value, int | float)
        else f"`{type(value).__name__}()`"
    )


def described(kind: type) -> dict[str, str]:
    """Return the descriptions in the Parameters section of a class docstring, by the
    names of the fields.
    """
    section = re.search(
        r"^Parameters\n-+\n(.*?)(?=^\w[\w ]*\n-+$|\Z)",
        inspect.cleandoc(vars(kind).get("__doc__") or ""),
        re.DOTALL | re.MULTILINE,
    )
    found = {}
    entries = re.findall(
        r"^(\w.*)\n((?: .*\n?|\n)*)", section[1] if section else "", re.M
    )
    for names, text in entries:
        for name in names.partition(" :")[0].split(","):
            found[name.strip()] = " ".join(text.split())
    return found


def below(kind: type) -> dict[str, str]:
    """Return the strings below the fields of a class, by the names of the fields."""
    documented = ModuleAnalyzer.for_module(kind.__module__).find_attr_docs()
    return {
        name: " ".join(lines).strip()
        for (owner, name), lines in documented.items()
        if owner == kind.__qualname__
    }


def meaning(kind: type, name: str) -> str:
    """Return the description of a field, in its class or in one above it."""
    for each in kind.__mro__:
        if not each.__module__.startswith("headgate"):
            continue
        said = described(each).get(name) or below(each).get(name)
        if said:
            return said.replace("|", "\\|")
    return ""


def keys(kind: type) -> list[str]:
    hints = get_type_hints(kind)
    own = [
        each
        for each in fields(kind)
        if each.init and each.metadata.get("setting", True)
    ]
    if not own:
        return ["No settings.", ""]
    said = [meaning(kind, each.name) for each in own]
    rows = [
        f"| `{each.name}` | {words(hints[each.name])} | {default(each)} |"
        for each in own
    ]
    if not any(said):
        return ["| key | takes | if left out |", "|---|---|---|", *rows, ""]
    return [
        "| key | takes | if left out | |",
        "|---|---|---|---|",
        *map("{} {} |".format, rows, said),
        "",
    ]


def prose(kind: type) -> str:
    """Return the paragraphs of a docstring before its first section or doctest."""
    text = inspect.cleandoc(kind.__doc__ or "")
    said = re.split(r"\n>>>|^\w[\w ]*\n-+$", text, maxsplit=1, flags=re.MULTILINE)[0]
    return "\n\n".join(" ".join(each.split()) for each in said.split("\n\n")).strip()


def names(directive: str, argument: str) -> list[str]:
    """Return the names that a directive explains; a page lists them in it, for those
    who read it unbuilt.
    """
    if directive == "kinds":
        return list(named(SLOTS[argument]).kinds)
    own = fields(named(argument))
    return [
        each.name for each in own if each.init and each.metadata.get("setting", True)
    ]


class FromTheCode(SphinxDirective):
    required_arguments = 0
    optional_arguments = 1
    has_content = True  # for those who read the page unbuilt

    def text(self) -> list[str]:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(__file__)
        return self.parse_text_to_nodes(
            "\n".join(self.text()), allow_section_headings=True
        )


class Kinds(FromTheCode):
    def text(self) -> list[str]:
        lines = []
        for name, kind in named(SLOTS[self.arguments[0]]).kinds.items():
            lines += [f"### `{name}`", "", prose(kind), "", *keys(kind)]
        return lines


class Keys(FromTheCode):
    def text(self) -> list[str]:
        return keys(named(self.arguments[0]))


class Commands(FromTheCode):
    def text(self) -> list[str]:
        import click
        import typer.main

        from headgate.cli.commands import app

        lines: list[str] = []

        def walk(command: click.Command, path: str) -> None:
            with click.Context(command, info_name=path.split()[-1]) as context:
                taken = [
                    each.make_metavar(context)
                    for each in command.params
                    if isinstance(each, click.Argument)
                ]
                lines.extend(
                    [
                        f"## `{path}`",
                        "",
                        (
                            prose(command.callback)
                            if command.callback
                            else command.help or ""
                        ),
                        "",
                    ]
                )
                if not isinstance(command, click.Group):
                    lines.extend(
                        ["```text", " ".join([path, "[OPTIONS]", *taken]), "```", ""]
                    )
                    records = [
                        each.get_help_record(context)
                        for each in command.params
                        if isinstance(each, click.Option)
                    ]
                    rows = [
                        row
                        for row in records
                        if row and not row[0].startswith("--help")
                    ]
                    if rows:
                        lines.extend(["| option | |", "|---|---|"])
                        lines.extend(
                            f"| `{cell(name)}` | {cell(text)} |" for name, text in rows
                        )
                        lines.append("")
                    return
                for name in command.list_commands(context):
                    walk(command.get_command(context, name), f"{path} {name}")

        walk(typer.main.get_command(app), "headgate")
        return lines


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def setup(app):
    for name, directive in (("commands", Commands), ("kinds", Kinds), ("keys", Keys)):
        app.add_directive(name, directive)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
