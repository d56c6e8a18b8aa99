"""The committed results can still be read, and the committed table of claims is what they say."""

import json
import re
from pathlib import Path
from shutil import copy

import pytest

from headgate.analysis.pages import beside
from headgate.analysis.provenance import how_made
from headgate.studies.paper import theory_page as page_of_theory
from headgate.studies.paper.batches import NAMES, about, batches
from headgate.studies.paper.claims import claims
from headgate.studies.paper.conclude import check_pages, conclude_claims
from headgate.studies.paper.page import PROSE
from headgate.studies.paper.theory_checks import GRAIN
from headgate.studies.paper.verdicts import NOT_RUN, rules_id

DOCS = Path(__file__).parents[3] / "docs" / "results"


@pytest.mark.parametrize("kind", ["md", "json"])
def test_the_table_of_all_claims_is_up_to_date(tmp_path, kind):
    for name in (*NAMES, "theory"):
        copy(DOCS / f"{name}.json", tmp_path)
    check_pages(tmp_path, quick=False)
    conclude_claims(tmp_path)
    assert (tmp_path / f"claims.{kind}").read_text("utf-8") == (DOCS / f"claims.{kind}").read_text("utf-8")


def test_the_words_of_the_theory_are_those_of_its_template():
    page = (DOCS / "theory.md").read_text("utf-8")
    for line in filter(None, beside(page_of_theory.__file__, "theory_page.md").splitlines()):
        words = re.sub(r"\\{\w+\\}", r"[\\s\\S]*?", re.escape(line.replace("{grain}", str(GRAIN))))
        assert re.search(f"^{words}$", page, re.MULTILINE), line


def test_the_claims_are_those_that_were_judged():
    committed = json.loads((DOCS / "claims.json").read_text("utf-8"))["claims"]
    judged = [(row["key"], row["claim"], row["place"], row["paper"]) for row in committed if row["study"] in NAMES]
    assert [(claim.key, claim.text, claim.place, claim.paper) for claim in claims()] == judged


def test_what_other_rules_judged_is_not_put_into_the_table(tmp_path):
    numbers = json.loads((DOCS / "cifar10.json").read_text("utf-8")) | {"rules": "of then"}
    (tmp_path / "cifar10.json").write_text(json.dumps(numbers), "utf-8")
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
    assert numbers["rules"] == rules_id()
    assert len(numbers["commits"]) == 1
    runs = {run.name: run.experiment for run in batches(name)}
    assert {each["batch"] for each in numbers["runs"]} == set(runs)
    for each in numbers["policies"]:
        e = runs[each["batch"]]
        assert (each["rounds"], each["budget"]) == (e.rounds, e.system.budget)
        assert each["seeds"] + each["diverged"] == len(e.seeds)
        assert each["policy"] in e.policies
