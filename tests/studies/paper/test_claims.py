import numpy as np
import pytest

from studies.paper.claims import OWN, claims, judge_all, study_rows
from studies.paper.conclude import verdict_kind
from studies.paper.verdicts import (
    DIRECTION,
    FAILS,
    FAR,
    HOLDS,
    NOT_RUN,
    SIZE,
    UNTESTABLE,
)

from ...analysis.made_up import BUDGET, ramp
from .made_up_sides import side


def flavour(batch, ours, top, spend=BUDGET, oracle=True):
    made = [
        side(ours, ramp(5, top=top), spend=spend, batch=batch),
        side("constant", ramp(12, top=0.86), batch=batch),
        side("hybrid", ramp(14, top=0.88), batch=batch),
    ]
    if oracle:
        made.append(side("oracle", ramp(4, top=0.92), spend=10 * BUDGET, batch=batch))
    return {(batch, one.policy): one for one in made}


def verdicts(rows, flavour):
    return {row.key: getattr(row, flavour).verdict for row in rows}


def test_the_claims_of_section_7_are_all_there():
    by_study = {
        study: [claim for claim in claims() if claim.study == study]
        for study in ("mnist", "cifar10", "imagenette")
    }
    papers = {study: {claim.paper for claim in own} for study, own in by_study.items()}
    assert {"+1.9 points", "+3.5 points", "2.3× faster", "2.6× faster"} <= papers[
        "mnist"
    ]
    assert {"+26.7 points", "+3.5 points", "1.7× faster", "never"} <= papers["cifar10"]
    assert {"+4.1 points", "+1.8 points", "2.2× faster", "1.3× faster"} <= papers[
        "imagenette"
    ]
    keys = [claim.key for claim in claims()]
    assert len(keys) == len(set(keys))
    for study in by_study:
        assert {
            f"{study}-oracle",
            f"{study}-cost",
            f"{study}-debt",
            f"{study}-buffer",
        } <= set(keys)
        assert {claim.key for claim in by_study[study] if claim.paper == OWN} >= {
            f"{study}-close",
            f"{study}-peak",
        }


@pytest.mark.parametrize("study", ["mnist", "cifar10", "imagenette"])
def test_what_was_not_run_has_no_number_and_says_its_command(study):
    rows = study_rows(study, {}, "python -m studies reproduce it")
    assert rows
    for row in rows:
        for finding in (row.written, row.released):
            assert (finding.verdict, finding.value, finding.spend) == (
                NOT_RUN,
                None,
                (),
            )
        assert row.command == "python -m studies reproduce it"


def test_rows_judge_each_flavour_by_itself():
    outcomes = flavour("written", "acdpp", 0.91) | flavour(
        "released", "released", 0.90, spend=1.5 * BUDGET
    )
    rows = study_rows("mnist", outcomes, "c")
    written, released = verdicts(rows, "written"), verdicts(rows, "released")
    assert written["mnist-gain-constant"] == HOLDS
    assert released["mnist-gain-constant"] == "holds only with overspend of 50 %"
    assert (written["mnist-cost"], released["mnist-cost"]) == (HOLDS, FAILS)
    assert written["mnist-gain-fair"] == released["mnist-gain-fair"] == NOT_RUN
    assert written["mnist-oracle"] == UNTESTABLE  # the paper gives no number
    assert written["mnist-close"] == HOLDS
    assert verdict_kind(released["mnist-gain-constant"]) == "hold only with overspend"


def test_the_oracle_of_one_flavour_serves_both():
    outcomes = flavour("written", "acdpp", 0.91) | flavour(
        "released", "released", 0.905, oracle=False
    )
    assert (
        verdicts(study_rows("imagenette", outcomes, "c"), "released")[
            "imagenette-close"
        ]
        == HOLDS
    )


def test_a_longer_run_that_comes_within_reach_is_judged_where_the_shorter_does_not():
    short = {"acdpp": 0.45, "constant": 0.47, "oracle": 0.48, "hybrid": 0.40}
    long = {"acdpp": 0.66, "constant": 0.62, "oracle": 0.68, "acdpp_tuned": 0.60}
    ends = {
        "written": short,
        "horizon-9": {"oracle": 0.60, "acdpp": 0.55, "constant": 0.50},
        "horizon-99": long,
    }
    found = {
        (b, p): side(p, ramp(5, top=top), batch=b)
        for b, own in ends.items()
        for p, top in own.items()
    }
    rows = {row.key: row.written for row in study_rows("cifar10", found, "c")}
    gained = rows["cifar10-gain-constant"]
    assert (gained.verdict, gained.value.mean) == (HOLDS, pytest.approx(4.0))
    assert "horizon-99" in gained.note
    assert rows["cifar10-gain-fair"].value.mean == pytest.approx(
        -2.0
    )  # of the tuned rule, within both limits
    assert rows["cifar10-gain-hybrid"].verdict == FAR  # it was not run for longer
    assert rows["cifar10-gain-hybrid"].value.mean == pytest.approx(5.0)
    del found["horizon-99", "oracle"]
    assert {row.key: row.written for row in study_rows("cifar10", found, "c")}[
        "cifar10-gain-constant"
    ].verdict == FAR


def test_far_below_the_papers_accuracy_differences_are_shown_and_not_judged():
    """CIFAR-10's target is 70 %: an oracle at 62 % is below nine tenths of it, one at
    64 % is not.
    """
    for top, verdict in ((0.62, FAR), (0.64, FAILS)):
        made = [
            side("acdpp", ramp(5, top=0.45)),
            side("constant", ramp(5, top=0.47)),
            side("oracle", ramp(5, top=top)),
        ]
        rows = {
            row.key: row.written
            for row in study_rows(
                "cifar10", {("written", one.policy): one for one in made}, "c"
            )
        }
        found = rows["cifar10-gain-constant"]
        assert (found.verdict, found.value.mean) == (verdict, pytest.approx(-2.0))
        assert ("other way round" in found.note) == (verdict == FAILS)
        assert bool(found.tests) == (verdict == FAILS)
        assert rows["cifar10-cost"].verdict == HOLDS  # money needs no learning


def test_all_tests_of_the_page_are_corrected_together():
    """A gain with p between 2 and 5 % counts by itself, and not among the other
    tests.
    """
    noise = 0.004 * np.array([[-1.0], [1.0], [-1.0], [1.0], [-1.0], [1.0]])
    made = [
        side("acdpp", 0.855 + noise),
        side("constant", np.full((6, 1), 0.85)),
        side("hybrid", 0.855 - noise),
    ]
    sides = {("written", one.policy): one for one in made}
    rows, tests, most = judge_all({"mnist": sides, "imagenette": sides}, str)
    alone = next(
        row.written
        for row in study_rows("mnist", sides, "c")
        if row.key == "mnist-gain-constant"
    )
    among = next(row.written for row in rows if row.key == "mnist-gain-constant")
    assert alone.tests == among.tests
    assert most < alone.tests[0] < 0.05
    assert tests > 10
    assert (alone.verdict, among.verdict) == (DIRECTION, SIZE)


def test_the_rule_within_budget_and_buffers_is_judged_against_constant_admission():
    tops = {
        ("released", "constant"): 0.86,
        ("released", "released"): 0.90,
        ("written", "acdpp_capped"): 0.9,
    }
    tops |= {
        ("equal-means", "released_fair"): 0.85,
        ("equal-means", "released_budget"): 0.855,
    }
    tops |= {
        ("equal-means", "constant_spend"): 0.88,
        ("equal-means", "constant_both"): 0.885,
        ("written", "constant"): 0.86,
    }
    sides = {
        (batch, policy): side(policy, ramp(5, top=top), batch=batch)
        for (batch, policy), top in tops.items()
    }
    rows = study_rows("mnist", sides, "c")
    assert verdicts(rows, "written")["mnist-gain-fair"] == HOLDS
    assert verdicts(rows, "released")["mnist-gain-fair"] == FAILS
