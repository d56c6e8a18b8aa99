"""A recipe on top of a shipped one."""

import pytest

from headgate.control.prices import UniformInteger
from headgate.errors import SettingError
from headgate.experiment import load, recipe_text


def on(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return load(str(path))


def test_what_is_not_said_is_that_of_the_base(tmp_path):
    e, below = on(tmp_path, 'base = "mnist"\n[run]\nrounds = 7\n[policies.mine]\nkind = "acdpp"\nV = 3.0\n'), load("mnist")
    assert (e.name, e.rounds, len(e.seeds)) == ("mine", 7, len(below.seeds))
    assert e.system.buffer.tolist() == below.system.buffer.tolist()
    assert list(e.policies) == list(below.policies)
    assert e.training == below.training


def test_a_table_of_another_kind_is_not_mixed_with_the_one_below(tmp_path):
    e = on(tmp_path, 'base = "mnist"\n[prices]\nkind = "constant"\nvalue = 2.0\n')
    assert e.prices.mean(10) == 2.0
    assert isinstance(on(tmp_path, 'base = "paper/mnist/released"\n[run]\nrounds = 9').prices, UniformInteger)


def test_a_base_may_have_a_base(tmp_path):
    assert load("paper/mnist/stated-rate-0.5").policies["acdpp"].K == 10


@pytest.mark.parametrize("base", ["nothing", "../recipes/mnist", "paper/../mnist", "/mnist", "paper", ""])
def test_a_base_must_be_a_shipped_recipe(tmp_path, base):
    with pytest.raises(SettingError, match="no such recipe"):
        on(tmp_path, f'base = "{base}"')
    with pytest.raises(SettingError, match="no such recipe"):
        recipe_text(base)
