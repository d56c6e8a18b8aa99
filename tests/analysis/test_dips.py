"""Dips after changes of the world, on curves made by hand."""

from dataclasses import replace

import numpy as np
import pytest

from headgate.analysis.comparison import comparison_tables, rows
from headgate.analysis.curves import policy_curves
from headgate.analysis.runs import Dip, begins, changes_in, dips_of, summary_of_dips
from headgate.analysis.summary import TEXTS, columns, summarise

from .made_up import outcome, printed

NAN = np.nan
FALLS = [0.5, 0.8, 0.4, 0.5, 0.7, 0.76, 0.9, 0.9]
"""a change in round 3: from 80 % to 40 %, and 76 % are 90 % of the way back"""
CHANGED = np.array([0, 0, 1.0, 0, 0, 0, 0, 0])
SPEND = np.arange(1.0, 9.0)
TWO = np.zeros(12)
TWO[[2, 9]] = 1.0


def dip(change, depth, length, money, recovered):
    return Dip(change, pytest.approx(depth), length, money, recovered)


@pytest.mark.parametrize(
    ("accuracy", "spend", "changed", "found"),
    [
        (FALLS, SPEND, CHANGED, [dip(3, 0.4, 3, 3 + 4 + 5, True)]),
        (
            [0.8, 0.8, 0.4, *[0.5] * 5],
            SPEND,
            CHANGED,
            [dip(3, 0.4, 6, 33, False)],
        ),  # never recovered: until the end
        # or until the next change; and then it falls from 40 %, not from 80 %
        (
            [0.8, 0.8, *[0.4] * 7, 0.1, 0.3, 0.4],
            np.ones(12),
            TWO,
            [dip(3, 0.4, 7, 7.0, False), dip(10, 0.3, 2, 2.0, True)],
        ),
        (
            [0.5, 0.6, 0.6, 0.7],
            np.ones(4),
            CHANGED[:4],
            [dip(3, 0.0, 0, 0.0, True)],
        ),  # it harms nobody
        # above the mark on its way down: the dip ends after the least
        (
            [0.8, 0.8, 0.79, 0.5, 0.6, 0.78, 0.8, 0.8],
            SPEND,
            CHANGED,
            [dip(3, 0.3, 3, 12.0, True)],
        ),
        (
            [NAN, 0.8, NAN, NAN, 0.4, NAN, NAN, 0.8],
            SPEND,
            CHANGED,
            [dip(3, 0.4, 5, 3 + 4 + 5 + 6 + 7, True)],
        ),
        ([NAN] * 8, SPEND, CHANGED, []),
        (
            [NAN, NAN, 0.4, 0.5, 0.7, 0.76, 0.9, 0.9],
            SPEND,
            CHANGED,
            [],
        ),  # nobody knows how good it was before
    ],
)
def test_depth_length_and_money_by_hand(accuracy, spend, changed, found):
    assert dips_of(np.array(accuracy), spend, changed) == found


def test_changes_one_after_the_other_are_one():
    staggered = np.zeros(40)
    staggered[[4, 6, 8, 13, 19]] = 0.1
    assert begins(staggered).tolist() == [5, 20]
    assert begins(np.zeros(5)).tolist() == []


def moving(policy, *curves, changed=CHANGED):
    one = outcome(policy, curves)
    return replace(
        one, values={**one.values, "changed": np.tile(changed, (len(one.seeds), 1))}
    )


def test_a_policy_is_told_in_summary_table_and_figure():
    one = moving("headgate", FALLS, [0.8, 0.8, 0.6, 0.8, 0.8, 0.8, 0.8, 0.8])
    found = summary_of_dips(one)
    assert (found.count, found.recovered) == (2, 2)
    summary = summarise(one)
    told = [
        each.mean for each in (summary.dip_depth, summary.dip_length, summary.dip_money)
    ]
    assert told == pytest.approx([0.3, 2.0, 20.0])
    assert summary.daily_accuracy.mean == pytest.approx((np.mean(FALLS) + 6.2 / 8) / 2)
    titles = columns(None, [summary]).values()
    assert [title for title in titles if title.startswith(("Daily", "Dip"))] == [
        "Daily",
        "Dip",
        "Dip lasts",
        "Dip costs",
    ]
    assert TEXTS["Dip lasts"](summary).endswith("(2 of 2)")
    assert summary.to_dict()["dip_depth"]["mean"] == pytest.approx(0.3)
    drawn = policy_curves(one)
    assert drawn.changes == [3]
    assert drawn.judged["accuracy"].mean == pytest.approx(
        one.column("test_accuracy").mean(axis=0).tolist()
    )


def test_a_world_that_stands_still_is_told_as_before():
    one = outcome("headgate", [FALLS])
    assert summary_of_dips(one) is None
    summary = summarise(one)
    assert not [
        title
        for title in columns(None, [summary]).values()
        if title.startswith(("Daily", "Dip"))
    ]
    assert {
        value
        for name, value in summary.to_dict().items()
        if "dip" in name or "daily" in name
    } == {None}
    assert policy_curves(one).changes == []
    assert "dips" not in rows([one])[0]
    calm = moving("headgate", FALLS, changed=np.zeros(8))
    assert (changes_in(calm), summary_of_dips(calm)) == ([], None)


def test_the_comparison_tells_it_where_the_world_changed():
    found = [
        moving(name, curve, curve)
        for name, curve in (("headgate", FALLS), ("constant", [0.8] * 8))
    ]
    made = rows(found)
    assert [row["dips"] for row in made] == [2, 2]
    assert [row["depth"][0] for row in made] == pytest.approx([0.4, 0.0])
    (line,) = (
        line
        for line in printed(*comparison_tables(found, made), width=200)
        if "3.0 ± 0.0 (2 of 2)" in line
    )
    assert line.split()[0] == "headgate"
    assert "40.0 ± 0.0 %" in line
    assert line.split()[-1] == "30.00"
