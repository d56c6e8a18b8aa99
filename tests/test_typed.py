"""What the wheel offers is typed: `mypy --strict` finds nothing in a user's script.

The wheel is unpacked into an environment of its own, beside the packages that it needs,
because mypy judges an installed package otherwise than one that lies in a checkout.
"""

import os
import runpy
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytest.importorskip("build", reason="the extra dev is not installed")
pytest.importorskip("mypy", reason="the extra dev is not installed")

SCRIPT = '''
"""What the README and the tutorials use."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import headgate
from headgate import Books, Controller, Experiment, Report, Supply, System, View
from headgate.control import AdmissionPolicy, AdmissionRequest, ByEntropy, KStep
from headgate.control import Ledger, Orders
from headgate.control.policies import BudgetedPolicy, Constant, Headgate
from headgate.control.prices import PriceProcess, Trace, Uniform
from headgate.errors import HeadgateError, SettingError
from headgate.experiment import Training
from headgate.learning.data import Data, DataSource
from headgate.testing import a_system, check_policy, check_prices


@dataclass(frozen=True, eq=False)
class BelowAverage(AdmissionPolicy):
    rate: float = 4.0

    def start(self, system: System, runs: int) -> Mapping[str, np.ndarray[Any, Any]]:
        return {"seen": np.zeros(runs)}

    def admit(
        self, view: View, memory: Mapping[str, np.ndarray[Any, Any]]
    ) -> tuple[AdmissionRequest, Mapping[str, np.ndarray[Any, Any]]]:
        seen = memory["seen"] + view.price
        cheap = view.price <= seen / view.t
        return AdmissionRequest(np.where(cheap, self.rate, 0.0)), {"seen": seen}


@dataclass(frozen=True)
class Source(DataSource):
    def load(self) -> Mapping[str, Any]:
        return {"train_images": np.zeros((4, 8, 8), np.uint8)}


def decide() -> Ledger:
    system = System([8, 9, 10], budget=30.0, horizon=100, currency="$")
    policy = Headgate(rule=KStep(3), selection=ByEntropy())
    controller = Controller(system, policy)
    supply = Supply(present=[True, True, False])
    ledger = controller.open()
    orders: Orders = controller.decide(ledger, 2.5, supply=supply)
    return controller.post(ledger, orders, Report(orders.admitted))


def keep_books(folder: str) -> float:
    books = Books(folder, System([8, 9, 10], 30.0), Constant(4.0))
    purchases = books.begin(3.0, present=[0, 2])
    books.settle({each.client: each.samples for each in purchases})
    return float(books.statement().spent)


def learn(out: str) -> str:
    try:
        e: Experiment = headgate.load("digits", "run.rounds=20", "run.seeds=3")
    except (SettingError, HeadgateError) as error:
        return str(error)
    e = e.with_budget(40.0).with_policy("mine", BelowAverage())
    training: Training = e.training
    data: Data = e.data
    run = headgate.run(e.with_policy("eager", Headgate(fill=8.0)), out)
    found = headgate.compare(e, budgets=[5, 10, 20], out=out)
    print(headgate.plan(e), found, found.saved_against("constant"), training, data)
    return f"{headgate.__version__} {run.summary.height} {run.frame.width}"


prices: PriceProcess = Trace((1.0, 2.0))
check_policy(BelowAverage(), a_system(), prices=Uniform(1.0, 10.0))
check_prices(prices)
print(BudgetedPolicy, decide(), keep_books("accounts"), learn("out"), Source())
'''
ADAPTERS = '''
"""What a user of Flower and of NVFlare imports."""

from headgate.flower import AdmissionStrategy, Discipline, Gated
from headgate.nvflare import AdmissionController, Admissions

print(AdmissionStrategy, Discipline, Gated, AdmissionController, Admissions)
'''


WRONG = SCRIPT + '\nheadgate.load(3)\nSystem([8], budget="much")\n'
WITHOUT_TORCH = "[mypy]\n[mypy-torch.*]\nfollow_imports = skip\n"
"""PyTorch comes with an extra only; without it nothing is known of its types, and mypy
is done in half the time
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The Python of an environment that has the wheel, and the packages of this one."""
    folder = tmp_path_factory.mktemp("typed")
    tool = runpy.run_path(str(ROOT / "tools" / "packages.py"))
    wheel = tool["build"](folder / "dist")[0]
    venv.create(folder / "venv", symlinks=True)
    here = {"base": str(folder / "venv"), "platbase": str(folder / "venv")}
    installed = Path(sysconfig.get_path("purelib", vars=here))
    with zipfile.ZipFile(wheel) as file:
        file.extractall(installed)
    beside = sysconfig.get_path("purelib")
    (installed / "beside.pth").write_text(f"{beside}\n")
    return folder / "venv" / "bin" / "python"


@pytest.fixture(scope="module")
def found(python, tmp_path_factory):
    """The lines of mypy on scripts of a user, which it reads together: script → its
    lines.
    """
    folder = tmp_path_factory.mktemp("scripts")
    (folder / "mypy.ini").write_text(WITHOUT_TORCH)
    scripts = {"script.py": SCRIPT, "adapters.py": ADAPTERS, "wrong.py": WRONG}
    for name, text in scripts.items():
        (folder / name).write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", python]
    done = subprocess.run(
        [*command, "--cache-dir", os.devnull, *scripts],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert lines[-1].endswith("(checked 3 source files)"), done.stdout + done.stderr
    return {name: [line for line in lines if line.startswith(name)] for name in scripts}


def test_a_script_of_a_user_is_typed(found):
    assert found["script.py"] == []


def test_the_adapters_are_typed(found):
    pytest.importorskip("flwr", reason="the extra flower is not installed")
    pytest.importorskip("nvflare", reason="the extra nvflare is not installed")
    assert found["adapters.py"] == []


def test_a_wrong_script_is_found(found):
    assert len(found["wrong.py"]) == 2
    assert all("[arg-type]" in line for line in found["wrong.py"])
