"""Pages of earlier rules are judged by the numbers that they kept, and say what they are."""

from dataclasses import replace

from headgate.analysis.intervals import Estimate
from headgate.analysis.pages import as_json, write
from headgate.studies.paper.claims import row_to_json, study_rows
from headgate.studies.paper.conclude import conclude_claims
from headgate.studies.paper.earlier import judged_again
from headgate.studies.paper.verdicts import DIRECTION, FAILS, HOLDS, NOT_RUN, UNTESTABLE, Finding

FACTS = {"study": "cifar10", "command": "c", "dates": ["d"], "commits": ["e"], "page_commit": "e"}
FACTS |= {"quick": False, "devices": ["g"]}


def told(policy, spend, batch="written"):
    known = {"seeds": 4, "diverged": 1, "rounds": 150, "accuracy": [0.45, 0.44, 0.46]}
    return {"batch": batch, "policy": policy, "budget": 110.0, "spend": [spend, 0.99 * spend, 1.01 * spend], **known}


def numbers():
    """As a page of then kept them: five seeds, other verdicts, no rows for what is asked since."""
    old = {
        "cifar10-gain-hybrid": Finding(FAILS, Estimate(4.4, 3.9, 4.9), "points", "better, but by less than half"),
        "cifar10-speed-constant": Finding(HOLDS, Estimate(1.2, 1.1, 1.3), "×", "neither reaches 70 % in 150 rounds; at 40 % …"),
        "cifar10-oracle": Finding(HOLDS, Estimate(1.0, 0.5, 1.5), "points below", "close is at most 2 points; 60 % of the way"),
        "cifar10-cost": Finding(HOLDS, Estimate(101.0, 100.0, 102.0), "% of the budget", "with the luck of the prices"),
        "cifar10-peak": Finding(FAILS, Estimate(161.0, 158.0, 165.0), "% of B_m at the peak", "peak n 337 of 200"),
    }
    rows = [replace(row, written=old[row.key]) for row in study_rows("cifar10", {}, "c") if row.key in old]
    policies = [told("acdpp", 110.0), told("constant", 110.0), told("hybrid", 112.0), told("oracle", 1100.0)]
    return {**FACTS, "rules": "of then", "policies": policies, "claims": [row_to_json(row) for row in rows]}


def test_numbers_that_were_kept_are_judged_by_todays_rules():
    found = {row.key.removeprefix("cifar10-"): row.written for row in judged_again("cifar10", numbers())}
    assert found["gain-hybrid"].verdict == DIRECTION
    assert (found["speed-constant"].verdict, found["speed-constant"].value) == (UNTESTABLE, None)
    assert (found["sooner-constant"].verdict, found["sooner-constant"].value.mean) == (HOLDS, 1.2)
    assert (found["oracle"].verdict, found["close"].verdict) == (UNTESTABLE, HOLDS)
    assert "60 % of the way" in found["oracle"].note
    assert (found["cost"].verdict, found["cost"].value.mean) == (HOLDS, 100.0)  # what was really spent
    assert found["peak"].verdict == FAILS
    assert found["buffer"].verdict == NOT_RUN
    dear = numbers()
    dear["policies"][0] = told("acdpp", 220.0)
    again = {row.key: row.written.verdict for row in judged_again("cifar10", dear)}
    assert again["cifar10-gain-hybrid"] == f"{DIRECTION}, only with overspend of 96 %"
    assert again["cifar10-cost"] == FAILS


def test_the_page_of_all_claims_says_which_studies_are_of_earlier_rules(tmp_path):
    write(tmp_path, {"cifar10.json": as_json(numbers())})
    conclude_claims(tmp_path)
    text = (tmp_path / "claims.md").read_text("utf-8")
    assert "of earlier recipes and rules**: 5 seeds" in text
    assert "CIFAR-10: T = 150, where the text gives none; then, as written, oracle at 45.0 %, ACDPP at 45.0 %" in text
