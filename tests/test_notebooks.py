"""What a user of notebooks sees: each result once, their own plots, and one sentence
where something is wrong. The notebooks in examples/ run as they stand.
"""

import json
import os
import shutil
from pathlib import Path

import pytest

pytest.importorskip("nbclient", reason="the extra dev is not installed")
pytest.importorskip("ipykernel", reason="the extra dev is not installed")

import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

EXAMPLES = Path(__file__).parent.parent / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


@pytest.fixture
def play(tmp_path, monkeypatch):
    """Return a function that runs a notebook in an empty folder."""
    monkeypatch.delenv("MPLBACKEND", raising=False)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "jupyter"))
    folder = tmp_path / "here"
    folder.mkdir()
    for table in EXAMPLES.glob("*.csv"):
        shutil.copy(table, folder)

    def run(notebook, **how):
        client = NotebookClient(
            notebook,
            timeout=120,
            resources={"metadata": {"path": str(folder)}},
            **how,
        )
        client.execute(env={**os.environ, "PYTHONWARNINGS": "ignore"})
        return folder

    return run


def kinds(cell):
    return [output["output_type"] for output in cell["outputs"]]


def test_there_are_three_notebooks_without_outputs():
    assert [path.stem for path in NOTEBOOKS] == [
        "books",
        "compare",
        "own_policy_and_data",
    ]
    for path in NOTEBOOKS:
        cells = json.loads(path.read_text("utf-8"))["cells"]
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        assert all(cell["outputs"] == [] for cell in code)
        assert "pip install '.[sim,figures]'" in "".join(cells[0]["source"])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_of_the_examples_runs_and_shows_each_result_once(path, play):
    notebook = nbformat.read(path, as_version=4)
    folder = play(notebook)
    shown = [kinds(cell) for cell in notebook.cells if cell["cell_type"] == "code"]
    assert sum(map(len, shown)) > 1
    for each in shown:
        assert each.count("execute_result") + each.count("display_data") <= 1
    if path.stem != "books":
        assert len([*folder.rglob("figure.pdf")]) == 1


def test_own_plots_survive_and_an_error_of_ours_is_one_sentence(play):
    sources = [
        "import headgate\n"
        "import matplotlib.pyplot as plt\n"
        "e = headgate.load('digits', 'run.rounds=3', 'run.seeds=2')\n"
        "found = headgate.compare(e, budgets=[5, 10], out='c', processes=1)\n"
        "path = found.figure('x.svg')",
        "plt.plot([1, 2]);",
        "e = headgate.load('digits', 'run.ronds=20')",
    ]
    notebook = new_notebook(cells=[new_code_cell(source) for source in sources])
    play(notebook, allow_errors=True)
    compared, plotted, wrong = notebook.cells
    assert {*kinds(compared)} <= {"stream"}
    assert kinds(plotted) == ["display_data"]
    assert "image/png" in plotted["outputs"][0]["data"]
    assert wrong["outputs"][0]["traceback"] == [
        "line 1: e = headgate.load('digits', 'run.ronds=20')",
        "SettingError: run.ronds: unknown key; did you mean rounds?",
    ]
