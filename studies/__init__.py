"""What was measured with headgate, run from a checkout by `python -m studies`: the
paper, its theory, other policies.
"""

import tomllib
from pathlib import Path
from typing import Any

HOME = Path(__file__).parent


def recipe(name: str) -> str:
    """Return the file of a study's recipe, as in "better/mnist"; another name or path
    is returned as it is.
    """
    path = HOME / "recipes" / f"{name}.toml"
    return str(path) if path.is_file() else name


def study_table(recipe: str) -> dict[str, Any]:
    """Return the table [study] of a recipe: what a study says of it beside the
    experiment.
    """
    return dict(tomllib.loads(Path(recipe).read_text("utf-8")).get("study", {}))
