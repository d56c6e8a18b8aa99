"""What plan, rehearse and compare say of a queue that delivers rounds later."""

import json
from pathlib import Path

import numpy as np
import pytest

from headgate.analysis.comparison import queue_costs
from headgate.analysis.rehearsal import cost_of_queue

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = ["--set", "run.rounds=40", "--set", "run.seeds=6"]
SLOW = [*SMALL, "--set", "data.delay=8"]


def test_a_plan_says_how_many_labels_a_slow_queue_costs(headgate):
    at_once, slow = (
        json.loads(headgate("plan", "digits", *how, "--format", "json")[0])
        for how in (SMALL, SLOW)
    )
    assert "delay_fewer" not in at_once
    assert 0 < slow["delay_fewer"] < 0.2
    assert 0 < slow["delay_dearer"] < 0.2
    text, _ = headgate("plan", "digits", *SLOW)
    assert f"{100 * slow['delay_fewer']:.1f} % fewer labels than without" in text
    assert "slow queue" not in headgate("plan", "digits", *SMALL)[0]


def test_a_rehearsal_says_it_of_every_policy(headgate):
    text, _ = headgate("rehearse", "digits", *SLOW, "--quiet")
    lines = [line for line in text.splitlines() if ": delay 8: " in line]
    named = [line.partition(":")[0] for line in lines]
    assert named == ["headgate", "constant", "acdpp", "oracle"]
    random = [*SMALL, "--set", "data.delay={geometric=4}", "--policies", "headgate"]
    text, _ = headgate("rehearse", "digits", *random, "--quiet")
    assert "come after the last round" in text


def test_the_cost_is_that_of_all_runs_together():
    class Found:
        def __init__(self, admitted, spend):
            self.admitted, self.spend = np.array(admitted), np.array(spend)

    slow, at_once = Found([[3], [1]], [[6.0], [4.0]]), Found([[4], [4]], [[6.0], [6.0]])
    cost = cost_of_queue(slow, at_once)
    assert (cost.fewer.mean, cost.fewer.low, cost.fewer.high) == (0.5, 0.25, 0.75)
    assert cost.dearer.mean == pytest.approx(2.5 / 1.5 - 1)
    assert cost.dearer.high == pytest.approx(4 / 1.5 - 1)


def test_a_comparison_with_and_without_a_delay_says_what_it_costs(headgate, tmp_path):
    few = ["--seeds", "2", "--rounds", "12", "--set", "sweep.data.delay=[0, 3]"]
    out = ["--budgets", "recipe", "--out", tmp_path / "queue", "--quiet"]
    text, _ = headgate("compare", EXAMPLES / "slow_queue.toml", *few, *out)
    assert "price of a sample: uniform, low 1, high 10\n" in text
    assert "price of a sample: uniform, low 1, high 10, delay 3\n" in text
    rows = json.loads((tmp_path / "queue" / "compare.json").read_text())["rows"]
    by_delay = {
        (row["policy"], row.get("delay")): np.array(row["last_by_seed"]) for row in rows
    }
    assert len(by_delay) == 4
    gap = 100 * (by_delay["headgate", "delay 3"] - by_delay["headgate", None]).mean()
    said = f"delay 3, headgate at 20.0 a round: {gap:+.1f} ± ".replace("-", "−")
    assert "Beside no delay:" in text
    assert said in text
    only = [row for row in rows if "delay" in row]
    assert queue_costs(only) == []
