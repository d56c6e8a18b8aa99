"""Code that a recipe or a folder names runs only where it is used, is what it claims to
be, and is trusted.
"""

import json
import re
import shutil
import sys

import pytest

import headgate as package
from headgate.analysis.report import conclude
from headgate.analysis.tables import list_rows
from headgate.errors import DataError, SettingError
from headgate.experiment import load, named_outside
from headgate.records.reader import RunFolder, scan_runs
from headgate.records.tables import read_sealed, sealed
from headgate.simulation.schedule import perform
from headgate.web.answers import detail
from headgate.web.runs import Library

SMALL = [
    "run.rounds=3",
    "run.seeds=1",
    'run.policies=["constant"]',
    "training.steps=1",
    "system.clients=4",
]
PLANTED = """
from pathlib import Path
from dataclasses import dataclass
import numpy as np
from headgate.control import AdmissionPolicy, AdmissionRequest, Fifo
from headgate.control.prices import Fixed

Path(__file__).with_name("was-imported").touch()

@dataclass(frozen=True, eq=False)
class Part(AdmissionPolicy):
    def admit(self, view, memory):
        return AdmissionRequest(np.full(view.debt.shape, 2.0)), memory

@dataclass(frozen=True)
class Price(Fixed):
    value: float = 2.0
"""


@pytest.fixture
def planted(tmp_path, monkeypatch, forgets_modules):
    """A module in the working folder; tells whether it was imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "planted_code.py").write_text(PLANTED)
    return (tmp_path / "was-imported").exists


UNUSED = [
    "policies.a.kind=os:system",
    "policies.b={kind='os:system', command='touch was-imported'}",
    "policies.c.kind=planted_code:Part",
    "policies.d={kind='headgate', rule='planted_code:Part'}",
    "policies.e={kind='headgate', rule={kind='planted_code:Part'}}",
]


@pytest.mark.parametrize(
    "command",
    [
        ["rehearse", "--quiet"],
        ["plan", "--policy", "constant"],
        ["run", "--progress", "none"],
    ],
)
def test_what_is_not_used_is_not_imported(planted, headgate, command):
    name, *options = command
    headgate(name, "digits", *options, *_set(*SMALL, *UNUSED))
    assert not planted()


@pytest.mark.parametrize(
    ("setting", "value", "base"),
    [
        ("policies.constant.kind", "os:system", "AdmissionPolicy"),
        ("policies.constant.kind", "subprocess:Popen", "AdmissionPolicy"),
        ("prices.kind", "os:system", "PriceProcess"),
        ("data.kind", "os:system", "DataSource"),
        ("data.kind", "subprocess:Popen", "DataSource"),
        ("model.kind", "os:system", "Model or Module"),
        ("model.kind", "subprocess:check_output", "Model or Module"),
        ("server.kind", "os:system", "ServerUpdate"),
        ("data.partition.kind", "os:system", "Partition"),
    ],
)
def test_what_is_not_what_it_claims_to_be_is_never_called(
    planted, tmp_path, setting, value, base
):
    section = setting.removesuffix(".kind")
    said = (
        f"{section}={{kind='{value}', command='touch was-imported', args='touch"
        " was-imported', shell=true}"
    )
    with pytest.raises(SettingError) as refused:
        perform(load("digits", [*SMALL, said]), tmp_path / "run", processes=1)
    assert (
        str(refused.value)
        == f"{setting} = {value}: must be a class, a subclass of {base}"
    )
    assert not planted()


@pytest.fixture
def foreign(planted, headgate, tmp_path):
    """A folder that names code, as another might send it; nothing of that code was
    imported here.
    """
    (tmp_path / "mine.toml").write_text(
        'base = "digits"\n'
        "[prices]\n"
        'kind = "planted_code:Price"\n'
        "value = 2.0\n"
        "[policies.mine]\n"
        'kind = "planted_code:Part"\n'
    )
    headgate(
        "run", "mine.toml", "--out", "foreign", *_set(*SMALL, 'run.policies=["mine"]')
    )  # one's own needs no trust
    folder = tmp_path / "foreign"
    _unfinished(folder)
    (tmp_path / "was-imported").unlink()
    sys.modules.pop("planted_code", None)
    return folder


def _set(*assignments):
    return [word for each in assignments for word in ("--set", each)]


def _unfinished(folder):
    """As it stood before its first round."""
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    for table in folder.glob("*.parquet"):
        table.unlink()
    state = (folder / "state.json").read_text().replace('"finished"', '"interrupted"')
    (folder / "state.json").write_text(
        re.sub(r'(?s),\s*"(tables|seal)": (\{[^}]*\}|"[^"]*")', "", state)
    )


def test_a_foreign_folder_is_shown_without_its_code(foreign, planted, headgate):
    run = RunFolder.open(foreign)
    assert set(named_outside(run.config).values()) == {
        "planted_code:Price",
        "planted_code:Part",
    }
    list_rows(scan_runs(foreign.parent)[0])
    detail(Library(foreign.parent), "foreign")
    package.open(foreign).report()
    conclude([foreign], foreign)
    headgate("runs", ".")
    headgate("report", "foreign")
    assert not planted()


def test_resuming_a_folder_asks_for_its_code_by_name(foreign, planted, headgate):
    assert (
        headgate("run", "--resume", "foreign", code=2)[1]
        == "error: foreign: prices.kind = planted_code:Price: is code from outside"
        " headgate that is not trusted; if you trust it: headgate run --resume"
        " foreign --trust planted_code:Part --trust planted_code:Price\n"
    )
    one = headgate(
        "run", "--resume", "foreign", "--trust", "planted_code:Price", code=2
    )[1]
    assert "policies.mine.kind = planted_code:Part" in one
    assert planted()  # the module is trusted as soon as one class of it is


@pytest.mark.parametrize(
    "trust", [["planted_code"], ["planted_code:Price", "planted_code:Part"]]
)
def test_code_that_is_trusted_runs(foreign, trust):
    assert package.run(None, foreign, trust=trust, quiet=True).status == "finished"


def test_trust_without_a_folder_is_refused(headgate):
    said = headgate("run", "digits", "--trust", "os:system", code=2)[1]
    assert (
        said
        == "error: --trust os:system: only with --resume; a recipe of your own needs no"
        " trust\n"
    )


def test_another_experiment_does_not_bring_the_code_of_the_folder_in(foreign, planted):
    with pytest.raises(DataError, match="was begun with other settings"):
        package.run(load("digits", SMALL), foreign, quiet=True)
    assert not planted()


def test_a_chunk_has_no_code_of_its_own(planted, tmp_path):
    folder = tmp_path / "run"
    perform(load("digits", [*SMALL, "run.seeds=2"]), folder, processes=1)
    _unfinished(folder)
    facts = read_sealed(folder / "environment.json")
    chunk = {"policies": ["constant"], "first_seed": 0, "seeds": 2}

    def forge(**more):
        facts["chunks"] = [{**chunk, **more}]
        (folder / "environment.json").write_text(json.dumps(sealed(facts)))

    forge(kind="planted_code:Part")
    with pytest.raises(DataError, match="its chunks do not hold each of its 2 runs"):
        perform(None, folder, processes=1)
    forge(folder=str(tmp_path))
    assert perform(None, folder, processes=1)[0].status == "finished"
    assert not planted()
