"""Many hostile folders at once: a list takes a stated amount of time and memory, and the honest ones are in it."""

import json
import os
import subprocess
import sys
from itertools import cycle, islice
from pathlib import Path

import polars as pl
import pytest

from headgate.limits import LIST, LISTED
from headgate.records.together import Allowance, smallest_first

FOLDERS, SECONDS, GIBIBYTES = 500, 120.0, 2.0
"""what docs/reference/limits.md states"""
CONFIG = "[system]\nbuffers = [3, 2]\nclients = 2\nbudget = 5.0\n"
LOOK = """
import json, sys, time
from pathlib import Path
from headgate.analysis.listing import list_rows
from headgate.records.reader import look_for_runs
from headgate.web.answers import run_list
from headgate.web.runs import Library
began = time.process_time()
if sys.argv[1] == "runs":
    whole, damaged = look_for_runs(Path(sys.argv[2]))
    rows = list_rows(whole)
else:
    library = Library(Path(sys.argv[2]))
    rows = run_list(library, "", "accuracy", "desc", 1000, 0).rows
    damaged = library.unreadable()
fine = [row["name"] for row in rows if not row["problem"]]
bad = len(damaged) + len(rows) - len(fine)
told = Path("/proc/self/status").read_text()  # not getrusage, which begins with the peak of who started this
most = int(told.partition("VmHWM:")[2].split()[0]) / 2**20
print(json.dumps({"fine": fine, "bad": bad, "seconds": time.process_time() - began, "most": most}))
"""


def run(folder, rounds=3, **state):
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(CONFIG)
    (folder / "environment.json").write_text('{"started": "2026-01-01T00:00:00+00:00"}')
    told = {"state": "interrupted", "round": 0, "rounds": rounds, "pid": 0, "policies": ["a"], "seeds": [0]}
    (folder / "state.json").write_text(json.dumps({**told, **state}))
    return folder


def rows(count):
    own = {"policy": ["a"] * count, "seed": [0] * count, "t": range(1, count + 1)}
    return pl.DataFrame({**own, "test_accuracy": [0.5] * count, "spend": [1.0] * count, "excess": [0] * count})


def large_state(folder):
    path = run(folder) / "state.json"
    path.write_text(path.read_text()[:-1] + ', "x": [' + ",".join(["[]"] * 2_700_000) + "]}")


def large_environment(folder):
    (run(folder) / "environment.json").write_text('{"x": [' + ",".join(["{}"] * 2_700_000) + "]}")


def many_settings(folder):
    text = CONFIG + "".join(f"[a.b{i}]\n" for i in range(95_000))
    (run(folder) / "config.toml").write_text(text[:LISTED])


def deep_settings(folder):
    (run(folder) / "config.toml").write_text(CONFIG + "".join(f"{'a.' * 18}b{i} = 1\n" for i in range(23_000)))


def small_settings(folder):
    """Just below what is read of any folder."""
    (run(folder) / "config.toml").write_text(CONFIG + "".join(f"{'a.' * 18}b{i} = 1\n" for i in range(330)))


def many_runs(folder):
    run(folder, 10, policies=[f"p{i}" for i in range(1000)], seeds=list(range(100)))


def many_rounds(folder):
    rows(1_000_000).write_parquet(run(folder, 1_000_000, state="finished") / "metrics.parquet")


def many_lines(folder):
    line = json.dumps({"policy": "a", "seed": 0, "t": 1, "test_accuracy": None, "spend": 1.0, "excess": 0}) + "\n"
    (run(folder, 100_000) / "metrics.jsonl").write_text(line * 400_000)


HOSTILE = (
    large_state,
    large_environment,
    many_settings,
    deep_settings,
    small_settings,
    many_runs,
    many_rounds,
    many_lines,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """One folder of each kind."""
    root = tmp_path_factory.mktemp("made")
    for make in HOSTILE:
        make(root / make.__name__)
    return root


def many(root, made, count):
    """The files of those under other names; three honest runs are among them."""
    for number, make in zip(range(count), cycle(HOSTILE), strict=False):
        folder = root / f"bad-{number:03}"
        folder.mkdir()
        for path in (made / make.__name__).iterdir():
            os.link(path, folder / path.name)
    for number in range(3):
        rows(3).write_parquet(run(root / f"good-{number}", state="finished") / "metrics.parquet")
    return root


@pytest.mark.parametrize(("way", "part"), [("runs", 2), ("page", 1)])
def test_hundreds_of_hostile_folders_are_listed_within_a_stated_total(made, tmp_path, way, part):
    """Both ways read by the same rules: one is shown all folders, the other half of them, which would take longer than that if
    all of their settings were read."""
    folders, count = tmp_path / "many", FOLDERS // part
    folders.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", LOOK, way, str(many(folders, made, count))], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert {"good-0", "good-1", "good-2"} <= set(told["fine"])
    assert len(told["fine"]) + told["bad"] == count + 3
    assert told["bad"] > count / 8
    assert told["seconds"] < SECONDS
    assert told["most"] < GIBIBYTES


def test_the_page_of_limits_states_that_total():
    said = (Path(__file__).parents[2] / "docs" / "reference" / "limits.md").read_text("utf-8")
    assert f"{FOLDERS} folders made to be costly" in said
    assert f"{SECONDS:.0f} seconds of one core and {GIBIBYTES:.0f} GiB" in said


def test_the_smallest_come_first_and_what_does_not_fit_is_not_counted():
    left = Allowance(10)
    sizes = smallest_first([7, 1, 4, 9], lambda size: size)
    assert [each for each, size in sizes if left.take(size)] == [1, 4]
    assert (left.left, left.take(5), left.take(1)) == (5, True, False)
    assert list(islice((each for each, _ in sizes), 2)) == [1, 4]
    assert f"more than {LIST / 2**20:,.0f} MiB" in Allowance(LIST).over("the settings")
