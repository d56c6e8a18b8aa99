"""Recipes, --set and sweeps in which any setting has any value: refused in one line, or
built, rehearsed and written.
"""

import json
import resource
import signal
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from headgate.control.rehearse import rehearse
from headgate.errors import HeadgateError
from headgate.experiment import load
from headgate.experiment.build import sweep_points
from headgate.experiment.sections import RunTable, SystemTable, Training
from headgate.learning.models import MODEL
from headgate.learning.partition import PARTITION
from headgate.learning.server import SERVER
from headgate.learning.streams import STREAM
from headgate.reading import parse_toml
from headgate.registry import POLICY, PRICES, RETENTION
from headgate.theory.bound import BoundConstants

SECONDS, BYTES, LONGEST = 20, 2 * 2**30, 2000
"""processor time and memory that one recipe may take; characters of a refusal"""
FINE = [0, 1, 2, 3, 10, 100, 0.5, 0.1, 0.9, 1.0, 2.5, 20.0]
LARGE = [
    1e3,
    10**6,
    10**9,
    1e9,
    1e12,
    10**15,
    1e16,
    10**18,
    2**63,
    2**64,
    10**23,
    1e100,
    1e200,
    1e300,
    1.7e308,
]
ODD = [
    1e-9,
    1e-90,
    1e-300,
    5e-324,
    -0.0,
    -1,
    -0.5,
    -1e300,
    -(10**20),
    *map(float, ("nan", "inf", "-inf")),
    True,
    False,
    None,
]
TEXTS = [
    "",
    "x",
    "buffer",
    "none",
    "open",
    "fifo",
    "os:system",
    "a[/b]",
    "\x1b[2J",
    "x" * 500,
    "x" * 20_000,
    "\u202e",
    "../..",
]
TABLES = {
    "system": SystemTable,
    "run": RunTable,
    "bound": BoundConstants,
    "training": Training,
}
PARTS = {"prices": PRICES, "model": MODEL, "server": SERVER}
PARTS |= {"data.partition": PARTITION, "data.stream": STREAM}
BROKEN = ["[", "]", '"', "\0", "9" * 5000, "[" * 3000, "=", "\n", "\u2028"]
NUMBERS = st.one_of(*[st.sampled_from(each) for each in (FINE, FINE, LARGE, ODD)])
ANY = st.recursive(
    NUMBERS | st.sampled_from(TEXTS),
    lambda own: (
        st.lists(own, max_size=3)
        | st.dictionaries(
            st.sampled_from(["kind", "K", "a", "capacity"]), own, max_size=3
        )
    ),
)
VALUES = st.one_of(
    NUMBERS,
    NUMBERS,
    st.lists(NUMBERS, min_size=3, max_size=3),
    ANY,
    NUMBERS.map(lambda one: [one] * 2000),
)
FAILED_ONCE = json.loads(Path(__file__).with_name("recipes.json").read_text("utf-8"))


def names(kind):
    return [own.name for own in fields(kind)]


def some_of(kind, values):
    return st.fixed_dictionaries({}, optional=dict.fromkeys(names(kind), values))


@st.composite
def settings_of_recipes(draw):
    """(dotted key, value): most often of a key that exists, and whole tables of fine
    numbers, which get far.
    """
    section = draw(
        st.sampled_from(
            [
                *TABLES,
                *TABLES,
                *PARTS,
                *PARTS,
                "policies",
                "policies",
                "rule",
                "x.mode",
                "run.x",
            ]
        )
    )
    if section in TABLES:
        return f"{section}.{draw(st.sampled_from(names(TABLES[section])))}", draw(
            VALUES
        )
    if section in PARTS:
        kind = draw(st.sampled_from(list(PARTS[section].kinds)))
        return section, {
            "kind": kind,
            **draw(some_of(PARTS[section].kinds[kind], VALUES)),
        }
    if section == "policies":
        policy = draw(st.sampled_from(list(POLICY.kinds)))
        setting = draw(st.sampled_from([*names(POLICY.kinds[policy]), "kind"]))
        return f"policies.{policy}.{setting}", draw(VALUES)
    if section == "rule":
        rule = draw(st.sampled_from(list(RETENTION.kinds)))
        return "policies.headgate.rule", {
            "kind": rule,
            **draw(some_of(RETENTION.kinds[rule], NUMBERS)),
        }
    return section, draw(VALUES)


@st.composite
def recipes(draw):
    """{"policies", "set" or "text"}: overrides of a shipped recipe, or a recipe of its
    own on top of one.
    """
    changed = draw(st.lists(settings_of_recipes(), min_size=1, max_size=4))
    played = draw(st.lists(st.sampled_from(list(POLICY.kinds)), min_size=1, max_size=2))
    played += [key.split(".")[1] for key, _ in changed if key.startswith("policies.")]
    lines = [f"{key}={toml(value)}" for key, value in changed]
    if draw(st.integers(0, 2)):
        return {"policies": list(dict.fromkeys(played)), "set": lines}
    swept = (
        [f"sweep.{key}=[{toml(value)}]" for key, value in changed]
        if draw(st.booleans())
        else []
    )
    text = "\n".join(['base = "mnist"', *lines, *swept, ""])
    at = draw(st.integers(0, len(text)))
    return {
        "policies": played,
        "text": text[:at] + draw(st.sampled_from(["", "", *BROKEN])) + text[at:],
    }


def toml(value):
    """As TOML writes it, and None, for which TOML has no word, as one that is none."""
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{key} = {toml(each)}" for key, each in value.items())
            + "}"
        )
    return (
        json.dumps(value)
        if isinstance(value, bool | str) or value is None
        else repr(value)
    )


def play(recipe):
    if "text" in recipe:
        points = sweep_points(parse_toml(recipe["text"], "recipe"), [])
        experiment = points[0][1] if points else load("mnist", [])
    else:
        played = f"run.policies={json.dumps(recipe['policies'])}"
        experiment = load(
            "mnist", [played, "run.rounds=4", "run.seeds=2", *recipe["set"]]
        )
    tomli_w.dumps(experiment.tables())
    seeds, rounds = experiment.seeds[:2], min(experiment.rounds, 3)
    with np.errstate(all="ignore"):
        for policy in experiment.only(
            list(experiment.policies), seeds
        ).policies.values():
            assert (
                rehearse(
                    experiment.system, policy, experiment.prices, seeds, rounds
                ).rounds
                == rounds
            )


@pytest.fixture(autouse=True)
def limited():
    """More memory is refused, and a recipe that takes longer is stopped: both fail the
    test.
    """

    def too_long(*_):
        raise TimeoutError(f"more than {SECONDS} s")

    before, handler = (
        resource.getrlimit(resource.RLIMIT_AS),
        signal.signal(signal.SIGVTALRM, too_long),
    )
    taken = (
        int(Path("/proc/self/statm").read_text("ascii").split()[0])
        * resource.getpagesize()
    )
    resource.setrlimit(resource.RLIMIT_AS, (taken + BYTES, before[1]))
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, handler)
    resource.setrlimit(resource.RLIMIT_AS, before)


def check(recipe):
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        play(recipe)
    except HeadgateError as error:
        said = str(error)
        assert "\n" not in said
        assert len(said) <= LONGEST
        return "refused"
    return "played"


@given(recipes())
def test_any_recipe_is_played_or_refused_in_one_line(recipe):
    check(recipe)


@pytest.mark.parametrize("recipe", FAILED_ONCE, ids=str)
def test_recipes_that_once_failed(recipe):
    check(recipe)


def test_some_recipes_are_played_within_time_and_memory(
    monkeypatch,
):
    assert (
        check({"policies": ["headgate", "constant"], "set": ["system.budget=20"]})
        == "played"
    )
    with pytest.raises(MemoryError):
        bytearray(2 * BYTES)
    monkeypatch.setattr(f"{__name__}.SECONDS", 0.1)
    monkeypatch.setattr(f"{__name__}.play", lambda recipe: [None for _ in iter(int, 1)])
    with pytest.raises(TimeoutError):
        check({})
