"""run, runs, report and data as a user types them."""

import json
import re
from pathlib import Path

import polars as pl
import pytest

from headgate.errors import DataError
from headgate.records.owner import OwnedRun
from headgate.records.reader import RunFolder
from headgate.records.tables import METRICS, points_of

EXAMPLES = Path(__file__).parent.parent / "examples"
SMALL = (
    "--rounds",
    "4",
    "--seeds",
    "2",
    "--policies",
    "acdpp,constant",
    "--progress",
    "none",
)


@pytest.fixture(autouse=True)
def _there(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def test_run_writes_everything_it_promises(headgate, tmp_path):
    out, _ = headgate("run", "digits", *SMALL, "--track", "tensorboard")
    (folder,) = (tmp_path / "runs").iterdir()
    assert re.fullmatch(r"digits-\d{8}-\d{6}", folder.name)
    assert f"report: {Path('runs') / folder.name / 'report.html'}" in out
    assert "Spend a round" in out
    assert {path.name for path in folder.iterdir()} == {
        "config.toml", "environment.json", "state.json", "metrics.parquet",
        "clients.parquet", "summary.json", "report.html", "checkpoints", "tensorboard",
    }  # fmt: skip
    assert {path.name for path in (folder / "tensorboard").iterdir()} == {
        "acdpp",
        "constant",
    }
    frame = pl.read_parquet(folder / "metrics.parquet")
    assert frame.columns == list(METRICS)
    assert frame.height == 2 * 2 * 4
    summary = json.loads((folder / "summary.json").read_text())
    assert [each["policy"] for each in summary] == ["acdpp", "constant"]
    assert summary[0]["best_accuracy"]["runs"] == 2
    listed, _ = headgate("runs")
    assert folder.name in listed
    assert "finished" in listed
    (row,) = json.loads(headgate("runs", "--format", "json")[0])
    assert (row["name"], row["round"], row["data"], row["model"]) == (
        folder.name,
        4,
        "digits",
        "logistic",
    )


def test_json_lines_for_machines(headgate, tmp_path):
    words = [
        "run",
        "digits",
        "--rounds",
        "3",
        "--seeds",
        "1",
        "--policies",
        "constant",
        "--progress",
        "json",
    ]
    out, err = headgate(*words, "--format", "json")
    lines = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    assert [line["round"] for line in lines] == [1, 2, 3]
    assert json.loads(out)["policies"][0]["policy"] == "constant"


def test_a_run_that_no_terminal_shows_prints_lines_of_progress(headgate, monkeypatch):
    monkeypatch.setattr("headgate.progress.FIRST", 0.0)
    monkeypatch.setattr("headgate.records.owner.TICK_SECONDS", 0.0)
    _, err = headgate(
        "run",
        "digits",
        "--rounds",
        "4",
        "--seeds",
        "2",
        "--policies",
        "constant",
        "--processes",
        "1",
    )
    assert re.search(r"^learning: \d of \d+ rounds, 0:00:\d\d$", err, re.M)


def test_a_second_run_into_a_finished_folder_says_that_nothing_is_done(
    headgate, tmp_path
):
    words = ("run", "digits", *SMALL[:-2], "--out", tmp_path / "r")
    first, err = headgate(*words)
    assert "nothing was bought or trained" not in err
    before = (tmp_path / "r" / "metrics.parquet").stat().st_mtime_ns
    again, err = headgate(*words)
    said = f"{tmp_path / 'r'}: is finished; nothing was bought or trained; choose"
    assert said in " ".join(err.split())
    assert again == first
    assert (tmp_path / "r" / "metrics.parquet").stat().st_mtime_ns == before


def test_a_sweep_runs_every_point_and_compares_them(headgate, tmp_path):
    words = (
        "run",
        "digits",
        *SMALL,
        "--out",
        tmp_path / "s",
        "--set",
        "sweep.training.lr=[0.1, 0.5]",
    )
    headgate(
        *words, "--set", "sweep.policies.acdpp.V=[1, 10]", "--set", "sweep.mode=zip"
    )
    points = {
        "training.lr=0.1,policies.acdpp.V=1",
        "training.lr=0.5,policies.acdpp.V=10",
    }
    assert {path.name for path in (tmp_path / "s").iterdir()} == {
        *points,
        "sweep.json",
        "report.html",
    }
    listed = json.loads(headgate("runs", tmp_path, "--format", "json")[0])
    assert {row["name"] for row in listed} >= {f"s~{point}" for point in points}
    headgate(
        "run", "--resume", tmp_path / "s"
    )  # nothing is left to do, and that is fine
    headgate("report", tmp_path / "s", "--out", tmp_path / "again.html")
    assert (
        "training.lr=0.5,policies.acdpp.V=10" in (tmp_path / "again.html").read_text()
    )


PER_CLIENT = [
    "--set",
    (
        "prices={kind='per-client', common={kind='constant', value=2.0},"
        f" factors={[1.0] * 10}}}"
    ),
]


def test_a_cartesian_sweep_and_senseless_ones(headgate, tmp_path):
    words = (
        "run",
        "digits",
        "--rounds",
        "2",
        "--seeds",
        "1",
        "--policies",
        "constant",
        "--progress",
        "none",
    )
    headgate(
        *words,
        "--out",
        tmp_path / "c",
        "--set",
        "sweep.training.lr=[0.1, 0.5]",
        "--set",
        "sweep.training.steps=[1, 2]",
    )
    assert len([path for path in (tmp_path / "c").iterdir() if path.is_dir()]) == 4
    zipped = (
        "--set",
        "sweep.mode=zip",
        "--set",
        "sweep.training.lr=[0.1]",
        "--set",
        "sweep.training.steps=[1, 2]",
    )
    assert "one length" in headgate(*words, *zipped, code=2)[1]
    assert (
        "must be a list"
        in headgate(*words, "--set", "sweep.training.lr=0.1", code=2)[1]
    )
    assert (
        "sweep.mode = all"
        in headgate(
            *words, "--set", "sweep.mode=all", "--set", "sweep.training.lr=[1]", code=2
        )[1]
    )
    assert (
        "training.lt: unknown key"
        in headgate(*words, "--set", "sweep.training.lt=[1]", code=2)[1]
    )


@pytest.mark.parametrize(("times", "left"), [(1, 3), (2, 2)], ids=["once", "twice"])
def test_resume_from_the_command_line(headgate, python, tmp_path, times, left):
    """Ctrl-C ends after the round; a second one at once, which is told and recorded as
    well.
    """
    folder = tmp_path / "r"
    script = f"""if True:
        import os, signal
        from headgate.cli import main
        from headgate.simulation import run
        step = run.Simulation.step
        def stop(self):
            done = step(self)
            if done.t == 3:
                for _ in range({times}):
                    os.kill(os.getpid(), signal.SIGINT)
            return done
        run.Simulation.step = stop
        main()
    """
    words = [
        "run",
        "digits",
        "--rounds",
        "6",
        "--seeds",
        "1",
        "--policies",
        "constant",
        "--progress",
        "none",
    ]
    _, said = python("-c", script, *words, "--out", folder, code=130)
    assert (
        said.strip()
        == f"interrupted after round {left} of 6; continue with: headgate run --resume"
        f" {folder}"
    )
    assert "interrupted" in headgate("runs", tmp_path)[0]
    headgate("run", "--resume", folder, "--progress", "none")
    assert pl.read_parquet(folder / "metrics.parquet")["t"].to_list() == [
        1,
        2,
        3,
        4,
        5,
        6,
    ]


def test_every_part_may_come_from_outside_the_package(headgate, tmp_path):
    """Found beside the recipe, whatever the working folder is; each in a file of at
    most 45 lines.
    """
    few = (
        "--seeds",
        "1",
        "--progress",
        "none",
        "--processes",
        "1",
    )  # every part plays in every run
    headgate("run", EXAMPLES / "mine.toml", "--out", tmp_path / "m", *few)
    frame = pl.read_parquet(tmp_path / "m" / "metrics.parquet")
    assert set(frame["policy"]) == {"headgate", "steps", "below", "constant"}
    assert frame.filter(pl.col("t") == 40)["test_accuracy"].min() > 0.8
    assert (
        max(
            len(path.read_text("utf-8").splitlines())
            for path in EXAMPLES.glob("my_*.py")
        )
        <= 45
    )


def test_an_executor_may_come_from_outside_the_package(headgate, tmp_path, monkeypatch):
    """It learns what `flat` does, is recorded by its name, and the run goes on by
    it.
    """
    monkeypatch.syspath_prepend(EXAMPLES)
    few = (
        "--rounds",
        "3",
        "--seeds",
        "1",
        "--policies",
        "headgate",
        "--progress",
        "none",
        "--processes",
        "1",
    )
    for name in ("my_executor:PlainDescent", "flat"):
        headgate(
            "run",
            "digits",
            *few,
            "--executor",
            name,
            "--out",
            tmp_path / name[:2],
            "--set",
            "training.dtype=float64",
        )
    own, plain = (
        pl.read_parquet(tmp_path / name / "metrics.parquet") for name in ("my", "fl")
    )
    assert own["test_accuracy"].to_list() == plain["test_accuracy"].to_list()
    assert own["train_loss"].to_list() == pytest.approx(
        plain["train_loss"].to_list(), rel=1e-5
    )
    assert '"my_executor:PlainDescent"' in (
        tmp_path / "my" / "environment.json"
    ).read_text("utf-8")


def test_a_file_lies_beside_the_recipe_or_in_the_working_folder_of_who_names_it(
    headgate, tmp_path, monkeypatch
):
    """The run plays and goes on from anywhere."""
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "prices.csv").write_text("price\n7\n8\n")
    (tmp_path / "prices.csv").write_text("price\n2\n3\n")
    recipe = tmp_path / "recipes" / "mine.toml"
    recipe.write_text(
        'base = "digits"\n'
        'prices = {kind = "trace", file = "prices.csv", at_end = "repeat"}\n'
    )
    named = (
        "--set",
        "prices.kind=trace",
        "--set",
        "prices.file=prices.csv",
        "--set",
        "prices.at_end=repeat",
    )
    table = 'prices={kind = "trace", file = "prices.csv", at_end = "repeat"}'
    told = {
        "recipe": (recipe,),
        "option": ("digits", *named),
        "both": (recipe, *named[2:4]),
        "table": (recipe, "--set", table),
    }
    told["sweep"] = (
        recipe,
        "--set",
        "sweep.prices.file=['prices.csv', 'recipes/prices.csv']",
    )
    for out, words in told.items():
        headgate("run", *words, *SMALL, "--out", out)
    monkeypatch.chdir(tmp_path / "recipes")
    for out, first in zip(told, ([7.0], [2.0], [2.0], [2.0], [2.0, 7.0]), strict=True):
        headgate("run", "--resume", tmp_path / out)
        found = [
            RunFolder.open(each).metrics()["price"][0]
            for each in points_of(tmp_path / out)
        ]
        assert found == first


def test_the_same_recipe_goes_on_in_its_folder(headgate, tmp_path, monkeypatch):
    """Without --trust for the code that it names; with other settings it says which,
    and a finished run stays.
    """
    (tmp_path / "own_steps.py").write_text(
        (EXAMPLES / "my_policy.py").read_text("utf-8")
    )
    words = (
        "run",
        "digits",
        *SMALL[:4],
        "--policies",
        "own_steps:BelowAverage",
        "--progress",
        "none",
        "--out",
        "r",
    )
    with monkeypatch.context() as killed:
        killed.setattr(OwnedRun, "finish", lambda self: self.run)
        headgate(*words)
    assert not (tmp_path / "r" / "metrics.parquet").exists()
    assert "report: r/report.html" in headgate(*words)[0]
    whole = (tmp_path / "r" / "metrics.parquet").read_bytes()
    assert "report: r/report.html" in headgate(*words)[0]
    assert (tmp_path / "r" / "metrics.parquet").read_bytes() == whole
    said = headgate(
        *words, "--set", "system.budget=40", "--set", "training.lr=0.3", code=4
    )[1]
    assert (
        "r: was begun with other settings (system.budget, training.lr); choose another"
        " folder" in " ".join(said.split())
    )
    for words_ in (("--resume", "."), ("digits", "--out", ".")):
        assert ".: not a run folder, config.toml is missing" in " ".join(
            headgate("run", *words_, code=4)[1].split()
        )
    (tmp_path / "r" / "clients.parquet").unlink()
    for own in (words, ("run", "--resume", "r", "--trust", "own_steps")):
        assert "clients.parquet: is missing, although the run is finished" in " ".join(
            headgate(*own, code=4)[1].split()
        )
    with pytest.raises(DataError, match=r"clients\.parquet: is missing"):
        RunFolder.open(tmp_path / "r").clients()


def test_the_first_line_is_in_a_users_words(headgate):
    told = headgate(
        "run",
        "digits",
        "--rounds",
        "2",
        "--seeds",
        "1",
        "--policies",
        "constant",
        "--processes",
        "1",
    )[1]
    assert told.splitlines()[0] == "1 run (1 policy × 1 seed)"


def test_any_name_of_a_policy_can_be_played_and_read(headgate, tmp_path):
    (tmp_path / "named.toml").write_text(
        'base = "digits"\n'
        'run = {rounds = 3, seeds = 2, policies = ["K=4/5", "../x"]}\n'
        '[policies."K=4/5"]\n'
        'kind = "headgate"\n'
        '[policies."../x"]\n'
        'kind = "constant"\n'
    )
    out, _ = headgate("run", "named.toml", "--out", "alone", "--progress", "none")
    assert "K=4/5" in out
    headgate("run", "--resume", "alone", "--progress", "none")
    headgate(
        "run",
        "named.toml",
        "--set",
        "sweep.system.budget=[20.0, 40.0]",
        "--out",
        "swept",
        "--progress",
        "none",
    )
    assert set(pl.read_parquet(tmp_path / "alone" / "metrics.parquet")["policy"]) == {
        "K=4/5",
        "../x",
    }


def test_runs_that_break_down_are_said_to(headgate, tmp_path):
    words = (
        "run",
        "digits",
        "--rounds",
        "3",
        "--seeds",
        "1",
        "--policies",
        "constant,dpp",
        "--progress",
        "none",
    )
    out, _ = headgate(*words, "--set", "training.lr=1e38", "--out", tmp_path / "l")
    assert "Runs that broke down: 1 of constant diverged, 1 of dpp diverged." in out
    for text in (
        out,
        (tmp_path / "l" / "summary.json").read_text(),
        (tmp_path / "l" / "state.json").read_text(),
    ):
        assert "nan" not in text.lower()
    page = (tmp_path / "l" / "report.html").read_text()
    assert "Runs that broke down" in page
    assert (
        pl.read_parquet(tmp_path / "l" / "metrics.parquet")[
            "test_accuracy"
        ].null_count()
        == 6
    )


def test_data_are_listed(headgate, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADGATE_DATA", str(tmp_path))
    out, _ = headgate("data", "list")
    assert "digits" in out
    assert "headgate data get mnist" in " ".join(out.split())


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["run", "mnist"], 4, "headgate data get mnist"),
        (
            ["run", "digits", "--set", "data.kind=no_module:f"],
            2,
            "no_module cannot be imported",
        ),
        (
            ["run", "digits", "--policies", "headgate,acdpp", *PER_CLIENT],
            2,
            "policies.acdpp: round 1: Acdpp: needs one price",
        ),
        (["run", "digits", "--out", "x" * 300], 4, "File name too long"),
        (
            ["run", "mnist", "--resume", "nowhere"],
            2,
            "RECIPE mnist: not with --resume nowhere",
        ),
        (
            ["run", "--resume", "nowhere", "--set", "training.lr=1"],
            2,
            "--set training.lr=1: not with --resume",
        ),
        (["run", "digits", "--set", "training.target=3"], 2, "target = 3"),
    ],
)
def test_refusals_are_one_line_and_leave_nothing_behind(
    headgate, tmp_path, monkeypatch, words, code, message
):
    monkeypatch.setenv("HEADGATE_DATA", str(tmp_path / "none"))
    out, err = headgate(*words, code=code)
    assert message in " ".join(err.split())
    assert "Traceback" not in err
    assert out == ""
    assert len(err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())
