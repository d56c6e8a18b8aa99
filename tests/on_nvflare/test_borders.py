"""What comes in from users, files and the server is checked on NVFlare: one line of
ours, and nothing changes on disk.
"""

import json
import os
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from nvflare.app_common.abstract.fl_model import FLModel

from headgate.books.statement import opened
from headgate.errors import DataError, HeadgateError, SettingError
from headgate.nvflare import META, AdmissionController, Admissions

from .faked import PRICES, SITES, SYSTEM, Faked, Killed

SENT = {
    "client": 0,
    "round": 3,
    "samples": 5,
    "price": 2.0,
    "keep": 10,
    "last": 15,
    "run": "one",
}
COUNT = {"run": "one", "position": 12, "rounds": {"1": 10, "2": 2}}


def sent(**changed):
    return SimpleNamespace(meta={META: {**SENT, **changed}})


def files(folder):
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def one_line(refused):
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 600
    return str(refused.value)


# a client's count


DAMAGES = {
    "empty": b"",
    "cut": json.dumps(COUNT).encode()[:-9],
    "not JSON": b"position = 12",
    "not text": b"\xff\xfe\x00",
    "too large": b" " * (8 * 2**20 + 1),
    "deep": b"[" * 100_000,
    "many digits": b'{"position": ' + b"1" * 10_000 + b"}",
    "a list": b"[]",
    "null": b"null",
    "nothing in it": b"{}",
    "another program's": b'{"state": "RUNNING"}',
}
WRONG = {
    "run": [None, 5, "", "x" * 201, "one\ntwo", ["one"]],
    "position": [None, -1, 12.0, "12", True, [12], 2**53 + 1, float("nan"), 11, 3],
    "rounds": [
        None, [], 5, "1", {"1": 10.0, "2": 2}, {"1": "10", "2": 2}, {"1": -1, "2": 13},
        {"1": True, "2": 2}, {"1": None}, {"one": 12}, {"-1": 12}, {"0": 12},
        {"01": 12}, {"1.0": 12}, {"": 12}, {"²": 12}, {"9" * 40: 12}, {"1": 2**60},
        {str(t): 0 for t in range(1, 2**16 + 2)},
    ],
}  # fmt: skip
for key, values in WRONG.items():
    DAMAGES |= {
        f"{key} {place}": json.dumps({**COUNT, key: value}).encode()
        for place, value in enumerate(values)
    }
DAMAGES |= {
    f"no {key}": (
        json.dumps({name: COUNT[name] for name in COUNT if name != key}).encode()
    )
    for key in COUNT
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_count_is_one_line_that_names_the_file_and_is_left_as_it_is(
    tmp_path, damage
):
    path = tmp_path / "admissions.json"
    path.write_bytes(DAMAGES[damage])
    before = files(tmp_path)
    with pytest.raises(DataError) as refused:
        Admissions(tmp_path).admit(sent())
    assert one_line(refused).startswith(f"{path}: ")
    assert files(tmp_path) == before


def test_the_count_that_is_damaged_above_is_fine_itself(tmp_path):
    (tmp_path / "admissions.json").write_text(json.dumps(COUNT))
    assert Admissions(tmp_path).admit(sent()) == range(5, 15)


@pytest.mark.parametrize("kind", ["link", "dangling link", "folder", "pipe"])
def test_a_count_is_never_read_through_a_link_or_a_pipe(tmp_path, kind):
    own, path = tmp_path / "own", tmp_path / "own" / "admissions.json"
    own.mkdir()
    other = tmp_path / "other.json"
    if kind == "link":
        other.write_text(json.dumps(COUNT))
    if "link" in kind:
        path.symlink_to(other)
    elif kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    with pytest.raises(
        DataError, match=r"admissions\.json: cannot be read \(it is "
    ) as refused:
        Admissions(own).admit(sent())
    one_line(refused)
    assert path.is_symlink() == ("link" in kind)
    assert other.exists() == (kind == "link")


# what a client's script gives


@pytest.mark.parametrize(
    "value",
    [
        -1,
        2.5,
        2.0,
        np.float64(2),
        "2",
        b"2",
        True,
        np.True_,
        [2],
        np.array([2]),
        10**400,
        1j,
    ],
)
@pytest.mark.parametrize("name", ["most", "erased"])
@pytest.mark.parametrize("there", [False, True])
def test_numbers_of_samples_that_are_none_are_refused_and_nothing_is_written(
    tmp_path, name, value, there
):
    own = Admissions(tmp_path / "own")
    if there:
        own.admit(sent(round=1, samples=10, last=10))
    before, report = files(tmp_path), own.report
    with pytest.raises(SettingError) as refused:
        own.admit(sent(round=2, samples=5, last=15), **{name: value})
    assert one_line(refused).startswith(f"admit: {name} = ")
    assert "must be a whole number from 0 to" in str(refused.value)
    assert (files(tmp_path), own.report) == (before, report)


def test_more_erased_samples_than_are_held_are_refused_by_the_client(
    tmp_path,
):
    own = Admissions(tmp_path / "own")
    with pytest.raises(
        SettingError,
        match=r"^admit: erased = 6: must be at most 5, the number of samples to hold$",
    ):
        own.admit(sent(round=1, samples=5, last=5), erased=6)
    assert files(tmp_path) == {}
    assert own.admit(sent(round=1, samples=5, last=5), erased=5) == range(5)


def test_integers_of_numpy_are_ordinary_and_reported_as_integers(tmp_path):
    own = Admissions(tmp_path)
    numbers = {
        name: np.int32(value)
        for name, value in SENT.items()
        if name not in ("run", "price")
    }
    first = sent(
        **{**numbers, "keep": np.int8(8), "last": np.uint8(5)}, price=np.float32(2)
    )
    assert own.admit(first, most=np.int64(4), erased=np.uint16(1)) == range(4)
    assert own.report == {META: {"rounds": [3], "admitted": [4], "erased": 1}}
    assert {
        type(value)
        for value in (*own.report[META]["rounds"], *own.report[META]["admitted"])
    } == {int}
    json.dumps(own.report)


MODELS = [
    None,
    5,
    FLModel(params={}),
    FLModel(params={}, meta={META: None}),
    SimpleNamespace(meta=[]),
]


@pytest.mark.parametrize("model", MODELS)
def test_a_model_without_a_purchase_is_refused(tmp_path, model):
    with pytest.raises(
        SettingError, match=r"^admit: model\.meta\.headgate = .*: is no purchase"
    ) as refused:
        Admissions(tmp_path / "own").admit(model)
    one_line(refused)
    assert files(tmp_path) == {}


@pytest.mark.parametrize("name", SENT)
@pytest.mark.parametrize(
    "value",
    [None, -1, "5", 2.5, float("nan"), float("inf"), True, [], 2**63, "x" * 300],
)
def test_a_purchase_that_is_none_is_refused(tmp_path, name, value):
    if (name == "run" and value == "5") or (name == "price" and value == 2.5):
        pytest.skip("these are what they must be")
    with pytest.raises(SettingError) as refused:
        Admissions(tmp_path / "own").admit(sent(**{name: value}))
    assert one_line(refused).startswith(f"admit: model.meta.headgate.{name} = ")
    assert files(tmp_path) == {}


IMPOSSIBLE = [
    ({"samples": 16}, "samples = 16: must be at most last = 15"),
    ({"round": 0}, "round = 0: must be"),
]


@pytest.mark.parametrize(("changed", "said"), IMPOSSIBLE)
def test_a_purchase_that_cannot_be_is_refused(tmp_path, changed, said):
    with pytest.raises(SettingError, match=said):
        Admissions(tmp_path).admit(sent(**changed))


@pytest.mark.parametrize("folder", [None, 5, "", b"folder", "a\0b"])
def test_a_folder_that_is_none_is_refused_on_both_sides(folder):
    with pytest.raises(
        SettingError, match=r"^Admissions: folder = .*: must be the name of a folder$"
    ):
        Admissions(folder)
    with pytest.raises(
        SettingError,
        match=r"^AdmissionController: folder = .*: must be the name of a folder$",
    ):
        AdmissionController(folder, SITES, SYSTEM)


# the settings of a job


WRONG_CHANGES = [
    {"clients": 3}, {"buffer": 8}, {"buffer": [8, 9, 10.0]}, {"buffer": [8, 9, "10"]},
    {"buffer": [8, 9, 0]}, {"buffer": []}, {"budget": "20"}, {"budget": float("nan")},
    {"budget": 0}, {"horizon": 6.0}, {"horizon": 0}, {"horizon": "6"},
    {"weight": [1, 2]}, {"weight": [1, 2, -3]}, {"weight": "abc"}, {"currency": 5},
    {"currency": "Euros and cents"}, {5: 5},
]  # fmt: skip
NONE_OF_THEM = {
    "sites": [
        None, "site-1", 5, [], ["site-1"], ["site-1", "site-1", "site-2"],
        ["site-1", "", "site-3"], [1, 2, 3], ["a\nb", "b", "c"],
        {"site-1": 1, "b": 2, "c": 3}, b"abc",
    ],
    "system": [
        None, 5, [], {}, {"buffer": [8]},
        *({**SYSTEM, **change} for change in WRONG_CHANGES),
    ],
    "policy": [
        None, 5, "no such policy", {}, {"kind": "headgate", "V": "many"}, ["headgate"],
    ],
    "prices": [
        None, 5, "1.5", [1.5, float("nan")], [float("inf")], [-1.0], ["1.5"], [True],
        [[1.0, 2.0]], [1e400],
    ],
    "timeout": [None, -1, 2.5, 60.0, "60", True],
    "persistor_id": [None, 5, "a\nb"],
    "norm_multiple": [None, -1, "10", float("nan"), float("inf"), True, [10]],
    "norm_cap": [0, -1, "10", float("nan"), float("inf"), True],
    "offences": [None, 0, -1, 3.0, "3", True],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name in NONE_OF_THEM for value in NONE_OF_THEM[name]],
)
def test_a_setting_that_cannot_be_is_refused_where_the_job_is_made(
    tmp_path, name, value
):
    with pytest.raises(HeadgateError) as refused:
        AdmissionController(
            **{
                "folder": tmp_path / "server",
                "sites": SITES,
                "system": SYSTEM,
                name: value,
            }
        )
    said = one_line(refused)
    assert said.startswith((f"AdmissionController: {name}", "system."))
    assert files(tmp_path) == {}


def test_settings_of_numpy_are_ordinary_and_a_job_can_state_them(tmp_path):
    """NVFlare writes the attributes into the job as JSON, and makes the object again
    from them.
    """
    system = {
        "buffer": np.array([8, 9, 10]),
        "budget": np.float32(20),
        "horizon": np.int64(6),
        "weight": (1, 2, Fraction(1, 2)),
    }
    given = {
        "policy": {"kind": "constant"},
        "prices": np.array(PRICES),
        "timeout": np.int32(60),
        "offences": np.int8(4),
    }
    more = {"norm_multiple": np.float64(5), "norm_cap": 7}
    first = AdmissionController(
        tmp_path / "server", tuple(SITES), system, **given, **more
    )
    names = (
        "folder",
        "sites",
        "system",
        "policy",
        "prices",
        "timeout",
        "norm_multiple",
        "norm_cap",
        "offences",
    )
    stated = json.loads(json.dumps({name: getattr(first, name) for name in names}))
    again = AdmissionController(**stated)
    assert {name: getattr(again, name) for name in names} == stated
    assert (stated["sites"], stated["prices"], stated["offences"]) == (SITES, PRICES, 4)


def test_a_policy_of_ones_own_is_looked_up_on_the_server_alone(tmp_path):
    own = AdmissionController(tmp_path, SITES, SYSTEM, "nowhere.to.be.found:Policy")
    assert own.policy == "nowhere.to.be.found:Policy"


# what a subclass gives


class Priced(Faked):
    given = None

    def price(self, t):
        return self.given if t == 3 else super().price(t)


PRICELESS = [
    None, float("nan"), float("inf"), -1.0, "1.5", True, [1.0, float("nan"), 1.0],
    np.array([1.0, np.inf, 1.0]), [1.0, 2.0], [], [1.0] * 4, [[1.0], [2.0], [3.0]],
    {"site-1": 1.0}, 10**400,
]  # fmt: skip


@pytest.mark.parametrize("given", PRICELESS, ids=str)
def test_a_price_that_is_none_is_named_with_its_round_and_nothing_is_bought(
    tmp_path, given
):
    own = Priced(tmp_path)
    own.given = given
    with pytest.raises(SettingError) as refused:
        own.run()
    assert one_line(refused).startswith("price(3)")
    with opened(tmp_path / "server") as store:
        assert (store.settled, store.state.open) == (2, None)
    Faked(tmp_path).run()


@pytest.mark.parametrize(
    "given",
    [2, np.float32(2), np.array(2.0), [2.0], (2, 2.5, 3), np.array([2, 2, 3])],
    ids=str,
)
def test_one_price_and_one_for_each_client_are_ordinary(tmp_path, given):
    own = Priced(tmp_path)
    own.given = given
    own.run()
    with opened(tmp_path / "server") as store:
        assert store.settled == 6


class Present(Faked):
    given = None

    def present(self, t):
        return self.given if t == 3 else super().present(t)


@pytest.mark.parametrize(
    "given",
    [None, 5, "site-1", ["site-1", "site-9"], [1], [None], {"site-1": True}],
    ids=str,
)
def test_clients_that_are_none_are_named_with_their_round_and_nothing_is_bought(
    tmp_path, given
):
    own = Present(tmp_path)
    own.given = given
    with pytest.raises(SettingError) as refused:
        own.run()
    assert one_line(refused).startswith("present(3)")
    with opened(tmp_path / "server") as store:
        assert (store.settled, store.state.open) == (2, None)


def test_clients_of_nvflare_that_are_no_sites_of_the_job_are_passed_over(tmp_path):
    own = Faked(tmp_path)
    own.clients["another"] = None
    own.run()
    with opened(tmp_path / "server") as store:
        assert store.settled == 6


STARTS = {
    "nothing": {}, "no model": None, "a list": [1.0], "text": {"w": np.array(["a"])},
    "objects": {"w": np.array([None])}, "not a number": {"w": np.array([1.0, np.nan])},
    "infinite": {"w": np.array([np.inf])}, "names": {5: np.zeros(2)},
    "huge": {"w": np.array([1e101])},
}  # fmt: skip


@pytest.mark.parametrize("starts", STARTS)
def test_a_first_model_that_cannot_be_trained_is_refused_and_leaves_nothing(
    tmp_path, starts
):
    class Begun(Faked):
        def load_model(self):
            return SimpleNamespace(params=STARTS[starts])

    with pytest.raises(SettingError, match=r"^(persistor_id|load_model): ") as refused:
        Begun(tmp_path).run()
    one_line(refused)
    assert files(tmp_path) == {}


def test_a_run_whose_accounts_are_gone_buys_nothing_again(tmp_path):
    with suppress(Killed):
        Faked(tmp_path, killed=3).run()
    for path in Path(tmp_path, "server").glob("ledger*"):
        path.unlink()
    with pytest.raises(DataError, match=r"model-00000000\.safetensors: cannot be read"):
        Faked(tmp_path).run()
