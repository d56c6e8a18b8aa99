"""The committed results can still be read, and the committed table of claims is what they say."""

import json
import re
from pathlib import Path
from shutil import copy

import numpy as np
import pytest

from headgate.analysis.pages import beside, how_made
from headgate.control.rehearse import rehearse
from studies.paper import conclude
from studies.paper.batches import NAMES, about, batches
from studies.paper.claims import claims
from studies.paper.conclude import check_pages, conclude_claims
from studies.paper.control import RUNS, read_control, settings_of
from studies.paper.page import PROSE
from studies.paper.theory_checks import GRAIN
from studies.paper.verdicts import NOT_RUN

DOCS = Path(__file__).parents[3] / "docs" / "results"


@pytest.mark.parametrize("kind", ["md", "json"])
def test_the_table_of_all_claims_is_up_to_date(tmp_path, kind):
    for name in (*NAMES, "theory", "control"):
        copy(DOCS / f"{name}.json", tmp_path)
    check_pages(tmp_path, quick=False)
    conclude_claims(tmp_path)
    assert (tmp_path / f"claims.{kind}").read_text("utf-8") == (DOCS / f"claims.{kind}").read_text("utf-8")


def test_the_words_of_the_theory_are_those_of_its_template():
    page = (DOCS / "theory.md").read_text("utf-8")
    for line in filter(None, beside(conclude.__file__, "theory_page.md").splitlines()):
        words = re.sub(r"\\{\w+\\}", r"[\\s\\S]*?", re.escape(line.replace("{grain}", str(GRAIN))))
        assert re.search(f"^{words}$", page, re.MULTILINE), line


def test_the_claims_are_those_that_were_judged():
    committed = json.loads((DOCS / "claims.json").read_text("utf-8"))["claims"]
    judged = [(row["key"], row["claim"], row["place"], row["paper"]) for row in committed if row["study"] in NAMES]
    assert [(claim.key, claim.text, claim.place, claim.paper) for claim in claims()] == judged


@pytest.mark.parametrize("name", NAMES)
def test_money_was_rehearsed_with_the_recipes_of_now(name):
    found = [one for own in read_control(DOCS, name).values() for one in own]
    assert [one.settings for one in found] == settings_of(name)
    assert {one.runs for one in found} == {RUNS}


@pytest.mark.parametrize("name", NAMES)
def test_money_is_what_a_rehearsal_says(name):
    """A hundred runs of those that were counted: five standard errors would be a change of the rule or of the prices."""
    e = next(run.experiment for run in batches(name) if run.name == "written")
    for policy in ("acdpp", "constant", "hybrid"):
        published = read_control(DOCS, name)["written", policy][0]
        spend = rehearse(e.system, e.policies[policy], e.prices, np.arange(100), e.rounds).spend.mean()
        assert abs(spend - published.spend[0]) < 5 * published.spend[1] * np.sqrt(published.runs / 100)


def test_expected_spend_is_above_the_budget_and_falls_with_the_horizon():
    for name in NAMES:
        found = read_control(DOCS, name)
        shares = [one.spend[0] / one.budget for one in found["written", "acdpp"]]
        assert 1.04 > shares[0] > shares[1] > shares[2] > 1.0
        for policy in ("constant", "hybrid"):
            (one,) = found["written", policy]
            assert abs(one.spend[0] - one.budget) < 4 * one.spend[1]


def test_what_other_rules_judged_is_not_put_into_the_table(tmp_path):
    numbers = json.loads((DOCS / "theory.json").read_text("utf-8")) | {"rules": "of then"}
    (tmp_path / "theory.json").write_text(json.dumps(numbers), "utf-8")
    conclude_claims(tmp_path)
    together = json.loads((tmp_path / "claims.json").read_text("utf-8"))
    assert together["made_by"] == []
    assert {row[side]["verdict"] for row in together["claims"] for side in ("written", "released")} == {NOT_RUN}


@pytest.mark.parametrize("name", NAMES)
def test_a_page_says_how_its_runs_were_made_and_has_them_all(name):
    numbers = json.loads((DOCS / f"{name}.json").read_text("utf-8"))
    page = (DOCS / f"{name}.md").read_text("utf-8")
    assert page.split("\n\n")[1] == PROSE["purpose"].format(title=about(name)["title"])
    assert how_made(numbers) in page
    assert len(numbers["commits"]) == 1
    runs = {run.name: run.experiment for run in batches(name)}
    assert {each["batch"] for each in numbers["runs"]} == set(runs)
    for each in numbers["policies"]:
        e = runs[each["batch"]]
        assert (each["rounds"], each["budget"]) == (e.rounds, e.system.budget)
        assert each["seeds"] + each["diverged"] == len(e.seeds)
        assert len(each["learnt"]) == len(each["final_by_seed"]) == each["seeds"]
        assert each["policy"] in e.policies
