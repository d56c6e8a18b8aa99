"""benchmarks/README.md says what the committed results say, and its tool and
the benchmarks' own tools are right.
"""

import importlib.util
import json
import re
import runpy
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parent.parent
TOOL = runpy.run_path(str(ROOT / "tools" / "benchmarks.py"))


def of_benchmarks(name):
    """A module of benchmarks/, which is no package."""
    spec = importlib.util.spec_from_file_location(
        f"benchmarks_{name}", ROOT / "benchmarks" / f"{name}.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


MACHINE, CHILDREN, WORK = (
    of_benchmarks(name) for name in ("machine", "children", "same_work")
)


# the page


def test_no_result_names_a_folder_of_the_machine():
    for name, each in TOOL["load"](TOOL["RESULTS"]).items():
        words = each["command"].removeprefix("python benchmarks/").split()
        cases = re.compile(r"(logistic|lenet|flower|pfl)/\w+(@\d)?")
        assert not [
            word for word in words if "/" in word and not cases.fullmatch(word)
        ], name


def test_what_is_asked_for_and_not_reached_is_said():
    targets = [
        MACHINE.target("fast enough", 100, 150),
        MACHINE.target("small enough", 10, 11, "MiB", at_most=True),
    ]
    text = TOOL["page"](
        {"executors": TOOL["load"](TOOL["RESULTS"])["executors"] | {"targets": targets}}
    )
    assert "| fast enough | ≥ 100× | 150× | yes | executors |" in text
    assert "| small enough | ≤ 10 MiB | 11 MiB | **no** | executors |" in text


# the record


def test_where_a_result_went_is_not_in_the_command():
    words = [
        "/home/me/benchmarks/gpu.py",
        "--quick",
        "--out",
        "/home/me/gpu.json",
        "--case",
        "lenet/1",
    ]
    assert MACHINE.command(words) == "python benchmarks/gpu.py --quick --case lenet/1"


# processes


def test_a_command_is_timed_with_all_that_it_starts():
    script = (
        "import subprocess, time; print(subprocess.Popen(['sleep', '60']).pid);"
        " time.sleep(1)"
    )
    done = CHILDREN.run([sys.executable, "-c", script], {}, timeout=30)
    assert CHILDREN.stat(int(done.output)) is None  # nothing is left running
    assert done.seconds >= 1
    assert done.peak_memory_mib > 1


# the work that headgate and a peer both do


@given(st.integers(1, 10_000), st.integers(0, 9))
def test_a_client_trains_on_different_images_of_its_own_the_same_for_everybody(
    t, client
):
    rows, sizes = WORK.rows(t, client), WORK.sizes(t)
    assert (sizes.sum(), len(sizes)) == (WORK.SAMPLES, WORK.CLIENTS)
    assert len(rows) == len(set(rows.tolist())) == sizes[client] >= 1
    assert (rows // WORK.POOL == client).all()
    assert (rows == WORK.rows(t, client)).all()


# where the time of a run goes


def test_an_inner_phase_is_not_counted_as_the_outer_one(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    phases = of_benchmarks("phases")
    now = iter([0.0, 1.0, 3.0, 6.0, 10.0, 15.0])
    monkeypatch.setattr(phases.time, "perf_counter", lambda: next(now))
    clock = phases.Clock()
    inner = clock.timed("import", lambda: None)
    clock.timed("data", inner)()
    clock.turn()
    assert clock.spent == dict.fromkeys(phases.PHASES, 0.0) | {
        "rest": 1.0 + 5.0,
        "data": 2.0 + 4.0,
        "import": 3.0,
    }


def test_every_phase_of_a_run_is_seen(python, tmp_path):
    words = [
        "run",
        "digits",
        "--rounds=2",
        "--seeds=1",
        "--policies=headgate",
        "--processes=1",
        "--progress=none",
        "--out",
        "run",
    ]
    out, _ = python(
        ROOT / "benchmarks" / "phases.py", "--only", "logistic", *words, cwd=tmp_path
    )
    spent = json.loads(out.splitlines()[-1])
    assert {phase for phase, seconds in spent.items() if seconds == 0} == {"compile"}


# a million clients


def test_the_parts_of_a_round_make_up_the_round(python):
    told = json.loads(
        python(ROOT / "benchmarks" / "scale.py", "--child", "200", "--rounds", "6")[0]
    )
    parts = zip(
        *(told["times"][part] for part in ("control", "packing", "training", "rest")),
        strict=True,
    )
    assert [sum(each) for each in parts] == pytest.approx(told["times"]["cpu"])
    assert all(
        seconds > 0
        for part in ("round", "control", "packing", "training")
        for seconds in told["times"][part]
    )
    assert told["peak_memory_mib"] >= told["before_mib"] > 0


@pytest.mark.long
def test_memory_and_rows_of_a_run_are_seen_from_outside(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    told = of_benchmarks("million").played("one run", "headgate", 1, 60, 2000)
    assert told["peak_mib_a_run"] == told["peak_memory_mib"] > 50
    assert told["median_ms"] > 0
    assert 0 < told["rows_before_the_end"] <= 100
