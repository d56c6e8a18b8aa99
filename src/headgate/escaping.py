"""Escaping of text and values from outside, with one function for each place in which
they are shown.

For HTML there is `html.escape`; the page puts text into nodes, never into markup.
"""

import json
import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any
from unicodedata import category

LONGEST = 80
"""the most characters of a value in a message"""
LINE = 500
"""the most characters of a message"""
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Unicode categories of control characters, of those that change the direction of
writing, and of invisible ones
"""


def printable(text: str) -> str:
    """Escape control and invisible characters for a terminal or a file.

    >>> printable("a\\x1b[31mb\\n")
    'a\\\\x1b[31mb\\\\n'
    """
    if text.isprintable():
        return text
    return "".join(
        c.encode("unicode_escape").decode("ascii") if category(c) in _UNSEEN else c
        for c in text
    )


def one_line(text: object, most: int = LINE) -> str:
    """Put a text on one line for a message, and cut it after `most` characters."""
    line = printable(" ".join(str(text).split()))
    return line if len(line) <= most else f"{line[: most - 3]}..."


def shown(value: Any, most: int = LONGEST) -> str:
    """Return a value as short text for a message, whatever its type and size.

    >>> shown(10**6000), shown("x" * 200, 10)
    ('a whole number of about 6000 digits', 'xxxxxxx...')
    >>> shown([1] * 10**6)
    '[1, 1, 1, 1, 1, 1, 1, 1, ...]'
    """
    return one_line(_brief(value, 0), most)


def _brief(value: Any, depth: int) -> Any:
    if (
        isinstance(value, int)
        and not isinstance(value, bool)
        and abs(value).bit_length() > 1000
    ):
        return f"a whole number of about {round(value.bit_length() * 0.30103)} digits"
    if isinstance(value, str | bytes):
        return value[: 4 * LINE] if depth == 0 else repr(value[:LONGEST])
    if not isinstance(value, list | tuple | dict):
        return value
    if depth > 3:
        return "..."
    more = ["..."] if len(value) > 8 else []
    if isinstance(value, dict):
        parts = [
            f"{_brief(key, 1)}: {_brief(each, depth + 1)}"
            for key, each in islice(value.items(), 8)
        ]
        return f"{{{', '.join(parts + more)}}}"
    return f"[{', '.join([str(_brief(each, depth + 1)) for each in value[:8]] + more)}]"


def markup(text: str) -> str:
    """Escape text for rich, so that nothing in it is markup.

    One backslash at the end is doubled, so that it escapes no markup that follows.

    >>> markup("a[/b]")
    'a\\\\[/b]'
    """
    from rich.markup import escape

    return escape(printable(text))


def cell(text: str) -> str:
    """Escape a cell of a CSV file: put an apostrophe before text that a spreadsheet
    would read as a formula.

    >>> cell("=1+1"), cell("a"), cell("-3.5")
    ("'=1+1", 'a', '-3.5')
    """
    escaped = printable(text)
    return (
        f"'{escaped}"
        if escaped.startswith(("=", "+", "-", "@")) and not _NUMBER.fullmatch(escaped)
        else escaped
    )


_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]inf|[+-]nan")


def code(text: str) -> str:
    """Return a name as code in Markdown, with nothing in it read as markup.

    >>> code("a`b")
    "`a'b`"
    """
    return f"`{printable(text).replace('`', chr(39))}`"


def json_text(text: str) -> str:
    """Escape JSON for a terminal: write control characters that JSON allows in the way
    in which it escapes others.
    """
    seen = (each == "\n" or category(each) not in _UNSEEN for each in text)
    return "".join(
        each if fine else json.dumps(each)[1:-1]
        for each, fine in zip(text, seen, strict=True)
    )


def markdown(text: str) -> str:
    """Escape text for Markdown, with nothing in it read as markup.

    >>> markdown("a|b <i>")
    'a\\\\|b &lt;i&gt;'
    """
    escaped = (
        printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    )
    return re.sub(r"([\\\\`*_\[\]|$])", r"\\\1", escaped)


def exposition(
    help_: Mapping[str, str],
    samples: Mapping[str, Iterable[tuple[Mapping[str, str], float]]],
    kind: str = "gauge",
) -> str:
    """Return measurements in the text format of Prometheus, labels and value of each.

    >>> print(exposition({"held": "samples held"}, {"held": [({"run": "a"}, 3.0)]}))
    # HELP headgate_held samples held
    # TYPE headgate_held gauge
    headgate_held{run="a"} 3
    <BLANKLINE>
    """
    lines = []
    for name, text in help_.items():
        lines += [f"# HELP headgate_{name} {text}", f"# TYPE headgate_{name} {kind}"]
        for labels, value in samples.get(name, ()):
            pairs = [f'{own}="{_of_label(each)}"' for own, each in labels.items()]
            where = f"{{{','.join(pairs)}}}" if pairs else ""
            lines.append(f"headgate_{name}{where} {value:.15g}")
    return "\n".join(lines) + "\n"


def _of_label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
