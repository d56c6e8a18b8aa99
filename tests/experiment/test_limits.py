"""Whatever a recipe or --set says is refused in one line, before memory or time is
taken, by docs/reference/recipes.md.
"""

import re
import time
from pathlib import Path

import pytest

from headgate import limits
from headgate.errors import HeadgateError, SettingError
from headgate.experiment import load
from headgate.experiment.build import sweep_points

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "recipes.md"
DIGITS, DEEP = "9" * 5000, "[" * 5000 + "]" * 5000
LENGTHS = 'prices={kind = "switches", levels = [1, 2], lengths = [1, %s]}'


def refused(ask) -> str:
    began = time.process_time()
    with pytest.raises(HeadgateError) as refusal:
        ask()
    said = str(refusal.value)
    assert (
        time.process_time() - began < 20
    )  # what is worked out first would take minutes
    assert "\n" not in said
    assert len(said) < 600
    return said


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("prices.kind=[1]", "prices.kind = [1]: no such price process"),
        ("data.partition=[1]", "data.partition = [1]: must be a partition"),
        (
            "policies.headgate.rule=[1]",
            "policies.headgate.rule = [1]: must be a retention rule",
        ),
        ("bound.sigma=1e200", "bound.sigma = 1e+200: must not be beyond 1e+15"),
        (
            "policies.constant.K=99999999999999999999999",
            "policies.constant.K = 99999999999999999999999: must be",
        ),
        (
            "policies.acdpp.capacity=1e15",
            "policies.acdpp.capacity = 1000000000000000: 10 runs of 10 clients",
        ),
        (
            "policies.acdpp.K=1e15",
            "policies.acdpp.K = 1000000000000000: must not be beyond 1,000,000",
        ),
        (
            "system.clients=1e15",
            "system.clients = 1000000000000000: at most 10,000,000",
        ),
        ("system.clients=1e300", "system.clients = 1e+300: must be"),
        (
            "system.clients=9_999_999",
            "system.clients = 9999999: 10 runs of so many clients take about",
        ),
        ("system.buffers=[1e10]", "system.buffers = [10000000000]: must not be beyond"),
        ("system.budget=1e16", "system.budget = 1e+16: must not be beyond"),
        ("system.budget=nan", "system.budget = nan: must be a finite number"),
        ("run.rounds=1e15", "run.rounds = 1000000000000000: at most 1,000,000"),
        ("run.horizon=1e15", "run.horizon = 1000000000000000: at most 1,000,000"),
        ("run.seeds=1e15", "run.seeds = 1000000000000000: at most 10,000"),
        ("run.first_seed=1e18", "run.first_seed = 1e+18: must be a number not beyond"),
        (f"system.clients={DIGITS}", "--set system.clients=99999"),
        (
            f"system.clients=0x{'f' * 5000}",
            "system.clients = a whole number of about 6021 digits",
        ),
        (f"system.buffers={DEEP}", "--set system.buffers=[[[["),
        (f"data.kind={'x' * 20_000}", "data.kind = xxx"),
        (f"{'a.' * 5000}b=1", "must look like section.key=value"),
        (
            LENGTHS % "2e8",
            "prices.lengths = 200000000: must be a whole number, 1 to 1,000,000",
        ),
        (LENGTHS % "2.5", "prices.lengths = [1, 2.5]: must be a whole number"),
        (
            f"prices={{kind = 'markov', levels = {[1.0] * 2000}, transition = [[1]]}}",
            "levels: 2,000 of them; at most 1,000",
        ),
        ("prices={kind = 'trace', prices = [1e300]}", "price 1e+300 in row 1"),
        ("policies={a = 1}", "policies.a = 1: must be a section"),
        (
            "policies.acdpp.bound=[1, 2]",
            "policies.acdpp.bound = [1, 2]: must be a section",
        ),
        ("polices.acdpp.K=3", "[polices]: unknown section; did you mean policies?"),
        ("policies.acdpp.rh=0.5", "policies.acdpp.rh: unknown key; did you mean rho?"),
        (
            "policies.acdpp.bound.pdm=3",
            "policies.acdpp.bound.pdm: unknown key; did you mean pdim?",
        ),
        (
            "policies.spare.kind=acdp",
            (
                "policies.spare.kind = acdp: no such policy; did you mean acdpp?, or"
                " module:Class"
            ),
        ),
        (
            'run.policies=["acdp"]',
            (
                "policy acdp: no section [policies.acdp] and no such kind; did you mean"
                " acdpp?"
            ),
        ),
        ("run.policies=[]", "run.policies = []"),
        ("system.budget=lots", "system.budget = lots"),
        ("system.clients=0", "system.clients = 0"),
        ("run.rounds=0", "run.rounds = 0"),
        ("run.rounds=true", "run.rounds = True"),
        ("run.seeds=0", "run.seeds = 0"),
        ("run.first_seed=-1", "run.first_seed = -1"),
        ("run.horizon=opn", "run.horizon = opn"),
        (
            "policies.acdpp.capacity=[1]",
            "policies.acdpp.capacity has 1 entries for 10 clients",
        ),
        ("policies.hybrid.stale=[11]", "there is no client 11"),
        ("budget=3", "must look like section.key=value, as in system.budget=3"),
        ("run.rounds.x=3", "rounds is not a section"),
        (
            "policies.headgate.rule=resevoir",
            "rule.kind = resevoir: no such retention rule; did you mean reservoir?",
        ),
        (
            "policies.headgate.rule=3",
            (
                "headgate.rule = 3: must be a retention rule: its kind, or a section"
                " with `kind`"
            ),
        ),
        (
            "policies.headgate.rule={kind='reservoir', K=3}",
            "policies.headgate.rule.K: unknown key",
        ),
        (
            "policies.headgate.rule={kind='reservoir', capacity=0}",
            "headgate.rule.capacity = 0: every client needs room",
        ),
        (
            "policies.headgate.rule={kind='kstep'}",
            "policies.headgate.rule.K: is missing",
        ),
    ],
    ids=lambda value: value[:40],
)
def test_a_setting_of_any_type_and_size_is_refused_in_one_line(setting, says):
    assert says in refused(lambda: load("mnist", [setting]))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"a = {DIGITS}", "not valid TOML"),
        (f"a = {DEEP}", "not valid TOML"),
        (
            "[sweep]\nsystem.budget = "
            + str(list(range(200)))
            + "\nrun.rounds = "
            + str(list(range(200))),
            "40,000 points",
        ),
        ("sweep = 1", "sweep = 1: must be a section"),
        ("base = 1", "recipe 1: no such recipe"),
        (f"base = '{'x/' * 2000}x'", "no such recipe"),
        ("\ud800", "not valid TOML"),
    ],
    ids=lambda value: value[:30],
)
def test_a_recipe_of_any_shape_is_refused_in_one_line(tmp_path, text, says):
    path = tmp_path / "x.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    assert says in refused(lambda: sweep_points(path))


def test_a_recipe_has_a_largest_size(tmp_path, monkeypatch):
    monkeypatch.setattr("headgate.experiment.recipes.RECIPE", 1000)
    path = tmp_path / "x.toml"
    path.write_text("#" * 2000, "utf-8")
    assert "more than 1,000 bytes" in refused(lambda: load(path))


@pytest.mark.parametrize("name", ["a\0b.toml", "x" * 5000, "x" * 5000 + ".toml", "\0"])
def test_a_name_that_no_file_can_have(name):
    assert "recipe" in refused(lambda: load(name))


def test_who_has_more_memory_says_so(monkeypatch):
    wide = [
        "system.clients=9_999_999",
        'run.policies=["constant"]',
        "policies.constant.K=1",
    ]
    assert "HEADGATE_MEMORY" in refused(lambda: load("mnist", wide))
    monkeypatch.setenv("HEADGATE_MEMORY", "64")
    assert load("mnist", wide).system.clients == 9_999_999
    monkeypatch.setenv("HEADGATE_MEMORY", "much")
    assert "HEADGATE_MEMORY = much: must be a number of GiB" in refused(
        lambda: load("mnist", wide)
    )


def test_the_page_states_every_limit_as_it_is():
    rows = dict(
        re.findall(r"^\| `(\w+)` \| ([\d,.e-]+)", PAGE.read_text("utf-8"), re.M)
    )
    stated = {name: value for name, value in vars(limits).items() if name.isupper()}
    assert rows.keys() == stated.keys()
    for name, value in stated.items():
        assert float(rows[name].replace(",", "")) == value, name


def test_a_long_name_of_a_policy_is_cut_in_the_line_that_refuses_it():
    with pytest.raises(SettingError) as refusal:
        load({"base": "mnist", "policies": {"x" * 5000: {}}})
    assert len(str(refusal.value)) < 1000
