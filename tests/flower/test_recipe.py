import pytest

from headgate.errors import SettingError
from headgate.experiment import load
from headgate.learning.datasets import load_dataset

pytest.importorskip("flwr", reason="needs Flower: pip install 'headgate[flower]'")


@pytest.mark.parametrize(
    ("setting", "named"), [("training.average=8", r"training.average = 8"), ("training.shift=1", r"training.shift = 1")]
)
def test_help_that_only_the_simulator_gives_is_refused(setting, named):
    from headgate.flower.recipe import RecipeTask

    with pytest.raises(SettingError, match=named):
        RecipeTask(load("digits", [setting]), load_dataset("digits"))
    RecipeTask(load("digits"), load_dataset("digits"))
