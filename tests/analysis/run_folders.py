"""Run folders written by hand, and a reader of the pages that are made from them."""

import json
from html.parser import HTMLParser

import numpy as np
import polars as pl
import pytest

from headgate.analysis.runs import read_runs
from headgate.analysis.summary import summarise
from headgate.records.reader import RunFolder
from headgate.records.tables import METRICS
from headgate.records.writer import RunWriter

WICKED = "<b>x</b>"
CONFIG = """# a remark with <script>alert(1)</script> & more
[system]
buffers = [4, 6]
budget = 10.0
[run]
rounds = 4
[data]
kind = "digits"
[model]
kind = "logistic"
"""


def row(policy, seed, t, **given):
    """A row of metrics; what is not given is empty."""
    return {**dict.fromkeys(METRICS), "policy": policy, "seed": seed, "t": t, **given}


def rows(policy, seed, **given):
    """One run's metrics from lists over rounds."""
    rounds = range(len(given["spend"]))
    return [
        row(policy, seed, t + 1, **{key: values[t] for key, values in given.items()})
        for t in rounds
    ]


def held(policy, seed, occupancy):
    return [
        {"policy": policy, "seed": seed, "t": t + 1, "held": n}
        for t, n in enumerate(occupancy)
    ]


def policy_summaries(run, target=None):
    return [summarise(one, target) for one in read_runs([run])]


def write(
    folder,
    metrics,
    occupancy,
    *,
    rounds,
    policies,
    seeds,
    state="finished",
    diverged=(),
    config=CONFIG,
    **more,
):
    """A run folder: one file a table when finished, else one part. `more` says when it
    was started, and its process.
    """
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(config)
    told = {
        "headgate": "0.1.0",
        "device": "cpu",
        "started": more.get("started", "2026-08-01T10:00:00Z"),
    }
    (folder / "environment.json").write_text(json.dumps(told))
    told = {
        "state": state,
        "round": rounds,
        "rounds": rounds,
        "policies": policies,
        "seeds": seeds,
        "elapsed_s": 75.0,
    }
    lost = [{"policy": policy, "seed": seed, "t": 2} for policy, seed in diverged]
    (folder / "state.json").write_text(
        json.dumps({**told, "pid": more.get("pid", 0), "diverged": lost})
    )
    for name, table in (("metrics", metrics), ("clients", occupancy)):
        if state == "finished":
            kinds = METRICS if name == "metrics" else None
            pl.DataFrame(
                table, schema_overrides=kinds, infer_schema_length=None
            ).write_parquet(folder / f"{name}.parquet")
        else:
            RunWriter(folder).append(name, table)
    return folder


def small(folder, **more):
    """Three policies, three seeds, four rounds, small enough for a sheet of paper."""
    metrics = [
        *rows(
            "a",
            0,
            test_accuracy=[None, 0.5, 0.4, 0.6],
            test_loss=[None, 1.0, 0.9, 0.8],
            train_loss=[1.0, 0.8, 0.6, 0.4],
            spend=[10.0] * 4,
            debt=[0.0, 0.0, 0.0, 0.0],
            n=[10, 12, 8, 10],
            excess=[0, 2, 2, 0],
            N=[10, 13, 17, 20],
            n_eff=[10.0, 12.0, 15.0, 18.0],
            bound=[1.0, 2.0, 3.0, 4.0],
        ),
        *rows(
            "a",
            1,
            test_accuracy=[None, 0.7, 0.8, 0.6],
            spend=[12.0] * 4,
            debt=[0.0, 2.0, 4.0, 6.0],
            n=[10, 10, 12, 12],
            excess=[0, 0, 2, 2],
            N=[10, 14, 18, 22],
            n_eff=[10.0, 13.0, 16.0, 19.0],
            bound=[2.0, 3.0, 4.0, 5.0],
        ),
        *rows(
            "a",
            2,
            test_accuracy=[0.1, None, None, None],
            spend=[900.0] * 4,
            excess=[246] * 4,
            n=[500] * 4,
        ),
        *rows(
            WICKED,
            0,
            test_accuracy=[None, 0.3, None, None],
            spend=[5.0] * 4,
            n=[3] * 4,
            N=[3] * 4,
            excess=[-3] * 4,
        ),
        *rows("lost", 0, spend=[1.0] * 4),
    ]
    occupancy = [
        *held("a", 0, [[4, 6], [6, 6], [6, 2], [4, 6]]),
        *held("a", 1, [[4, 6], [4, 6], [6, 6], [4, 8]]),
        *held("a", 2, [[250, 250]] * 4),
        *held(WICKED, 0, [[1, 2]] * 4),
    ]
    given = {
        "rounds": 4,
        "policies": ["a", WICKED, "lost"],
        "seeds": [0, 1, 2],
        "diverged": [("a", 2), ("lost", 0)],
    }
    return RunFolder.open(write(folder, metrics, occupancy, **given | more))


def long(folder, policies=2, seeds=2, rounds=1000, clients=2):
    rng = np.random.default_rng(0)
    metrics, occupancy = [], []
    for policy in range(policies):
        for seed in range(seeds):
            values = {
                key: rng.uniform(1, 2, rounds).tolist() for key in list(METRICS)[3:]
            }
            values |= {key: list(range(rounds)) for key in ("n", "N", "admitted")}
            metrics += rows(f"policy {policy}", seed, **values)
            occupancy += held(
                f"policy {policy}", seed, rng.integers(0, 9, (rounds, clients)).tolist()
            )
    config = CONFIG.replace("[4, 6]", str([4] * clients))
    names = [f"policy {policy}" for policy in range(policies)]
    path = write(
        folder,
        metrics,
        occupancy,
        rounds=rounds,
        policies=names,
        seeds=list(range(seeds)),
        config=config,
    )
    return RunFolder.open(path)


class Page(HTMLParser):
    """The tags with their attributes, and the text of every element with an id or of
    its kind.
    """

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts, self.inside, self.text = [], [], "", ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = tag

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts.append(data)
        elif self.inside != "style":
            self.text += data

    @property
    def data(self):
        return json.loads(
            next(each for each in self.scripts if each.startswith('{"title"')),
            parse_constant=pytest.fail,
        )
