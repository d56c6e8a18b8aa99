"""Count how much code there is to read, and how dense its lines are.

    python tools/density.py
        prints tokens, lines with code and tokens a line for each room of src/headgate,
        for all of them, and for src/headgate_kernels
    python tools/density.py FOLDER ...
        prints the same for other folders
    python tools/density.py --table
        prints the table of tests/test_house.py, with a tenth of air above each count

Tokens are names, operators, numbers and strings. Docstrings and comments are none.
"""

import argparse
import ast
import io
import tokenize
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parent.parent / "src" / "headgate"
KERNELS = SOURCE.with_name("headgate_kernels")
"""the package of executors that headgate loads by name"""
COUNTED = (tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING)
TOP = "top"
"""the room of the modules that lie beside the rooms"""
AIR = 1.1
WIDTH = 88


class Size(NamedTuple):
    """The size of some code.

    Parameters
    ----------
    tokens : int
        The number of tokens.
    code_lines : int
        The number of lines that have a token.
    wide : int
        The number of lines of more than `WIDTH` characters.
    """

    tokens: int = 0
    code_lines: int = 0
    wide: int = 0

    @property
    def density(self) -> float:
        """Tokens a line of code."""
        return self.tokens / max(self.code_lines, 1)


def documentation(text: str) -> set[int]:
    """Return the numbers of the lines of docstrings."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
            continue
        if isinstance(node.value.value, str):
            last = node.end_lineno or node.lineno
            lines.update(range(node.lineno, last + 1))
    return lines


def measure(path: Path) -> Size:
    """Return the size of one file."""
    text = path.read_text("utf-8")
    documented = documentation(text)
    found = [
        token.start[0]
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type in COUNTED and token.start[0] not in documented
    ]
    wide = sum(len(line) > WIDTH for line in text.splitlines())
    return Size(len(found), len(set(found)), wide)


def total(paths: Iterable[Path]) -> Size:
    """Return the size of several files together."""
    sizes = [measure(path) for path in paths]
    return Size(*map(sum, zip(*sizes, strict=True))) if sizes else Size()


def rooms(source: Path = SOURCE) -> dict[str, Size]:
    """Return the size of each room of the package: its folders, and `TOP`."""
    found = {TOP: total(source.glob("*.py"))}
    for folder in sorted(source.iterdir()):
        files = sorted(folder.rglob("*.py"))
        if files:
            found[folder.name] = total(files)
    return found


def show(name: str, size: Size) -> None:
    """Print a line of the table."""
    print(f"{name:16} {size.tokens:8,} {size.code_lines:7,} {size.density:6.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--table", action="store_true")
    words = parser.parse_args()
    if words.folders:
        found = {str(each): total(each.rglob("*.py")) for each in words.folders}
    else:
        found = rooms()
    if words.table:
        for name, size in sorted(found.items()):
            most = f"{round(size.tokens * AIR, -2):_.0f}"
            print(f'    "{name}": {most},')
        return

    for name, size in sorted(found.items()):
        show(name, size)
    show("all", Size(*map(sum, zip(*found.values(), strict=True))))
    if not words.folders:
        show(KERNELS.name, total(KERNELS.rglob("*.py")))


if __name__ == "__main__":
    main()
