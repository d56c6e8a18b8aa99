"""What cannot be meant or read is refused in a line, or left out, before anything is done with it."""

from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from flwr.app import Context, RecordDict
from grids import FakeGrid

from headgate.books.messages import Order
from headgate.books.rules import rule_of
from headgate.control.retention import Reservoir
from headgate.errors import DataError, SettingError
from headgate.flower.buffer_store import HeldSample
from headgate.flower.client import HeldSamples
from headgate.flower.keys import ClientKeys, read_private_key, read_public_key
from headgate.flower.recipe import recipe_server

ORDER = Order("e", 1, 0, 0, 2, 0, limit=4, acknowledged=0, train=True)


def test_files_of_keys_that_cannot_be_read(tmp_path):
    for read in (read_public_key, lambda path: ClientKeys(path).current()):
        with pytest.raises(DataError, match=r"nowhere: cannot be read \(No such file or directory\)"):
            read(tmp_path / "nowhere")


def test_keys_of_another_kind_are_refused(tmp_path):
    with pytest.raises(SettingError, match="is no private key"):
        read_private_key(tmp_path / "key")
    other = Ed25519PrivateKey.generate()
    (tmp_path / "key").write_bytes(other.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    (tmp_path / "key.pub").write_bytes(other.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
    with pytest.raises(SettingError, match="must be an elliptic-curve key"):
        read_private_key(tmp_path / "key")
    with pytest.raises(DataError, match="must be an elliptic-curve key"):
        read_public_key(tmp_path / "key.pub")


def test_a_rule_that_an_order_names_is_made_of_its_settings_or_refused():
    assert rule_of(ORDER) is None
    assert isinstance(rule_of(replace(ORDER, rule="reservoir")), Reservoir)
    for settings in ("{", "[]", "3"):
        with pytest.raises(DataError, match=r"order\.settings = .*: must be a JSON object"):
            rule_of(replace(ORDER, rule="reservoir", settings=settings))
    with pytest.raises(DataError, match="reservoirs: this client does not know it"):
        rule_of(replace(ORDER, rule="reservoirs"))


def test_the_samples_held_are_a_sequence_in_the_order_of_their_admission():
    samples = [HeldSample(place, key, key.encode(), place) for place, key in enumerate("abc")]
    held = HeldSamples(samples, ORDER)
    assert (len(held), held[0], held[-1]) == (3, samples[0], samples[2])
    assert held.keys == ["a", "b", "c"]
    assert held.payloads == [sample.payload for sample in samples]


@pytest.mark.parametrize(
    ("config", "named"),
    [({}, "run config out: must name the run"), ({"out": "x", "norm-multiple": -1.0}, r"discipline\.norm_multiple = -1")],
)
def test_a_server_says_what_is_missing_or_wrong_in_the_config_of_its_run(config, named):
    context = Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config=config)
    with pytest.raises(SettingError, match=named):
        recipe_server("digits", ['run.policies=["headgate"]', "run.seeds=1"])(FakeGrid({}), context)
