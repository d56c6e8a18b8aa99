"""The recipe of a world that changes: the page shows it as it is, and what it leaves tells of the changes."""

import json
import re
import tomllib
from pathlib import Path

import headgate
from headgate.experiment import load

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "do" / "changes.md").read_text("utf-8")


def test_the_recipe_on_the_page_is_the_one_that_is_shipped():
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert load({"base": "digits", **tomllib.loads(block)}).data == load("drifting").data


def test_the_recipe_tells_of_its_dips_in_summary_and_report(tmp_path):
    e = headgate.load("drifting", "data.kind=digits", "run.seeds=2", 'run.policies=["oracle", "constant"]')
    run = headgate.run(e, tmp_path / "moved", quiet=True)
    frame = run.frame
    assert frame.filter(frame["changed"] > 0)["t"].unique().sort().to_list() == [41, 81]
    told = {row["policy"]: row for row in json.loads((tmp_path / "moved" / "summary.json").read_text())}
    for row in told.values():
        assert row["dips"] == 4  # two changes, two seeds
        assert 0.2 < row["dip_depth"]["mean"] < 0.9
        assert row["dip_length"]["mean"] >= 1
    assert told["oracle"]["daily_accuracy"]["mean"] > told["constant"]["daily_accuracy"]["mean"]  # who renews all is back first
    report = (tmp_path / "moved" / "report.html").read_text("utf-8")
    assert "Dip lasts" in report
    assert '"changes":[41,81]' in report
