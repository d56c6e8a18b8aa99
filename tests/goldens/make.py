"""What headgate computes, says and writes, kept so that a change of any number, message
or format is seen.

`python -m tests.goldens.make` writes all of it into data/; with names, as in `... make
ledgers frames`, only these. The tests beside it compute the same and compare. Arrays
that must be exact are kept as digests, learned numbers as they are.
"""

import contextlib
import hashlib
import io
import json
import logging
import math
import os
import re
import sqlite3
import sys
import tempfile
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path
from unittest import mock

import numpy as np

from headgate.control import Controller, System, policies, retention
from headgate.control.policy import PolicyContext
from headgate.control.prices import PerClient, Uniform
from headgate.control.types import Losses, Report, SampleView
from headgate.errors import HeadgateError
from headgate.registry import find_outside
from headgate.theory.bound import BoundConstants

from .asked import (
    ANSWERED,
    BASE,
    FEDERATIONS,
    NETWORKS,
    RECIPES,
    REFUSED,
    ROOT,
    ZOO,
    ZOO_POLICIES,
    ZOO_RULES,
)

DATA = Path(__file__).with_name("data")
ROUNDS, SEEDS, DIGITS, HEX = 40, 3, 9, 12
ASKED = "$ headgate "


def digest(array):
    """Of type, shape and content. Real numbers are rounded first: processors differ in
    last digits and in signs of 0.
    """
    array = np.asarray(array)
    rounded = (
        np.where(np.isnan(array), np.nan, np.round(array, DIGITS) + 0.0)
        if array.dtype.kind == "f"
        else array
    )
    whole = (
        f"{array.dtype.name}{list(array.shape)}".encode()
        + np.ascontiguousarray(rounded).tobytes()
    )
    return hashlib.sha256(whole).hexdigest()[:HEX]


def leaves(value, path=""):
    """(path, leaf) of nested dicts and lists; the empty ones are leaves, too."""
    if not isinstance(value, dict | list) or not value:
        yield path, value
        return
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        yield from leaves(each, f"{path}/{key}")


def differing(computed, kept, tolerance=lambda path: 0.0):
    """Path → (computed, kept) of all that differs; real numbers may differ by
    `tolerance` of their path, relatively.
    """
    computed, kept = dict(leaves(json.loads(json.dumps(computed)))), dict(leaves(kept))

    def same(path):
        if path not in computed or path not in kept:
            return False
        one, other = computed[path], kept[path]
        if isinstance(one, float) and isinstance(other, float):
            return math.isclose(
                one, other, rel_tol=(most := tolerance(path)), abs_tol=most / 1000
            ) or (one != one and other != other)
        return type(one) is type(other) and one == other

    paths = (*computed, *(path for path in kept if path not in computed))
    return {
        path: (computed.get(path, "missing"), kept.get(path, "missing"))
        for path in paths
        if not same(path)
    }


@cache
def kept(name):
    return json.loads((DATA / f"{name}.json").read_text("utf-8"))


def kept_answers():
    _, *each = re.split(
        f"^{re.escape(ASKED)}",
        (DATA / "answers.txt").read_text("utf-8"),
        flags=re.MULTILINE,
    )
    return dict(one.split("\n", 1) for one in each)


# control


def made_policies():
    """Name → a function that makes the policy: every kind, and the first one with every
    retention rule.
    """
    zoo = {name: find_outside(name, where, (object,)) for name, where in ZOO.items()}
    made = {
        name: kind for name, kind in policies.KINDS.items() if kind is not policies.Held
    }
    made |= {name: zoo[name] for name in ZOO_POLICIES}
    made |= {
        "held": lambda: policies.Held(policies.Acdpp()),
        "held listening": lambda: policies.Held(zoo["listening"]()),
    }
    rules = {
        name: retention.KStep(4) if rule is retention.KStep else rule()
        for name, rule in retention.KINDS.items()
    }
    rules |= {name: zoo[name]() for name in ZOO_RULES}
    return made | {
        f"headgate, {name}": lambda rule=rule: policies.Headgate(rule=rule)
        for name, rule in rules.items()
    }


POLICIES = made_policies()


def ledger(name):
    """Of one policy: digests of every array after the last round, or the refusal, by
    end and prices.
    """
    common, make = Uniform(1.0, 10.0), POLICIES[name]
    prices = {
        "one price": common,
        "per client": PerClient(common, (0.5, 1.0, 1.5, 2.0, 1.0), noise=0.2),
    }
    ends = {"closed": ROUNDS, "open": None}
    return {
        f"{end}, {name}": _played(make, ends[end], process)
        for end in ends
        for name, process in prices.items()
    }


def _played(make, horizon, prices):
    seeds, clients = np.arange(SEEDS), np.arange(5)
    system = System(np.array([3, 1, 7, 4, 5]), 11.0, horizon)
    try:
        policy = make().resolved(
            PolicyContext(system, prices, BoundConstants(), seeds, ROUNDS)
        )
        controller = Controller(system, policy, SEEDS)
        samples = SampleView(lambda runs, client, position: (7 * position + client) % 3)
        now, admitted = controller.open(), []
        for t in range(ROUNDS):
            orders = controller.decide(now, prices.path(seeds, t + 1, t + 2)[:, 0])
            admitted.append(orders.admitted)
            new = np.where(
                orders.admitted > 0,
                ((t * 7 + clients * 3 + seeds[:, None]) % 5) ** 3 / 8,
                np.nan,
            )
            losses = (
                Losses(new, np.full(new.shape, 1.5 - t / ROUNDS))
                if policy.listens
                else None
            )
            report = Report(orders.admitted, losses=losses)
            now = controller.post(now, orders, report, samples)
    except HeadgateError as error:
        return f"{type(error).__name__}: {error}"
    found = {
        own.name: getattr(now, own.name) for own in fields(now) if own.name != "terms"
    }
    for name in ("contents", "losses"):
        found |= {
            f"{name}.{key}": array
            for key, array in (found.pop(name)._asdict() if found[name] else {}).items()
        }
    found |= {f"memory.{key}": array for key, array in found.pop("memory").items()}
    found |= {
        f"contents.recent.{k}": array
        for k, array in enumerate(found.pop("contents.recent"))
    }
    found["admitted in each round"] = np.stack(admitted)
    return {
        name: digest(array)
        for name, array in sorted(found.items())
        if array is not None
    }


# learning


def frames(recipe):
    """Of one recipe: the columns of its tables with their types; whole numbers and text
    as digests, real ones as they are.
    """
    import headgate

    source, *overrides = RECIPES[recipe]
    points = headgate.sweep(source, *BASE, *overrides)
    with tempfile.TemporaryDirectory() as folder:
        run = headgate.run(
            points, Path(folder) / "run", device="cpu", processes=1, quiet=True
        )
        tables = {"metrics": run.frame, "clients": run.clients}
    by = [
        name
        for name in ("point", "policy", "seed", "t")
        if name in tables["metrics"].columns
    ]
    return {
        name: (
            {f"{own.name}: {own.dtype}": _column(own) for own in table.sort(by)}
            | {"rows": table.height}
        )
        for name, table in tables.items()
    }


def _column(column):
    inner = (
        column.dtype.inner if column.dtype.is_nested() else column.dtype
    )  # a list has an entry for each client
    values = column.to_list()
    return (
        _short(values)
        if inner.is_float()
        else hashlib.sha256(repr(values).encode()).hexdigest()[:HEX]
    )


def _short(value):
    return (
        list(map(_short, value))
        if isinstance(value, list)
        else value
        if value is None
        else float(f"{value:.12g}")
    )


def parameters(network, executor="reference"):
    """After two rounds: by how much they changed, in all and along some directions, for
    each run; and the losses.
    """
    from headgate.learning.local import LocalTraining
    from headgate.learning.models import LeNet
    from headgate.learning.networks import build_model

    from ..simulation.executors import worlds

    if network == "lenet":
        world = worlds.world(
            build_model(LeNet(), (1, 28, 28), 10),
            [[2, 0, 5, 1]],
            shape=(1, 28, 28),
            classes=10,
        )
        world = world._replace(theta=world.theta / 5)
    else:
        world = worlds.world(
            {"logistic": worlds.linear, "mlp": worlds.tanh_net}[network](),
            worlds.THREE_RUNS,
        )
    made, start, losses = worlds.ALL[executor](world.task), world.theta, []
    for t in (1, 2):
        theta, loss = world.advance(made, LocalTraining(0.05, 3, momentum=0.5), t)
        world = world._replace(theta=theta)
        losses.append(loss.tolist())
    change = (world.theta - start).numpy()
    angle = np.arange(change.shape[1])
    along = np.stack([np.cos(k * angle + k) for k in range(1, 6)])
    norms = [
        np.linalg.norm(change, axis=1),
        abs(change).max(axis=1),
        change.sum(axis=1),
        *(change @ along.T).T,
    ]
    return {"change": np.stack(norms).tolist(), "losses": losses}


# Flower


@contextlib.contextmanager
def _federation(policy):
    """One of those that the tests of Flower are played with; their own conftest puts
    their helpers on the path, too.
    """
    from headgate.flower import ENVIRONMENT

    if (own := str(ROOT / "tests" / "flower")) not in sys.path:
        sys.path.insert(0, own)
    os.environ |= dict(ENVIRONMENT)  # before Flower is imported
    import worlds

    with contextlib.ExitStack() as stack:
        stack.enter_context(
            mock.patch.object(logging.getLogger("flwr"), "disabled", True)
        )
        stack.enter_context(mock.patch("headgate.books.durable.SYNCHRONOUS", "OFF"))
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        yield worlds.World(
            folder, worlds.an_experiment(policy, 3, **FEDERATIONS[policy])
        )


def wire(policy):
    """All messages and answers of a small federation; texts that differ from run to run
    are left out.
    """
    said = []
    with _federation(policy) as world:
        deliver = world.grid.deliver

        def heard(message):
            reply = deliver(message)
            named = (
                message.metadata.message_type,
                message.metadata.dst_node_id,
                message.metadata.group_id,
            )
            said.append([*named, _content(message), _content(reply)])
            return reply

        world.grid.deliver = heard
        assert world.play()
    return said


def _content(message):
    return {
        f"{name}: {type(record).__name__}": {
            key: (
                [each.dtype, list(each.shape)]
                if hasattr(each, "dtype")
                else "text"
                if key in ("experiment", "nonce")
                else each
            )
            for key, each in sorted(record.items())
        }
        for name, record in sorted(message.content.items())
    }


def formats():
    """The SQL of both stores' tables, the keys of their settings, and the types and
    defaults of every message's fields.
    """
    from headgate.flower import messages

    found = {}
    with _federation("fifo") as world:
        assert world.play()
        for path in (world.folder / "run" / "ledger.sqlite", world.store_of(0)):
            with contextlib.closing(sqlite3.connect(path)) as db:
                rows = db.execute(
                    "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY"
                    " name"
                ).fetchall()
                meta = dict(
                    db.execute("SELECT key, value FROM meta ORDER BY key").fetchall()
                )
            found[path.name] = {
                "sql": dict(rows),
                "meta": sorted(meta),
                "format": meta["format"],
            }
    kinds = (
        messages.Order,
        messages.Receipt,
        messages.Ahead,
        messages.Ended,
        messages.Identity,
    )
    return found | {
        kind.__name__: {own.name: _field(own) for own in fields(kind)} for kind in kinds
    }


def _field(own):
    kind = own.type.__name__ if type(own.type) is type else str(own.type)
    return kind if own.default is MISSING else f"{kind} = {own.default!r}"


# the command line


def typed(words):
    """Exit code, stdout and stderr of a command in an empty folder, without colours, at
    100 columns.
    """
    from headgate.cli import main

    out, err = io.StringIO(), io.StringIO()
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        contextlib.ExitStack() as stack,
    ):
        nowhere = str(Path(folder) / "nowhere")
        stack.enter_context(
            mock.patch.dict(
                os.environ, {"COLUMNS": "100", "HEADGATE_DATA": nowhere, "TERM": "dumb"}
            )
        )
        stack.enter_context(mock.patch.object(sys, "argv", ["headgate", *words]))
        stack.enter_context(
            mock.patch.object(sys.modules["__main__"], "__package__", None, create=True)
        )  # else it is named
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        left = sorted(path.name for path in Path(folder).iterdir())
    plain = (
        re.sub(r"\x1b\[[0-9;]*m", "", text.getvalue()).replace(folder, ".")
        for text in (out, err)
    )
    return (
        code,
        *(
            "".join(f"{line.rstrip()}\n" for line in text.splitlines())
            for text in plain
        ),
        left,
    )


def refusal(command):
    code, out, err, left = typed(command.split())
    return {
        "code": code,
        "said": " ".join(re.sub("[╭╮╰╯─│]", " ", out + err).split()),
        "left": left,
    }


def answers():
    """Command → what it prints, numbers with at most six decimals."""
    return {
        command: re.sub(r"(\.\d{6})\d+", r"\1", typed(command.split())[1])
        for command in ANSWERED
    }


def commands():
    """Command → its arguments and options."""
    from typer.main import get_command

    from headgate.cli.commands import app

    def below(command, *words):
        names = [name for each in command.params for name in each.opts]
        yield " ".join(words), " ".join(names)
        for name, own in getattr(command, "commands", {}).items():
            yield from below(own, *words, name)

    return dict(below(get_command(app)))


GOLDENS = {
    "ledgers": (POLICIES, ledger),
    "frames": (RECIPES, frames),
    "parameters": (NETWORKS, parameters),
    "wire": (FEDERATIONS, wire),
    "refusals": (REFUSED, refusal),
}
"""name → what it is computed for, and how"""
ALONE = {"formats": formats, "commands": commands}
"""name → how it is computed, all of it at once"""


def written(value, depth=3):
    """JSON with a line for each entry, down to a depth."""
    if not depth or not isinstance(value, dict | list) or not value:
        return json.dumps(value, ensure_ascii=False)
    named = isinstance(value, dict)
    lines = (
        (
            f"{json.dumps(key)}: {written(each, depth - 1)}"
            for key, each in value.items()
        )
        if named
        else ()
    )
    inside = ",\n".join(
        lines if named else (written(each, depth - 1) for each in value)
    )
    return f"{{\n{inside}\n}}" if named else f"[\n{inside}\n]"


def main(names):
    for name in names or (*GOLDENS, *ALONE, "answers"):
        if name == "answers":
            (DATA / "answers.txt").write_text(
                "".join(f"{ASKED}{words}\n{out}" for words, out in answers().items()),
                "utf-8",
            )
            continue
        if name in ALONE:
            made = ALONE[name]()
        else:
            cases, compute = GOLDENS[name]
            made = {case: compute(case) for case in cases}
        (DATA / f"{name}.json").write_text(written(made) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
