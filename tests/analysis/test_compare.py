"""The whole chain on embedded data: runs, page, numbers, figure, and going on after a
stop.
"""

import json
import re

import pytest
from typer.testing import CliRunner

import headgate
from headgate.analysis.report import Comparison
from headgate.analysis.runs import read_runs
from headgate.api import budgets_that_bind
from headgate.cli.commands import app
from headgate.errors import DataError, Interrupted, SettingError
from headgate.records.reader import RunFolder
from headgate.records.tables import points_of

from .run_folders import Page

SMALL = ["--rounds", "6", "--seeds", "3", "--quiet"]
BUDGETS = ["--budgets", "20,55"]
POLICIES = ["--policies", "oracle,constant,headgate,dpp"]


def call(*words):
    return CliRunner().invoke(app, ["compare", *words], catch_exceptions=False)


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared") / "digits"
    words = [
        "digits",
        *BUDGETS,
        *POLICIES,
        *SMALL,
        "--out",
        str(folder),
        "--processes",
        "1",
    ]
    result = call(*words)
    assert result.exit_code == 0, result.output
    return folder, words, result.output


def test_the_page_says_what_the_runs_say(compared):
    folder, _, output = compared
    told = json.loads((folder / "compare.json").read_text("utf-8"))
    again = (
        "headgate compare digits --budgets 20,55 --policies"
        " oracle,constant,headgate,dpp --rounds 6 --seeds 3"
    )
    rows = told["rows"]
    assert told["command"] == again
    assert [(row["budget"], row["policy"]) for row in rows] == [
        (budget, policy)
        for budget in (20.0, 55.0)
        for policy in ("oracle", "constant", "headgate", "dpp")
    ]
    for run in points_of(folder):
        for one in read_runs([RunFolder.open(run)]):
            row = next(
                row
                for row in rows
                if (row["budget"], row["policy"]) == (one.budget, one.policy)
            )
            assert row["best"][0] == pytest.approx(one.best.mean())
            assert row["spend"] == pytest.approx(one.spend.mean())
            assert row["best_by_seed"] == pytest.approx(one.best.tolist(), abs=1e-6)
    held = [row for row in rows if row["policy"] != "oracle"]
    assert all(
        row["kept_limits"]
        and row["worst_excess"] <= 0
        and row["worst_spend"] <= row["budget"]
        for row in held
    )
    assert "Every policy kept its money and its buffers in every run." in output
    assert not (folder / "compare.svg").exists()
    money = Page((folder / "report.html").read_text("utf-8")).data["money"]
    assert {policy for policy, *_ in money["needs"]} == {"headgate", "dpp"}
    assert len(money["panel"]["levels"]) == 1  # the oracle


def test_a_comparison_draws_itself_for_a_notebook(tmp_path):
    """A name is shown as it is, and not read as markup."""
    one = {"prices": "", "unit": "", "learnt": [0, 1], "reference": False}
    rows = [
        {**one, "policy": name, "budget": money, "spend": money, "last_by_seed": last}
        for name, least in (("constant", 0.5), ("<b>", 0.6), ("headgate", 0.7))
        for money, last in ((10.0, [least, least]), (20.0, [least + 0.1, least + 0.2]))
    ]
    oracle = {"policy": "oracle", "reference": True, "spend": 99.0, "budget": 20.0}
    rows.append({**one, **oracle, "last_by_seed": [0.9, 0.9]})
    figure = Comparison(tmp_path / "compare.json", [], rows).plot()
    names = [trace.name for trace in figure.data]
    assert names == ["constant", "&lt;b&gt;", "headgate"]
    assert list(figure.data[0].x) == [10.0, 20.0]
    assert list(figure.data[0].y) == pytest.approx([50.0, 65.0])
    assert list(figure.data[0].error_y.array)[1] == pytest.approx(15.39, abs=0.01)
    assert figure.layout.annotations[0].text == "oracle: 99.0 a round"
    figure.write_html(tmp_path / "money.html")
    assert "oracle: 99.0 a round" in (tmp_path / "money.html").read_text("utf-8")
    rows[0]["prices"] = "brent"
    with pytest.raises(SettingError, match="plot: prices differ between the runs"):
        Comparison(tmp_path / "compare.json", [], rows).plot()


def test_as_printed_policies_break_their_limits_and_that_is_said(tmp_path):
    words = [
        "digits",
        "--budgets",
        "20",
        "--policies",
        "constant,headgate,dpp",
        "--as-printed",
        *SMALL,
    ]
    output = call(*words, "--out", str(tmp_path / "out")).output
    told = json.loads((tmp_path / "out" / "compare.json").read_text("utf-8"))
    assert [row["policy"] for row in told["rows"] if not row["kept_limits"]][
        -1
    ] == "dpp"
    assert "Over its money or its buffers in some run: " in output
    assert "--as-printed" in told["command"]


def test_what_was_paid_is_told_beside_what_was_offered(compared):
    """Against the rows of the metrics themselves."""
    folder, words, _ = compared
    rows = json.loads((folder / "compare.json").read_text("utf-8"))["rows"]
    for run in points_of(folder):
        metrics, budget = (
            headgate.open(run).frame,
            headgate.open(run).folders[0].system.budget,
        )
        for row in (row for row in rows if row["budget"] == budget):
            own = metrics.filter(policy=row["policy"])
            assert row["paid"] == pytest.approx(own["spend"].sum() / 3)
            assert row["price_paid"] == pytest.approx(
                own["spend"].sum() / own["admitted"].sum()
            )
            assert row["price_offered"] == pytest.approx(own["price"].mean())
    offered = rows[0]["price_offered"]
    (ours,) = (
        row for row in rows if (row["policy"], row["budget"]) == ("headgate", 20.0)
    )
    assert ours["price_paid"] < 0.9 * offered  # it waits for low prices
    wide = call(*words, "--wide").output
    assert f" {ours['paid']:.2f} " in wide
    assert f" {ours['price_paid']:.2f} of {offered:.2f} " in wide
    assert "Best test accuracy within the limits" in wide


def test_the_points_of_a_sweep_are_compared_each_under_its_own_prices(tmp_path):
    (tmp_path / "priced.toml").write_text(
        'base = "digits"\n'
        "[run]\n"
        "rounds = 4\n"
        "seeds = 2\n"
        'policies = ["headgate", "oracle", "constant"]\n'
        "[sweep]\n"
        'mode = "zip"\n'
        'prices = [{ kind = "brent" }, { kind = "constant", value = 5.5 }]\n'
        "system.budget = [46.0, 46.0]\n"
    )
    words = [
        "--budgets",
        "recipe",
        "--policies",
        "recipe",
        "--quiet",
        "--processes",
        "1",
    ]
    output = call(
        str(tmp_path / "priced.toml"), *words, "--out", str(tmp_path / "out")
    ).output
    first, second = output.split("10 clients; price of a sample: ")[1:]
    assert first.startswith("brent, scale 0.1\n\nat $ 46.0 a round")
    assert second.startswith("constant, value 5.5\n\nat 46.0 a round")
    rows = json.loads((tmp_path / "out" / "compare.json").read_text("utf-8"))["rows"]
    assert [row["unit"] for row in rows] == ["$"] * 3 + [""] * 3
    assert {row["price_paid"] for row in rows[3:]} == {5.5}
    (report,) = (tmp_path / "out").glob("*brent*")
    page = headgate.open(report).report().read_text("utf-8")
    assert "Paid a sample" in page
    assert "$ " in page


def test_what_is_finished_is_not_run_again(compared):
    folder, words, _ = compared
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("metrics.parquet")}
    again = call(*words, "--format", "json")
    assert {
        path: path.stat().st_mtime_ns for path in folder.rglob("metrics.parquet")
    } == before
    told = json.loads(
        again.stdout[again.stdout.index("{") : again.stdout.rindex("}") + 1]
    )
    assert (len(told["rows"]), len(told["savings"])) == (8, 4)


def test_what_is_there_is_read_for_a_figure_and_that_is_said(compared, tmp_path):
    folder, words, _ = compared
    told = call(*(word for word in words if word != "--quiet"))
    assert "has all these runs already; they are compared, nothing is" in told.stderr
    assert "nothing was bought" not in told.stderr
    found = headgate.open(folder).comparison
    numbers = json.loads((folder / "compare.json").read_text("utf-8"))
    assert found.rows == numbers["rows"]
    assert found.figure(tmp_path / "x.svg").stat().st_size > 1000
    alone = headgate.open(points_of(folder)[0]).comparison
    assert {row["budget"] for row in alone.rows} == {20.0}


def test_budgets_are_added_later_and_nothing_to_what_was_run_otherwise(tmp_path):
    e = headgate.load(
        "digits", "run.rounds=3", "run.seeds=2", 'run.policies=["constant", "headgate"]'
    )
    headgate.compare(e, [20], tmp_path / "grown", quiet=True)
    whole, grown = (
        headgate.compare(e, [20, 55], tmp_path / name, quiet=True)
        for name in ("whole", "grown")
    )
    assert grown.rows == whole.rows
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for other in (e.only(["constant"]), headgate.load("digits", "run.rounds=4")):
        with pytest.raises(
            DataError, match=r"was begun with other settings \(.*choose another folder"
        ):
            headgate.compare(other, [20], tmp_path / "grown", quiet=True)
    assert {
        path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()
    } == before


def test_a_stop_says_that_the_same_command_goes_on(tmp_path, monkeypatch):
    def stopped(*given, **more):
        raise Interrupted(
            "interrupted after 3 of 12 rounds", "continue with: headgate run --resume x"
        )

    monkeypatch.setattr("headgate.simulation.schedule.perform", stopped)
    with pytest.raises(
        Interrupted,
        match="after 3 of 12 rounds; nothing is lost, the same command resumes",
    ):
        call("digits", *BUDGETS, *SMALL, "--out", str(tmp_path / "out"))


@pytest.mark.parametrize("budgets", ["20,x", "20,20", "-5"])
def test_budgets_that_are_none_are_refused(budgets, tmp_path):
    with pytest.raises(SettingError, match=re.escape(budgets)):
        call("digits", "--budgets", budgets, "--out", str(tmp_path / "out"), *SMALL)
    assert not (tmp_path / "out").exists()


def test_a_file_of_ones_own_is_compared_with_its_own_policies(tmp_path, monkeypatch):
    """A recipe that comes with headgate has a default set; both say which."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(
        'base = "digits"\n'
        'run = {rounds = 2, seeds = 1, policies = ["bare", "headgate"]}\n'
        "[policies.bare]\n"
        'kind = "constant"\n'
    )
    own = call(
        "mine.toml", "--budgets", "20", "--quiet", "--out", "own", "--processes", "1"
    )
    assert (
        own.stderr.splitlines()[0]
        == "comparing bare, headgate, each held to the money and the buffers"
    )
    rows = json.loads((tmp_path / "own" / "compare.json").read_text("utf-8"))["rows"]
    assert {row["policy"] for row in rows} == {"bare", "headgate"}
    shipped = call(
        "digits",
        "--budgets",
        "20",
        "--rounds",
        "2",
        "--seeds",
        "1",
        "-q",
        "--out",
        "shipped",
        "--processes",
        "1",
    )
    assert shipped.stderr.startswith(
        "comparing headgate, constant, acdpp, below, oracle, each held"
    )


def test_a_price_for_each_client_leaves_out_who_needs_one_price(tmp_path):
    words = [
        "ercot",
        "--budgets",
        "60,110",
        "--rounds",
        "3",
        "--seeds",
        "2",
        "--quiet",
        "--processes",
        "1",
    ]
    said = call(*words, "--out", str(tmp_path / "out"))
    assert said.stderr.startswith(
        "comparing headgate, constant, below, oracle, each held"
    )
    rows = json.loads((tmp_path / "out" / "compare.json").read_text("utf-8"))["rows"]
    assert all(row["kept_limits"] for row in rows if row["policy"] != "oracle")


def test_budgets_that_never_bind_are_named_and_the_default_ones_bind(tmp_path):
    prices = tmp_path / "quotes.csv"
    prices.write_text("price\n0.03\n0.11\n0.05\n0.08\n0.06\n0.03\n")
    trace = f'prices={{kind="trace",file="{prices}"}}'
    e = headgate.load("digits", trace, "run.rounds=6", "run.seeds=2")
    e = e.only(["headgate", "constant"])
    loose = headgate.compare(
        e, [5.0, 20.0], tmp_path / "loose", quiet=True, processes=1
    )
    accuracies = {row["last"][0] for row in loose.rows if row["budget"] == 20.0}
    assert len(accuracies) == 1
    assert " ".join(str(loose).splitlines()[:2]) == (
        "Money never binds at 20.0 a round: all places cost 6.0, so policies buy alike."
        " Budgets that bind: --budgets 0.75,1.5,3."
    )
    bound = headgate.compare(e, out=tmp_path / "bound", quiet=True, processes=1)
    assert "never binds" not in str(bound)
    assert bound.budget == 2.4
    assert {row["budget"] for row in bound.rows} == {0.6, 1.2, 2.4, 4.8}
    spent = {row["policy"]: row["spend"] for row in bound.rows if row["budget"] < 3}
    assert max(spent.values()) <= 2.4
    usual = headgate.load("digits")
    assert budgets_that_bind(usual)[2] == usual.system.budget
