"""The comparisons: results are of the recipes, rows survive their file, and pages
conclude what the rows say.
"""

import shlex
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.control.prices import KINDS
from headgate.experiment import load, sweep_points
from studies import HOME, recipe
from studies.better import beside_constant, in_hindsight, leaderboard_content, ranked
from studies.comparisons import ALSO, BETTER, MEASURES, about, budget, command, rows_in
from studies.drift import DRIFT
from studies.pages import SAID, read_numbers, write_page
from studies.savings import SAVINGS, savings_content
from studies.selection import SELECTION
from studies.simplest import CHANGES, SIMPLEST, simplest_content
from studies.zoo import prices

RESULTS = HOME / "results" / "better"
KNOWN = (*BETTER, *ALSO, *SAVINGS, *DRIFT, *SELECTION, *SIMPLEST)
NAMES = [
    name
    for name in KNOWN
    if (RESULTS / f"{name}.json").is_file() or not about(name).get("needs_gpu")
]
FOUND = {name: read_numbers(RESULTS / f"{name}.json") for name in NAMES}
ROWS = {name: rows_in(numbers) for name, numbers in FOUND.items()}


@pytest.mark.parametrize("name", NAMES)
def test_the_results_are_those_of_the_recipe_and_headgate_kept_both_limits(name):
    points, rows = sweep_points(recipe(f"better/{name}")), ROWS[name]
    first = points[0][1]
    assert FOUND[name]["command"] == command(name, points)
    assert load(shlex.split(FOUND[name]["command"])[2]).name == name
    assert list(dict.fromkeys(row["policy"] for row in rows)) == list(first.policies)
    assert {row["budget"] for row in rows} == {
        point.system.budget for _, point in points
    }
    assert {(row["rounds"], row["seeds"] + row["diverged"]) for row in rows} == {
        (first.rounds, len(first.seeds))
    }
    assert all(set(row["learnt"]) <= set(first.seeds.tolist()) for row in rows)
    for row in rows:
        assert all(
            len(row[f"{key}_by_seed"]) == row["seeds"] == len(row["learnt"])
            for key in ("best", "last")
        )
        if row["policy"] == "headgate":  # it kept both limits in every run and round
            assert (
                row["kept_limits"],
                row["overspent_runs"],
                max(row["worst_excess"], 0),
            ) == (True, 0, 0)
            assert row["worst_spend"] <= row["budget"] * (
                1 + 1e-5
            )  # six digits are kept


def test_results_are_small_and_every_file_is_of_a_recipe():
    kept = [path for path in (HOME / "results").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in kept) < 2_600_000
    assert {path.stem for path in RESULTS.iterdir()} <= {
        path.stem for path in (HOME / "recipes" / "better").iterdir()
    }


def test_every_kind_of_price_is_compared_and_a_budget_is_a_tenth_of_full_buffers():
    points = [
        point
        for name in ("ercot", "brent", "prices")
        for _, point in sweep_points(recipe(f"better/{name}"))
    ]
    zoo = {
        f"{prices.__name__}:{name}"
        for name, kind in vars(prices).items()
        if getattr(kind, "__module__", "") == prices.__name__
    }
    shipped = KINDS.keys() - {"trace"}  # a trace is a user's file
    assert {point.tables()["prices"]["kind"] for point in points} == shipped | zoo
    for point in points:
        full = point.prices.mean(point.rounds) * point.system.buffer.sum()
        assert point.system.budget == pytest.approx(full / 10, rel=0.011)


@pytest.mark.parametrize(
    ("name", "count"), [("acdpp-logistic", 49), ("acdpp-lenet", 27)]
)
def test_the_best_setting_of_acdpp_is_inside_the_grid(name, count):
    rivals = [one for one in ROWS[name] if one["policy"].startswith("K")]
    tried = [
        tuple(int(part[1:]) for part in one["policy"].split("-")[:2]) for one in rivals
    ]
    best = max(zip(rivals, tried, strict=True), key=lambda each: each[0]["last"][0])[1]
    for own, known in zip(best, zip(*tried, strict=True), strict=True):
        assert min(known) < own < max(known)
    assert len(rivals) == count
    assert all(
        one["overspent_runs"] == 0 and one["worst_excess"] <= 0 for one in rivals
    )  # the same limits


def test_the_parts_of_headgate_are_judged_on_the_same_seeds():
    found = simplest_content(RESULTS)
    changed = [line[0].partition(":")[0].strip("`") for line in found.lines]
    assert changed == list(CHANGES)
    rows = {row["policy"]: row for row in ROWS["simplest-brent"]}
    gaps = np.subtract(
        rows["no-floor"]["last_by_seed"], rows["headgate"]["last_by_seed"]
    )
    assert f"{100 * gaps.mean():+.2f}".replace("-", "−") in found.more


@given(
    st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=1, max_size=4),
    st.integers(0, 5000),
)
def test_rows_are_read_as_they_were_kept(values, first):
    columns = ["policy", "seeds", "learnt", "last_by_seed"]
    kept = [
        [f"p{i}", 3, None if i % 2 else [first, first + 2, first + 5], own]
        for i, own in enumerate(values)
    ]
    rows = rows_in({"columns": columns, "rows": kept, "first_seed": first})
    for i, (row, own) in enumerate(zip(rows, values, strict=True)):
        learnt = (
            [first, first + 1, first + 2] if i % 2 else [first, first + 2, first + 5]
        )
        assert (row["policy"], row["learnt"], row["last_by_seed"], row["unit"]) == (
            f"p{i}",
            learnt,
            own,
            "",
        )


def test_a_trial_of_the_whole_chain(tmp_path, studies):
    out, err = studies("reproduce", "drift", "--quick", "--quiet", "--out", tmp_path)
    assert out.split() == [str(tmp_path / "drift.md"), str(tmp_path / "drift.svg")]
    assert "a trial run" in err
    text = (tmp_path / "drift.md").read_text("utf-8")
    assert "A trial run" in text
    assert "nan" not in text
    assert all(
        read_numbers(tmp_path / "results" / "better" / f"{name}.json")["quick"]
        for name in DRIFT
    )
    _, err = studies("reproduce", "drift", "--quiet", "--out", tmp_path, code=4)
    assert "real results would be mixed" in err


def row(policy, best, last, prices="markov"):
    seeds = np.array([0.0, 0.01, -0.01, 0.0])
    values = {"best": best, "last": last, "mean": best}
    learnt = {
        f"{key}_by_seed": (value + (1 + value) * seeds).tolist()
        for key, value in values.items()
    }
    return {
        "policy": policy,
        "budget": 10.0,
        "prices": prices,
        "learnt": [1, 2, 3, 4],
        **learnt,
    }


def test_ahead_is_by_all_measures_and_corrected_for_all_tests():
    ahead = [row("headgate", 0.8, 0.8), row("constant", 0.6, 0.6)]
    short = [row("headgate", 0.8, 0.5, "drift"), row("constant", 0.6, 0.6, "drift")]
    assert beside_constant({"prices": [*ahead, *short], "ablations": ahead}) == (
        2,
        1,
        1,
    )
    close = (0.6 + np.array([0.004, 0.006, 0.001, 0.007])).tolist()  # p = 0.02 alone
    ours = row("headgate", 0.6, 0.6) | {f"{key}_by_seed": close for key in MEASURES}
    level = row("constant", 0.6, 0.6) | {
        f"{key}_by_seed": [0.6] * 4 for key in MEASURES
    }
    many = [
        each | {"prices": f"kind {k}"}
        for k in range(15)
        for each in (row("headgate", 0.6, 0.6), row("constant", 0.6, 0.6))
    ]
    assert beside_constant({"prices": [ours, level, *many]}) == (16, 0, 0)


def test_the_best_schedule_is_chosen_on_other_seeds_than_it_is_judged_on():
    own = [
        row("headgate", 0.7, 0.7),
        row("constant", 0.6, 0.6),
        row("oracle", 0.9, 0.9),
    ]
    lucky, best = row("lucky", 0.9, 0.9), row("best", 0.8, 0.8)
    for one, before in ((lucky, 0.5), (best, 0.6)):
        one["learnt"], one["last_by_seed"] = (
            [0, *one["learnt"]],
            [before, *one["last_by_seed"]],
        )
    found = in_hindsight(own, [lucky, best], "last")
    assert (
        found.schedule,
        round(found.closed.mean, 6),
        round(found.of_it.mean, 6),
    ) == ("best", 0.666667, 0.5)
    assert (
        in_hindsight(
            own, [row("lucky", 0.9, 0.9), row("best", 0.8, 0.8)], "last"
        ).schedule
        == "lucky"
    )


# money for the same accuracy


@pytest.fixture(scope="module")
def saved():
    return savings_content(RESULTS)


def test_no_row_saves_where_prices_never_move(
    saved,
):
    rows = saved.lines
    assert {len(cells) for cells in rows} == {len(SAID["savings"]["columns"])}
    assert (
        len(rows)
        == len({tuple(cells[:2]) for cells in rows})
        == saved.numbers["rows"]
        >= 20
    )
    saves = [cells[0] for cells in rows if "**" in cells[4]]
    assert saved.numbers["saves"] == len(saves)
    assert "never move" in {cells[0] for cells in rows} - set(saves)
    for name in SAVINGS:
        assert budget(name) in {row["budget"] for row in ROWS[name]}
        assert (
            min(seed for row in ROWS[name] for seed in row["learnt"]) >= 5000
        )  # no other study has any of them
        assert all(
            row["kept_limits"] for row in ROWS[name]
        )  # everybody is held to the money and the buffers


def test_pages_say_their_conclusions_a_figure_a_table_and_the_command(saved, tmp_path):
    page, drawn = write_page("savings", saved, tmp_path)
    text = page.read_text("utf-8")
    title, purpose, said, picture, *_ = text.split("\n\n")
    assert title.startswith("# ")
    assert purpose.startswith("Where `headgate`")
    assert "in 14 of 22 rows" in " ".join(said.split())
    assert (
        picture
        == "![What headgate needs of the money of three rivals, by model and kind of"
        " price](savings.svg)"
    )
    assert "python -m studies reproduce savings" in text.split("## How it was made")[1]
    assert drawn.stat().st_size > 5000
    assert Path(drawn).read_bytes().startswith(b"<?xml")


# the leaderboard: who is ranked, and in which order

NOISE = np.random.default_rng(0).normal(0.0, 0.01, 12)


def result(policy, last, *, kept=True, reference=False, gain=0.0):
    values = (last + NOISE + gain).tolist()
    limits = {"kept_limits": kept, "reference": reference, "learnt": list(range(12))}
    return {
        "policy": policy,
        "last": [float(np.mean(values)), None, None],
        "last_by_seed": values,
        **limits,
    }


def test_the_order_is_that_of_the_means_within_the_limits():
    wobble = np.random.default_rng(1).normal(0.0, 0.02, 12)
    rows = [
        result("poor", 0.5, gain=wobble * 0.1),
        result("spender", 0.9, kept=False),
        result("good", 0.7),
        result("level", 0.699, gain=wobble - wobble.mean()),
        result("oracle", 0.95, reference=True),
    ]
    names, gaps = ranked({row["policy"]: row for row in rows})
    assert names == ["good", "level", "poor"]
    assert gaps["poor"].mean == pytest.approx(100 * (-0.2 + 0.1 * wobble.mean()))
    assert gaps["poor"].p < 1e-6 < 0.05 < gaps["level"].p
    assert ranked({"spender": rows[1]}) == ([], {})


def test_the_page_has_every_table_and_no_place_for_who_broke_a_limit():
    found = leaderboard_content(RESULTS)
    assert len(found.lines) == found.numbers["tables"] > found.numbers["first"] > 0
    assert {len(line) for line in found.lines} == {len(SAID["leaderboard"]["columns"])}
    assert not [
        line
        for line in found.lines
        if "`released`" in " ".join(line) or "`oracle`" in " ".join(line)
    ]
