"""Requests to the planner in which any key has any value: refused in one line, or answered in JSON."""

import json
import sys
from dataclasses import fields
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from limited import tried
from recipes import names
from values import number, value

from headgate.registry import POLICY, PRICES, RETENTION
from headgate.theory.bound import BoundConstants
from headgate.web.api import Json
from headgate.web.planning import Planner, prices_of
from headgate.web.security import MOST_JSON, json_object

FINE = {"system": {"buffers": [8, 9], "budget": 20}, "prices": {"kind": "uniform", "low": 1, "high": 10}, "rounds": 5}
CORPUS = Path(__file__).parent / "corpus" / "plans.json"


def some(pick, keys, given):
    return {key: given() for key in keys if pick.random() < 0.5}


def make(pick):
    """The request's body, or a CSV file of prices."""
    if pick.random() < 0.1:
        cells = [str(number(pick)) for _ in range(pick.choice([1, 10, 3000]))]
        return {
            "csv": pick.choice(["price", "cost", "x", "", '"']) + "\n" + "\n".join(cells) + pick.choice(["", "\0", '"', "\n\n"])
        }
    kind, policy = pick.choice(list(PRICES.kinds)), pick.choice(list(POLICY.kinds))
    odd = pick.random() < 0.5
    any_ = (lambda: value(pick)) if odd else (lambda: number(pick))
    prices = {"kind": kind, **{name: any_() for name in names(PRICES.kinds[kind]) if pick.random() < 0.95}}
    if kind == "per-client":
        prices["common"] = {"kind": "uniform", "low": number(pick), "high": number(pick)}
    if pick.random() < 0.3:
        prices = {"kind": "uniform", "low": 1, "high": 10}
    body = {
        "system": {"buffers": [number(pick) for _ in range(pick.choice([1, 3, 10]))], "budget": number(pick)},
        "prices": prices,
        "rounds": pick.choice([2, 5, 40, 300, 5000, 10**9, 1.5]),
        "seeds": pick.choice([1, 2, 5, 20, 0, 10**6]),
        "policy": policy,
        "bound": some(pick, [own.name for own in fields(BoundConstants)], any_),
        "options": some(pick, names(POLICY.kinds[policy]), any_) if pick.random() < 0.6 else {},
    }
    if pick.random() < 0.3:
        body["system"] = {"buffers": [8, 9, 10], "budget": 20} | some(pick, ["clients", "weights", "budget", "x"], any_)
    if pick.random() < 0.3:
        body |= some(pick, ["K", "gamma", "phi", "trace", "page", "colour"], any_)
    if pick.random() < 0.2:
        rule = pick.choice(list(RETENTION.kinds))
        body["options"]["rule"] = {"kind": rule, **some(pick, names(RETENTION.kinds[rule]), lambda: number(pick))}
    return {"json": body}


def run(given):
    if "csv" in given:
        Json(prices_of(given["csv"].encode("utf-8")))
        return "answered"
    body = json.dumps(given["json"]).encode()
    if len(body) > MOST_JSON:
        return "too large"
    Json(Planner().answer(json_object(body)))
    return "answered"


def main(seconds=None, seed=0, steps=None):
    run({"json": FINE})  # what is imported here is not imported by every child
    return tried(seconds, seed, steps, json.loads(CORPUS.read_text("utf-8")), make, run)
