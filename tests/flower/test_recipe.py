import sys

import pytest

from headgate import flower
from headgate.errors import SettingError
from headgate.experiment import load
from headgate.learning.datasets import load_dataset

pytest.importorskip("flwr", reason="needs Flower: pip install 'headgate[flower]'")


def test_help_that_only_the_simulator_gives_is_refused():
    pytest.importorskip("torch", reason="needs PyTorch: pip install 'headgate[sim]'")
    from headgate.flower.recipe import RecipeTask

    with pytest.raises(SettingError, match=r"training.shift = 1"):
        RecipeTask(load("digits", ["training.shift=1"]), load_dataset("digits"))
    RecipeTask(load("digits"), load_dataset("digits"))


def test_an_objective_that_clients_remember_something_for_is_refused():
    pytest.importorskip("torch", reason="needs PyTorch: pip install 'headgate[sim]'")
    from headgate.flower.recipe import RecipeTask

    with pytest.raises(
        SettingError, match=r"^objective.kind = scaffold: the simulator alone does that; leave it out on Flower$"
    ):
        RecipeTask(load("digits", ["objective.kind=scaffold"]), load_dataset("digits"))


def test_what_is_not_installed_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "headgate.flower.recipe", raising=False)
    with pytest.raises(SettingError, match=r"headgate\.flower\.recipe_client: needs torch: pip install 'headgate\[sim\]'"):
        _ = flower.recipe_client
