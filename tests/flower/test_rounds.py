"""Round discipline: who is there, who is waited for, what a round without enough
answers is, and restarts.
"""

import sqlite3
from contextlib import closing

import numpy as np
import pytest
from grids import FakeGrid, Node
from worlds import World, an_experiment, counting_app, start

from headgate.books.database import LEDGER
from headgate.control.policies import Headgate
from headgate.control.retention import Reservoir
from headgate.errors import DataError, LedgerError, SettingError
from headgate.flower.roster import Roster
from headgate.flower.rounds import Discipline
from headgate.flower.strategy import AdmissionStrategy


def test_without_a_quorum_the_model_stays_but_admissions_count(tmp_path):
    world = World(tmp_path, an_experiment("fifo", 3), Discipline(gather=0.0, quorum=3))
    world.grid.faults = {(1, 2): "message lost"}
    world.play(1, timeout=2.5)  # in place of the discipline's deadline
    assert [event.reason for event in world.events("failed")] == [
        "no answer within 2.5 s"
    ]
    ledger = world.audit()
    assert ledger.spent[0] > 0
    assert ledger.admitted[0, :2].sum() > 0
    with world.store() as store:
        assert store.rounds()[0].sha256 == (first := store.initial()[1])
    assert [event.reason for event in world.events("no quorum")] == [
        "2 valid answers, 3 are needed"
    ]
    world.play()
    assert world.rounds()[1].sha256 != first
    world.audit()


def test_a_round_in_which_nobody_has_a_sample_changes_nothing(tmp_path):
    world = World(tmp_path, an_experiment("fifo", 2), limit=0)
    world.play()
    ledger = world.audit()
    assert ledger.spent[0] == 0
    assert {event.kind for event in world.events()} == {"short"}
    with world.store() as store:
        assert [past.sha256 for past in store.rounds()] == [store.initial()[1]] * 2
        assert store.rounds()[-1].metrics["train_loss"] is None
    assert world.events("rejected", "failed") == []


def test_who_comes_later_and_who_comes_back_takes_part(tmp_path):
    world = World(tmp_path, an_experiment("fifo", 7))
    everybody = dict(world.grid.nodes)
    for t, there in enumerate(
        [(), (0,), (0, 1), (1,), (0, 1, 2), (0, 2), (0, 1, 2)], 1
    ):
        world.grid.nodes = {
            node: one for node, one in everybody.items() if one.client in there
        }
        world.play(t)
        world.audit()
    assert {(t, m) for t, m in world.grid.trained} >= {
        (2, 0),
        (3, 1),
        (5, 2),
        (7, 0),
        (7, 1),
        (7, 2),
    }
    assert world.grid.queries == 3  # each once, also by a new server process
    assert (world.orders(1), world.rounds()[0].metrics["spend"]) == (
        [],
        0,
    )  # a round without any client passes


def test_a_client_is_one_node_for_as_long_as_that_node_is_there(tmp_path):
    world = World(tmp_path, an_experiment("fifo", 6))
    world.play(1)
    told = []
    app = counting_app(world.folder / "stores")

    def saying(name):
        def said(message, context):
            told.append((name, message.metadata.message_type))
            return app(message, context)

        return Node(said, 0)

    first, later = saying("first"), saying("later")
    for t, there in enumerate(
        [(first, later), (later,), (first, later), (first,), (first, later)], 2
    ):
        claiming = {
            node: own for node, own in ((100, first), (50, later)) if own in there
        }
        world.grid.nodes = claiming | {100 + m: Node(app, m) for m in (1, 2)}
        world.play(t)
    assert told[0] == ("later", "query.identity")
    assert [name for name, kind in told if kind == "train"] == [
        "first",
        "later",
        "later",
        "first",
        "first",
    ]
    world.audit()


def test_nobody_is_waited_for_for_ever_and_silent_nodes_are_asked_less_and_less(
    tmp_path, monkeypatch
):
    waits = []
    monkeypatch.setattr("time.sleep", waits.append)
    world = World(tmp_path, an_experiment("fifo", 2))
    world.play(until=0)
    waits.clear()
    with world.store() as store:

        def silent(message, context):
            raise RuntimeError

        grid = FakeGrid({7: Node(silent, 0)})
        roster = Roster(store, 1)
        for _ in range(20):
            assert roster.connected(grid, 1, answer_within=1.0) == {}
        assert grid.queries == 4  # on looks 1, 3, 7 and 15
        assert roster.gather(grid, 1, wanted=1, seconds=0.0, answer_within=1.0) == {}
        assert waits == []
        roster.gather(grid, 1, wanted=1, seconds=0.05, answer_within=1.0)
        assert waits
        assert max(waits) <= 0.05


def test_a_node_that_is_no_client_of_this_run_is_noted_and_left_alone(tmp_path):
    world = World(tmp_path, an_experiment("fifo", 2))
    world.grid.nodes[999] = Node(counting_app(world.folder / "stores"), 55)
    world.play()
    reasons = [event.reason for event in world.events("unknown")]
    assert any(
        "node 999: identity.client = 55: there are 3 clients" in reason
        for reason in reasons
    )
    world.audit()


def test_the_model_goes_only_to_those_who_train_or_look_at_samples_with_it(tmp_path):
    for rule, with_model in (("fifo", 4), ("worlds:Unsure", 12)):
        policy = {"fifo": {"kind": "headgate", "rule": rule}}
        world = World(
            tmp_path / rule,
            an_experiment("fifo", 4, training={"cohort": 1}, policies=policy),
        )
        world.play()
        assert len(world.grid.orders()) == 12
        assert (
            sum("arrays" in message.content for message in world.grid.orders())
            == with_model
        )
        assert np.all(world.audit().admitted > 0) or rule != "fifo", "everybody admits"


def test_a_run_folder_belongs_to_its_settings(tmp_path):
    world = World(tmp_path, an_experiment("fifo", 3))
    world.play(1)
    with pytest.raises(DataError, match="was begun with other settings"):
        AdmissionStrategy(an_experiment("fifo", 3, budget=10.0), tmp_path / "run")


def test_what_no_recipe_can_name_is_refused_before_anything_is_written(tmp_path):
    class Local(Reservoir):
        pass

    class Here(Headgate):
        pass

    given = an_experiment("fifo", 3)
    with pytest.raises(
        SettingError,
        match=(
            r"policies.fifo: clients on Flower must know its retention rule by name:"
            r" .*Local"
        ),
    ):
        AdmissionStrategy(
            given.with_policy("fifo", Headgate(rule=Local())), tmp_path / "run"
        )
    assert not (tmp_path / "run").exists()
    world = World(
        tmp_path, given.with_policy("fifo", Here())
    )  # clients need not know the policy
    world.play(1)
    with pytest.raises(
        DataError,
        match=r"cannot be continued, policies.fifo is known to the process .*: .*Here",
    ):
        world.strategy()


def test_what_has_no_meaning_is_refused(tmp_path):
    with pytest.raises(SettingError, match="one policy and one seed"):
        AdmissionStrategy(
            an_experiment("fifo", run={"rounds": 3, "seeds": 2, "policies": ["fifo"]}),
            tmp_path / "a",
        )
    with pytest.raises(
        SettingError, match=r"discipline\.quorum = 9: there are 3 clients"
    ):
        AdmissionStrategy(
            an_experiment(), tmp_path / "b", discipline=Discipline(quorum=9)
        )
    for field, value in {
        "deadline": 0.0,
        "gather": -1.0,
        "norm_cap": 0.0,
        "quorum": 0,
        "offences": 0,
    }.items():
        with pytest.raises(SettingError, match=rf"discipline\.{field} = "):
            Discipline(**{field: value})
    world = World(tmp_path / "c", an_experiment("fifo", 3))
    with closing(world.strategy()) as strategy:
        with pytest.raises(
            SettingError, match=r"num_rounds = 4: the recipe plans for run\.rounds = 3"
        ):
            strategy.start(world.grid, start(), num_rounds=4)
        with pytest.raises(SettingError, match="no orders were given"):
            strategy.aggregate_train(1, [])
    short = World(tmp_path / "d", an_experiment("fifo", 3), prices=lambda t: [1.0, 2.0])
    with pytest.raises(SettingError, match=r"prices\(1\) = \[1\.0, 2\.0\]"):
        short.play()


def test_a_ledger_that_was_changed_is_refused_with_its_round(tmp_path):
    world = World(tmp_path, an_experiment("fifo", 4))
    world.play(3)
    for change, reason in {
        "UPDATE orders SET price = '9.5' WHERE round = 1 AND client = 0": (
            "order of round 1, client 0: price is 9.5"
        ),
        "UPDATE entries SET body = replace(body, '1.', '2.') WHERE kind = 'begun'": (
            r"entry 6 \(begun, round 3, .*\) was changed after it was written"
        ),
        "DELETE FROM entries WHERE number = 3": "entry 3 is missing",
    }.items():
        with closing(sqlite3.connect(tmp_path / "run" / LEDGER)) as db, db:
            db.execute(change)
        with pytest.raises(LedgerError, match=reason), world.accounts():
            pass
