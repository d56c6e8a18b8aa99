"""Replies that are changed in every part, with an eye for what they are made of, and judged by a real round.

A reply is changed by a few mutations in a row: fields of the report take other values and types, rounds and counts are cut,
doubled or shifted, arrays get other names, headers, types, sizes and bytes, records are left out or put in a wrong place.
The corpus holds the recipes of replies that were trouble once: lists of [mutation, number], where a mutation may also be
one of the replies in hostile.py, by its name there.
"""

import json
import random
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord
from hostile import WRONG_REPORTS, WRONG_UPDATES, header, raw, saved
from worlds import World, an_experiment, start

from headgate.flower.rounds import Discipline

CORPUS = Path(__file__).with_name("corpus") / "replies.json"
VALUES = [0, 1, -1, 2, 7, 2**31, 2**53, 2**53 + 1, 2**62, 0.5, float("nan"), float("inf"), "", "x" * 300, "\x1b[2J", True]
VALUES += [b"", b"\x80\x04.", [], [0], [1, 2], [1.5], ["a"], [2**62] * 3, [True]]
DTYPES = ["<f8", ">f8", "<f4", "<i8", "<c16", "<U4", "<M8[s]", "|O", "|V8", "<f2"]
FORMS = [saved(np.zeros(2)), saved(np.zeros(2), np.savez), saved(np.zeros((2, 1))), saved(np.zeros(0)), b"", b"PK\x03\x04"]
HOSTILE = {name: tamper for name, (tamper, _) in {**WRONG_REPORTS, **WRONG_UPDATES}.items()}
MOST = 6
"""mutations of one reply"""


def field(reply, pick):
    """A field of the report takes another value, or the value of another field."""
    told = dict(reply.content["headgate"])
    name = pick.choice(sorted(told))
    told[name] = pick.choice([*VALUES, told[pick.choice(sorted(told))]])
    reply.content["headgate"] = ConfigRecord(told)


def nearby(reply, pick):
    """A count is a little more or less."""
    told = dict(reply.content["headgate"])
    name = pick.choice([name for name, value in told.items() if type(value) is int] or ["n"])
    told[name] = max(told.get(name, 0) + pick.choice([-2, -1, 1, 2]), 0)
    reply.content["headgate"] = ConfigRecord(told)


def lists(reply, pick):
    """Rounds and what was admitted in them: cut, doubled, shifted, swapped."""
    told = dict(reply.content["headgate"])
    for name in pick.sample(["rounds", "admitted"], pick.randint(1, 2)):
        own = told[name] if isinstance(told.get(name), list) else []
        told[name] = pick.choice([[], own * 2, own[1:], own[::-1], [*own, 1], [0, *own], [each + 1 for each in own]])
    reply.content["headgate"] = ConfigRecord(told)


def fields(reply, pick):
    """A field goes, or one comes that nobody knows."""
    told = dict(reply.content["headgate"])
    if pick.random() < 0.5 and told:
        del told[pick.choice(sorted(told))]
    else:
        told["x" * pick.randint(1, 300)] = pick.choice(VALUES)
    reply.content["headgate"] = ConfigRecord(told)


def form(reply, pick):
    """An array's bytes are another form, have a byte changed, or are cut."""
    name, arrays = _an_array(reply, pick)
    data = bytearray(pick.choice([arrays[name].data, *FORMS]))
    for _ in range(pick.randint(0, 3)):
        if data:
            data[pick.randrange(min(len(data), pick.choice([12, 128, len(data)])))] = pick.randrange(256)
    _put(reply, arrays, name, raw(bytes(data[: pick.choice([len(data), len(data), pick.randint(0, len(data))])])))


def head(reply, pick):
    """An array's header says something else of the same bytes."""
    name, arrays = _an_array(reply, pick)
    shape = pick.choice(["(2,)", "()", "(1,)", "(2, 1)", "(-2,)", "(10**12,)", "(99999999999,)", "(2.0,)", "2", "(True, 2)"])
    order, dtype = pick.choice(["False", "True", "0", "None"]), pick.choice(DTYPES)
    text = f"{{'descr': {dtype!r}, 'fortran_order': {order}, 'shape': {shape}, }}{' ' * pick.randint(0, 99)}\n"
    version = pick.choice([b"\x01\x00", b"\x02\x00", b"\x03\x00"])
    _put(reply, arrays, name, raw(header(text.encode(), version) + bytes(pick.choice([0, 8, 16, 32]))))


def numbers(reply, pick):
    """An array of other numbers, sizes and types, in the right form."""
    name, arrays = _an_array(reply, pick)
    value = pick.choice([0.0, 1.0, -1e99, 1e101, 1e308, np.nan, np.inf, 5e-324])
    shape, dtype = pick.choice([(2,), (), (1,), (2, 1), (0,)]), pick.choice([np.float64, np.float32, np.int64, np.bool_])
    with np.errstate(all="ignore"):
        _put(reply, arrays, name, Array(np.full(shape, np.nan_to_num(value) if dtype is np.int64 else value).astype(dtype)))


def names(reply, pick):
    """Arrays under other names."""
    name, arrays = _an_array(reply, pick)
    other = pick.choice(["", "w", "steps", "W", "x" * 500, "\x00", "headgate server update: momentum"])
    arrays[other] = arrays.pop(name)
    reply.content["arrays"] = ArrayRecord(arrays)


def records(reply, pick):
    """A record goes, comes twice, or stands where another kind belongs."""
    name = pick.choice(["headgate", "arrays", "metrics", "more"])
    made = [ConfigRecord({}), MetricRecord({}), ArrayRecord({}), ArrayRecord({"w": Array(np.zeros(2))})]
    reply.content.pop(name, None)
    if pick.random() < 0.7:
        reply.content[name] = pick.choice(made)


def metrics(reply, pick):
    own = {pick.choice(["train_loss", "num-examples", "x" * 300, "\n"]): pick.choice([1.0, float("nan"), 2**62, [1.0], -1e300])}
    reply.content["metrics"] = MetricRecord(own | {f"m{i}": 1.0 for i in range(pick.choice([0, 1, 99, 101]))})


def known(reply, pick):
    """One of the replies that are known to be hostile."""
    HOSTILE[pick.choice(sorted(HOSTILE))](reply)


MUTATIONS = {
    each.__name__: each for each in (field, nearby, lists, fields, form, head, numbers, names, records, metrics, known)
}


def _an_array(reply, pick):
    arrays = dict(reply.content.array_records.get("arrays") or {"w": Array(np.zeros(2))})
    arrays = arrays or {"w": Array(np.zeros(2))}
    return pick.choice(sorted(arrays)), arrays


def _put(reply, arrays, name, array):
    arrays[name] = array
    reply.content["arrays"] = ArrayRecord(arrays)


def mutate(reply, recipe):
    """The reply after every mutation of the recipe; one that finds nothing to change is passed over."""
    for name, number in recipe:
        try:
            if name in HOSTILE:
                HOSTILE[name](reply)
            else:
                MUTATIONS[name](reply, random.Random(number))
        except (LookupError, AttributeError, TypeError, ValueError):  # an earlier one took away what it changes
            continue
    return reply


def a_recipe(pick):
    return [[pick.choice(sorted(MUTATIONS)), pick.randrange(10**6)] for _ in range(pick.randint(1, MOST))]


class Target:
    """Rounds of one server, in each of which client 0's reply is changed by another recipe; the others are honest."""

    def __init__(self, folder, rounds):
        experiment = an_experiment("both", rounds, budget=30.0)
        self.world = World(folder, experiment, Discipline(gather=0.0, offences=10**9, norm_cap=1e6), prices=lambda t: 2.0)
        self.world.grid.tamper = lambda reply: reply if reply.has_error() else mutate(reply, self.recipe)

    def play(self, recipes, report):
        """`report(number, verdict)` for each recipe; whatever is raised is a failure of that recipe."""
        with closing(self.world.strategy()) as server:
            for number, recipe in enumerate(recipes):
                t, self.recipe = server.accounts.t + 1, recipe
                self.world.grid.faults = {(t, 0): "reply changed"}
                server.start(self.world.grid, start(), num_rounds=t)
                self.check(server, t)
                report(number, "rejected" if server.accounts.client(0).heard != t else "accepted")
            t, self.world.grid.faults = server.accounts.t + 1, {}
            server.start(self.world.grid, start(), num_rounds=t)
            self.check(server, t)
            assert server.accounts.client(0).heard == t, "an honest answer was not believed"
            assert server.store.outstanding() == []

    def check(self, server, t):
        """The others were heard, the model is finite, and the books agree with each other and with the clients' files."""
        assert [server.accounts.client(m).heard for m in (1, 2)] == [t, t]
        assert all(np.isfinite(array).all() for array in server._learned.model.values())
        last = server.store.rounds(after=t - 1)[0].metrics
        assert last["train_loss"] is not None
        orders, name = [row for row in server.store.orders() if row.admitted is not None], server.store.experiment
        charged = sum(row.charge for row in (*orders, *server.store.corrections()))
        assert charged == server.ledger.spent[0]
        for m in self.world.clients:
            with self.world.buffer(m) as buffer:
                done = {one.round: one.admitted for one in buffer.admissions(name)}
            for row in server.store.closed(m, [row.round for row in orders if row.client == m]).values():
                assert row.admitted == done[row.round] if m else row.admitted <= row.ordered
        for event in server.store.events()[-9:]:
            assert len(event.reason) <= 200
            assert event.reason.isprintable()


def corpus():
    return json.loads(CORPUS.read_text("utf-8"))


def main(seconds=None, seed=0, steps=None, batch=40):
    """Batches of recipes, each on a new server; the number of replies by verdict and of mutations by kind."""
    from fuzzing import unsynced

    cases, failures, began, turn = Counter(), [], time.monotonic(), 0
    with unsynced():
        while (seconds is None or time.monotonic() - began < seconds) and (steps is None or cases["replies"] < steps):
            pick, turn = random.Random(f"{seed}/{turn}"), turn + 1
            recipes, at = [a_recipe(pick) for _ in range(batch)], [0]

            def report(number, verdict, at=at, recipes=recipes):
                at[0] = number + 1
                cases.update(["replies", verdict, *(name for name, _ in recipes[number])])

            with TemporaryDirectory() as folder:
                try:
                    Target(folder, batch + 1).play(recipes, report)
                except Exception as error:
                    recipe = recipes[at[0]] if at[0] < batch else recipes
                    said = f"{type(error).__name__}: {error}"[:500]
                    failures.append({"seed": f"{seed}/{turn - 1}", "recipe": recipe, "error": said})
                    if len(failures) == 5:
                        break
    return {"cases": dict(cases), "failures": failures}
