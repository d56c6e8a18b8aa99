"""Who is ranked, in which order, and who is told from the first."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.analysis.comparison import Offer
from studies.leaderboard.ranking import needed, ranked
from studies.leaderboard.results import BoardGroup, BoardTable, Result, of_one_seed

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


def group(budgets, *rows, budget=20.0):
    """The same policies at each budget; each learns and spends as it says of the budget."""
    made = BoardGroup([SimpleNamespace(budget=budget)])
    for money in budgets:
        offer = Offer("uniform", money)
        made.standings[offer] = BoardTable(offer)
        for row in rows:
            if (own := row(money)) is not None:
                made.standings[offer].enter(own, own.policy, "here")
    return made


def learns(policy, share=1.0, only=None, better=0.0, **more):
    """As much as constant admission does at this budget, for this share of the money."""
    return lambda money: (
        replace(result(policy, 0.5 + better + money / 400, **more), spend=share * money) if only in (None, money) else None
    )


@given(st.lists(st.floats(0.2, 1.5), min_size=1, max_size=4, unique=True))
def test_the_money_for_constant_admissions_accuracy_is_that_of_those_who_are_ranked(shares):
    names = {f"p{i}": share for i, share in enumerate(shares)}
    others = [
        learns("constant", kept=False), learns("oracle", 3.0, reference=True), learns("spender", 0.1, kept=False),
        learns("once", 0.1, only=20.0, learnt=[0, 2]),
    ]  # fmt: skip
    (found,) = needed(group([10.0, 20.0, 40.0], *others, *(learns(name, share) for name, share in names.items())), "last")
    assert {one.policy: (one.budget, one.rival_money) for one in found} == dict.fromkeys(names, (20.0, 20.0))
    for one in found:
        assert one.share.three == pytest.approx((names[one.policy],) * 3)


def test_money_for_the_same_accuracy_stands_in_the_order_of_the_ranks():
    rows = [learns("constant"), learns("good", 0.8, better=0.01), learns("poor", 0.5)]
    (found,) = needed(group([10.0, 20.0, 40.0], *rows, budget=30.0), "last")  # that of the recipe was not played
    assert [one.policy for one in found] == ["good", "poor"]
    (found,) = needed(group([10.0, 20.0, 40.0], *rows, learns("far", 0.8, better=0.3)), "last")
    assert found[0].ends[0] == 0.0
    assert needed(group([20.0], *rows), "last") == []
    assert needed(group([10.0, 20.0], *rows[1:]), "last") == []
    assert needed(group([10.0, 20.0], rows[0], learns("spender", kept=False)), "last") == []
