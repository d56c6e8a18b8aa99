"""Hypothesis without a database and with the same examples everywhere, a failing one
printed; Ctrl-C as in the foreground.

Temporary files lie in memory where there is room: thousands are written, and no machine
loses its power here. Files of tests that take long come first, so that no worker is
left with one of them at the end; `make test-slow` says which those are. Those that
mostly wait, for a deployment or an engine, stand apart: beside each, others work.
Nothing is searched for garbage while modules are read, and those never: a fifth of the
time in which tests are found.
"""

import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile(
    "headgate", derandomize=True, deadline=None, database=None, print_blob=True
)
settings.register_profile(
    "fuzz", settings.get_profile("headgate"), derandomize=False, max_examples=5000
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "headgate"))

ROOT = Path(__file__).parents[1]
LONGEST = (ROOT / "tests" / "longest.txt").read_text("utf-8").split()
EXTRAS = {
    "torch": "sim", "sympy": "sim", "numba": "sim", "flwr": "flower",
    "starlette": "web", "uvicorn": "web", "nvflare": "nvflare", "psutil": "nvflare",
    "distributed": "dask", "psycopg": "postgres",
}  # fmt: skip
"""in which extra is what tests import"""
MARKED = {
    "study": ("studies", "tests/studies"),
    "browser": ("tests/web/browser",),
    "kill": (
        "tests/books/test_history.py",
        "tests/books/test_killed_between.py",
        "tests/flower/test_killed.py",
        "tests/labels/test_killed_between.py",
        "tests/labels/test_scenario.py",
        "tests/on_nvflare/test_nvflare.py",
        "tests/simulation/elsewhere/test_dask.py",
        "tests/simulation/schedule/test_disturbed.py",
        "tests/simulation/schedule/test_failures.py",
        "tests/simulation/test_features_stopped.py",
        "tests/simulation/test_resume.py",
        "tests/web/accounts/test_killed.py",
    ),
}
"""marker → folders and files whose tests all have it"""
IN_A_BROWSER = {
    "tests/web/browser/test_reading.py": "tests/web/browser/test_run_page.py",
    "tests/web/browser/test_accounts_page.py": "tests/web/browser/test_run_page.py",
    "tests/web/browser/test_runs_page.py": "tests/web/browser/test_plan_page.py",
    "tests/web/browser/test_compare_page.py": "tests/web/browser/test_plan_page.py",
}
"""file → the file whose worker takes it, too: a browser is started twice and not by
every worker, as long as it takes to start and to compile what the page draws with
"""
MEMORY, ROOM = Path("/dev/shm"), 4 * 2**30


def roomy(folder):
    """Whether there is room, and programs may be started from there, as some tests
    do.
    """
    return (
        folder.is_dir()
        and not os.statvfs(folder).f_flag & os.ST_NOEXEC
        and shutil.disk_usage(folder).free > ROOM
    )


gc.disable()
os.environ.setdefault("OMP_NUM_THREADS", "1")  # every core has its worker
if "TMPDIR" not in os.environ and roomy(MEMORY):
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)


def markers_of(path):
    """Return the markers that all tests of a file have."""
    own = path.relative_to(ROOT)
    return [
        marker
        for marker, places in MARKED.items()
        if any(own.is_relative_to(place) for place in places)
    ]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """One more than there are cores: some tests wait, for processes that start and for
    time to pass.
    """
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Files are dealt out whole with `--dist loadfile`, and some of them together."""
    from xdist.scheduler import LoadFileScheduling

    class Files(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return IN_A_BROWSER.get(file, file)

    return Files(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path):
    """Docstrings of tests have no examples, so none are looked for in their files."""
    found = yield
    if not file_path.name.startswith("test_"):
        return found
    return [each for each in found if type(each).__name__ != "DoctestModule"]


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their markers
def pytest_collection_modifyitems(items):
    """Tests get the markers of their files. Those in a browser come last: it leaves an
    event loop running in its worker, and then no other can be run there.
    """
    for item in items:
        for marker in markers_of(item.path):
            item.add_marker(marker)
    rank = {ROOT / name: place for place, name in enumerate(LONGEST)}
    items.sort(
        key=lambda item: (
            item.path.parent.name == "browser",
            rank.get(item.path, len(rank)),
        )
    )


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """A file that imports what only an extra brings is skipped where that is not
    installed.
    """
    report = yield
    excinfo = report.call.excinfo if report.failed else None
    cause = excinfo.value.__cause__ if excinfo else None
    if isinstance(cause, ModuleNotFoundError) and cause.name in EXTRAS:
        report.outcome = "skipped"
        report.longrepr = (
            str(collector.path),
            0,
            (
                f"Skipped: needs {cause.name}: pip install"
                f" 'headgate[{EXTRAS[cause.name]}]'"
            ),
        )
    return report


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_is_heard():
    """What a script starts with `&` ignores SIGINT, and so do its children: tests that
    press Ctrl-C would wait for ever.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def typed(monkeypatch, capsys):
    """What a command prints on both streams when a user types it; it must end with
    `code`.
    """

    def call(*words, code=0, main=None):
        from headgate.cli import main as headgate

        monkeypatch.setattr(sys, "argv", [str(word) for word in words])
        with pytest.raises(SystemExit) as end:
            (main or headgate)()
        out, err = capsys.readouterr()
        assert (end.value.code or 0) == code, err
        return out, err

    return call


@pytest.fixture
def headgate(typed):
    return partial(typed, "headgate")


@pytest.fixture
def python():
    """Both streams of a Python of its own, given these words; it must end with
    `code`.
    """

    def call(*words, code=0, **more):
        done = subprocess.run(
            [sys.executable, *map(str, words)],
            capture_output=True,
            text=True,
            check=False,
            **more,
        )
        assert done.returncode == code, done.stderr
        return done.stdout, done.stderr

    return call


@pytest.fixture
def forgets_modules(tmp_path):
    """What is imported from the test's folder leaves with it: the next test may have
    another module of that name.
    """
    yield
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]
