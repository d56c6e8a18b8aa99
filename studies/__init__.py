"""What was measured with headgate: the paper and its claims, its theory, and other policies beside the paper's.

Run from a checkout: `python -m studies --help`.
"""

from pathlib import Path

HOME = Path(__file__).parent


def recipe(name: str) -> str:
    """Return the file of a study's recipe, as in "better/mnist"; another name or path is returned as it is."""
    path = HOME / "recipes" / f"{name}.toml"
    return str(path) if path.is_file() else name
