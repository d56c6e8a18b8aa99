"""Nothing enters unchecked: each public call gets hostile values, and either takes one
as the plain Python value or refuses it.

A refusal is one line of ours that names the field and the value, and it leaves nothing
on disk.
"""

import json
import math
import sqlite3
from collections.abc import Callable
from contextlib import chdir, closing
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg
from grids import FakeGrid, Node
from worlds import World, an_experiment, start

from headgate.errors import HeadgateError, SettingError
from headgate.flower import (
    AdmissionStrategy,
    DatasetSource,
    Discipline,
    Gated,
    erase,
    headgate_client,
    recipe_client,
    recipe_server,
)
from headgate.flower.buffer_store import BufferStore, store_name
from headgate.flower.client import HeldSamples
from headgate.flower.keys import bind_key, make_key
from headgate.flower.messages import RECORD, Order, to_wire
from headgate.flower.sources import (
    Batch,
    CallableSource,
    HeldSample,
    Sample,
    Source,
    unpack,
)

CLIENTS, ROUNDS = 3, 3


class Given(NamedTuple):
    """A hostile value, and the plain value that it stands for."""

    value: Any
    plain: Any


INTEGERS = {
    kind.__name__: Given(kind(3), 3)
    for kind in (
        int,
        np.int8,
        np.int16,
        np.int32,
        np.int64,
        np.uint8,
        np.uint32,
        np.uint64,
    )
}
REALS = {
    "2.0": Given(2.0, 2.0),
    "2.5": Given(2.5, 2.5),
    "float16": Given(np.float16(2.5), 2.5),
    "float32": Given(np.float32(2.5), 2.5),
    "float64": Given(np.float64(2.5), 2.5),
    "Decimal": Given(Decimal("2.5"), 2.5),
}
TRUTHS = {"True": Given(True, True), "bool_": Given(np.bool_(True), True)}
TEXTS = {"text": Given("8", "8"), "str_": Given(np.str_("8"), "8")}
ZERO = {"zero": Given(0, 0)}
NEGATIVE = {"-1": Given(-1, -1), "int64 -1": Given(np.int64(-1), -1)}
NONE = {"None": Given(None, None)}
NEVER = {
    "nan": Given(math.nan, math.nan),
    "inf": Given(math.inf, math.inf),
    "float32 nan": Given(np.float32("nan"), math.nan),
    "2**70": Given(2**70, 2**70),
    "bytes": Given(b"a", b"a"),
    "empty list": Given([], []),
    "a list": Given([1.5, 2.5], [1.5, 2.5]),
    "an array": Given(np.array([1, 2]), [1, 2]),
    "complex": Given(2j, None),
    "complex64": Given(np.complex64(2j), None),
    "an object": Given(object(), None),
}
"""values that no single number, text or truth value is"""
POOL = INTEGERS | REALS | TRUTHS | TEXTS | ZERO | NEGATIVE | NONE | NEVER

WHOLE = {*INTEGERS, *ZERO}
FROM_1 = {*INTEGERS}
NUMBER = {*INTEGERS, *REALS, *ZERO}
ABOVE_0 = {*INTEGERS, *REALS}
FLAG = {*TRUTHS}
TEXT = {*TEXTS}
MAYBE = {*NONE}
NOTHING: set[str] = set()


@dataclass(frozen=True)
class Place:
    """A place where a value enters: how it is called there, a call with it, and the
    values in the pool that are right.
    """

    field: str
    call: Callable[[Any, Path], Any]
    right: set[str]
    stated: bool = True
    """whether the message can name the value"""


def an_order(t=1, last=2, **more):
    return Order(
        "e",
        t,
        0,
        **{
            "known": 0,
            "last": last,
            "kept_from": 0,
            "limit": 9,
            "acknowledged": 0,
            "train": True,
        }
        | more,
    )


def recipe(rounds=ROUNDS):
    return an_experiment("fifo", rounds, clients=CLIENTS)


def gated(place, **more):
    """What a Gated of the given settings records of itself."""
    given = {"inner": FedAvg(), "experiment": recipe(), "folder": place / "run"} | more
    with closing(Gated(**given)) as made:
        return (
            sorted(path.name for path in made._record.folder.iterdir()),
            made._everyone,
            made._fixed_shapes,
        )


def admission(place, **more):
    given = {"experiment": recipe(), "folder": place / "run"} | more
    with closing(AdmissionStrategy(**given)) as made:
        return made._averaging.fraction_evaluate


def disciplined(name):
    def call(value, folder):
        made = Discipline(**{name: value})
        return json.dumps(asdict(made))

    return Place(
        f"discipline.{name}",
        call,
        {"quorum": FROM_1, "offences": FROM_1}.get(name, DISCIPLINES[name]),
    )


DISCIPLINES = {
    "deadline": ABOVE_0,
    "quorum": FROM_1,
    "gather": NUMBER,
    "norm_cap": ABOVE_0 | MAYBE,
    "norm_multiple": NUMBER,
    "offences": FROM_1,
}

SERVER = {
    "Gated inner": Place(
        "Gated: inner", lambda value, folder: gated(folder, inner=value), NOTHING
    ),
    "Gated experiment": Place(
        "", lambda value, folder: gated(folder, experiment=value), NOTHING
    ),
    "Gated folder": Place(
        "Gated: folder", lambda value, folder: gated(folder, folder=value), TEXT
    ),
    "Gated discipline": Place(
        "Gated: discipline",
        lambda value, folder: gated(folder, discipline=value),
        MAYBE,
    ),
    "Gated prices": Place(
        "Gated: prices", lambda value, folder: gated(folder, prices=value), MAYBE
    ),
    "Gated everyone": Place(
        "Gated: everyone", lambda value, folder: gated(folder, everyone=value), FLAG
    ),
    "Gated fixed_shapes": Place(
        "Gated: fixed_shapes",
        lambda value, folder: gated(folder, fixed_shapes=value),
        FLAG | MAYBE,
    ),
    "Gated track": Place(
        "track", lambda value, folder: gated(folder, track=value), {"empty list"}
    ),
    "Gated track of": Place(
        "track", lambda value, folder: gated(folder, track=[value]), NOTHING
    ),
    "AdmissionStrategy experiment": Place(
        "", lambda value, folder: admission(folder, experiment=value), NOTHING
    ),
    "AdmissionStrategy folder": Place(
        "folder", lambda value, folder: admission(folder, folder=value), TEXT
    ),
    "AdmissionStrategy discipline": Place(
        "discipline", lambda value, folder: admission(folder, discipline=value), MAYBE
    ),
    "AdmissionStrategy client_evaluation": Place(
        "AdmissionStrategy: client_evaluation",
        lambda value, folder: admission(folder, client_evaluation=value),
        FLAG,
    ),
    **{f"Discipline {name}": disciplined(name) for name in DISCIPLINES},
    "recipe_server recipe": Place(
        "recipe_server: recipe", lambda value, folder: bool(recipe_server(value)), TEXT
    ),
    "recipe_server overrides": Place(
        "recipe_server: overrides",
        lambda value, folder: bool(recipe_server("digits", value)),
        {"empty list"},
    ),
    "recipe_server overrides of": Place(
        "recipe_server: overrides",
        lambda value, folder: bool(recipe_server("digits", [value])),
        TEXT,
    ),
    "recipe_server folder": Place(
        "recipe_server: folder",
        lambda value, folder: bool(recipe_server("digits", folder=value)),
        TEXT | MAYBE,
    ),
    "recipe_server finished": Place(
        "recipe_server: finished",
        lambda value, folder: bool(recipe_server("digits", finished=value)),
        MAYBE,
    ),
    "bind_key client": Place(
        "bind_key: client", lambda value, folder: keyed(folder, value), WHOLE
    ),
    "bind_key replace": Place(
        "bind_key: replace", lambda value, folder: keyed(folder, 3, value), FLAG
    ),
}
"""calls that make something of a server's"""


def keyed(folder, client, replace=False):
    """What the file of keys says of a client."""
    public = make_key(folder.parent / "private" / folder.name)
    bind_key(folder / "keys", client, public, replace)
    return (folder / "keys").read_bytes().split()[0]


def client_of(folder, **more):
    """The decorated function's app, which has carried out one order for two samples."""
    given = {
        "app": ClientApp(),
        "source": source_of(),
        "store": folder / "stores",
    } | more
    headgate_client(**given)(lambda message, context, held: None)
    return True


def source_of(sample=None, cursor=None, later=None):
    class Own(Source):
        def read(self, at, count):
            samples = [
                sample or Sample(str(at + place), b"x", place) for place in range(count)
            ]
            return Batch(samples, at + count if cursor is None else cursor)

        def labels(self, keys):
            return {} if later is None else later(keys)

    return Own()


def stored(folder, **more):
    """What a store has on disk after an order for one sample of this source."""
    with closing(BufferStore(folder / store_name(0), 0)) as store:
        try:
            store.admit(
                an_order(last=1),
                more["source"] if "source" in more else source_of(**more),
            )
        except BaseException:
            assert store.state("e") == (0, 0, 0, 0, 0)
            assert list(store.admissions("e")) == []
            assert store.held("e") == []
            raise
        return rows_of(store)


def rows_of(store):
    kinds = (
        "SELECT key, typeof(key), payload, typeof(payload), label, typeof(label) FROM"
        " samples"
    )
    cursors = "SELECT cursor, typeof(cursor) FROM experiments"
    return store._db.execute(kinds).fetchall(), store._db.execute(cursors).fetchall()


def labelled_later(folder, **more):
    with closing(BufferStore(folder / store_name(0), 0)) as store:
        store.admit(an_order(last=1), source_of(Sample("k", b"x")))
        store.fill_in_labels("e", source_of(**more))
        return rows_of(store)


def on_store(call):
    """A call of a store that holds two samples; if it refuses, the file is as
    before.
    """

    def made(value, folder):
        path = folder.parent / f"{folder.name}-store" / store_name(0)
        with closing(BufferStore(path, 0)) as store:
            store.admit(an_order(), source_of())
            before = list(store._db.iterdump())
            try:
                return repr(call(store, value))
            except HeadgateError:
                assert list(store._db.iterdump()) == before
                raise

    return made


def erased(keys, store, folder):
    with closing(
        BufferStore(folder.parent / f"{folder.name}-store" / store_name(0), 0)
    ) as own:
        own.admit(an_order(), source_of())
    found = erase(
        keys, folder.parent / f"{folder.name}-store" if store is None else store
    )
    return [
        (receipt.key, receipt.samples)
        for receipts in found.values()
        for receipt in receipts
    ]


def held_samples(count=1):
    return HeldSamples(
        [HeldSample(place, str(place), b"x", 1, 1) for place in range(count)],
        an_order(),
    )


CLIENT = {
    "headgate_client app": Place(
        "headgate_client: app",
        lambda value, folder: client_of(folder, app=value),
        NOTHING,
    ),
    "headgate_client source": Place(
        "headgate_client: source",
        lambda value, folder: client_of(folder, source=value),
        NOTHING,
    ),
    "headgate_client store": Place(
        "headgate_client: store",
        lambda value, folder: client_of(folder, store=value),
        TEXT | MAYBE,
    ),
    "headgate_client rules": Place(
        "headgate_client: rules",
        lambda value, folder: client_of(folder, rules=value),
        {"empty list"},
    ),
    "headgate_client rules of": Place(
        "headgate_client: rules",
        lambda value, folder: client_of(folder, rules=[value]),
        NOTHING,
    ),
    "headgate_client scores": Place(
        "headgate_client: scores",
        lambda value, folder: client_of(folder, scores=value),
        MAYBE,
    ),
    "headgate_client mods": Place(
        "headgate_client: mods",
        lambda value, folder: client_of(folder, mods=value),
        {"empty list"},
    ),
    "headgate_client mods of": Place(
        "headgate_client: mods",
        lambda value, folder: client_of(folder, mods=[value]),
        NOTHING,
    ),
    "headgate_client function": Place(
        "headgate_client: function",
        lambda value, folder: headgate_client(ClientApp(), source_of())(value),
        NOTHING,
    ),
    "recipe_client recipe": Place(
        "recipe_client: recipe", lambda value, folder: bool(recipe_client(value)), TEXT
    ),
    "recipe_client overrides": Place(
        "recipe_client: overrides",
        lambda value, folder: bool(recipe_client("digits", value)),
        {"empty list"},
    ),
    "recipe_client overrides of": Place(
        "recipe_client: overrides",
        lambda value, folder: bool(recipe_client("digits", [value])),
        TEXT,
    ),
    "recipe_client store": Place(
        "recipe_client: store",
        lambda value, folder: bool(recipe_client("digits", store=value)),
        TEXT | MAYBE,
    ),
    "Sample key": Place(
        "samples[0].key",
        lambda value, folder: stored(folder, sample=Sample(value, b"x", 1)),
        TEXT,
    ),
    "Sample payload": Place(
        "samples[0].payload",
        lambda value, folder: stored(folder, sample=Sample("k", value, 1)),
        {"bytes"},
        stated=False,
    ),
    "Sample label": Place(
        "samples[0].label",
        lambda value, folder: stored(folder, sample=Sample("k", b"x", value)),
        {*INTEGERS, *REALS, *ZERO, *NEGATIVE, *TEXTS, *TRUTHS, *NONE},
    ),
    "Batch cursor": Place(
        "cursor", lambda value, folder: stored(folder, source=with_cursor(value)), WHOLE
    ),
    "Batch samples": Place(
        "samples",
        lambda value, folder: stored(folder, source=batch_of(value)),
        {"empty list"},
        stated=False,
    ),
    "Batch samples of": Place(
        "samples[0]",
        lambda value, folder: stored(folder, source=batch_of([value])),
        NOTHING,
        stated=False,
    ),
    "Source read": Place(
        "read",
        lambda value, folder: stored(folder, source=reading(value)),
        NOTHING,
        stated=False,
    ),
    "Source labels": Place(
        "labels",
        lambda value, folder: labelled_later(folder, later=lambda keys: value),
        NOTHING,
        stated=False,
    ),
    "Source labels key": Place(
        "labels",
        lambda value, folder: labelled_later(folder, later=lambda keys: Known(value)),
        TEXT,
        stated=False,
    ),
    "Source labels label": Place(
        "labels[",
        lambda value, folder: labelled_later(folder, later=lambda keys: {"k": value}),
        {*INTEGERS, *REALS, *ZERO, *NEGATIVE, *TEXTS, *TRUTHS, *NONE},
    ),
    "BufferStore path": Place(
        "BufferStore: path", lambda value, folder: BufferStore(value, 0).close(), TEXT
    ),
    "BufferStore client": Place(
        "BufferStore: client",
        lambda value, folder: opened(folder / "a" / "b", value),
        WHOLE,
    ),
    "BufferStore rules": Place(
        "rules",
        lambda value, folder: opened(folder / "a" / "b", 0, value),
        {"empty list"},
    ),
    "BufferStore rules of": Place(
        "rules", lambda value, folder: opened(folder / "a" / "b", 0, [value]), NOTHING
    ),
    "BufferStore admit order": Place(
        "admit: order",
        on_store(lambda store, value: store.admit(value, source_of())),
        NOTHING,
    ),
    "BufferStore forget": Place(
        "forget: experiment", on_store(lambda store, value: store.forget(value)), TEXT
    ),
    "BufferStore erase": Place(
        "erase: keys", on_store(lambda store, value: store.erase(value)), {"empty list"}
    ),
    "BufferStore erase of": Place(
        "erase: keys[1]",
        on_store(lambda store, value: [each.key for each in store.erase(["0", value])]),
        TEXT,
    ),
    "BufferStore count_uses": Place(
        "count_uses: keys",
        on_store(lambda store, value: store.count_uses(an_order(), value)),
        {"empty list"},
    ),
    "BufferStore count_uses of": Place(
        "count_uses: keys[0]",
        on_store(lambda store, value: store.count_uses(an_order(), [value])),
        TEXT,
    ),
    "BufferStore receipt": Place(
        "receipt",
        on_store(lambda store, value: store.receipt(an_order(), value)),
        {"zero"},
    ),
    "erase keys": Place(
        "erase: keys", lambda value, folder: erased(value, None, folder), {"empty list"}
    ),
    "erase keys of": Place(
        "erase: keys[0]", lambda value, folder: erased([value], None, folder), TEXT
    ),
    "erase store": Place(
        "store", lambda value, folder: erased(["0"], value, folder), MAYBE
    ),
    "DatasetSource column": Place(
        "DatasetSource: columns[0]",
        lambda value, folder: bool(DatasetSource(value)),
        {"a list", "an array", "empty list"},
    ),
    "DatasetSource label": Place(
        "label",
        lambda value, folder: (
            DatasetSource(np.arange(20).reshape(2, 10), label=value)
            .read(0, 1)
            .samples[0]
            .label
        ),
        {*INTEGERS, *ZERO, *NEGATIVE, *NONE},
    ),
    "DatasetSource cursor": Place(
        "read: cursor", lambda value, folder: labels_read(value, 1), WHOLE
    ),
    "DatasetSource count": Place(
        "read: count", lambda value, folder: labels_read(0, value), WHOLE
    ),
    "CallableSource function": Place(
        "CallableSource: function",
        lambda value, folder: bool(CallableSource(value)),
        NOTHING,
    ),
    "CallableSource later": Place(
        "CallableSource: later",
        lambda value, folder: bool(CallableSource(lambda i: None, value)),
        MAYBE,
    ),
    "CallableSource cursor": Place(
        "read: cursor", lambda value, folder: repr(numbered().read(value, 1)), WHOLE
    ),
    "CallableSource count": Place(
        "read: count", lambda value, folder: repr(numbered().read(0, value)), WHOLE
    ),
    "unpack": Place(
        "payload", lambda value, folder: unpack(value), NOTHING, stated=False
    ),
    "HeldSamples losses": Place(
        "loss_metrics: losses",
        lambda value, folder: held_samples(4).loss_metrics(value),
        NOTHING,
    ),
    "HeldSamples losses of": Place(
        "loss_metrics: losses",
        lambda value, folder: held_samples().loss_metrics([value]),
        {*INTEGERS, *REALS, *ZERO, *NEGATIVE, "nan", "inf", "float32 nan"}
        - {"Decimal"},
    ),
}


def opened(path, client, rules=()):
    with closing(BufferStore(path, client, rules)) as store:
        return store.client, store.meta("client"), store.rules


class Known(dict):
    """Labels under a key that need not be hashable."""

    def __init__(self, key):
        super().__init__()
        self.key = key

    def items(self):
        return [(self.key, 1)]


def with_cursor(value):
    class Own(Source):
        def read(self, at, count):
            return Batch([Sample("k", b"x", 1)], value)

    return Own()


def batch_of(samples):
    class Own(Source):
        def read(self, at, count):
            return Batch(samples, 1)

    return Own()


def reading(value):
    class Own(Source):
        def read(self, at, count):
            return value

    return Own()


def labels_read(cursor, count):
    return repr(
        [
            tuple(each)
            for each in (
                DatasetSource(np.arange(20).reshape(10, 2)).read(cursor, count).samples
            )
        ]
    )


def numbered():
    return CallableSource(lambda i: Sample(repr(i), b"", i))


def named(value):
    """How a message names the value, or the beginning of that; of a list it may name
    the first entry.
    """
    plain = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    if isinstance(plain, list) and plain:
        return str(plain[0])
    return str(plain)[:6]


def left_in(folder):
    """The files that a call has left, besides the store that it was given."""
    return [
        path.name
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(store_name(0))
    ]


def misnamed(error, field, value):
    """What is wrong with a refusal; None: nothing."""
    said = str(error)
    fine = (
        "\n" not in said and len(said) < 700 and field in said and named(value) in said
    )
    return None if fine else f"badly named: {said}"


def problem(place, given, right, tmp_path):
    """What is wrong with the outcome of a call with a hostile value; None: nothing."""
    given_to, plain_to = tmp_path / "given", tmp_path / "plain"
    given_to.mkdir(parents=True)
    plain_to.mkdir()
    try:
        with chdir(
            given_to
        ):  # where a value is taken for a path by mistake, what is made lies there
            found = place.call(given.value, given_to)
    except HeadgateError as error:
        if right:
            return f"refused: {error}"
        left = left_in(given_to)
        return (
            f"left on disk: {left}"
            if left
            else misnamed(error, place.field, given.value if place.stated else "")
        )
    except Exception as error:
        return f"raw {type(error).__name__}: {error}"
    if not right:
        return f"accepted: {found!r}"
    with chdir(plain_to):
        wanted = place.call(given.plain, plain_to)
    return None if found == wanted else f"{found!r} is not {wanted!r}"


PLACES = {**SERVER, **CLIENT}


@pytest.mark.parametrize("at", PLACES)
def test_a_value_is_taken_as_the_plain_one_or_refused(tmp_path, monkeypatch, at):
    place = PLACES[at]
    monkeypatch.setenv("HOME", str(tmp_path))
    found = {
        kind: problem(place, given, kind in place.right, tmp_path / kind)
        for kind, given in POOL.items()
    }
    assert {kind: wrong for kind, wrong in found.items() if wrong} == {}


# a run


class Run(World):
    """A federation of three for a run of three rounds."""

    def __init__(self, folder, rounds=ROUNDS, **more):
        super().__init__(folder, recipe(rounds), **more)

    def on_disk(self):
        with self.store() as store:
            books = [*store.journal.tables.entries(), store.initial()]
        return repr(books), sorted(
            path.name for path in (self.folder / "run").rglob("*")
        )


STARTS = {
    "grid": NOTHING,
    "initial_arrays": NOTHING,
    "num_rounds": WHOLE | MAYBE,
    "timeout": ABOVE_0 | MAYBE,
    "train_config": MAYBE,
    "evaluate_config": MAYBE,
    "evaluate_fn": MAYBE,
}


def started(strategy, world, **more):
    strategy.start(**{"grid": world.grid, "initial_arrays": start()} | more)
    return (
        strategy.accounts.t,
        json.dumps(asdict(strategy.discipline)),
        strategy.ledger.spent.tolist(),
    )


@pytest.mark.parametrize("field", STARTS)
def test_a_start_with_a_wrong_value_begins_no_round(tmp_path, field):
    world, right, wrong = Run(tmp_path / "wrong"), {}, {}
    with closing(world.strategy()) as strategy:
        before = world.on_disk()
        for kind in POOL.keys() - STARTS[field]:
            with pytest.raises(HeadgateError) as refused:
                started(strategy, world, **{field: POOL[kind].value})
            wrong[kind] = misnamed(refused.value, f"start: {field}", POOL[kind].value)
            assert world.on_disk() == before
    for kind in STARTS[field]:
        ends = []
        for name, value in POOL[kind]._asdict().items():
            other = Run(tmp_path / kind / name)
            with closing(other.strategy()) as strategy:
                ends.append(started(strategy, other, **{field: value}))
        right[kind] = None if ends[0] == ends[1] else ends
    assert {kind: said for kind, said in {**wrong, **right}.items() if said} == {}


def test_arrays_that_are_no_numbers_and_configs_that_flower_cannot_send_are_refused(
    tmp_path,
):
    world = Run(tmp_path)
    words, plain = (
        ArrayRecord({"w": Array(np.array(["a", "b"]))}),
        {"rate": np.float32(0.5), "steps": np.int64(3)},
    )
    with closing(world.strategy()) as strategy:
        before = world.on_disk()
        with pytest.raises(
            SettingError,
            match=r"start: initial_arrays\[w\] = .*: must be an array of numbers",
        ):
            strategy.start(world.grid, words)
        with pytest.raises(
            SettingError,
            match=r"start: train_config = \{'rate': None\}: must be a ConfigRecord",
        ):
            strategy.start(world.grid, start(), train_config={"rate": None})
        assert world.on_disk() == before
        strategy.start(world.grid, start(), train_config=plain, num_rounds=np.int64(1))
    config, *_ = [message.content["config"] for message in world.grid.orders()]
    assert (config["rate"], config["steps"]) == (0.5, 3)


ROUND_CALLS = {
    "configure_train": lambda own, there, **more: own.configure_train(
        **{
            "server_round": 1,
            "arrays": start(),
            "config": ConfigRecord(),
            "grid": there,
        }
        | more
    ),
    "aggregate_train": lambda own, there, **more: own.aggregate_train(
        **{"server_round": 1, "replies": []} | more
    ),
    "configure_evaluate": lambda own, there, **more: own.configure_evaluate(
        **{
            "server_round": 1,
            "arrays": start(),
            "config": ConfigRecord(),
            "grid": there,
        }
        | more
    ),
    "aggregate_evaluate": lambda own, there, **more: own.aggregate_evaluate(
        **{"server_round": 1, "replies": []} | more
    ),
    "continue_from": lambda own, there, **more: own.continue_from(
        **{"initial_arrays": start()} | more
    ),
}
ROUND_FIELDS = {
    "configure_train": ("server_round", "arrays", "config", "grid"),
    "aggregate_train": ("server_round", "replies"),
    "configure_evaluate": ("server_round", "arrays", "config", "grid"),
    "aggregate_evaluate": ("server_round", "replies"),
    "continue_from": ("initial_arrays",),
}


@pytest.mark.parametrize("call", ROUND_CALLS)
def test_what_another_strategy_hands_on_is_checked_before_a_round_begins(
    tmp_path, call
):
    world, found = Run(tmp_path), {}
    with closing(world.strategy()) as strategy:
        before = world.on_disk()
        for field in ROUND_FIELDS[call]:
            right = {
                "server_round": WHOLE,
                "replies": {"empty list"},
                "config": MAYBE,
            }.get(field, NOTHING)
            for kind in POOL.keys() - right:
                with pytest.raises(HeadgateError) as refused:
                    ROUND_CALLS[call](strategy, world.grid, **{field: POOL[kind].value})
                found[field, kind] = misnamed(
                    refused.value, f"{call}: {field}", POOL[kind].value
                )
        assert world.on_disk() == before
    assert {at: wrong for at, wrong in found.items() if wrong} == {}


def test_a_price_that_is_none_is_refused_before_anything_of_its_round_is_written(
    tmp_path,
):
    """A run whose second price is wrong begins no second round, and goes on once the
    price is right.
    """
    price, world, found = [1.5], Run(tmp_path, prices=lambda t: price[0]), {}
    wrong = {kind: given.value for kind, given in POOL.items() if kind not in NUMBER}
    wrong |= {
        "nan of one": [1.0, math.nan, 2.0],
        "text of one": [1.0, "2", 2.0],
        "negative of one": np.array([1.0, 2.0, -3.0]),
    }
    world.play(1)
    with closing(world.strategy()) as strategy:
        for kind, value in wrong.items():
            price[0], before = value, world.on_disk()
            with pytest.raises(HeadgateError) as refused:
                strategy.start(world.grid, start())
            shown = {
                "nan of one": "nan",
                "text of one": "2",
                "negative of one": -3.0,
            }.get(kind, value)
            found[kind] = misnamed(refused.value, "prices(2)", shown)
            assert world.on_disk() == before
    assert {kind: said for kind, said in found.items() if said} == {}
    price[0] = [np.float32(1.5), Decimal("2.5"), np.int64(3)]
    world.play()
    assert world.offered() == [
        [1.5],
        [1.5, 2.5, 3.0],
        [1.5, 2.5, 3.0],
    ]
    world.audit()


def test_prices_of_numpy_and_of_the_standard_library_are_the_plain_ones(tmp_path):
    right = [POOL[kind] for kind in sorted(NUMBER)]
    paid = []
    for form in ("value", "plain"):
        world = Run(
            tmp_path / form,
            rounds=len(right),
            prices=lambda t, form=form: getattr(right[t - 1], form),
        )
        world.play()
        world.audit()
        paid.append(world.offered())
    assert paid[0] == paid[1] == [[given.plain] for given in right]


@pytest.mark.parametrize("of", ["its accuracy", "all of it"])
def test_an_evaluation_that_is_no_number_ends_no_run_and_is_in_no_row(tmp_path, of):
    given = list(POOL.items())
    right = NUMBER | {*NEGATIVE, "2**70"} if of == "its accuracy" else NOTHING

    def judged(t, arrays):
        value = given[t - 1][1].value
        return {"accuracy": value, "remark": value} if of == "its accuracy" else value

    world = Run(tmp_path, rounds=len(given))
    world.play(evaluate_fn=judged)
    events = {event.round: event.reason for event in world.events("not evaluated")}
    with world.store() as store:
        settled = store.journal.tables.of_kinds("settled")
        stored = [json.loads(each.body, parse_constant=pytest.fail) for each in settled]
    for t, (kind, (value, plain)) in enumerate(given, 1):
        row = stored[t - 1]["notes"]["metrics"]
        assert row["test_accuracy"] == (plain if kind in right else None), kind
        assert (t in events) == (kind not in right and value is not None), kind
        if t in events:
            field = (
                f"evaluate_fn({t}): test_accuracy"
                if of == "its accuracy"
                else f"evaluate_fn({t})"
            )
            assert misnamed(events[t], field, value) is None, kind
    world.audit()


# a client's file


@pytest.mark.parametrize(
    "row",
    [
        ("e", 0, "k", b"x", np.int64(3), 1),
        ("e", 0, "k", "text", 3, 1),
        ("e", np.int64(0), "k", b"x", 3, 1),
        ("e", -1, "k", b"x", 3, 1),
        ("e", 0, None, b"x", 3, 1),
        ("e", 0, "k", b"x", 3, 1.5),
    ],
)
@pytest.mark.parametrize("table", ["samples", "spare"])
def test_a_row_of_a_wrong_type_is_refused_by_the_file_itself(tmp_path, table, row):
    with (
        closing(BufferStore(tmp_path / "b", 0)) as store,
        pytest.raises(sqlite3.IntegrityError),
    ):
        store._db.execute(f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?, ?)", row)


def test_all_tables_of_a_client_are_strict_and_count_from_zero(tmp_path):
    with closing(BufferStore(tmp_path / "b", 0)) as store:
        assert {name for name, strict in tables(store).items() if not strict} == set()
        store.admit(an_order(), source_of())
        for change in (
            "UPDATE experiments SET position = -1",
            "UPDATE experiments SET lost = 'some'",
            "UPDATE admissions SET trained = 2",
            "UPDATE admissions SET admitted = -1",
            "UPDATE uses SET uses = -1",
            "UPDATE samples SET label = x'0300000000000000'",
        ):
            with pytest.raises(sqlite3.IntegrityError):
                store._db.execute(change)


def tables(store):
    """Whether each table is strict."""
    listed = store._db.execute("PRAGMA table_list").fetchall()
    return {
        name: strict
        for _, name, kind, _, _, strict in listed
        if kind == "table" and not name.startswith("sqlite_")
    }


def test_a_wrong_sample_amid_others_admits_none_of_them(tmp_path):
    samples = [
        Sample("0", b"x", 0),
        Sample("1", b"x", np.int64(1)),
        Sample("2\n", b"x", 2),
    ]
    with closing(BufferStore(tmp_path / "b", 0)) as store:
        with pytest.raises(
            HeadgateError, match=r"source of client 0: samples\[2\]\.key = '2.*'"
        ):
            store.admit(an_order(last=3), batch_of(samples))
        assert (store.state("e"), store.held("e")) == ((0, 0, 0, 0, 0), [])
        assert list(store.admissions("e")) == []
        assert store.admit(an_order(last=2), batch_of(samples[:2]))
        assert [(sample.key, sample.label) for sample in store.held("e")] == [
            ("0", 0),
            ("1", 1),
        ]


def test_a_key_is_one_line_that_is_not_too_long(tmp_path):
    with closing(BufferStore(tmp_path / "b", 0)) as store:
        for key in ("k" * 1_001, "a\nb", "a\x00b", "\udc80"):
            with pytest.raises(
                SettingError,
                match=r"samples\[0\]\.key = .*: must be one line of text, at most 1000",
            ):
                store.admit(an_order(last=1), batch_of([Sample(key, b"")]))
        assert store.admit(an_order(last=1), batch_of([Sample("k" * 1_000, b"")]))


@pytest.mark.parametrize(
    "columns",
    [(), (np.zeros(3), np.zeros(2)), (iter([1]), np.zeros(2)), (np.array(3),)],
)
def test_columns_of_different_lengths_are_refused(columns):
    with pytest.raises(SettingError, match="DatasetSource: columns"):
        DatasetSource(*columns)


def test_a_source_for_a_context_may_be_a_class_and_must_read(tmp_path):
    """What the function of a context returns is known in a round only, and is refused
    there in one line.
    """
    order = ConfigRecord(to_wire(an_order()))
    for source, reason in (
        (lambda context: 3, "source of client 0 = 3: must have the method read"),
        (ByContext, ""),
    ):
        app, folder = ClientApp(), tmp_path / str(bool(reason))
        headgate_client(app, source, store=folder)(
            lambda message, context, held: Message(RecordDict(), reply_to=message)
        )
        grid = FakeGrid({7: Node(app, 0)})
        (reply,) = grid.send_and_receive(
            [Message(RecordDict({RECORD: order}), 7, "train", group_id="1")]
        )
        assert (reply.error.reason if reply.has_error() else "").removeprefix(
            "SettingError: "
        ) == reason
        with closing(BufferStore(folder / store_name(0), 0)) as store:
            assert len(store.held("e")) == (0 if reason else 2)


class ByContext(Source):
    def __init__(self, context):
        self.context = context

    def read(self, cursor, count):
        return source_of().read(cursor, count)
