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
    (tmp_path / "below.toml").write_text('base = "mnist"\n[prices]\nkind = "integer"\nlow = 1\nhigh = 10\n')
    assert isinstance(on(tmp_path, 'base = "below.toml"\n[run]\nrounds = 9').prices, UniformInteger)


def test_a_base_may_be_a_file_beside_it_with_a_base_of_its_own(tmp_path):
    (tmp_path / "below.toml").write_text('base = "mnist"\n[policies.acdpp]\nkind = "acdpp"\nK = 7\n')
    (tmp_path / "between.toml").write_text('base = "below.toml"\n[run]\nrounds = 9\n')
    e = on(tmp_path, 'base = "between.toml"\n[run]\nseeds = 2\n')
    assert (e.policies["acdpp"].K, e.rounds, len(e.seeds)) == (7, 9, 2)


@pytest.mark.parametrize("base", ["../below.toml", "/below.toml", "in/below.toml"])
def test_a_base_lies_in_the_same_folder(tmp_path, base):
    with pytest.raises(SettingError, match="a file in the same folder"):
        on(tmp_path, f'base = "{base}"')


def test_recipes_do_not_stand_on_themselves(tmp_path):
    with pytest.raises(SettingError, match="more than 8 recipes on top of each other"):
        on(tmp_path, 'base = "mine.toml"')


@pytest.mark.parametrize("base", ["nothing", "../recipes/mnist", "paper/../mnist", "/mnist", "paper", ""])
def test_a_base_must_be_a_shipped_recipe(tmp_path, base):
    with pytest.raises(SettingError, match="no such recipe"):
        on(tmp_path, f'base = "{base}"')
    with pytest.raises(SettingError, match="no such recipe"):
        recipe_text(base)
