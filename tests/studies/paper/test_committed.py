"""The committed results are of the recipes, and their money is what a rehearsal
says.
"""

import json
from csv import DictReader
from shutil import copytree

import numpy as np
import pytest

from headgate import load, run
from headgate.control.rehearse import rehearse
from studies import HOME
from studies.pages import read_numbers
from studies.paper.batches import NAMES, batches
from studies.paper.conclude import keep_claims, keep_study
from studies.paper.outcomes import read_control
from studies.paper.verdicts import NOT_RUN

RESULTS = HOME / "results" / "paper"
RATE = "learning-rate-momentum=0.9,lr=0.02"  # a folder whose name has a comma


@pytest.mark.parametrize("name", NAMES)
def test_money_is_what_a_rehearsal_says(name):
    """A hundred runs of those that were counted: five standard errors would be a change
    of the rule or of the prices.
    """
    e = next(run.experiment for run in batches(name) if run.name == "written")
    for policy in ("acdpp", "constant", "hybrid"):
        published = read_control(RESULTS, name)["written", policy][0]
        spend = rehearse(
            e.system, e.policies[policy], e.prices, np.arange(100), e.rounds
        ).spend.mean()
        assert abs(spend - published.spend[0]) < 5 * published.spend[1] * np.sqrt(
            published.runs / 100
        )


def test_what_other_rules_judged_is_not_put_into_the_table(tmp_path):
    numbers = read_numbers(RESULTS / "theory.json") | {"rules": "of then"}
    (tmp_path / "theory.json").write_text(json.dumps(numbers), "utf-8")
    keep_claims(tmp_path)
    together = read_numbers(tmp_path / "claims.json")
    assert together["made_by"] == []
    assert {
        row[side]["verdict"]
        for row in together["claims"]
        for side in ("written", "released")
    } == {NOT_RUN}


def test_a_run_folder_more_is_put_beside_what_is_known(tmp_path):
    old = read_numbers(copytree(RESULTS, tmp_path / "results") / "imagenette.json")
    small = load(
        "digits",
        "run.rounds=4",
        "run.seeds=2",
        'run.policies=["oracle", "acdpp", "constant"]',
    )
    run(small, out=tmp_path / RATE, quiet=True)
    keep_study("imagenette", [tmp_path / RATE], tmp_path / "results", quick=False)
    made = read_numbers(tmp_path / "results" / "imagenette.json")
    assert [one for one in made["policies"] if one["batch"] != RATE] == [
        one for one in old["policies"] if one["batch"] != RATE
    ]
    assert [one["policy"] for one in made["policies"] if one["batch"] == RATE] == [
        "oracle",
        "acdpp",
        "constant",
    ]
    assert set(old["commits"]) < set(made["commits"])
    paths = (folder / "imagenette.csv" for folder in (tmp_path / "results", RESULTS))
    curves, before = (
        [*DictReader(path.read_text("utf-8").splitlines())] for path in paths
    )
    assert curves[:-12] == [row for row in before if row["batch"] != RATE]
    assert {row["batch"] for row in curves[-12:]} == {RATE}


def test_claims_are_judged_from_results_alone_by_one_command(tmp_path, studies):
    copytree(RESULTS, tmp_path / "results" / "paper")
    studies(
        "reproduce",
        "claims",
        "--quiet",
        "--results",
        tmp_path / "results",
        "--out",
        tmp_path / "out",
    )
    made, committed = (
        read_numbers(folder / "claims.json")
        for folder in (tmp_path / "results" / "paper", RESULTS)
    )
    said = ("key", "claim", "place", "paper", "command")
    now, then = (
        [
            (
                *(row[each] for each in said),
                row["written"]["verdict"],
                row["released"]["verdict"],
            )
            for row in each["claims"]
        ]
        for each in (made, committed)
    )
    assert now == then
    (again, known) = (
        (folder / "control.json").read_bytes()
        for folder in (tmp_path / "results" / "paper", RESULTS)
    )
    assert again == known, "something was rehearsed: control.json is of other settings"
    assert not (tmp_path / "out" / "runs").exists()
    assert "claims of the paper" in (tmp_path / "out" / "claims.md").read_text("utf-8")
