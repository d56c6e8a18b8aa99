"""Rules that look are put beside lots, and pay for their looks."""

import json
from pathlib import Path

import pytest

from studies.better.looking import BUYING, COMES_ROUND, LOOKING, bought, gaps_beside_lots

DOCS = Path(__file__).parents[3] / "docs" / "better"


def test_rules_are_put_beside_lots_seed_by_seed():
    noisy = [0.81, 0.79, 0.80, 0.82]
    rows = [{"policy": name, "learnt": [1, 2, 3, 4], "best_by_seed": noisy} for name in ("random", *BUYING[1:])]
    rows.append({"policy": BUYING[0], "learnt": [2, 3, 4, 5], "best_by_seed": [0.80, 0.82, 0.83, 0.1]})
    gaps = gaps_beside_lots(rows, "headgate", "best")
    assert list(gaps) == list(BUYING)
    assert (round(gaps[BUYING[0]].mean, 6), gaps[BUYING[0]].runs) == (1.333333, 3)
    assert all(gaps[rule].mean == 0 for rule in BUYING[1:])


@pytest.mark.parametrize("name", [name for name in LOOKING if (DOCS / f"{name}.json").is_file()])
def test_looks_are_in_the_price_of_a_label(name):
    price = {row["policy"]: row["price_offered"] for row in json.loads((DOCS / f"{name}.json").read_text("utf-8"))["rows"]}
    assert price["margin"] == pytest.approx(price["random"] + 0.4, abs=1e-6)  # four looks at 0.1 for each label


def test_where_a_stream_comes_round_rules_buy_again_what_they_had():
    rows = {row["policy"]: row for row in json.loads((DOCS / f"{COMES_ROUND}.json").read_text("utf-8"))["rows"]}
    assert bought(rows["headgate"]) == pytest.approx(rows["headgate"]["N"], rel=1e-3)  # first come: nobody has seen all
    assert {round(bought(rows[rule])) for rule in BUYING} == {round(bought(rows["margin"]))}
    assert bought(rows["margin"]) / bought(rows["random"]) == pytest.approx(7 / 8, abs=0.01)  # looks cost an eighth
    assert all(rows[rule]["N"] < 0.83 * bought(rows[rule]) for rule in (*BUYING, "random"))
    assert all(rows[f"constant-{rule}"]["N"] > 0.94 * bought(rows[f"constant-{rule}"]) for rule in BUYING)
    rounds_of_the_stream = [4 * bought(rows[rule]) / 10 / 1000 for rule in ("margin", "random")]  # of ten clients
    assert all(2 < times < 3 for times in rounds_of_the_stream)
