"""The page about a world that changes: its commands run, and what they leave says what the page says."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import headgate
from headgate.experiment import load

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "changes.md").read_text("utf-8")


def test_the_recipe_on_the_page_is_the_one_that_is_shipped():
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert load({"base": "digits", **tomllib.loads(block)}).data == load("drifting").data


def test_the_commands_of_the_page_run_and_tell_of_the_dips(tmp_path):
    (block,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path}
    for line in block.splitlines():
        done = subprocess.run(line, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
    run = headgate.open(tmp_path / "moved")
    frame = run.frame
    assert frame.filter(frame["changed"] > 0)["t"].unique().sort().to_list() == [41, 81]
    told = {row["policy"]: row for row in json.loads((tmp_path / "moved" / "summary.json").read_text())["policies"]}
    for row in told.values():
        assert row["dips"] == 10  # two changes, five seeds
        assert 0.2 < row["dip_depth"]["mean"] < 0.9
        assert row["dip_length"]["mean"] >= 1
    assert (
        told["oracle"]["dip_length"]["mean"] < told["headgate"]["dip_length"]["mean"]
    )  # who renews all every round is back first
    report = (tmp_path / "moved" / "report.html").read_text("utf-8")
    assert "Dip lasts" in report
    assert "change in round 41" in report
    assert (tmp_path / "moved" / "figures" / "accuracy-daily.svg").exists()
