"""The report: one page that needs nothing else, its numbers and its figures."""

import re
import shutil
import subprocess

import numpy as np
import pytest

from headgate.analysis.curves import heat, thinned
from headgate.analysis.report import write_report
from headgate.analysis.runs import read_runs
from headgate.errors import DataError
from headgate.records.reader import RunFolder

from .run_folders import WICKED, Page, long, small, write


def own(text):
    """The page without its programs."""
    return re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)


def test_the_page_fetches_nothing_and_escapes_everything(tmp_path):
    out = write_report([small(tmp_path / "run")], tmp_path / "report.html", 0.65)
    text = out.read_text("utf-8")
    page = Page(text)
    for tag, attrs in page.tags:
        for name in ("src", "href", "srcset", "data", "action", "poster"):
            assert not re.match(r"(https?:)?//", attrs.get(name) or ""), (
                f"{tag} would fetch {attrs[name]}"
            )
        assert tag not in ("link", "img", "iframe", "object")
        assert not [name for name in attrs if name.startswith("on")]
    assert "@import" not in own(text)
    assert "url(" not in own(text)
    policy = next(
        attrs["content"]
        for tag, attrs in page.tags
        if attrs.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'")
    assert WICKED not in own(text)
    assert "<script>alert" not in text
    assert "NaN" not in own(text)
    assert [line["name"] for line in page.data["lines"]] == ["a", WICKED, "lost"]
    (run,), table = page.data["runs"], page.data["table"]
    assert (run["data"], run["model"], run["elapsed"]) == ("digits", "logistic", 75.0)
    assert "a remark with <script>" in run["toml"]
    titles, cells = (
        [each[key] for each in row]
        for key, row in (("title", table["columns"]), ("text", table["rows"][0]))
    )
    assert (cells[titles.index("Best")], cells[titles.index("Round at 65\u00a0%")]) == (
        "70.0 ± 30.8 %",
        "2.0 (1 of 3)",
    )


def test_the_page_s_numbers(tmp_path):
    data = Page(
        write_report([small(tmp_path / "run")], tmp_path / "r.html").read_text()
    ).data
    a, wicked, _ = (line["curves"] for line in data["drawn"])
    best = a["judged"]["best_accuracy"]
    assert (a["evaluated"], best["mean"]) == (
        [2, 3, 4],
        [0.6, 0.65, 0.7],
    )  # best so far, from the first evaluation on
    assert best["half"] == pytest.approx([0.30777, 0.46165, 0.30777], rel=1e-4)
    assert (wicked["evaluated"], wicked["judged"]["best_accuracy"]["half"]) == (
        [2],
        [None],
    )
    assert a["series"]["debt"]["mean"] == [0, 1, 2, 3]
    assert a["series"]["spent"]["mean"] == pytest.approx(
        [(10 + 12 + 900) / 3 * t for t in (1, 2, 3, 4)]
    )
    heat = data["heats"][0]
    assert (heat["clients"], heat["t"], heat["buffers"]) == (
        ["0", "1"],
        [1, 2, 3, 4],
        [4, 6],
    )
    assert heat["ratio"][0] == pytest.approx(
        [(8 + 250) / 12, (10 + 250) / 12, (12 + 250) / 12, (8 + 250) / 12], rel=1e-3
    )
    assert [one["policy"] for one in data["heats"]] == ["a", WICKED]


def test_a_ledger_that_cannot_be_read_is_a_sentence_of_its_own(tmp_path):
    run = small(tmp_path / "run")
    (tmp_path / "run" / "ledger.sqlite").write_text("no ledger")
    said = Page(write_report([run], tmp_path / "r.html").read_text()).data["sentence"]
    first, _, rest = said.partition(". ")
    assert first.startswith(f"{tmp_path / 'run' / 'ledger.sqlite'}: ")
    assert rest[:1].isupper()


def test_several_runs_are_told_apart(tmp_path):
    runs = [
        small(tmp_path / "first"),
        small(tmp_path / "second"),
        small(tmp_path / "elsewhere" / "second"),
    ]
    page = Page(write_report(runs, tmp_path / "r.html").read_text())
    names = [line["name"] for line in page.data["drawn"]]
    assert names[::3] == ["first: a", "second (1): a", "second (2): a"]
    assert page.data["title"] == "3 runs compared"


def test_a_long_run_is_thinned(tmp_path):
    data = Page(
        write_report([long(tmp_path / "run")], tmp_path / "r.html").read_text()
    ).data
    for curves in (line["curves"] for line in data["drawn"]):
        assert (
            (curves["t"][0], curves["t"][-1])
            == (curves["evaluated"][0], curves["evaluated"][-1])
            == (1, 1000)
        )
        for each in (*curves["series"].values(), *curves["judged"].values()):
            assert len(each["mean"]) == len(each["half"]) == 500
    assert len(data["heats"][0]["t"]) == 250
    assert thinned(3).tolist() == [0, 1, 2]


def test_many_clients_are_averaged_in_groups(tmp_path):
    run = long(tmp_path / "run", policies=1, seeds=1, rounds=3, clients=250)
    (one,) = read_runs([run])
    drawn = heat(one.label, one.held, one.buffers)
    assert (len(drawn.clients), drawn.clients[0], drawn.t, drawn.last) == (
        120,
        "0–1",
        [1, 2, 3],
        3,
    )
    first = np.array(run.clients()["held"].to_list())[:, :2].mean(axis=1) / 4
    assert drawn.ratio[0] == pytest.approx(first, rel=1e-3)


def test_a_run_without_a_round_has_a_page_and_no_figures(tmp_path):
    run = RunFolder.open(
        write(
            tmp_path / "run",
            [],
            [],
            rounds=9,
            policies=["a"],
            seeds=[0],
            state="running",
        )
    )
    data = Page(write_report([run], tmp_path / "r.html").read_text()).data
    assert (data["drawn"][0]["curves"]["rounds"], data["heats"]) == (0, [])


def test_what_cannot_be_written_is_refused(tmp_path):
    run = small(tmp_path / "run")
    with pytest.raises(DataError, match="cannot be written"):
        write_report([run], tmp_path / "nowhere" / "r.html")
    (tmp_path / "r.html").mkdir()
    with pytest.raises(DataError, match="cannot be written"):
        write_report([run], tmp_path / "r.html")
    assert not list(tmp_path.glob(".*.partial"))


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_a_browser_draws_every_figure(tmp_path):
    page = write_report([small(tmp_path / "run")], tmp_path / "report.html")
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
    ]
    flags += [
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={tmp_path / 'browser'}",
    ]
    done = subprocess.run(
        ["chromium", *flags, "--virtual-time-budget=8000", "--dump-dom", f"file://{page}#dark"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    drawn = Page(done.stdout)
    plots = [
        attrs for _, attrs in drawn.tags if "plot" in (attrs.get("class") or "").split()
    ]
    assert len(plots) == 10
    assert all("js-plotly-plot" in attrs["class"] for attrs in plots)
    assert ("html", {"lang": "en", "data-theme": "dark"}) in drawn.tags
    assert "NaN" not in own(done.stdout)
    for said in (
        "digits",
        "logistic",
        "1 min 15 s",
        "70.0 ± 30.8 %",
        WICKED,
        "a remark with <script>alert(1)</script>",
    ):
        assert said in drawn.text
