"""The commands as a user types them: output, files, one-line errors, exit codes."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.main import get_command

from headgate.analysis.rehearsal import COLUMNS
from headgate.cli.commands import app, play
from headgate.errors import Interrupted

EXAMPLES = Path(__file__).parents[1] / "examples"


def commands(group, *words):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *words, name)
        else:
            yield " ".join((*words, name)), command


COMMANDS = dict(commands(get_command(app)))


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_what_every_argument_and_option_is(name):
    command = COMMANDS[name]
    for each in command.params:
        if each.param_type_name == "argument":
            assert (each.metavar or each.name.upper()).rstrip(".") in command.help
        else:
            assert each.help, each.name


def test_plan_is_for_headgate_unless_another_policy_is_named(headgate):
    made = json.loads(
        headgate(
            "plan", "mnist", "--set", 'run.policies=["oracle"]', "--format", "json"
        )[0]
    )
    assert (made["policy"], made["K"], made["V"], made["warning"]) == (
        "headgate",
        None,
        None,
        "",
    )
    assert "Keeps the budget and every buffer" in headgate("plan", "mnist")[0]


def test_a_policy_of_ones_own_is_named_by_module_and_class(
    headgate, tmp_path, monkeypatch
):
    (tmp_path / "bought_here.py").write_text(
        (EXAMPLES / "my_buyer.py").read_text("utf-8"), "utf-8"
    )
    monkeypatch.chdir(tmp_path)
    few = ("--rounds", "20", "--seeds", "2", "--format", "json", "-q")
    both = json.loads(
        headgate(
            "rehearse", "digits", *few, "--policies", "bought_here:TwoSteps,headgate"
        )[0]
    )
    assert [row["policy"] for row in both] == ["TwoSteps", "headgate"]
    assert (
        json.loads(
            headgate(
                "plan", "digits", "--policy", "bought_here:TwoSteps", "--format", "json"
            )[0]
        )["warning"]
        == ""
    )
    _, err = headgate("rehearse", "digits", "--policies", "bought_here:Nobody", code=2)
    assert (
        "policies.Nobody.kind = bought_here:Nobody: module bought_here has no Nobody;"
        " known: TwoSteps" in err
    )
    in_recipe = "--set", 'run.policies=["bought_here:TwoSteps", "constant"]'
    out, _ = headgate("rehearse", "digits", "--rounds", "5", *in_recipe)
    assert (
        out
        == headgate(
            *("rehearse", "digits", "--rounds", "5"),
            *("--policies", "bought_here:TwoSteps,constant"),
        )[0]
    )
    assert "TwoSteps" in out
    twice = 'run.policies=["bought_here:TwoSteps", "other:TwoSteps"]'
    _, err = headgate("rehearse", "digits", "--set", twice, code=2)
    assert (
        "run.policies = other:TwoSteps: bought_here:TwoSteps has the same name" in err
    )
    assert str(tmp_path) not in sys.path


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_rehearse_writes_its_rows(headgate, tmp_path, suffix):
    path = tmp_path / f"rows.{suffix}"
    headgate(
        "rehearse",
        "mnist",
        "--rounds",
        "30",
        "--seeds",
        "3",
        "--policies",
        "acdpp,hybrid",
        "--out",
        str(path),
        "-q",
    )
    read = {"parquet": pl.read_parquet, "csv": pl.read_csv, "jsonl": pl.read_ndjson}[
        suffix
    ]
    frame = read(path)
    assert tuple(frame.columns) == COLUMNS
    assert frame.height == 2 * 3 * 30
    acdpp = frame.filter((pl.col("policy") == "acdpp") & (pl.col("seed") == 1)).sort(
        "t"
    )
    assert np.allclose(acdpp["spend"], acdpp["price"] * acdpp["admitted"])
    assert acdpp["N"].to_list() == acdpp["admitted"].cum_sum().to_list()
    assert np.allclose(acdpp["n_eff"], acdpp["N"] * acdpp["uniformity"])
    debt = 0.0
    for row in acdpp.iter_rows(named=True):
        assert row["debt"] == pytest.approx(debt)
        debt = max(debt + row["spend"] - 55.0, 0.0)
    prices = frame.pivot("policy", index=["seed", "t"], values="price")
    assert prices["acdpp"].equals(prices["hybrid"])  # all policies meet the same prices


def test_replay_prints_a_sentence_and_json_and_writes_its_rows(headgate, tmp_path):
    purchases, rows = str(EXAMPLES / "purchases.csv"), tmp_path / "rows.csv"
    out, err = headgate("replay", purchases, "--currency", "$", "--out", str(rows))
    assert out.startswith("You paid $ ")
    assert err == f"wrote {rows}\n"
    told = json.loads(headgate("replay", purchases, "--format", "json")[0])
    frame = pl.read_csv(rows)
    assert frame.columns == list(told["rounds"][0])
    for key, prefix in (("you", ""), ("as_much", "as_much_"), ("as_many", "as_many_")):
        assert told[key] == {
            "samples": frame[f"{prefix}bought"].sum(),
            "paid": pytest.approx(frame[f"{prefix}paid"].sum()),
        }
    wider = json.loads(
        headgate("replay", purchases, "--capacity", "200", "--format", "json")[0]
    )
    assert wider["capacity"] == [200]
    assert wider["cheapest"] < told["cheapest"] < told["as_many"]["paid"]
    assert (
        "--capacity" not in headgate("replay", purchases, "--capacity", "0", code=2)[1]
    )
    assert "none.csv: cannot be read" in headgate("replay", "none.csv", code=4)[1]


def test_empty_rounds_are_infinite_in_the_table_and_null_in_json(headgate):
    words = (
        "rehearse",
        "mnist",
        "--rounds",
        "5",
        "--seeds",
        "1",
        "--policies",
        "constant",
        "-q",
    )
    small = ("--set", "policies.constant.rate=0.1")
    assert "∞" in headgate(*words, *small)[0]
    assert (
        "∞"
        in headgate(
            "plan", "digits", "--policy", "acdpp", "--set", "system.budget=0.5"
        )[0]
    )
    assert (
        json.loads(headgate(*words, *small, "--format", "json")[0])[0]["bound"] is None
    )


def test_another_ctrl_c_does_not_hide_what_the_first_led_to(capsys):
    def ended():
        try:
            raise Interrupted("interrupted after round 2 of 6", "go on")
        finally:
            raise KeyboardInterrupt  # while what was at work is ended

    with pytest.raises(SystemExit, match="130"):
        play(ended)
    assert capsys.readouterr().err == "interrupted after round 2 of 6; go on\n"


STRUCK = """
import os, signal, sys
class Striking:
    def find_spec(self, name, path=None, target=None):
        if name == "MODULE":
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Striking())
from headgate.cli import main
main()
"""
WHILE_OPTIONS_ARE_MADE_READY = """
import os, signal, sys, typer.main
make = typer.main.get_params_from_function
def strike(of):
    os.kill(os.getpid(), signal.SIGINT)
    return make(of)
typer.main.get_params_from_function = strike
from headgate.cli import main
main()
"""


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (STRUCK.replace("MODULE", "headgate.cli.commands"), "run digits"),
        (STRUCK.replace("MODULE", "typer"), "run digits"),
        (STRUCK.replace("MODULE", "numpy"), "plan digits"),
        (STRUCK.replace("MODULE", "headgate.records.reader"), "runs ."),
        (WHILE_OPTIONS_ARE_MADE_READY, "plan"),
    ],
    ids=["commands", "typer", "numpy", "reader", "options"],
)
def test_ctrl_c_before_a_command_begins_is_one_line(python, tmp_path, code, words):
    assert python("-c", code, *words.split(), cwd=tmp_path, code=130) == (
        "",
        "interrupted\n",
    )
    assert list(tmp_path.iterdir()) == []


def test_who_ignores_ctrl_c_is_not_stopped_by_it(python, tmp_path):
    """As nohup and a shell's background jobs do."""
    code = (
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        + STRUCK.replace("MODULE", "typer")
    )
    out, err = python("-c", code, "--version", cwd=tmp_path)
    assert out.startswith("headgate ")
    assert err == ""


def test_python_m_headgate_is_the_command_and_an_ascii_console_gets_no_traceback(
    python,
):
    env = {**os.environ, "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    env |= {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}
    for words in (["compare", "--help"], ["plan", "digits"]):
        said, _ = python("-m", "headgate", *words, env=env)
        assert said.isascii()


def test_a_class_that_is_named_with_a_dot_is_answered_with_a_colon(headgate):
    words = ["--set", 'policies.own.kind="mine.Falling"', "--policy", "own"]
    _, error = headgate("plan", "digits", *words, code=2)
    assert "policies.own.kind = mine.Falling: no such policy" in error
    assert "named mine:Falling" in error
    _, error = headgate("rehearse", "digits", "--policies", "mine.Falling", code=2)
    assert "a class of your own is named mine:Falling" in error
