"""Experiments, and the recipes from which they are read and as which they are
written.
"""

from headgate.experiment.build import build, load, named_outside, sweep_points
from headgate.experiment.experiment import Experiment
from headgate.experiment.recipes import recipe_names, recipe_text
from headgate.experiment.sections import Training

__all__ = [
    "Experiment",
    "Training",
    "build",
    "load",
    "named_outside",
    "recipe_names",
    "recipe_text",
    "sweep_points",
]
