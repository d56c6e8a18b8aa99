"""Recipes, --set and sweeps in which any setting has any value: refused in one line, or built, rehearsed and written."""

import json
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import tomli_w
from limited import tried
from values import number, toml, value

from headgate.control.rehearse import rehearse
from headgate.experiment import load
from headgate.experiment.sections import RunTable, SystemTable, Training
from headgate.experiment.sweep import sweep_points
from headgate.learning.models import MODEL
from headgate.learning.objectives import OBJECTIVE
from headgate.learning.partition import PARTITION
from headgate.learning.server import SERVER
from headgate.reading import parse_toml
from headgate.registry import POLICY, PRICES, RETENTION
from headgate.theory.bound import BoundConstants

CORPUS = Path(__file__).parent / "corpus" / "recipes.json"
KEYS = {"system": SystemTable, "run": RunTable, "bound": BoundConstants, "training": Training}
PARTS = {"prices": PRICES, "model": MODEL, "server": SERVER, "objective": OBJECTIVE, "data.partition": PARTITION}


def names(kind):
    return [own.name for own in fields(kind)] if is_dataclass(kind) else []


def a_setting(pick):
    """(dotted key, value): most often a key that there is."""
    what = pick.random()
    if what < 0.35:
        section = pick.choice(list(KEYS))
        return f"{section}.{pick.choice(names(KEYS[section]))}", any_value(pick)
    if what < 0.6:
        policy = pick.choice(list(POLICY.kinds))
        return f"policies.{policy}.{pick.choice(names(POLICY.kinds[policy]) or ['kind'])}", any_value(pick)
    if what < 0.7:
        rule = pick.choice(list(RETENTION.kinds))
        settings = {name: number(pick) for name in names(RETENTION.kinds[rule]) if pick.random() < 0.5}
        return f"policies.{pick.choice(['headgate', 'constant', 'pacing'])}.rule", {"kind": rule, **settings}
    if what < 0.95:
        section = pick.choice(list(PARTS))
        kind = pick.choice(list(PARTS[section].kinds))
        settings = {name: any_value(pick) for name in names(PARTS[section].kinds[kind]) if pick.random() < 0.9}
        return section, {"kind": kind, **settings}
    return (
        f"{pick.choice(['system', 'x', 'policies', 'run.rounds', 'sweep'])}.{pick.choice(['kind', 'x', 'a.b', 'mode'])}",
        value(pick),
    )


def any_value(pick):
    """Whole tables of fine numbers get further into the code than odd ones."""
    return number(pick) if pick.random() < 0.6 else [number(pick) for _ in range(3)] if pick.random() < 0.5 else value(pick)


def make(pick):
    """{"policies", "set" or "text"}: overrides of a shipped recipe, or a recipe of its own on top of one."""
    settings = [a_setting(pick) for _ in range(pick.randint(1, 4))]
    played = [pick.choice(list(POLICY.kinds)) for _ in range(2)]
    played += [key.split(".")[1] for key, _ in settings if key.startswith("policies.")]
    played = [name for name in dict.fromkeys(played) if name in POLICY.kinds]
    if pick.random() < 0.7:
        return {"policies": played, "set": [f"{key}={toml(said)}" for key, said in settings]}
    lines = [f"{key} = {toml(said)}" for key, said in settings]
    if pick.random() < 0.3:
        lines += [f"sweep.{key} = [{toml(said)}]" for key, said in settings]
    text = 'base = "mnist"\n' + "\n".join(lines) + "\n"
    if pick.random() < 0.2:
        at = pick.randrange(len(text))
        text = text[:at] + pick.choice(["[", "]", '"', "\0", "9" * 5000, "[" * 3000, "=", "\n", "\u2028"]) + text[at:]
    return {"policies": played, "text": text}


def run(given):
    played = f"run.policies={json.dumps(given['policies'])}"
    if "text" in given:
        points = sweep_points(parse_toml(given["text"], "recipe"), [])
        experiment = points[0][1] if points else None
    else:
        experiment = load("mnist", [played, "run.rounds=4", "run.seeds=2", *given["set"]])
    if experiment is None:
        return "answered"
    tomli_w.dumps(experiment.tables())
    seeds = experiment.seeds[:2]
    with np.errstate(all="ignore"):
        for policy in experiment.only(list(experiment.policies), seeds).policies.values():
            result = rehearse(experiment.system, policy, experiment.prices, seeds, min(experiment.rounds, 3))
            assert result.rounds == min(experiment.rounds, 3)
    return "answered"


def main(seconds=None, seed=0, steps=None):
    run({"policies": list(POLICY.kinds), "set": []})  # what is imported here is not imported by every child
    return tried(seconds, seed, steps, json.loads(CORPUS.read_text("utf-8")), make, run)
