import sys

import pytest
from flwr.app import Context, RecordDict
from grids import FakeGrid

from headgate import flower
from headgate.errors import SettingError
from headgate.experiment import load
from headgate.learning.datasets import load_dataset


@pytest.mark.parametrize(
    "setting",
    [
        "training={shift=1}",
        "data={concepts=['same', 'rotated'], changes={kind='sudden', rounds=[3]}}",
        "data={partition='iid', stream={kind='markov', mixing=4, passing=3}}",
    ],
)
def test_what_only_the_simulator_does_is_refused(setting):
    pytest.importorskip("torch", reason="needs PyTorch: pip install 'headgate[sim]'")
    from headgate.flower.recipe import RecipeTask

    with pytest.raises(
        SettingError,
        match=(
            r"(shift|changes|passing): the simulator alone does that; leave it out on"
            r" Flower$"
        ),
    ):
        RecipeTask(load("digits", [setting]), load_dataset("digits"))


def test_what_is_not_installed_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "headgate.flower.recipe", raising=False)
    with pytest.raises(
        SettingError,
        match=(
            r"headgate\.flower\.recipe_client: needs torch: pip install"
            r" 'headgate\[sim\]'"
        ),
    ):
        _ = flower.recipe_client


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({}, "run config out: must name the run"),
        ({"out": "x", "norm-multiple": -1.0}, r"discipline\.norm_multiple = -1"),
    ],
)
def test_a_server_says_what_is_missing_or_wrong_in_the_config_of_its_run(config, named):
    context = Context(
        run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config=config
    )
    with pytest.raises(SettingError, match=named):
        flower.recipe_server("digits", ['run.policies=["headgate"]', "run.seeds=1"])(
            FakeGrid({}), context
        )
