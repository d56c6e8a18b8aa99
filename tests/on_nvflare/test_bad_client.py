"""One bad client on NVFlare is one bad client: it ruins no model, is heard no more
after three lies, and holds no money.
"""

import json
from contextlib import suppress

import numpy as np
import pytest
from nvflare.app_common.abstract.fl_model import FLModel
from nvflare.app_common.abstract.model import ModelLearnableKey
from nvflare.app_common.app_constant import AppConstants
from safetensors.numpy import load_file, save_file
from typer.testing import CliRunner

from headgate import Books, System
from headgate.books.statement import opened, statement
from headgate.cli.flower import commands
from headgate.control.policies import Headgate
from headgate.errors import DataError, SettingError
from headgate.nvflare.stored import read_model

from .faked import SITES, SYSTEM, Client, Faked, Killed

SINGLE, DOUBLE, HALF = (
    {"w": np.zeros(3, kind)} for kind in (np.float32, np.float64, np.float16)
)
STEPS = {"w": np.zeros(3, np.float32), "steps": np.zeros((), np.int64)}
SMALL = {"w": np.zeros(3, np.float32), "steps": np.zeros(2, np.int8)}


def filled(value, kind=np.float64, name="w"):
    """A lie: the honest model but for one array, which is `value` everywhere."""

    def lie(model):
        params = {key: own + own.dtype.type(1) for key, own in model.params.items()}
        return {**params, name: np.full(params[name].shape, value, kind)}

    return lie


def lied(folder, lie, kind="FULL", **given):
    """A controller of two honest clients and a liar, site-2."""
    clients = {site: Client(folder / site) for site in SITES}
    clients["site-2"] = Client(folder / "site-2", lie, kind)
    return Faked(folder, clients, **given)


def last_model(folder):
    (path,) = (folder / "server").glob("model-*.safetensors")
    return load_file(path)


def events(folder, *kinds):
    with opened(folder / "server") as store:
        return [event for event in store.events() if event.kind in kinds]


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize(
    ("starts", "lie", "kind"),
    [
        (SINGLE, filled(1e300), "FULL"), (SINGLE, filled(-1e300), "FULL"),
        (SINGLE, filled(1e300), "DIFF"), (SINGLE, filled(3.5e38), "FULL"),
        (HALF, filled(1e5, np.float32), "FULL"), (DOUBLE, filled(1e308), "FULL"),
        (DOUBLE, filled(1e101), "DIFF"), (SINGLE, filled(np.nan), "FULL"),
        (DOUBLE, filled(-np.inf), "FULL"), (STEPS, filled(1e300, name="steps"), "FULL"),
        (STEPS, filled(np.nan, name="steps"), "FULL"),
        (STEPS, filled(-(2**62), np.int64, "steps"), "FULL"),
        (SMALL, filled(300, np.int64, "steps"), "FULL"),
        (SMALL, filled(200, np.int64, "steps"), "DIFF"),
    ],
)  # fmt: skip
def test_numbers_that_the_model_cannot_hold_are_refused_and_honest_answers_count(
    tmp_path, starts, lie, kind
):
    controller = lied(tmp_path, lie, kind, starts=starts)
    controller.run()
    for name, array in last_model(tmp_path).items():
        assert array.dtype == starts[name].dtype
        assert array.tolist() == np.full(array.shape, 6).tolist(), (
            "each round trains once, without the liar"
        )
    refused = events(tmp_path, "rejected")
    assert [(event.round, event.client) for event in refused] == [
        (1, 1),
        (2, 1),
        (3, 1),
    ]


@pytest.mark.parametrize("kind", ["FULL", "DIFF"])
@pytest.mark.parametrize("starts", [SINGLE, DOUBLE])
def test_a_long_update_moves_the_model_no_farther_than_the_median_one(
    tmp_path, starts, kind
):
    controller = lied(tmp_path, filled(-1e30), kind, starts=starts)
    controller.run()
    assert np.abs(last_model(tmp_path)["w"]).max() <= 6.001, (
        "six rounds, in each at most the length of an honest update"
    )
    assert events(tmp_path, "rejected") == []
    said = [
        each
        for each in controller.said
        if each.startswith(
            "site-2: its update has length 1.73205e+30, more than 10 times"
        )
    ]
    assert len(said) == 6


def test_whole_numbers_that_move_too_far_are_shortened_by_themselves(tmp_path):
    controller = lied(tmp_path, filled(10**6, np.int64, "steps"), starts=STEPS)
    controller.run()
    found = last_model(tmp_path)
    assert (found["w"].tolist(), int(found["steps"])) == ([6, 6, 6], 6)


def test_an_update_of_nine_times_the_median_is_left_as_it_is(tmp_path):
    controller = lied(
        tmp_path,
        lambda model: {"w": model.params["w"] + np.float32(9)},
        system={**SYSTEM, "horizon": 1},
    )
    controller.run()
    assert last_model(tmp_path)["w"].min() > 3, (
        "with the length of the median it would be 1"
    )
    assert controller.said == []


def test_the_cap_can_be_switched_off_and_a_fixed_one_set(tmp_path):
    lied(tmp_path / "off", filled(1e6), norm_multiple=0).run()
    assert last_model(tmp_path / "off")["w"].min() > 1e5
    lied(tmp_path / "fixed", filled(1e6), norm_cap=5).run()
    assert last_model(tmp_path / "fixed")["w"].tolist() == [6, 6, 6]
    assert (
        events(tmp_path / "fixed", "rejected")[0].reason
        == "the update has length 1.73205e+06, at most 5 is accepted"
    )


def test_the_median_survives_a_kill_of_the_server(tmp_path):
    """After the kill only two clients are there, of which neither has a median of its
    own.
    """
    honest = {site: Client(tmp_path / site) for site in SITES}
    with suppress(Killed):
        Faked(tmp_path, honest, killed=4).run()
    clients = {
        "site-1": honest["site-1"],
        "site-2": Client(tmp_path / "site-2", filled(1e30)),
    }
    second = Faked(tmp_path, clients)
    second.run()
    assert np.abs(last_model(tmp_path)["w"]).max() <= 9
    assert [each[:27] for each in second.said] == ["site-2: its update has leng"] * 3


def test_a_model_file_of_an_earlier_version_has_no_median_and_is_continued(tmp_path):
    with suppress(Killed):
        Faked(tmp_path, killed=3).run()
    path = tmp_path / "server" / "model-00000002.safetensors"
    save_file(load_file(path), path)
    Faked(tmp_path).run()
    assert last_model(tmp_path)["w"].tolist() == [6, 6, 6]


def test_after_three_lies_a_client_gets_no_orders_and_holds_no_money(tmp_path):
    controller = lied(tmp_path, filled(np.nan))
    controller.run()
    assert controller.clients["site-2"].rounds == [1, 2, 3]
    assert controller.clients["site-1"].rounds == [1, 2, 3, 4, 5, 6]
    with opened(tmp_path / "server") as store:
        found = statement(store)
    assert found.reserved == 0
    assert [line.delivered for line in found.lines if line.client == 1] == [
        9,
        0,
    ], "what its valid report says is paid"
    assert [(each.round, each.client) for each in events(tmp_path, "quarantined")] == [
        (3, 1)
    ]
    with Books(tmp_path / "server", System(**SYSTEM), Headgate()) as books:
        books.audit()
    (said,) = (each for each in controller.said if "no more orders" in each)
    assert (
        said == "site-2: gets no more orders after 3 refused answers; `headgate flower"
        f" clients {tmp_path}/server --lift 1` ends this"
    )


def test_a_client_whose_quarantine_is_lifted_gets_orders_and_pays_for_what_it_reports(
    tmp_path,
):
    liar = lied(tmp_path, filled(np.nan), killed=5)
    with suppress(Killed):
        liar.run()
    with opened(tmp_path / "server", writes=True) as store:
        assert store.lift(1)
    honest = {site: Client(tmp_path / site) for site in SITES}
    Faked(tmp_path, honest).run()
    assert honest["site-2"].rounds == [5, 6]
    counted = json.loads((tmp_path / "site-2" / "admissions.json").read_text())[
        "position"
    ]
    with Books(tmp_path / "server", System(**SYSTEM), Headgate()) as books:
        found = books.audit()
        assert books.ledger.admitted[0, 1] == counted > 0
    assert found.reserved == 0
    assert found.spent <= found.approved


def test_a_quarantine_is_lifted_by_the_command_that_the_log_names_without_flower(
    tmp_path, monkeypatch
):
    controller = lied(tmp_path, filled(np.nan))
    controller.run()
    monkeypatch.setattr("headgate.cli.flower.find_spec", lambda name: None)
    (said,) = (
        each.split("`")[1].split() for each in controller.said if "--lift" in each
    )
    assert said[:3] == ["headgate", "flower", "clients"]
    with Books(tmp_path / "server", System(**SYSTEM), Headgate()) as books:
        assert books.quarantined == {1}
        assert CliRunner().invoke(commands, said[2:]).exit_code == 0, (
            "while another process has the accounts"
        )
        assert books.quarantined == set()
    assert [event.client for event in events(tmp_path, "lifted")] == [1]


def test_the_number_of_offences_is_a_setting(tmp_path):
    patient = lied(tmp_path / "patient", filled(np.nan), offences=5)
    patient.run()
    assert patient.clients["site-2"].rounds == [1, 2, 3, 4, 5]
    strict = lied(tmp_path / "strict", filled(np.nan), offences=np.int64(1))
    strict.run()
    assert strict.clients["site-2"].rounds == [1]


def test_an_answer_that_cannot_be_read_is_its_senders_alone(tmp_path):
    class Odd(dict):
        def keys(self):
            raise RuntimeError("no keys today")

    controller = lied(tmp_path, lambda model: Odd(model.params))
    controller.run()
    assert last_model(tmp_path)["w"].tolist() == [6, 6, 6]
    assert (
        events(tmp_path, "rejected")[0].reason
        == "its answer cannot be read (RuntimeError: no keys today)"
    )


# a model that is not finite


class Diverging(Faked):
    """Its mean is not a number in round 2, and larger than float32 in round 4."""

    def aggregate(self, results):
        found = super().aggregate(results)
        if self.current_round == 2:
            found.params["w"] = found.params["w"] * np.nan
        if self.current_round == 4:
            found.params["w"] = found.params["w"].astype(np.float64) + 1e39
        return found


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_model_that_is_not_finite_is_never_written_and_the_round_is_settled(tmp_path):
    controller = Diverging(tmp_path)
    with suppress(Killed):
        controller.killed = 3
        controller.run()
    assert last_model(tmp_path)["w"].tolist() == [1, 1, 1], "as after round 1"
    controller.killed = None
    controller.run()
    assert last_model(tmp_path)["w"].tolist() == [
        4,
        4,
        4,
    ], "two of six rounds have moved nothing"
    said = (
        "the new model is not finite; the model stays as it was (w holds numbers that"
        " are not finite, or beyond 1e+100)"
    )
    assert controller.said == [f"round 2: {said}", f"round 4: {said}"]
    with opened(tmp_path / "server") as store:
        found = statement(store)
    assert (found.rounds, found.reserved) == (6, 0)
    assert found.spent > 0


class InPlace(Diverging):
    def update_model(self, model, aggr_result):
        for name, own in model.params.items():
            own[...] = aggr_result.params[name]
        return super().update_model(model, FLModel(params=model.params))


@pytest.mark.filterwarnings("ignore:overflow")
def test_other_components_and_updates_in_place_do_not_see_such_a_model_either(tmp_path):
    controller = InPlace(tmp_path, system={**SYSTEM, "horizon": 2})
    controller.run()
    assert last_model(tmp_path)["w"].tolist() == [1, 1, 1]
    assert controller.fl_ctx.get_prop(AppConstants.GLOBAL_MODEL)[
        ModelLearnableKey.WEIGHTS
    ]["w"].tolist() == [1, 1, 1]


class DivergingAtOnce(Faked):
    def aggregate(self, results):
        found = super().aggregate(results)
        found.params["w"] = found.params["w"] * np.nan
        return found


def test_a_round_whose_model_is_not_finite_still_tells_how_long_updates_are(tmp_path):
    """The next update is measured by it, also after a kill."""
    DivergingAtOnce(tmp_path, system={**SYSTEM, "horizon": 1}).run()
    (path,) = (tmp_path / "server").glob("model-*.safetensors")
    assert read_model(path).medians[0] == pytest.approx(np.sqrt(3))


def test_where_all_clients_are_in_quarantine_no_round_goes_by(tmp_path, monkeypatch):
    clients = {"site-2": Client(tmp_path / "site-2", filled(np.nan))}
    controller = Faked(tmp_path, clients, offences=1)
    monkeypatch.setattr(
        "headgate.nvflare.controller.time.sleep",
        lambda seconds: controller.abort_signal.trigger(True),
    )
    controller.run()
    assert clients["site-2"].rounds == [1]
    with opened(tmp_path / "server") as store:
        assert (store.settled, store.state.open) == (1, None)


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_sum_that_overflows_leaves_the_model_as_it_was(tmp_path):
    """With two clients there is no median; both send nearly the largest number of
    float32.
    """
    clients = {
        site: Client(tmp_path / site, filled(3e38, np.float32)) for site in SITES[:2]
    }
    controller = Faked(tmp_path, clients)
    controller.run()
    assert last_model(tmp_path)["w"].tolist() == [0, 0, 0]


def test_half_precision_has_room_for_a_sum_weighted_by_samples(tmp_path):
    system = {"buffer": [2000] * 3, "budget": 10_000.0, "horizon": 2}
    clients = {site: Client(tmp_path / site, filled(100, np.float16)) for site in SITES}
    Faked(tmp_path, clients, starts=HALF, system=system).run()
    assert last_model(tmp_path)["w"].tolist() == [100, 100, 100]


class OfAnotherShape(Faked):
    def aggregate(self, results):
        return FLModel(params={"w": np.zeros(7)})


def test_an_aggregate_of_another_shape_stops_the_job_and_nothing_is_written(tmp_path):
    with pytest.raises(
        SettingError,
        match=r"^aggregate, update_model: params\.w: must be numbers of shape \(3,\)$",
    ):
        OfAnotherShape(tmp_path).run()
    with opened(tmp_path / "server") as store:
        assert (store.settled, store.state.begun) == (0, 1)
    Faked(tmp_path).run()
    assert last_model(tmp_path)["w"].tolist() == [6, 6, 6]


DAMAGES = {
    "gone": (None, "cannot be read"),
    "empty": (b"", "cannot be read"),
    "no model": (b"x" * 100, "cannot be read"),
    "infinite": (
        {"w": np.full(3, np.inf, np.float32)},
        "w holds numbers that are not finite, or beyond 1e+100",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_model_file_is_one_line(tmp_path, damage):
    with suppress(Killed):
        Faked(tmp_path, killed=3).run()
    path = tmp_path / "server" / "model-00000002.safetensors"
    content, said = DAMAGES[damage]
    if content is None:
        path.unlink()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    else:
        save_file(content, path)
    with pytest.raises(DataError) as refused:
        Faked(tmp_path).run()
    assert "\n" not in str(refused.value)
    assert str(path) in str(refused.value)
    if damage != "gone":
        assert said in str(refused.value)


@pytest.mark.parametrize(
    "medians",
    ["", "7", "[1.0]", '["1", 2]', "[NaN, 1.0]", "[-2, 1]", "[1e400, 1]", "[[[["],
)
def test_medians_that_are_none_are_one_line(tmp_path, medians):
    with suppress(Killed):
        Faked(tmp_path, killed=3).run()
    path = tmp_path / "server" / "model-00000002.safetensors"
    save_file(load_file(path), path, {"headgate.medians": medians})
    with pytest.raises(
        DataError, match=r"model-00000002\.safetensors: is damaged: headgate\.medians"
    ) as refused:
        Faked(tmp_path).run()
    assert "\n" not in str(refused.value)
