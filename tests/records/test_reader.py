"""What the reader makes of run folders, also while they are written and where they are
damaged.
"""

import os

import polars as pl
import pytest

from headgate.analysis.runs import read_runs
from headgate.analysis.tables import list_rows
from headgate.errors import DataError
from headgate.records.reader import RunFolder, scan_runs
from headgate.records.tables import CLIENTS, METRICS, points_of
from headgate.records.writer import RunWriter

from ..analysis import run_folders
from ..analysis.run_folders import row, rows
from ..web.folders import MadeUp, nobody

ROWS = rows(
    "acdpp", 0, spend=[5.0] * 3, test_accuracy=[None, 0.5, None], N=[None, 12.0, None]
)
HELD = [
    {
        "policy": "acdpp",
        "seed": 0,
        "t": t,
        "admitted": [3, 4],
        "held": [3, 4],
        "paid": None,
    }
    for t in (1, 2, 3)
]


def write(folder, metrics=ROWS, clients=HELD, state="interrupted", **more):
    """One run of three rounds, of which each table has one part."""
    return run_folders.write(
        folder,
        metrics,
        clients,
        rounds=3,
        policies=["acdpp"],
        seeds=[0],
        state=state,
        **more,
    )


def test_what_a_folder_tells(tmp_path):
    run = RunFolder.open(write(tmp_path / "digits-1"))
    assert (run.name, run.system.buffer.tolist(), run.system.budget) == (
        "digits-1",
        [4, 6],
        10.0,
    )
    assert (run.rounds, run.status) == (3, "interrupted")
    assert run.config["run"] == {"rounds": 4}
    assert run.environment["headgate"] == "0.1.0"
    metrics = run.metrics()
    assert metrics.schema == METRICS
    assert metrics["t"].to_list() == [1, 2, 3]
    assert metrics["test_accuracy"].to_list() == [None, 0.5, None]
    assert metrics["N"].to_list() == [None, 12, None]  # 12.0 is a count all the same
    clients = run.clients()
    assert clients.schema == CLIENTS
    assert clients["held"].to_list() == clients["admitted"].to_list() == [[3, 4]] * 3
    assert clients["paid"].to_list() == [None] * 3


def test_a_whole_table_comes_before_parts(tmp_path):
    folder = write(tmp_path / "run")
    before = RunFolder.open(folder)
    metrics, clients = before.metrics(), before.clients()
    assert metrics["train_loss"].to_list() == [None] * 3
    clients.write_parquet(folder / "clients.parquet")
    metrics.with_columns(train_loss=pl.lit(float("nan"))).write_parquet(
        folder / "metrics.parquet"
    )  # is nothing measured
    (folder / "metrics" / "part-00003.parquet").write_text("not looked at")
    after = RunFolder.open(folder)
    assert after.metrics().equals(metrics)
    assert after.clients().equals(clients)


def test_a_half_written_part_is_passed_over(tmp_path):
    folder = write(tmp_path / "run", state="running")
    (folder / "metrics" / ".part-00004.parquet.1234abcd.partial").write_text("PAR1")
    (folder / "metrics" / "notes.txt").write_text("mine")
    assert RunFolder.open(folder).metrics().height == 3


def test_a_round_written_twice_counts_as_last_written(tmp_path):
    folder = write(tmp_path / "run")
    RunWriter(folder).append(
        "metrics", [row("acdpp", 0, 2, spend=6.0), row("acdpp", 0, 4, spend=5.0)]
    )
    run = RunFolder.open(folder)
    assert sorted(run.metrics().select("t", "spend").rows()) == [
        (1, 5.0),
        (2, 6.0),
        (3, 5.0),
        (4, 5.0),
    ]


def test_what_no_table_holds_becomes_null(tmp_path):
    metrics = [
        row("acdpp", 0, 1, bound=float("inf"), train_loss=float("nan"), share_0=0.5)
    ]
    run = RunFolder.open(
        write(tmp_path / "run", metrics, [{**HELD[0], "new_loss": [float("nan"), 1.0]}])
    )
    assert run.metrics().select("bound", "train_loss").rows() == [(None, None)]
    assert run.clients()["new_loss"].to_list() == [[None, 1.0]]
    assert run.metrics()["share_0"].to_list() == [0.5]


def test_running_is_believed_while_the_process_lives(tmp_path):
    gone = nobody()
    for pid, status in (
        (os.getpid(), "running"),
        (gone, "interrupted"),
        (0, "interrupted"),
        (2**62, "interrupted"),
    ):
        assert (
            RunFolder.open(
                write(tmp_path / f"run{pid}", state="running", pid=pid)
            ).status
            == status
        )
    assert (
        RunFolder.open(write(tmp_path / "done", state="finished", pid=gone)).status
        == "finished"
    )


def test_nothing_recorded_yet(tmp_path):
    folder = write(tmp_path / "run", (), (), state="running")
    run = RunFolder.open(folder)
    assert run.metrics().is_empty()
    assert run.metrics().schema == METRICS
    assert run.clients().is_empty()
    (folder / "state.json").write_text(
        (folder / "state.json").read_text().replace("running", "finished")
    )
    with pytest.raises(DataError, match=r"metrics\.parquet: is missing"):
        RunFolder.open(folder).metrics()


def test_runs_are_listed_newest_first_and_what_is_none_is_passed_over(tmp_path):
    write(tmp_path / "b-old", started="2026-08-01T10:00:00+00:00")
    write(tmp_path / "a-new", started="2026-08-01T13:00:00+02:00")
    write(tmp_path / "c-unknown", started="yesterday")
    write(tmp_path / "damaged", state="lost")
    (tmp_path / "empty").mkdir()
    (tmp_path / "note.txt").write_text("no folder")
    assert [run.name for run in scan_runs(tmp_path)[0]] == [
        "a-new",
        "b-old",
        "c-unknown",
    ]
    for read in (scan_runs, RunFolder.open):
        with pytest.raises(DataError, match="there is no such folder"):
            read(tmp_path / "not there")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("config.toml", None, "not a run folder, config.toml is missing"),
        ("state.json", None, "not a run folder, state.json is missing"),
        ("config.toml", "[system", "config.toml: not valid TOML"),
        ("config.toml", b"\xff\xfe", "config.toml: is damaged, it is not UTF-8"),
        ("config.toml", "[run]\nrounds = 3", "config.toml: system.buffers: is missing"),
        (
            "config.toml",
            "[system]\nbuffers = []\nbudget = 1",
            r"config.toml: system.buffers = \[\]: at least one",
        ),
        (
            "config.toml",
            "[system]\nbuffers = [1]\nbudget = nan",
            "config.toml: system.budget = nan",
        ),
        ("environment.json", "[1]", "environment.json: must hold a JSON object"),
        ("environment.json", "{", "environment.json: not valid JSON"),
        ("state.json", "{}", "state.json: state = None is not"),
        (
            "state.json",
            '{"state": "running", "round": 1.5}',
            "state.json: round = 1.5 is not",
        ),
        (
            "state.json",
            '{"state": "running", "round": 1, "rounds": 2, "pid": 1}',
            "state.json: policies = None is not",
        ),
    ],
)
def test_damaged_folders_are_refused_with_the_file_named(tmp_path, name, content, said):
    folder = write(tmp_path / "run")
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(
            content.encode() if isinstance(content, str) else content
        )
    with pytest.raises(DataError, match=said) as caught:
        RunFolder.open(folder)
    assert "\n" not in str(caught.value)


def test_damaged_tables_are_refused(tmp_path):
    folder = write(tmp_path / "run", ())
    for content, says in (
        (b"PAR1 and then nothing", "is damaged"),
        (pl.DataFrame({"policy": ["x"]}), "has no column seed, t"),
        (pl.DataFrame([row("x", "first", 1)]), "is damaged"),
        (
            pl.DataFrame([row("x", 0, 1)]).with_columns(spend=pl.lit("much")),
            "is damaged",
        ),
        (
            pl.DataFrame([row("x", 0, 1)]).with_columns(seed=pl.lit(None)),
            "is damaged, policy, seed or t is empty",
        ),
        (pl.DataFrame([row("x", 0, t) for t in range(1, 5)]), "4 rows; at most 3"),
    ):
        path = folder / "metrics.parquet"
        (
            path.write_bytes(content)
            if isinstance(content, bytes)
            else content.write_parquet(path)
        )
        with pytest.raises(DataError, match=rf"metrics\.parquet: {says}") as caught:
            RunFolder.open(folder).metrics()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("n", [[1], [1, 2, 3], [1, None]])
def test_what_is_held_must_name_every_client(tmp_path, n):
    with pytest.raises(
        DataError, match=r"held does not hold one number for each of the 2 clients"
    ):
        RunFolder.open(write(tmp_path / "run", clients=[{**HELD[0], "held": n}])).rows(
            "clients", "held"
        )


def test_the_points_of_a_sweep_are_listed(tmp_path):
    """The command line used to say that there were no runs."""
    for label in ("K=3", "K=5"):
        write(tmp_path / "study" / label)
    (tmp_path / "study" / "sweep.json").write_text('{"points": ["K=3", "K=5"]}')
    write(tmp_path / "alone")
    assert sorted((run.name, run.sweep) for run in scan_runs(tmp_path)[0]) == [
        ("alone", None), ("study~K=3", "study"), ("study~K=5", "study"),
    ]  # fmt: skip
    assert [path.name for path in points_of(tmp_path / "study")] == ["K=3", "K=5"]
    assert points_of(tmp_path / "alone") == [tmp_path / "alone"]


def test_memory_is_known_without_the_table_of_the_clients(tmp_path):
    """Each round has the largest excess over a buffer, also of clients too many to be
    written down.
    """
    folder = (
        MadeUp(tmp_path / "run", ("released", "headgate"), rounds=4).finish().folder
    )
    before, row = (
        [one.peak_excess for one in read_runs([RunFolder.open(folder)])],
        list_rows([RunFolder.open(folder)]),
    )
    assert before[0] > 0 >= before[1]
    (folder / "clients.parquet").unlink()
    assert [one.peak_excess for one in read_runs([RunFolder.open(folder)])] == before
    assert list_rows([RunFolder.open(folder)]) == row
