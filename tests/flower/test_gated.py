"""Gated: any strategy of Flower samples and averages as it does alone, and the accounts
agree with the clients' stores.
"""

import json
from contextlib import closing

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod, adaptiveclipping_mod, fixedclipping_mod
from flwr.serverapp import strategy as flower
from grids import ServerDied
from hostile import with_metrics
from worlds import World, an_experiment, counting_app

from headgate.errors import SettingError
from headgate.flower import Gated, headgate_client
from headgate.flower.sources import CallableSource, Sample, pack

CLIENTS, ROUNDS = 6, 4
QUIET = {"fraction_evaluate": 0.0, "min_available_nodes": 1}
DP = {
    "server, fixed": lambda inner: flower.DifferentialPrivacyServerSideFixedClipping(
        inner, 0.1, 5.0, CLIENTS
    ),
    "client, fixed": lambda inner: flower.DifferentialPrivacyClientSideFixedClipping(
        inner, 0.1, 5.0, CLIENTS
    ),
    "server, adaptive": lambda inner: (
        flower.DifferentialPrivacyServerSideAdaptiveClipping(inner, 0.1, CLIENTS)
    ),
    "client, adaptive": lambda inner: (
        flower.DifferentialPrivacyClientSideAdaptiveClipping(inner, 0.1, CLIENTS)
    ),
}
INNER = {
    "FedAvg": lambda: flower.FedAvg(**QUIET),
    "FedAvg, evaluated by clients": lambda: flower.FedAvg(fraction_evaluate=0.5),
    "FedAvg, two of six": lambda: flower.FedAvg(fraction_train=0.34, **QUIET),
    "FedAdam": lambda: flower.FedAdam(**QUIET),
    "FedYogi": lambda: flower.FedYogi(**QUIET),
    "FedAvgM": lambda: flower.FedAvgM(server_momentum=0.9, **QUIET),
    "FedProx": lambda: flower.FedProx(proximal_mu=0.5, **QUIET),
    "FedTrimmedAvg": lambda: flower.FedTrimmedAvg(beta=0.2, **QUIET),
    "FedMedian": lambda: flower.FedMedian(**QUIET),
    "Krum": lambda: flower.Krum(num_malicious_nodes=1, **QUIET),
    "Bulyan": lambda: flower.Bulyan(num_malicious_nodes=0, **QUIET),
    **{
        f"DP {name}": lambda wrap=wrap: wrap(flower.FedAvg(**QUIET))
        for name, wrap in DP.items()
    },
}
STILL = (("FedAdam", "seen"), ("FedYogi", "seen"))
"""whole numbers that a small server step does not move"""
MODS = {
    "DP client, fixed": [fixedclipping_mod],
    "DP client, adaptive": [adaptiveclipping_mod],
}


def first():
    """A model in float32 with a counter, as a network with batch normalisation has."""
    return ArrayRecord(
        {"w": Array(np.zeros(2, np.float32)), "seen": Array(np.zeros((), np.int64))}
    )


def without_counter():
    """Flower's clipping takes real numbers only."""
    return ArrayRecord({"w": Array(np.zeros(2, np.float32))})


def an_app(store, mods=(), told=None, measured="accuracy", limit=None):
    """Training pulls towards the mean of what is held. `told` gets the names of the
    records that the function sees.
    """

    def learn(message, model, samples):
        if told is not None:
            told.append(sorted(message.content))
        mu = message.content["config"].get("proximal-mu", 0.0)
        moved = (model["w"] + (samples.mean(axis=0) - model["w"]) / (2 + mu)).astype(
            np.float32
        )
        return {"w": moved} | (
            {"seen": model["seen"] + len(samples)} if "seen" in model else {}
        )

    app = counting_app(store, loop=5, mods=mods, learn=learn, limit=limit)

    @app.evaluate()
    def evaluate(message, context):
        metrics = MetricRecord({measured: 0.5, "num-examples": 3})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


class GatedWorld(World):
    """A federation of six around a strategy of Flower."""

    def __init__(
        self, folder, inner, rounds=ROUNDS, mods=(), buffers=(3, 2, 4), **more
    ):
        system = {"buffers": list(buffers), "clients": CLIENTS, "budget": 18.0}
        super().__init__(folder, an_experiment("fifo", rounds, system=system))
        self.inner, self.more, self.said = inner, more, []
        self.use(an_app(self.folder / "stores", mods, self.said))

    def strategy(self):
        return Gated(
            self.inner(),
            self.experiment,
            self.folder / "run",
            discipline=self.discipline,
            prices=self.prices,
            **self.more,
        )

    def killed_in_every_round(self, moment, rounds):
        """The result where the server dies in each round at this moment, and is started
        again.
        """
        for until in range(1, rounds + 1):
            self.grid.server_dies = moment
            with pytest.raises(ServerDied):
                self.result(until=until)
            self.grid.server_dies = ""
            result = self.result(until=until)
            self.audit()
        nobody_is_blamed(self)
        return result

    def result(self, initial=None, until=None):
        with closing(self.strategy()) as strategy:
            return strategy.start(self.grid, initial or first(), num_rounds=until)


def nobody_is_blamed(world):
    assert (
        world.events(
            "rejected",
            "failed",
            "quarantined",
            "left out",
            "weight",
            "not aggregated",
            "diverged",
        )
        == []
    )


@pytest.mark.parametrize("name", INNER)
def test_any_strategy_plays_within_the_budget_and_the_books_agree(tmp_path, name):
    world = GatedWorld(tmp_path, INNER[name], mods=MODS.get(name, ()))
    initial = without_counter() if name.startswith("DP client") else first()
    result = world.result(initial)
    ledger, messages = world.audit(), world.grid.orders()
    nobody_is_blamed(world)
    assert 0 < ledger.spent[0] <= 18.0 * ROUNDS
    assert (
        ledger.admitted.sum()
        == sum(len(world.held_by(m)) for m in world.clients) + ledger.dropped.sum()
    )
    assert len(messages) == (2 if name == "FedAvg, two of six" else CLIENTS) * ROUNDS
    assert all("arrays" in message.content for message in messages)
    assert world.said
    assert all(records == ["arrays", "config"] for records in world.said), (
        "the user's function sees no order"
    )
    for key, array in initial.items():
        found = result.arrays[key].numpy()
        assert (found.shape, found.dtype) == (array.numpy().shape, array.numpy().dtype)
        assert np.any(found != array.numpy()) or (name, key) in STILL, key
    assert list(result.train_metrics_clientapp) == list(range(1, ROUNDS + 1))
    assert len(result.evaluate_metrics_clientapp) == (
        ROUNDS if "evaluated" in name else 0
    )


@pytest.mark.parametrize("name", DP)
def test_a_wrapper_may_stand_outside_and_play_with_its_own_start(tmp_path, name):
    mods = MODS.get(f"DP {name}", ())
    world = GatedWorld(tmp_path, INNER["FedAvg"], mods=mods)
    with closing(world.strategy()) as gated:
        result = DP[name](gated).start(world.grid, without_counter(), num_rounds=ROUNDS)
    ledger = world.audit()
    nobody_is_blamed(world)
    assert (ledger.t, len(world.grid.trained)) == (ROUNDS, ROUNDS * CLIENTS)
    assert np.any(result.arrays["w"].numpy() != 0)
    assert (
        json.loads((tmp_path / "run" / "state.json").read_text())["state"] == "finished"
    )


def test_under_another_start_a_run_goes_on_with_what_clients_got_last(tmp_path):
    world = GatedWorld(tmp_path, INNER["FedAvg"])
    with closing(world.strategy()) as gated:
        DP["server, fixed"](gated).start(world.grid, without_counter(), num_rounds=2)
    world.grid.said.clear()
    with closing(world.strategy()) as gated:
        wrapped = DP["server, fixed"](gated)
        with pytest.raises(
            SettingError,
            match=(
                r"initial_arrays: the run stands at round 2; hand start\(\) the arrays"
            ),
        ):
            wrapped.start(world.grid, without_counter(), num_rounds=2)
        assert world.grid.orders() == []
        wrapped.start(
            world.grid, gated.continue_from(without_counter()), num_rounds=3
        )  # one more than there are
    assert world.audit().t == ROUNDS
    messages = world.grid.orders()
    assert {int(message.content["config"]["server-round"]) for message in messages} == {
        3,
        4,
    }
    assert np.any(messages[0].content["arrays"]["w"].numpy() != 0)


KILLED = {
    "FedAdam": "before sending",
    "FedYogi": "after sending",
    "FedAvgM": "after sending",
    "FedMedian": "before sending",
}


@pytest.mark.parametrize("name", KILLED)
def test_what_a_strategy_remembers_survives_a_kill(tmp_path, name):
    whole = GatedWorld(tmp_path / "whole", INNER[name]).result()
    result = GatedWorld(tmp_path / "killed", INNER[name]).killed_in_every_round(
        KILLED[name], ROUNDS
    )
    for key, array in whole.arrays.items():
        assert np.array_equal(result.arrays[key].numpy(), array.numpy()), key


def test_the_clipping_norm_of_a_wrapped_strategy_survives(
    tmp_path,
):
    made = []

    def inner(eta=0.1):
        made.append(DP["server, adaptive"](flower.FedAdam(eta=eta, **QUIET)))
        return made[-1]

    world = GatedWorld(tmp_path, inner)
    world.result(until=3)
    world.inner = lambda: inner(eta=0.01)
    world.result(until=3)
    before, after = made
    assert after.clipping_norm == before.clipping_norm != 0.1
    assert np.array_equal(after.strategy.m_t["w"], before.strategy.m_t["w"])
    assert (before.strategy.eta, after.strategy.eta) == (0.1, 0.01)


def test_flower_s_average_is_the_mean_by_samples_held(tmp_path):
    world = GatedWorld(tmp_path, INNER["FedAvg"])
    found = world.result(until=1).arrays["w"].numpy()
    held = [[sample.position % 5 for sample in world.held_by(m)] for m in world.clients]
    means = [[np.mean(own), 1.0] for own in held]
    assert found == pytest.approx(
        np.average(means, axis=0, weights=[len(own) for own in held]) / 2, rel=1e-6
    )


def test_clients_that_are_not_sampled_may_get_orders_without_the_model(tmp_path):
    world = GatedWorld(tmp_path, INNER["FedAvg, two of six"], everyone=True)
    world.result()
    messages = world.grid.orders()
    assert len(messages) == CLIENTS * ROUNDS
    assert (
        sum("arrays" in message.content for message in messages)
        == len(world.said)
        == 2 * ROUNDS
    )
    assert (world.audit().admitted > 0).all()
    nobody_is_blamed(world)


def test_one_bad_client_neither_ends_the_run_nor_decides_the_model(
    tmp_path,
):
    honest = (
        GatedWorld(tmp_path / "honest", INNER["FedAvg"]).result().arrays["w"].numpy()
    )
    world = GatedWorld(tmp_path / "lied", INNER["FedAvg"])
    for t, metrics in (
        (1, {"train_loss": 1.0}),
        (2, {"train_loss": 1.0, "num-examples": 10**12}),
    ):
        world.grid.faults, world.grid.tamper = (
            {(t, 1): "reply changed"},
            with_metrics(metrics),
        )
        world.result(until=t)
    found = world.result().arrays["w"].numpy()
    assert [(event.round, event.client) for event in world.events("left out")] == [
        (1, 1)
    ]
    assert [(event.round, event.client) for event in world.events("weight")] == [(2, 1)]
    assert np.abs(found - honest).max() < 0.5
    world.audit()


def test_one_client_that_measures_something_else_does_not_end_the_run(tmp_path):
    world = GatedWorld(tmp_path, lambda: flower.FedAvg())
    world.grid.nodes[101].app = an_app(tmp_path / "stores", measured="other")
    result = world.result()
    assert [
        record["accuracy"] for record in result.evaluate_metrics_clientapp.values()
    ] == [0.5] * ROUNDS
    assert [(event.round, event.client) for event in world.events("left out")] == [
        (t, 1) for t in range(1, ROUNDS + 1)
    ]


def test_a_strategy_that_fails_ends_the_run_after_the_round_is_settled(tmp_path):
    class Failing(flower.FedAvg):
        def aggregate_train(self, server_round, replies):
            if server_round == 2:
                raise ZeroDivisionError("a mistake")
            return super().aggregate_train(server_round, replies)

    world = GatedWorld(tmp_path, lambda: Failing(**QUIET))
    with pytest.raises(ZeroDivisionError, match="a mistake"):
        world.result()
    assert world.audit().t == 2
    assert [event.reason for event in world.events("not aggregated")] == [
        "ZeroDivisionError: a mistake"
    ]
    world.result()
    assert world.audit().t == ROUNDS


def test_a_strategy_does_not_wait_for_ever(tmp_path):
    world = GatedWorld(
        tmp_path, lambda: flower.FedAvg(min_available_nodes=7, fraction_evaluate=0.0)
    )
    world.result(until=1)
    (event,) = world.events("no training")
    assert event.reason.endswith("s for more than 6 clients")
    assert world.audit().spent[0] == 0


def test_a_mod_that_refuses_costs_nothing_but_the_round(tmp_path):
    """Without the server's wrapper the mod finds no norm to clip to: what was bought is
    told a round later.
    """
    world = GatedWorld(tmp_path, INNER["FedAvg"], mods=[fixedclipping_mod])
    world.result(without_counter(), until=1)
    assert len(world.events("failed")) == CLIENTS
    world.use(an_app(world.folder / "stores", [LocalDpMod(1.0, 0.1, 1.0, 0.1)]))
    world.result(without_counter())
    ledger = world.audit()
    assert {event.round for event in world.events("late")} == {2}
    assert world.events("rejected", "quarantined") == []
    assert ledger.admitted.sum() > 0


# trees


def a_booster(trees):
    """What XGBoost saves as JSON, as far as Flower's strategy reads it."""
    model = {
        "gbtree_model_param": {"num_trees": str(len(trees)), "num_parallel_tree": "1"},
        "iteration_indptr": list(range(len(trees) + 1)),
        "trees": [{"id": place, "grown_on": tree} for place, tree in enumerate(trees)],
        "tree_info": [0] * len(trees),
    }
    return np.frombuffer(
        json.dumps({"learner": {"gradient_booster": {"model": model}}}).encode(),
        np.uint8,
    )


def trees_of(array):
    return json.loads(array.numpy().tobytes())["learner"]["gradient_booster"]["model"][
        "trees"
    ]


def growing_app(store):
    app = ClientApp()

    @headgate_client(
        app,
        lambda context: CallableSource(lambda i: Sample(str(i), pack([float(i)]), 0)),
        store=store,
    )
    def train(message, context, held):
        record = ArrayRecord(
            [
                a_booster(
                    [f"{held.order.client} in {held.order.round}: {len(held)} samples"]
                )
            ]
        )
        return Message(
            RecordDict(
                {"arrays": record, "metrics": MetricRecord({"num-examples": len(held)})}
            ),
            reply_to=message,
        )

    return app


@pytest.mark.parametrize("strategy", [flower.FedXgbBagging, flower.FedXgbCyclic])
def test_boosted_trees_whose_arrays_have_no_fixed_shape(tmp_path, strategy):
    world = GatedWorld(tmp_path, lambda: strategy(fraction_evaluate=0.0))
    world.use(growing_app(world.folder / "stores"))
    result = world.result(ArrayRecord([np.zeros(0, np.uint8)]))
    world.audit()
    nobody_is_blamed(world)
    trees = trees_of(result.arrays["0"])
    assert len(trees) == (
        len(world.grid.trained) if strategy is flower.FedXgbBagging else 1
    )
    assert (
        len(world.grid.trained)
        == (CLIENTS if strategy is flower.FedXgbBagging else 1) * ROUNDS
    )


def test_with_sampling_the_whole_budget_is_used(tmp_path):
    world = GatedWorld(tmp_path, INNER["FedAvg, two of six"], rounds=12, buffers=(30,))
    world.result()
    assert 0.97 * 18.0 * 12 <= world.audit().spent[0] <= 18.0 * 12


@pytest.mark.parametrize("moment", ["before sending", "after sending"])
def test_a_round_that_was_cut_off_may_be_played_by_other_clients(tmp_path, moment):
    """Clients are drawn again; orders that were given stay, and are settled when their
    clients are heard of.
    """
    GatedWorld(tmp_path, INNER["FedAvg, two of six"], rounds=10).killed_in_every_round(
        moment, 10
    )
