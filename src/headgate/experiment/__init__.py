"""Recipes: from TOML to frozen values. Nothing is guessed silently and no unknown key is ignored."""

from headgate.experiment.experiment import Experiment, build, load, sweep_points
from headgate.experiment.recipes import override, recipe_names, recipe_text

__all__ = ["Experiment", "build", "load", "override", "recipe_names", "recipe_text", "sweep_points"]
