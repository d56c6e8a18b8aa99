"""Experiments: objects that are the truth, and the recipes they are read from and written as."""

from headgate.experiment.build import build, load, named_outside, sweep_points
from headgate.experiment.experiment import Experiment
from headgate.experiment.recipes import recipe_names, recipe_text
from headgate.experiment.sections import Training
