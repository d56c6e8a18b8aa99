"""Flower apps ready to run: the files of `template/`, with a recipe beside them."""
