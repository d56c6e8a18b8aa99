"""Linear models are planned, learnt, resumed, compared and reported in processes in
which nobody may import torch.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import headgate
from headgate.experiment import load
from headgate.learning.datasets import load_dataset
from headgate.simulation.engine import Simulation

# Python imports a `sitecustomize` when it starts: the workers of a pool are refused as
# well.
REFUSING = """
import sys
from importlib.machinery import ModuleSpec

REFUSED = "torch", "numba", "sklearn", "scipy"

class Refusing:
    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self) if name.partition(".")[0] in REFUSED else None

    def create_module(self, spec):
        said = f"{spec.name} may not be imported here"
        raise ModuleNotFoundError(said, name=spec.name)

    def exec_module(self, module):
        pass

sys.meta_path.insert(0, Refusing())
"""
SMALL = ["run.rounds=8", "run.seeds=2", 'run.policies=["headgate", "constant"]']
DATA = load_dataset("digits")


def ask(folder, *words):
    """A Python process without torch."""
    (folder / "sitecustomize.py").write_text(REFUSING)
    path = os.pathsep.join([str(folder), str(Path(headgate.__file__).parents[1])])
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_the_main_job_is_done_resumed_and_reported(tmp_path):
    job = [
        "--seeds",
        "1",
        "--policies",
        "headgate",
        "--rounds",
        "8",
        "--progress",
        "none",
    ]
    assert (
        ask(tmp_path, "-m", "headgate.cli", "run", "digits", *job, "--out", "whole")[0]
        == 0
    )
    stopped = """
from pathlib import Path
from headgate.errors import Interrupted
from headgate.experiment import load
from headgate.records.owner import OwnedRun
from headgate.simulation.run import examine, play_chunk
e = load("digits", ["run.rounds=8", "run.seeds=1", 'run.policies=["headgate"]'])
done = []
data = e.data.load()
made = examine(e, data, "auto", "auto")[0]["environment"]
run = OwnedRun.begin(Path("stopped"), e, made, [])
try:
    play_chunk(run.chunks[0], data, "auto", done.append, lambda: len(done) == 3)
except Interrupted as stop:
    print(stop)
"""
    code, told, said = ask(tmp_path, "-c", stopped)
    assert (code, told) == (0, "interrupted after round 3 of 8\n"), said
    code, _, said = ask(
        tmp_path,
        "-m",
        "headgate.cli",
        "run",
        "--resume",
        "stopped",
        "--progress",
        "none",
    )
    assert code == 0, said
    for name in (
        "metrics.parquet",
        "clients.parquet",
        "checkpoints/00000008/tensors.safetensors",
    ):
        assert (tmp_path / "stopped" / name).read_bytes() == (
            tmp_path / "whole" / name
        ).read_bytes(), name
    code, _, said = ask(
        tmp_path,
        "-m",
        "headgate.cli",
        "report",
        "whole",
        "stopped",
        "--out",
        "both.html",
    )
    assert code == 0, said
    assert (tmp_path / "both.html").exists()


def test_python_plans_rehearses_runs_and_compares_over_two_processes(tmp_path):
    script = f"""
import headgate
from headgate.simulation import cut
cut.LIGHT, cut.TOGETHER = 0.0, {{"gram": 1}}
e = headgate.load("digits", *{SMALL!r})
print(headgate.plan(e) is not None, len(headgate.rehearse(e).results))
run = headgate.run(e, "run", processes=2, quiet=True)
environment = run.folders[0].environment
print(len(run.frame), environment["executor"], "torch" in environment)
compared = headgate.compare(e, [40.0, 80.0], "compared", processes=2, quiet=True)
print(compared is not None)
"""
    code, told, said = ask(tmp_path, "-c", script)
    assert code == 0, said
    assert told.splitlines()[-3:] == ["True 2", "32 gram False", "True"]
    assert len(list((tmp_path / "run" / "checkpoints").iterdir())) == 4


@pytest.mark.parametrize(
    "words", [["--executor", "flat"], ["--set", "training.batch_size=4"]]
)
def test_what_needs_torch_says_so(tmp_path, words):
    """Which also shows that torch cannot be imported in these processes."""
    code, _, said = ask(
        tmp_path,
        "-m",
        "headgate.cli",
        "run",
        "digits",
        "--rounds",
        "2",
        "--out",
        "run",
        *words,
    )
    assert code == 2
    assert "needs torch: pip install 'headgate[sim]'" in " ".join(said.split())


@pytest.mark.parametrize("share", [1.0, 0.7, 0.5, 0.3, 0.01])
def test_the_mean_of_models_is_that_of_torch_to_the_bit(share):
    import torch

    old, new = np.random.default_rng(0).normal(size=(2, 2, 650)).astype(np.float32)
    mean = Simulation(load("digits", SMALL), DATA).learner._between(old, new, share)
    assert np.array_equal(
        mean, torch.lerp(torch.from_numpy(old), torch.from_numpy(new), share)
    )
