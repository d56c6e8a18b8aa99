import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import polars as pl
import pytest

from headgate.analysis.curves import curve, heats, looks, thinned
from headgate.analysis.intervals import Estimate, means, t_quantile
from headgate.analysis.learning_figures import draw_run
from headgate.analysis.limits import conclusion
from headgate.analysis.report import write_report
from headgate.analysis.runs import read_runs
from headgate.analysis.summary import columns, summarise
from headgate.errors import DataError, SettingError
from headgate.records.reader import RunFolder
from headgate.records.rows import METRICS

from .made_up import outcome, ramp

WICKED = "<b>x</b>"
CONFIG = """# a remark with <script>alert(1)</script> & more
[system]
buffers = [4, 6]
budget = 10.0
[run]
rounds = 4
[data]
name = "digits"
[model]
name = "logistic"
"""


def rows(policy, seed, **given):
    """One run's metrics from lists over rounds; what is not given is empty."""
    rounds = len(given["spend"])
    blank = {"policy": policy, "seed": seed, **dict.fromkeys(list(METRICS)[3:])}
    return [blank | {"t": t + 1} | {key: values[t] for key, values in given.items()} for t in range(rounds)]


def held(policy, seed, occupancy):
    return [{"policy": policy, "seed": seed, "t": t + 1, "held": n} for t, n in enumerate(occupancy)]


def policy_summaries(run, target=None):
    return [summarise(one, target) for one in read_runs([run])]


def write(folder, metrics, occupancy, *, rounds, policies, seeds, state="finished", diverged=(), config=CONFIG, tail=""):
    """A run folder: parquet when finished, JSON lines with `tail` behind them otherwise."""
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(config)
    (folder / "environment.json").write_text(
        json.dumps({"headgate": "0.1.0", "device": "cpu", "started": "2026-08-01T10:00:00Z"})
    )
    told = {
        "state": state,
        "round": rounds,
        "rounds": rounds,
        "policies": policies,
        "seeds": seeds,
        "pid": 0,
        "elapsed_s": 75.0,
    }
    lost = [{"policy": policy, "seed": seed, "t": 2} for policy, seed in diverged]
    (folder / "state.json").write_text(json.dumps({**told, "diverged": lost}))
    for name, table in (("metrics", metrics), ("clients", occupancy)):
        if state == "finished":
            kinds = METRICS if name == "metrics" else None
            pl.DataFrame(table, schema_overrides=kinds, infer_schema_length=None).write_parquet(folder / f"{name}.parquet")
        else:
            (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table) + tail)
    return folder


def small(folder, **more):
    """Three policies, three seeds, four rounds, small enough for a sheet of paper."""
    metrics = [
        *rows(
            "a",
            0,
            test_accuracy=[None, 0.5, 0.4, 0.6],
            test_loss=[None, 1.0, 0.9, 0.8],
            train_loss=[1.0, 0.8, 0.6, 0.4],
            spend=[10.0] * 4,
            debt=[0.0, 0.0, 0.0, 0.0],
            n=[10, 12, 8, 10],
            N=[10, 13, 17, 20],
            n_eff=[10.0, 12.0, 15.0, 18.0],
            bound=[1.0, 2.0, 3.0, 4.0],
        ),
        *rows(
            "a",
            1,
            test_accuracy=[None, 0.7, 0.8, 0.6],
            spend=[12.0] * 4,
            debt=[0.0, 2.0, 4.0, 6.0],
            n=[10, 10, 12, 12],
            N=[10, 14, 18, 22],
            n_eff=[10.0, 13.0, 16.0, 19.0],
            bound=[2.0, 3.0, 4.0, 5.0],
        ),
        *rows("a", 2, test_accuracy=[0.1, None, None, None], spend=[900.0] * 4, train_loss=[None] * 4, n=[500] * 4),
        *rows(WICKED, 0, test_accuracy=[None, 0.3, None, None], spend=[5.0] * 4, n=[3] * 4, N=[3] * 4),
        *rows("lost", 0, spend=[1.0] * 4),
    ]
    occupancy = [
        *held("a", 0, [[4, 6], [6, 6], [6, 2], [4, 6]]),
        *held("a", 1, [[4, 6], [4, 6], [6, 6], [4, 8]]),
        *held("a", 2, [[250, 250]] * 4),
        *held(WICKED, 0, [[1, 2]] * 4),
    ]
    given = {"rounds": 4, "policies": ["a", WICKED, "lost"], "seeds": [0, 1, 2], "diverged": [("a", 2), ("lost", 0)]}
    return RunFolder.open(write(folder, metrics, occupancy, **given | more))


def long(folder, policies=2, seeds=2, rounds=1000, clients=2):
    rng = np.random.default_rng(0)
    metrics, occupancy = [], []
    for policy in range(policies):
        for seed in range(seeds):
            values = {key: rng.uniform(1, 2, rounds).tolist() for key in list(METRICS)[3:]}
            values |= {key: list(range(rounds)) for key in ("n", "N", "admitted")}
            metrics += rows(f"policy {policy}", seed, **values)
            occupancy += held(f"policy {policy}", seed, rng.integers(0, 9, (rounds, clients)).tolist())
    config = CONFIG.replace("[4, 6]", str([4] * clients))
    names = [f"policy {policy}" for policy in range(policies)]
    path = write(folder, metrics, occupancy, rounds=rounds, policies=names, seeds=list(range(seeds)), config=config)
    return RunFolder.open(path)


class Page(HTMLParser):
    """The tags with their attributes, and the text of every element with an id or of its kind."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts, self.inside, self.text = [], [], "", ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = tag

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts.append(data)
        elif self.inside != "style":
            self.text += data

    @property
    def data(self):
        return json.loads(
            next(each for each in self.scripts if each.startswith('{"series"')),
            parse_constant=lambda name: pytest.fail(f"{name} is in the data"),
        )


def own(text):
    """The page without its programs."""
    return re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)


def test_student_s_quantiles():
    known = {1: 3.078, 2: 1.886, 3: 1.638, 4: 1.533, 5: 1.476, 9: 1.383, 10: 1.372, 29: 1.311}
    assert {dof: round(t_quantile(dof), 3) for dof in known} == known
    assert [round(t_quantile(dof, 0.95), 3) for dof in (4, 10, 29)] == [2.776, 2.228, 2.045]
    assert round(t_quantile(31), 4) == 1.2816  # the normal one
    assert t_quantile(29) > t_quantile(30)
    for dof, level in ((0, 0.8), (3, 0.0), (3, 1.0)):
        with pytest.raises(SettingError, match="at least one degree"):
            t_quantile(dof, level)


def test_means_leave_out_what_was_not_measured():
    mean, half = means(np.array([[1.0, np.nan, np.nan, np.inf], [3.0, 4.0, np.nan, 1.0]]))
    assert mean[:2] == pytest.approx([2, 4])
    assert half[0] == pytest.approx(t_quantile(1) * np.sqrt(2) / np.sqrt(2))
    assert np.isnan([*half[1:], mean[2]]).all()  # one value, none, an infinite one
    assert np.isinf(mean[3])


def test_summaries_by_hand(tmp_path):
    a, wicked, lost = policy_summaries(small(tmp_path / "run"), target=0.65)
    assert (a.policy, a.runs, a.lost, a.rounds, a.budget) == ("a", 3, 1, 4, 10.0)
    assert a.final_accuracy == Estimate(0.6, 0.6, 0.6, 2)
    best = a.best_accuracy
    assert (best.mean, best.half, best.runs) == pytest.approx((0.7, 3.0777 * 0.1, 2), rel=1e-4)  # 0.6 and 0.8: error 0.1
    assert (best.low, best.high) == pytest.approx((0.39223, 1.00777), rel=1e-4)
    assert a.mean_accuracy.mean == pytest.approx(((0.5 + 0.5 + 0.6) / 3 + (0.7 + 0.8 + 0.8) / 3) / 2)  # best so far
    assert (a.reached, a.first_round) == (1, 2.0)  # seed 1, in round 2
    assert (wicked.runs, wicked.lost, wicked.reached, wicked.first_round, wicked.cost_violation) == (1, 0, 0, None, 0.0)
    assert wicked.best_accuracy == Estimate(0.3, None, None, 1)
    assert (wicked.buffer_violation, wicked.peak_excess, wicked.n_eff, wicked.bound) == (0.0, -3, None, None)
    assert (wicked.runs_over_budget, wicked.dearest_share, wicked.kept_limits) == (0, 0.5, True)
    assert (lost.runs, lost.lost, lost.rounds) == (1, 1, 4)
    assert {getattr(lost, f"{name}_accuracy") for name in ("best", "final", "mean")} == {None}


def test_money_and_memory_of_a_lost_run_count(tmp_path):
    """The summary used to leave them out, and the comparison did not: two numbers for one thing."""
    a, _, lost = policy_summaries(small(tmp_path / "run"))
    assert (a.spend_per_round, a.spend_share) == pytest.approx(((10 + 12 + 900) / 3, (10 + 12 + 900) / 30))
    assert a.cost_violation == pytest.approx((40 + 48 + 3600) / 3 - 4 * 10)
    assert a.buffer_violation == pytest.approx((20 + 18 + 1000) / 3 - 16 + (20 + 26 + 1000) / 3 - 24)
    assert (a.peak_n, a.peak_excess) == (500, 246)
    assert (a.runs_over_budget, a.dearest_share, a.kept_limits) == (2, 90.0, False)
    assert (lost.spend_per_round, lost.runs_over_budget, lost.dearest_share) == (1.0, 0, 0.1)


def test_without_a_target_nothing_is_said_of_it(tmp_path):
    run = small(tmp_path / "run")
    assert {(s.reached, s.first_round) for s in policy_summaries(run)} == {(0, None)}
    assert "Round at" not in " ".join(column.title for column in columns(None))
    for target in (0.0, 90.0):
        with pytest.raises(SettingError, match=f"target = {target:g}"):
            policy_summaries(run, target)


def test_what_to_take_from_a_run_is_said_in_a_sentence(tmp_path):
    a, wicked, lost = read_runs([small(tmp_path / "run")])
    so_far = "So far, in 4 of 4 rounds, before all runs have begun: "
    over = "2 of 3 runs go over budget, the dearest spends 9,000.0 % of it; a client holds up to 246 more than its buffer"
    assert conclusion([a, wicked, lost]) == (
        f"{so_far}Best test accuracy within the limits: {WICKED} (30.0 %). "
        f"Broke a limit: a ({over}). What each client held was not recorded, so of memory nothing is known."
    )
    assert conclusion([a, wicked]).startswith(
        f"{so_far}Best test accuracy within the limits: {WICKED} (30.0 %), the only one that kept both limits in every run. "
    )
    assert conclusion([a]) == f"Nobody kept both limits in every run. Broke a limit: a ({over})."
    assert conclusion([wicked]) == f"{so_far}Best test accuracy within the limits: {WICKED} (30.0 %)."
    assert conclusion([lost]).startswith(f"{so_far}lost kept both limits, no accuracy is known.")
    assert conclusion([]) == ""


def test_policies_are_told_apart_or_not(tmp_path):
    """Seed by seed, by the paired interval; a reference is never the best."""
    steady = ramp(5, spread=0.01)
    oracle, good = outcome("oracle", steady + 0.2, spend=100.0), outcome("good", steady + 0.05)
    poor, level = outcome("poor", steady), outcome("level", steady + 0.05 + 0.002 * np.array([[1], [-1], [1], [-2]]))
    assert conclusion([oracle, good, poor]) == (
        "Best test accuracy within the limits: good (95.0 ± 0.7 %), +5.0 ± 0.0 points ahead of poor, seed by seed."
    )
    assert "good (95.0 ± 0.7 %), not told apart from level" in conclusion([oracle, good, level, poor])
    assert conclusion([oracle]) == ""


def test_runs_of_different_data_are_not_ranked_together(tmp_path):
    mnist, digits = (replace(outcome(name, ramp(5)), data=name) for name in ("mnist", "digits"))
    said = conclusion([mnist, digits])
    assert "mnist: Best test accuracy within the limits: mnist (90.0 ± 0.0 %)." in said
    assert "digits: Best test accuracy within the limits: digits (90.0 ± 0.0 %)." in said
    assert "ahead" not in said


def test_a_running_run_counts_up_to_the_last_common_round(tmp_path):
    metrics = [
        *rows("a", 0, spend=[10.0, 20.0, 30.0]),
        *rows("a", 1, spend=[10.0, 20.0]),
    ]
    run = write(
        tmp_path / "run", metrics, [], rounds=9, policies=["a", "b"], seeds=[0, 1], state="running", tail='{"policy": "a", '
    )
    a, b = policy_summaries(RunFolder.open(run))
    assert (a.runs, a.rounds, a.spend_per_round, a.cost_violation, a.buffer_violation) == (2, 2, 15.0, 10.0, None)
    assert (b.runs, b.rounds) == (0, 0)
    page = write_report([RunFolder.open(run)], tmp_path / "r.html")
    assert "interrupted at round 9 of 9" in Page(page.read_text()).text


def test_rounds_that_are_missing_are_refused(tmp_path):
    metrics = rows("a", 3, spend=[1.0] * 4)
    del metrics[1]
    run = write(tmp_path / "run", metrics, [], rounds=4, policies=["a"], seeds=[3], state="running")
    with pytest.raises(DataError, match="metrics of policy a, seed 3: rounds are missing, 3 of 1 to 4"):
        policy_summaries(RunFolder.open(run))
    empty = write(tmp_path / "empty", rows("a", 3, spend=[None]), [], rounds=4, policies=["a"], seeds=[3], state="running")
    with pytest.raises(DataError, match="spend is empty"):
        policy_summaries(RunFolder.open(empty))


def test_the_page_fetches_nothing_and_escapes_everything(tmp_path):
    out = write_report([small(tmp_path / "run")], tmp_path / "report.html", 0.65)
    text = out.read_text("utf-8")
    page = Page(text)
    for tag, attrs in page.tags:
        for name in ("src", "href", "srcset", "data", "action", "poster"):
            assert not re.match(r"(https?:)?//", attrs.get(name) or ""), f"{tag} would fetch {attrs[name]}"
        assert tag not in ("link", "img", "iframe", "object")
        assert not [name for name in attrs if name.startswith("on")]
    assert "@import" not in own(text)
    assert "url(" not in own(text)
    policy = next(attrs["content"] for tag, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    assert "&lt;b&gt;x&lt;/b&gt;" in text
    assert WICKED not in own(text)
    assert "<script>alert" not in text
    assert "a remark with &lt;script&gt;" in text
    assert "NaN" not in own(text)
    assert page.data["series"][1]["name"] == WICKED
    for said in ("digits", "logistic", "1 min 15 s", "70.0 ± 30.8 %", "–", "Round at 65\u00a0%"):
        assert said in page.text


def test_the_page_s_numbers(tmp_path):
    data = Page(write_report([small(tmp_path / "run")], tmp_path / "r.html").read_text()).data
    panels = {panel["key"]: panel for panel in data["panels"]}
    assert list(panels) == [
        "accuracy",
        "accuracy-money",
        "spend",
        "debt",
        "n",
        "N",
        "n_eff",
        "bound",
        "train_loss",
        "test_loss",
    ]
    a, wicked = panels["accuracy"]["curves"]
    assert (a["t"], a["mean"]) == ([2, 3, 4], [60, 65, 70])  # best so far, from the first evaluation on
    assert a["half"] == pytest.approx([30.777, 46.165, 30.777], rel=1e-4)
    assert (wicked["t"], wicked["half"]) == ([2, 3, 4], None)
    assert panels["accuracy-money"]["curves"][0]["x"] == pytest.approx([2 * 922 / 3, 922, 4 * 922 / 3], rel=1e-5)
    assert panels["accuracy-money"]["levels"] == [{"axis": "x", "value": 40.0, "text": "budget in all 40"}]
    assert panels["spend"]["levels"] == [{"axis": "y", "value": 10.0, "text": "budget 10"}]
    assert panels["debt"]["curves"][0]["mean"] == [0, 1, 2, 3]
    heat = data["heats"][0]
    assert (heat["clients"], heat["t"], heat["buffers"]) == (["0", "1"], [1, 2, 3, 4], [4, 6])
    assert heat["ratio"][0] == pytest.approx([(8 + 250) / 12, (10 + 250) / 12, (12 + 250) / 12, (8 + 250) / 12], rel=1e-3)
    assert [one["series"] for one in data["heats"]] == [0, 1]


def test_several_runs_are_told_apart(tmp_path):
    runs = [small(tmp_path / "first"), small(tmp_path / "second"), small(tmp_path / "elsewhere" / "second")]
    page = Page(write_report(runs, tmp_path / "r.html").read_text())
    names = [series["name"] for series in page.data["series"]]
    assert names[::3] == ["first: a", "second (1): a", "second (2): a"]
    assert [(look.colour, look.dash) for look in looks(read_runs(runs))[:4]] == [(0, 0), (1, 0), (2, 0), (0, 1)]
    assert "3 runs compared" in page.text
    many = [small(tmp_path / f"run{i}") for i in range(5)]
    assert len(set(looks(read_runs(many)))) == 15


def test_a_long_run_is_thinned(tmp_path):
    data = Page(write_report([long(tmp_path / "run")], tmp_path / "r.html").read_text()).data
    for panel in data["panels"]:
        for line in panel["curves"]:
            assert len(line["t"]) == len(line["mean"]) == 500
            assert (line["t"][0], line["t"][-1]) == (1, 1000)
    assert len(data["heats"][0]["t"]) == 250
    assert thinned(3).tolist() == [0, 1, 2]


def test_many_clients_are_averaged_in_groups(tmp_path):
    run = long(tmp_path / "run", policies=1, seeds=1, rounds=3, clients=250)
    (heat,) = heats(read_runs([run]))
    assert len(heat.clients) == 120
    assert heat.clients[0] == "0–1"
    first = np.array(run.clients()["held"].to_list())[:, :2].mean(axis=1) / 4
    assert heat.ratio[0] == pytest.approx(first)
    assert (heat.rounds.tolist(), heat.last) == ([1, 2, 3], 3)


def test_the_page_of_a_usual_run_stays_small(tmp_path):
    out = write_report([long(tmp_path / "run", policies=5, seeds=10, rounds=100, clients=10)], tmp_path / "r.html")
    assert out.stat().st_size < 6_000_000


def test_a_run_without_a_round_has_a_page_and_no_figures(tmp_path):
    run = RunFolder.open(write(tmp_path / "run", [], [], rounds=9, policies=["a"], seeds=[0], state="running"))
    page = Page(write_report([run], tmp_path / "r.html").read_text())
    assert "No round has been recorded yet" in page.text
    assert page.data["panels"] == page.data["heats"] == []
    with pytest.raises(DataError, match="nothing to draw"):
        draw_run([run], tmp_path / "figures")


def test_what_cannot_be_written_is_refused(tmp_path):
    run = small(tmp_path / "run")
    with pytest.raises(DataError, match="there is no folder"):
        write_report([run], tmp_path / "nowhere" / "r.html")
    (tmp_path / "r.html").mkdir()
    with pytest.raises(DataError, match="cannot be written"):
        write_report([run], tmp_path / "r.html")
    assert not list(tmp_path.glob(".*.partial"))
    with pytest.raises(SettingError, match="at least one run"):
        write_report([], tmp_path / "x.html")
    with pytest.raises(SettingError, match=r"figure \.bmp"):
        draw_run([run], tmp_path, [".bmp"])
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        draw_run([run], tmp_path / "file")


def test_figures_on_paper(tmp_path):
    runs = [small(tmp_path / "_run $x$ {y}"), small(tmp_path / "other")]  # neither a formula nor hidden
    paths = draw_run(runs, tmp_path / "figures")
    assert [path.name for path in paths] == [
        f"{name}{suffix}" for name in ("accuracy", "accuracy-money", "money", "occupancy") for suffix in (".svg", ".png")
    ]
    assert all(path.stat().st_size > 2000 for path in paths)
    assert b"_run $x$ {y}: a" in re.sub(rb"<!--\s*(.*?)\s*-->", rb"\1", paths[0].read_bytes()).replace(b"\\$", b"$")
    again = draw_run(runs, tmp_path / "again", [".svg"])
    assert again[0].read_bytes() == paths[0].read_bytes()


def test_a_far_off_value_gives_a_logarithmic_scale(tmp_path):
    metrics = [
        *rows("cheap", 0, spend=[1.0] * 3, test_accuracy=[0.1, 0.2, 0.3]),
        *rows("cheap too", 0, spend=[1.0] * 3, test_accuracy=[0.1, 0.2, 0.3]),
        *rows("dear", 0, spend=[100.0, 10.0, 10.0], test_accuracy=[0.1, 0.2, 0.3]),
    ]
    run = RunFolder.open(
        write(tmp_path / "run", metrics, [], rounds=3, policies=["cheap", "cheap too", "dear"], seeds=[0], state="running")
    )
    panels = {panel["key"]: panel for panel in Page(write_report([run], tmp_path / "r.html").read_text()).data["panels"]}
    assert {key: (panel["log"], panel["log_x"]) for key, panel in panels.items()} == {
        "accuracy": (False, False),
        "accuracy-money": (False, True),
        "spend": (True, False),
    }
    draw_run([run], tmp_path, [".svg"])
    assert curve(0, np.full((2, 3), np.nan)) is None


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_a_browser_draws_every_figure(tmp_path):
    page = write_report([small(tmp_path / "run")], tmp_path / "report.html")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    flags += ["--disable-component-update", "--disable-sync", f"--user-data-dir={tmp_path / 'browser'}"]
    done = subprocess.run(
        ["chromium", *flags, "--virtual-time-budget=8000", "--dump-dom", f"file://{page}#dark"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    drawn = Page(done.stdout)
    plots = [attrs for _, attrs in drawn.tags if "plot" in (attrs.get("class") or "").split()]
    assert len(plots) == 11
    assert all("js-plotly-plot" in attrs["class"] for attrs in plots)
    assert ("html", {"lang": "en", "data-theme": "dark"}) in drawn.tags
    assert "NaN" not in own(done.stdout)
