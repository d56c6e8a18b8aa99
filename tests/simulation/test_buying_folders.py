"""Run folders of clients that choose what they buy: stopped and resumed to the same bytes, cut into parts, told of."""

import json

import pytest

import headgate
from headgate.control.policies import Headgate
from headgate.control.selection import ByEntropy
from headgate.experiment import load

SETTINGS = [
    "run.seeds=2",
    "run.rounds=6",
    "run.policies=['plain', 'unsure', 'spread']",
    "training.steps=2",
    "data.window=3",
    "data.look=0.25",
    "data.keep=4",
    "data.late=1",
    "policies.plain={kind='headgate'}",
    "policies.unsure={kind='headgate', selection='margin'}",
    "policies.spread={kind='headgate', rule='reservoir', selection='studies.zoo.kcentre:KCentre'}",
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bought") / "whole"
    headgate.run(load("digits", SETTINGS), folder, quiet=True)
    return folder


def test_what_was_paid_for_looks_is_told(whole):
    run = headgate.open(whole)
    paid = {each["policy"]: each.get("paid_for_looks") for each in json.loads((whole / "summary.json").read_text())}
    rows = run.frame
    assert paid.pop("plain") is None
    for name, looks in paid.items():
        own = rows.filter(rows["policy"] == name)
        assert looks == pytest.approx(own["looks"].sum() / 2)
        assert looks < own["spend"].sum() / 2
        assert looks > 0
    assert "For looks" in (whole / "report.html").read_text("utf-8")


def test_where_nobody_looks_nothing_of_it_is_told(tmp_path):
    headgate.run(load("digits", [*SETTINGS, "run.policies=['plain']", "run.rounds=2"]), tmp_path / "plain", quiet=True)
    assert "looks" not in headgate.open(tmp_path / "plain").frame.columns
    assert "paid_for_looks" not in json.loads((tmp_path / "plain" / "summary.json").read_text())[0]
    assert "For looks" not in (tmp_path / "plain" / "report.html").read_text("utf-8")


def test_plan_and_rehearsal_pay_for_looks():
    free = headgate.load("digits", "run.rounds=20", "run.seeds=2", "data.window=4")
    dear = headgate.load("digits", "run.rounds=20", "run.seeds=2", "data.window=4", "data.look=1.0")
    policy = Headgate(selection=ByEntropy())
    made = [headgate.rehearse(e.with_policy("own", policy)).frame for e in (free, dear)]
    own, others = ([frame.filter((frame["policy"] == "own") == is_own) for frame in made] for is_own in (True, False))
    assert others[0].equals(others[1])
    assert (own[1]["price"] - own[0]["price"]).to_numpy() == pytest.approx(4.0)
    assert own[1]["admitted"].sum() < own[0]["admitted"].sum()
    assert own[1]["spend"].sum() <= 2 * 20 * dear.system.budget
    plans = [headgate.plan(e.with_policy("own", policy), "own") for e in (free, dear)]
    assert plans[1].plan.rehearsal.admitted.sum() < plans[0].plan.rehearsal.admitted.sum()
