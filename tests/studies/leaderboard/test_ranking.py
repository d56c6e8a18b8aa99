"""Who is ranked, in which order, and who is told from the first."""

import numpy as np
import pytest

from headgate.analysis.compare.scores import Offer
from headgate.studies.leaderboard.ranking import ranked
from headgate.studies.leaderboard.results import BoardTable, Result, of_one_seed

NOISE = np.random.default_rng(0).normal(0.0, 0.01, 12)


def result(policy, last, *, kept=True, reference=False, learnt=None, gain=None):
    seeds = list(range(12)) if learnt is None else learnt
    values = tuple((last + NOISE + (0 if gain is None else gain))[seeds])
    three = (float(np.mean(values)), None, None)
    return Result(
        policy=policy, budget=10.0, reference=reference, seeds=len(seeds), diverged=12 - len(seeds), rounds=5, spend=9.0,
        worst_spend=10.0, overspent_runs=0 if kept else 3, worst_excess=0, kept_limits=kept, best=three, last=three, mean=three,
        best_by_seed=values, last_by_seed=values, mean_by_seed=values, learnt=tuple(seeds),
    )  # fmt: skip


def table(*rows):
    made = BoardTable(Offer("uniform", 10.0))
    for row in rows:
        made.enter(row, row.policy, "here")
    return made


def test_the_order_is_that_of_the_means_within_the_limits():
    wobble = np.random.default_rng(1).normal(0.0, 0.02, 12)
    rows = [
        result("poor", 0.5, gain=wobble * 0.1),
        result("spender", 0.9, kept=False),
        result("good", 0.7),
        result("level", 0.699, gain=wobble - wobble.mean()),
        result("oracle", 0.95, reference=True),
    ]
    found = ranked(table(*rows), "last")
    assert found.names == ["good", "level", "poor"]
    assert found.others == ["spender", "oracle"]
    assert found.level("last") == ["level"]
    assert found.gaps["last"]["poor"].mean == pytest.approx(-0.2 + 0.1 * wobble.mean())
    assert found.gaps["last"]["poor"].p < 1e-6
    assert ranked(table(rows[1]), "last").names == []


def test_seeds_are_paired_where_models_were_lost():
    one, other = result("a", 0.6, learnt=[0, 2, 3]), result("b", 0.5, learnt=[0, 1, 3])
    ours, theirs = of_one_seed([one, other], "last")
    assert ours - theirs == pytest.approx([0.1, 0.1])
    assert of_one_seed([one, Result(**{**vars(other), "learnt": ()})], "last") is None
    assert ranked(table(one, Result(**{**vars(other), "learnt": ()})), "last").gaps["last"] == {"b": None}


def test_a_name_that_means_two_policies_is_told_apart():
    made = table(result("a", 0.6))
    made.enter(result("a", 0.7), "a", "there")
    assert list(made.rows) == ["a"]
    made.enter(result("a", 0.8), "another a", "there")
    assert list(made.rows) == ["a", "a (there)"]
