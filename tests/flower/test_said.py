"""What a run on Flower says: prices from outside, why it bought, who was asked, what it
saved, and that a finished run is finished.
"""

import logging
import re
from contextlib import closing
from logging import ERROR

import pytest
from flwr.app import Context, RecordDict
from flwr.common import log
from flwr.serverapp import strategy as flower
from test_gated import CLIENTS, an_app, first
from worlds import World, an_experiment

from headgate.analysis.accounts import ledger_facts
from headgate.books.statement import opened, statement
from headgate.errors import SettingError
from headgate.flower import Gated
from headgate.flower.client import open_store
from headgate.records.reader import RunFolder
from headgate.web.answers import detail
from headgate.web.metrics import metrics_text
from headgate.web.runs import Library

ROUNDS = 6
PRICES = (3.0, 0.5, 4.0, 0.4, 5.0, 1.0)
RECIPE = {
    "system": {"buffers": [8], "clients": CLIENTS, "budget": 18.0, "currency": "$"},
    "run": {"rounds": ROUNDS},
}


class Told(World):
    """A federation of six, half of which is asked, with prices from a function."""

    def __init__(self, folder, monkeypatch, limit=None, **more):
        super().__init__(folder, an_experiment("fifo", ROUNDS))
        self.clients, self.lines, self.more = range(CLIENTS), [], more
        self.use(an_app(self.folder / "stores", limit=limit))
        for module in ("strategy", "run_folder"):
            monkeypatch.setattr(
                f"headgate.flower.{module}.log",
                lambda level, text, *values: self.lines.append(text % values),
            )

    def result(self, until=None, recipe=RECIPE):
        strategy = Gated(
            flower.FedAvg(fraction_train=0.5, min_available_nodes=1, **self.more),
            recipe,
            self.folder / "run",
            discipline=self.discipline,
            prices=lambda t: PRICES[t - 1],
        )
        with closing(strategy) as own:
            return own.start(self.grid, first(), num_rounds=until)


def test_prices_come_from_a_function_and_the_log_says_why_and_who(
    tmp_path, monkeypatch, headgate
):
    world = Told(tmp_path, monkeypatch)
    world.result()
    lines = [line for line in world.lines if line.startswith("round ")]
    assert [line.split("; ")[1].split(",")[0] for line in lines] == [
        f"price {price:.3g}" for price in PRICES
    ]
    assert "; round 1 fills the buffers for up to 54; " in lines[0]
    assert ", below the limit of " in lines[1]
    assert ", above the limit of " in lines[4]
    for line in lines:
        assert ": 3 of 3 asked answered; " in line
        assert "; 3 clients not asked" in line
        assert "no valid answer" not in line
        assert " of $ 108.00, $ " in line
    assert any("$ 18.00 a round, $ 108.00 in all, " in line for line in world.lines)

    with opened(tmp_path / "run") as store:
        found = statement(store)
    assert f"headgate: {found.sentence}" in world.lines
    assert "bought evenly at the same prices: $ " in found.sentence
    out, _ = headgate("ledger", "show", tmp_path / "run")
    assert found.sentence in out.replace("\n", " ")

    run = RunFolder.open(tmp_path / "run")
    assert run.kind("data") == run.kind("model") == "the app's own"
    assert {"data", "model"} & run.config.keys() == set()
    assert ledger_facts(run).saved == found.saved
    library = Library(tmp_path / "run")
    assert detail(library, "run").conclusion.startswith(found.sentence)
    text = metrics_text(library)
    name = 'headgate_saved{run="run",policy="headgate"}'
    assert f"{name} {found.saved.money:.15g}\n" in text
    report = headgate("report", tmp_path / "run")[0].strip()
    with open(report, encoding="utf-8") as page:
        assert found.sentence in page.read()


def test_what_clients_measure_is_recorded_and_comes_back(tmp_path, monkeypatch):
    world = Told(tmp_path, monkeypatch, fraction_evaluate=0.5)
    world.result(until=2)
    world.result()
    world.lines.clear()
    before = [(each.round, each.spent, each.sha256) for each in world.rounds()]
    again = world.result()
    assert [dict(each) for each in again.evaluate_metrics_clientapp.values()] == [
        {"accuracy": 0.5}
    ] * ROUNDS
    assert not again.evaluate_metrics_serverapp
    metrics = RunFolder.open(tmp_path / "run").metrics()
    assert metrics["test_accuracy"].to_list() == [0.5] * ROUNDS
    (said,) = [line for line in world.lines if "nothing was bought or trained" in line]
    assert said.startswith(f"headgate: the run in {tmp_path / 'run'} is finished;")
    assert said.endswith("choose another `out`")
    assert not [line for line in world.lines if line.startswith("round ")]
    after = [(each.round, each.spent, each.sha256) for each in world.rounds()]
    assert after == before


def test_fewer_rounds_than_the_recipe_plans_are_said_at_once(tmp_path, monkeypatch):
    world = Told(tmp_path, monkeypatch)
    world.result(until=2)
    (said,) = [line for line in world.lines if "num_rounds = 2 ends before" in line]
    assert f"run.rounds = {ROUNDS}" in said
    first_round = next(line for line in world.lines if line.startswith("round 1"))
    assert world.lines.index(said) < world.lines.index(first_round)


@pytest.fixture
def flowers_log(caplog, monkeypatch):
    for name, value in {"propagate": True, "disabled": False}.items():
        monkeypatch.setattr(logging.getLogger("flwr"), name, value)
    return caplog


def test_a_refusal_stands_in_flowers_log_in_one_line(tmp_path, flowers_log):
    with pytest.raises(SettingError) as caught:
        Gated(flower.FedAvg(), {**RECIPE, "runs": {}}, tmp_path / "run")
    log(ERROR, "%s raised an exception", "ServerApp", exc_info=caught.value)
    log(ERROR, "%s raised an exception", "ServerApp", exc_info=ValueError("theirs"))
    ours, theirs = flowers_log.records
    assert logging.Formatter().format(ours).splitlines() == [
        "headgate: SettingError: [runs]: unknown section; did you mean run?"
    ]
    assert "ServerApp raised an exception\nValueError: theirs" in (
        logging.Formatter().format(theirs)
    )


def test_clients_say_once_where_they_keep_their_samples(
    tmp_path, flowers_log, monkeypatch
):
    monkeypatch.setenv("HEADGATE_STORE", str(tmp_path / "here"))
    context = Context(1, 2, {"partition-id": 0}, RecordDict(), {})
    for _ in range(2):
        open_store(context, None).close()
    said = [record.getMessage() for record in flowers_log.records]
    assert said == [f"headgate: clients keep their samples in {tmp_path / 'here'}"]


def test_a_source_that_ran_dry_is_said_everywhere(tmp_path, monkeypatch, headgate):
    world = Told(tmp_path, monkeypatch, limit=9)
    world.result()
    (line,) = [line for line in world.lines if "Sources that ran dry: " in line]
    assert re.search(r"client \d in round \d \(the source had \d of \d samples\)", line)
    assert any(
        "; client " in each and ": the source had" in each for each in world.lines
    )
    out, _ = headgate("ledger", "show", tmp_path / "run")
    assert line.removeprefix("headgate: ") in out.replace("\n", " ")


def test_a_policy_that_needs_expected_prices_says_so(tmp_path, monkeypatch):
    world = Told(tmp_path, monkeypatch)
    recipe = {**RECIPE, "run": {"rounds": ROUNDS, "policies": ["threshold"]}}
    with pytest.raises(SettingError, match="state the prices that you expect"):
        world.result(recipe=recipe)
    assert not (tmp_path / "run").exists()
    world.result(
        recipe={**recipe, "prices": {"kind": "uniform", "low": 0.1, "high": 5.0}}
    )
