"""What a part of learning is worth: settings are chosen on held-out images, differences are taken seed by seed."""

import json
from pathlib import Path

import pytest

from studies.better.studies import OBJECTIVES, SERVERS, study
from studies.better.worth import SERVER, chosen, part_of, worth_said, worth_table

DOCS = Path(__file__).parents[3] / "docs" / "better"
FOUND = {
    name: json.loads(page.read_text("utf-8")) for name in (*SERVERS, *OBJECTIVES) if (page := DOCS / f"{name}.json").is_file()
}


def a_row(kind, setting, policy, best, held_out, learnt=(0, 1, 2), diverged=0):
    by_seed = {f"{key}_by_seed": list(best) for key in ("best", "last", "mean", "chosen")}
    row = {"kind": kind, "setting": setting, "policy": policy, "learnt": list(learnt), "diverged": diverged, **by_seed}
    return {**row, "held_out_by_seed": list(held_out)}


def rows_of(settings):
    plain = [a_row("average", "", policy, (0.8, 0.8, 0.8), (0.8,) * 3) for policy in ("headgate", "constant", "oracle")]
    others = [
        a_row("momentum", setting, policy, best, held, *more)
        for setting, best, held, *more in settings
        for policy in ("headgate", "constant", "oracle")
    ]
    return plain + others


def test_settings_are_chosen_on_what_is_held_out_not_on_the_test_images():
    rows = rows_of([("0.3", (0.99,) * 3, (0.81,) * 3), ("0.5", (0.85,) * 3, (0.83,) * 3)])
    assert chosen(rows) == {"average": "", "momentum": "0.5"}


def test_a_setting_that_loses_runs_is_not_chosen():
    rows = rows_of([("0.9", (0.99, 0.99), (0.99, 0.99), (0, 2), 1), ("0.5", (0.85,) * 3, (0.83,) * 3)])
    assert chosen(rows)["momentum"] == "0.5"


def test_differences_are_those_of_seeds_that_both_learnt():
    rows = rows_of([("0.5", (0.82, 0.84, 0.86), (0.83,) * 3)])
    rows[0] = a_row("average", "", "headgate", (0.81, 0.82), (0.8, 0.8), learnt=(0, 2), diverged=1)  # seed 1 was lost
    line = worth_table({"help-logistic": rows}, SERVER).splitlines()[2]
    first = line.split("|")[3].strip()
    assert first.startswith("+2.50 ±")  # (82 − 81 + 86 − 82)/2


def test_what_is_said_of_a_kind_goes_by_an_interval_clear_of_zero():
    settings = [("0.5", (0.82, 0.83, 0.83), (0.9,) * 3)]
    rows = rows_of(settings)
    for kind, best in (("adam", (0.7, 0.71, 0.69)), ("yogi", (0.7, 0.9, 0.8))):
        rows += [{**row, "kind": kind, "best_by_seed": list(best)} for row in rows_of(settings)[3:]]
    gain, lose, neither = "`momentum`", "`adam`", "`yogi`"
    said = f"headgate's best models clearly gain by {gain}, clearly lose by {lose}, neither by {neither}."
    assert worth_said({"help-logistic": rows}, SERVER) == f"- MNIST, logistic regression, servers: {said}"
    assert "gain by none of them" in worth_said({"help-logistic": rows_of([("0.5", (0.7,) * 3, (0.9,) * 3)])}, SERVER)


@pytest.mark.parametrize("name", FOUND)
def test_the_recipe_of_a_study_is_the_one_that_was_run(name):
    points, rows = study(name).points, FOUND[name]["rows"]
    first = points[0][1]
    assert len(rows) == len(points) * len(first.policies)
    part = part_of(name)
    tables = [each.tables().get(part.section, {"kind": part.plain}) for _, each in points]
    assert [row["kind"] for row in rows[:: len(first.policies)]] == [table["kind"] for table in tables]
    for row, table in zip(rows[:: len(first.policies)], tables, strict=True):
        assert all(f"{table[setting]:g}" in row["setting"] for setting in part.settings.get(row["kind"], ()))
    assert {row["seeds"] + row["diverged"] for row in rows} == {len(first.seeds)}
    assert {(row["rounds"], row["budget"]) for row in rows} == {(first.rounds, first.system.budget)}
    assert all(row["kept_limits"] for row in rows if row["policy"] == "headgate")


def test_a_kind_with_which_models_always_broke_down_is_named():
    rows = rows_of([("0.5", (0.82, 0.83, 0.83), (0.9,) * 3)])
    lost = {**rows[3], "kind": "adam", "learnt": [1], "diverged": 2}
    assert "broke down" not in worth_said({"help-logistic": rows}, SERVER)
    said = worth_said({"help-logistic": [*rows, lost, {**lost, "setting": "0.7", "learnt": [], "diverged": 3}]}, SERVER)
    assert said.endswith("With `adam` 5 of headgate's 6 runs broke down, so there is no line for it.")
