"""A policy is added to a finished comparison, and nothing that was played is played again."""

from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headgate
from headgate.control.policies import Constant
from headgate.errors import DataError
from headgate.simulation import schedule
from headgate.simulation.schedule import BESIDE, find_finished, in_order

SMALL = ("run.rounds=3", "run.seeds=2")


def compared(folder, policies, *more, budgets=(20, 55)):
    names = ", ".join(f'"{name}"' for name in policies)
    return headgate.compare(headgate.load("digits", *SMALL, f"run.policies=[{names}]", *more), budgets, folder, quiet=True)


def written(folder):
    return {
        path: path.read_bytes() for path in folder.rglob("*") if path.name in ("metrics.parquet", "state.json", "config.toml")
    }


def test_what_was_added_is_as_if_it_had_been_there_from_the_beginning(tmp_path):
    whole = compared(tmp_path / "whole", ["constant", "headgate", "oracle"])
    first = compared(tmp_path / "grown", ["oracle", "headgate"])
    before = written(tmp_path / "grown")
    grown = compared(tmp_path / "grown", ["constant", "headgate", "oracle"])
    assert grown.rows == whole.rows
    assert written(tmp_path / "grown").items() >= before.items()
    new = sorted(path.parent.name for path in written(tmp_path / "grown").keys() - before.keys() if path.name == "state.json")
    assert new == [f"system.budget={budget}{BESIDE}constant" for budget in ("20.0", "55.0")]
    after = written(tmp_path / "grown")
    fewer = compared(tmp_path / "grown", ["headgate", "oracle"])
    learnt = [(row["policy"], row["best"]) for row in grown.rows if row["policy"] != "constant"]
    assert [(row["policy"], row["best"]) for row in fewer.rows] == learnt
    assert [row["policy"] for row in first.rows] == ["oracle", "headgate"] * 2
    assert written(tmp_path / "grown") == after
    assert len(headgate.open(tmp_path / "grown").folders) == 4


def test_budgets_and_policies_are_added_at_once(tmp_path):
    compared(tmp_path, ["constant"], budgets=(20,))
    assert compared(tmp_path, ["constant", "headgate"], budgets=(55, 20)).frame.select("budget", "policy").rows() == [
        (20.0, "constant"),
        (20.0, "headgate"),
        (55.0, "constant"),
        (55.0, "headgate"),
    ]
    points = sorted(path.parent.name for path in tmp_path.rglob("state.json"))
    assert points == ["system.budget=20.0", f"system.budget=20.0{BESIDE}headgate", "system.budget=55.0"]


@pytest.mark.parametrize("other", ["run.rounds=4", "training.lr=0.01", "policies.constant.K=3"])
def test_nothing_is_added_to_what_was_run_otherwise(tmp_path, other):
    compared(tmp_path, ["constant"], budgets=(20,))
    before = written(tmp_path)
    with pytest.raises(DataError, match=r"was begun with other settings \(.*choose another folder"):
        compared(tmp_path, ["constant", "headgate"], other, budgets=(20,))
    assert written(tmp_path) == before


def test_an_object_that_no_recipe_can_name_is_added_and_never_taken_for_another(tmp_path):
    class Own(Constant):
        """Of this test alone."""

    compared(tmp_path, ["constant"], budgets=(20,))
    e = headgate.load("digits", *SMALL, 'run.policies=["constant"]').with_policy("own", Own())
    found = headgate.compare(e, [20], tmp_path, quiet=True)
    assert found.frame["policy"].to_list() == ["constant", "own"]
    with pytest.raises(DataError, match="was begun with other settings"):
        headgate.compare(e.with_policy("own", Own(K=2)), [20], tmp_path, quiet=True)


POLICIES = ("headgate", "constant", "oracle", "random")
A_SET = st.permutations(POLICIES).flatmap(lambda names: st.integers(1, 4).map(lambda count: names[:count]))
WHOLE = headgate.load("digits", *SMALL, f"run.policies={list(POLICIES)}".replace("'", '"'))


@given(st.lists(A_SET, min_size=1, max_size=6))
def test_every_policy_is_found_or_played_once_whatever_was_asked_before(asked):
    """Folders are told by their names alone here: label and policies."""
    there: dict[Path, list[str]] = {}
    told = {
        "points_of": mock.Mock(side_effect=lambda folder: list(there)),
        "_policies": mock.Mock(side_effect=lambda folder: there[folder]),
        "_holds": mock.Mock(side_effect=lambda folder, wanted: folder in there),
    }
    with mock.patch.multiple(schedule, **told), mock.patch.object(Path, "is_file", mock.Mock(side_effect=lambda: bool(there))):
        for names in asked:
            points = [("a=1", WHOLE.only(list(names))), ("b=2", WHOLE.only(list(names)))]
            finished, left = find_finished(points, Path("out"))
            played = {Path("out") / label: list(experiment.policies) for label, experiment in left}
            fresh = {path: own for path, own in played.items() if path not in there}
            shares = in_order(points, {**finished, **played})
            for label, _ in points:
                own = [name for path, share in shares.items() if path.name.startswith(label) for name in share]
                assert sorted(own) == sorted(names)
            before = {(path.name[:3], name) for path, share in there.items() for name in share}
            assert not before & {(path.name[:3], name) for path, share in fresh.items() for name in share}
            assert [path.name[:3] for path in shares] == sorted(path.name[:3] for path in shares)
            there |= fresh
