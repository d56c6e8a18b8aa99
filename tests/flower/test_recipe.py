"""Server and client from a recipe that the run's config names."""

import pytest
from flwr.app import Context, RecordDict
from grids import FakeGrid, Node

from headgate.errors import SettingError
from headgate.flower.recipe import discipline_of, recipe_client, recipe_server, task_of
from headgate.flower.rounds import Discipline
from headgate.records.reader import RunFolder

pytestmark = pytest.mark.usefixtures("no_fsync")
SETTINGS = 'run.seeds=1; run.rounds=2; run.policies=["headgate"]; system.clients=3; training.steps=1'


def a_context(**config):
    return Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config=config)


def test_the_runs_config_says_what_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADGATE_STORE", str(tmp_path / "stores"))
    config = {"recipe": "digits", "set": SETTINGS, "out": str(tmp_path / "run"), "quorum": 3, "gather": 0.0}
    app = recipe_client()
    grid = FakeGrid({7 + m: Node(app, m) for m in range(3)}, config)
    recipe_server()(grid, a_context(**config))
    run = RunFolder.open(tmp_path / "run")
    assert (run.status, run.rounds, len(run.buffers)) == ("finished", 2, 3)
    assert sorted(path.name for path in (tmp_path / "stores").glob("*.sqlite")) == [f"client-0000{m}.sqlite" for m in range(3)]
    recipe_server()(grid, a_context(**config))  # all is played: nothing happens
    assert {t for t, _ in grid.trained} == {1, 2}


def test_what_nobody_says_is_refused(tmp_path):
    grid = FakeGrid({})
    with pytest.raises(SettingError, match="run config recipe: must name a recipe"):
        recipe_server()(grid, a_context())
    with pytest.raises(SettingError, match="run config out: must name the run folder"):
        recipe_server("digits")(grid, a_context())
    half = task_of("digits", ("training.dtype=bfloat16",))
    with pytest.raises(SettingError, match=r"training\.dtype = bfloat16: clients on Flower compute in float32 or float64"):
        half.start()


def test_discipline_from_a_config():
    told = {"deadline": 5, "quorum": 2, "norm-cap": 3, "offences": 9, "other": "x"}
    assert discipline_of(told) == Discipline(deadline=5.0, quorum=2, norm_cap=3.0, offences=9)
    assert discipline_of({}) == Discipline()


def test_a_node_must_say_which_client_it_is(tmp_path):
    from headgate.flower.client import open_store

    for config in ({}, {"partition-id": -1}, {"partition-id": "two"}, {"partition-id": True}):
        context = Context(run_id=1, node_id=0, node_config=config, state=RecordDict(), run_config={})
        with pytest.raises(SettingError, match="node_config partition-id = "):
            open_store(context, tmp_path)
