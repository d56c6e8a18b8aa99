"""Flower apps that are ready to run, written from the files in `template/` and a
recipe.
"""

__all__ = ["write"]
