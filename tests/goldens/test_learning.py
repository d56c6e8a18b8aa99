"""Learning: the tables that recipes write, and parameters after two rounds by every executor that fits."""

import pytest

from . import make

FRAMES, PARAMETERS = make.kept("frames"), make.kept("parameters")
NETWORKS = make.networks()


def tolerance(column):
    """What is learned is computed in other ways by other executors and processors; money and counts are not."""
    return 1e-6 if "accuracy" in column or "loss" in column else 1e-11


@pytest.mark.parametrize("recipe", make.RECIPES)
def test_tables_are_as_they_were(recipe):
    assert make.differing(make.frames(recipe), FRAMES[recipe], tolerance) == {}


@pytest.mark.parametrize(("network", "executor"), [(name, each) for name, (fit, _) in NETWORKS.items() for each in fit])
def test_parameters_are_as_they_were(network, executor):
    assert make.differing(make.parameters(network, executor), PARAMETERS[network], lambda path: 1e-9) == {}


def test_all_that_is_kept_is_compared():
    assert (list(FRAMES), list(PARAMETERS)) == (list(make.RECIPES), list(NETWORKS))
