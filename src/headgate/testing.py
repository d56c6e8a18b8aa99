"""Checks for your own policies, retention rules, selection rules and price processes.

    from headgate.testing import check_policy
    check_policy(MyPolicy())

Each check raises AssertionError with a message on what is wrong. All policies, rules
and prices of headgate pass the checks.
"""

from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from headgate.control.controller import Controller
from headgate.control.files import load_ledger, save_ledger
from headgate.control.policy import AdmissionPolicy, PolicyContext, check_is_policy
from headgate.control.prices import PriceProcess, Uniform
from headgate.control.randomness import Purpose, uniform
from headgate.control.ranking import Candidates, chosen
from headgate.control.retention import Retention
from headgate.control.scores import Scores, scores_of
from headgate.control.selection import Selection
from headgate.control.types import (
    AdmissionRequest,
    Arrays,
    Floats,
    Ints,
    Ledger,
    Losses,
    Orders,
    Report,
    SampleView,
    System,
    View,
)
from headgate.theory.bound import BoundConstants
from headgate.theory.comparison import debt_update
from headgate.theory.reuse import effective_sample_size

RUNS = 3


def a_system(horizon: int | None = 40) -> System:
    """Return a system of five unequal clients that is small enough to check by brute
    force.
    """
    return System(np.array([3, 1, 7, 4, 5]), budget=11.0, horizon=horizon)


def check_policy(
    policy: AdmissionPolicy,
    system: System | None = None,
    rounds: int = 40,
    prices: PriceProcess | None = None,
) -> None:
    """Check that a policy is pure, causal, independent of the batch, resumable from a
    file and correct in its accounts.

    The arrays of its memory must keep their names, shapes and types from round to
    round, and hold finite numbers. A policy that listens is checked both without
    losses, as in a rehearsal, and with losses of which some are missing.
    """
    check_is_policy(policy)
    system, prices = system or a_system(rounds), prices or Uniform(1.0, 10.0)
    policy = policy.resolved(
        PolicyContext(system, prices, BoundConstants(), np.arange(RUNS), rounds)
    )
    path = prices.path(np.arange(RUNS), 1, rounds + 1)
    controller = Controller(system, policy, RUNS)
    for reporting in (False, True) if policy.listens else (False,):
        history = list(_play(controller, path, reporting=reporting))
        _check_accounts(controller, history)
        _check_samples(controller, history)
        _check_purity(controller, history, path)
        alone = (Controller(system, policy, 1, np.array([r])) for r in range(RUNS))
        _check_batch(alone, history, path, reporting)
        _check_causality(controller, history, path, reporting)
        _check_file(controller, history, path, reporting)


def check_retention(
    retention: Retention, system: System | None = None, rounds: int = 40
) -> None:
    """Check that a rule keeps as many samples as there is room for, that dropped
    samples do not return, that use counts are exact, and that a run gives the same
    alone as in a batch, for admissions of all sizes.

    A rule that needs `scores` is checked without a model, as in a rehearsal, with
    scores of all sizes, and with the zero scores of a model that has diverged.
    """
    system = system or a_system(rounds)
    models = (None, _scores, _broken) if retention.scores else (None,)
    for seed, scores in ((seed, scores) for seed in range(3) for scores in models):
        samples = SampleView(_labels, scores)
        controller = Controller(system, _Scripted(retention, seed), RUNS)
        path = np.ones((RUNS, rounds))
        history = list(_play(controller, path, samples=samples))
        _check_accounts(controller, history)
        _check_samples(controller, history)
        _check_purity(controller, history, path, samples)
        runs = ((_Scripted(retention, seed, r), np.array([r])) for r in range(RUNS))
        if (
            history[0][0].places is not None
        ):  # a window rule makes no choice, and its settings may differ between runs
            _check_batch(
                (Controller(system, policy, 1, own) for policy, own in runs),
                history,
                path,
                samples=samples,
            )


def check_prices(prices: PriceProcess, rounds: int = 400, seeds: int = 200) -> None:
    """Check that prices are finite, not negative, a function of seed and round alone,
    and on average as `mean` states.

    The paths of a process with a price per client are (seeds, rounds, clients).
    """
    many = np.arange(seeds)
    path = prices.path(many, 1, rounds + 1)
    _need(
        path.shape[:2] == (seeds, rounds),
        f"path has shape {path.shape}, expected {(seeds, rounds)}",
    )
    _need(
        bool(np.all(np.isfinite(path) & (path >= 0))),
        "a price is negative or not finite",
    )
    middle = rounds // 3
    _same(
        prices.path(many, middle, rounds),
        path[:, middle - 1 : rounds - 1],
        "a price depends on where path starts",
    )
    _same(
        prices.path(many, 1, middle),
        path[:, : middle - 1],
        "a price depends on how many are asked for",
    )
    _same(
        prices.path(many[7:9], 1, rounds + 1),
        path[7:9],
        "a price depends on the other seeds",
    )
    by_seed = path.reshape(seeds, -1).mean(axis=1)
    spread = by_seed.std() / np.sqrt(seeds)
    off = abs(by_seed.mean() - prices.mean(rounds))
    _need(
        off <= 5 * spread + 1e-9,
        f"the mean price is {by_seed.mean():.6g}, but mean says"
        f" {prices.mean(rounds):.6g}",
    )


def check_selection(selection: Selection, clients: int = 6, rounds: int = 40) -> None:
    """Check that a rule uses no labels and buys exactly as many samples of a window as
    were ordered. A second call must choose the same samples, the offers of other
    clients must not matter, and the arguments must stay unchanged.

    The scores of the model are artificial: random, equal for all samples, or 0.
    """
    selection.check()
    for t in range(rounds):
        offered = _an_offer(selection, t, clients)
        copy = deepcopy(offered)
        takes = chosen(selection, offered)
        _need(
            np.array_equal(takes, chosen(selection, offered)),
            f"offer {t}: asked twice, the rule chooses other samples",
        )
        _same(offered, copy, f"offer {t}: the rule changed what it was given")
        for row in np.flatnonzero(offered.there.any(axis=1)).tolist():
            there = np.flatnonzero(offered.there[row])
            alone = _offer_of(offered, row, there)
            _same(
                chosen(selection, alone)[0],
                takes[row, there],
                f"offer {t}: client {row} chooses other samples alone",
            )


def _an_offer(selection: Selection, t: int, clients: int) -> Candidates:
    """Return windows of up to 12 samples with gaps, 4 classes and 5 features, and up to
    3 held samples for each client.
    """

    def drawn(part: int, *shape: int) -> Floats:
        size = int(np.prod(shape))
        return uniform(part, Purpose.PARTITION, t * 10_000 + np.arange(size)).reshape(
            shape
        )

    window = 1 + t % 12
    there = drawn(1, clients, window) < (0.6 if t % 3 else 1.0)
    position = np.where(
        there,
        40 * t
        + np.cumsum(1 + (3 * drawn(2, clients, window)).astype(np.int64), axis=1),
        -1,
    )
    ordered = np.floor(drawn(3, clients) * (there.sum(axis=1) + 1)).astype(np.int64)[
        :, None
    ]
    kind = (1.0, 0.0)[t % 5 == 4]

    def random(part: int, *shape: int) -> Floats:
        values = kind * np.round(drawn(part, *shape), 1 if t % 2 else 15)
        return np.where(
            there.reshape(*there.shape, *[1] * (values.ndim - 2)), values, 0.0
        )

    every = {
        "entropy": random(4, clients, window),
        "margin": random(5, clients, window),
        "guess": random(6, clients, window, 4) - 0.25 * there[..., None],
        "features": random(7, clients, window, 5),
    }
    scores = (
        Scores(**{name: every[name] for name in selection.scores})
        if selection.scores
        else None
    )
    seed, client = np.full((clients, 1), t), np.arange(clients)[:, None]
    offered = Candidates(
        position, ordered, seed, client, scores=scores, purpose=Purpose.SELECTION
    )
    if not selection.beside_held:
        return offered
    held_there = drawn(8, clients, 3) < 0.7
    return offered._replace(
        held=drawn(9, clients, 3, 5) * held_there[..., None], held_there=held_there
    )


def _offer_of(offered: Candidates, row: int, there: Ints) -> Candidates:
    """Return the offer of one client alone, without empty places."""
    own = slice(row, row + 1)
    known = offered._asdict()
    for name in ("room", "seed", "client", "held", "held_there"):
        known[name] = None if known[name] is None else known[name][own]
    if offered.scores is not None:
        known["scores"] = Scores(
            *(None if each is None else each[own][:, there] for each in offered.scores)
        )
    return Candidates(**known | {"position": offered.position[own][:, there]})


Step = tuple[Ledger, Orders, Ledger]


def _play(
    controller: Controller,
    prices: Floats,
    ledger: Ledger | None = None,
    reporting: bool = False,
    samples: SampleView | None = None,
) -> Iterator[Step]:
    samples = samples or SampleView(_labels)
    before = controller.open() if ledger is None else ledger
    for t in range(before.t, prices.shape[1]):
        orders = controller.decide(before, prices[:, t].copy())
        report = (
            Report(orders.admitted, losses=_losses(controller, orders))
            if reporting
            else None
        )
        after = controller.post(before, orders, report, samples)
        yield before, orders, after
        before = after


def _losses(controller: Controller, orders: Orders) -> Losses:
    """Return losses from 0 to large, NaN where a client admitted nothing and at random
    where it reports nothing.
    """
    seeds = controller.buffers.seeds[:, None]
    clients = np.arange(controller.system.clients)
    large, kept, silent = (
        uniform(seeds, Purpose.PRICE, orders.t, 3 * clients + part) for part in range(3)
    )
    new = np.where(
        (orders.admitted > 0) & (silent < 0.8), np.floor(5 * large) ** 3, np.nan
    )
    return Losses(
        new, np.where(silent > 0.1, kept * np.where(np.isnan(new), 1.0, new), np.nan)
    )


def _check_accounts(controller: Controller, history: list[Step]) -> None:
    """Check that Z and spend follow from the orders, that samples carried over stay
    below one, and that memory is finite.
    """
    debt, spent = np.zeros(controller.runs), np.zeros(controller.runs)
    for _, orders, after in history:
        _need(
            bool(np.all(orders.admitted >= 0)),
            f"round {orders.t}: a negative admission",
        )
        charge = orders.charge(orders.admitted)
        _need(bool(np.all(charge >= 0)), f"round {orders.t}: a negative charge")
        debt, spent = (
            debt_update(debt, charge, controller.system.budget),
            spent + charge,
        )
        _same(
            (debt, spent),
            (after.debt, after.spent),
            f"round {orders.t}: the accounts are off",
        )
        _need(
            bool(np.all((orders.carry > -1e-6) & (orders.carry < 1))),
            f"round {orders.t}: a remainder of a sample or more",
        )
        for name, array in after.memory.items():
            finite = array.dtype.kind != "f" or bool(np.isfinite(array).all())
            _need(
                finite,
                f"round {orders.t}: memory[{name!r}] holds a number that is not finite",
            )


def _labels(runs: Ints, clients: Ints, positions: Ints) -> Ints:
    """Return labels in three unequal classes; they are the same in every run, because
    rows of a batch have no number.
    """
    return np.take(
        [0, 0, 0, 1, 1, 2],
        (6 * uniform(0, Purpose.PARTITION, positions, clients)).astype(np.int64),
    )


def _scores(
    runs: Ints, clients: Ints, positions: Ints, asked: tuple[str, ...]
) -> Scores:
    """Return the scores of a model for these classes whose last layer has three inputs
    and a bias; the same in every run.
    """
    drawn = uniform(
        0, Purpose.PRICE, 8 * positions[:, None] + np.arange(6), clients[:, None]
    )
    features = np.insert(drawn[:, 3:] - 0.3, 3, 1.0, axis=1)
    return scores_of(
        asked, 8 * drawn[:, :3], _labels(runs, clients, positions), features
    )


def _broken(
    runs: Ints, clients: Ints, positions: Ints, asked: tuple[str, ...]
) -> Scores:
    return scores_of(
        asked,
        np.full((len(runs), 3), np.nan),
        _labels(runs, clients, positions),
        np.full((len(runs), 4), np.nan),
    )


def _in_memory(ledger: Ledger, run: int, client: int) -> list[int]:
    """Return the positions in a client's stream of the samples that it holds."""
    if ledger.places is None:
        return list(range(ledger.dropped[run, client], ledger.admitted[run, client]))
    return [int(place) for place in ledger.places[run, client] if place >= 0]


def _check_samples(controller: Controller, history: list[Step]) -> None:
    """Follow every sample one by one: dropped samples stay away, clients hold at most
    their capacity, and N_eff is Kish's.
    """
    limit = controller.buffers.limit
    uses: dict[tuple[int, int, int], int] = {}
    for before, orders, after in history:
        _need(
            np.array_equal(after.admitted, before.admitted + orders.admitted),
            f"round {orders.t}: admissions do not add up",
        )
        _need(
            bool(np.all(after.dropped >= before.dropped)),
            f"round {orders.t}: a dropped sample came back",
        )
        _need(
            bool(np.all(after.occupancy >= 0)),
            f"round {orders.t}: more was dropped than admitted",
        )
        _need(
            np.array_equal(orders.first, after.dropped),
            f"round {orders.t}: orders and ledger name different windows",
        )
        if limit is not None:
            _need(
                bool(np.all(after.occupancy <= limit)),
                f"round {orders.t}: a client holds more than its capacity",
            )
            _need(
                bool(np.all(orders.admitted <= limit)),
                f"round {orders.t}: samples were ordered that no one can hold",
            )
        for r, m in np.ndindex(after.admitted.shape):
            held, could = _in_memory(after, r, m), _in_memory(before, r, m)
            could += range(before.admitted[r, m], after.admitted[r, m])
            _need(held == sorted(set(held)), f"round {orders.t}: places do not ascend")
            _need(
                len(held) == after.occupancy[r, m],
                f"round {orders.t}: the ledger does not count what is in memory",
            )
            _need(
                set(held) <= set(could), f"round {orders.t}: a dropped sample came back"
            )
            for i in held:
                uses[r, m, i] = uses.get((r, m, i), 0) + 1
    last = history[-1][2]
    for r in range(controller.runs):
        counts = np.array(
            [count for key, count in uses.items() if key[0] == r], dtype=np.int64
        )
        _need(
            counts.size == last.distinct[r],
            f"run {r}: N is {last.distinct[r]}, but {counts.size} samples were ever"
            " used",
        )
        _need(
            counts.sum() == last.uses[r] and (counts**2).sum() == last.squared_uses[r],
            f"run {r}: use counts are off",
        )
        kish = counts.sum() ** 2 / max((counts**2).sum(), 1)
        _need(
            bool(effective_sample_size(last.uses, last.squared_uses)[r] == kish),
            f"run {r}: N_eff is off",
        )


def _check_purity(
    controller: Controller,
    history: list[Step],
    prices: Floats,
    samples: SampleView | None = None,
) -> None:
    samples = samples or SampleView(_labels)
    for before, orders, after in history[::5]:
        copy = deepcopy(before)
        again = controller.decide(before, prices[:, before.t].copy())
        _same_fields(orders, again, f"round {orders.t}: decide is not repeatable")
        _same_fields(
            before, copy, f"round {orders.t}: decide changed {{}} of the ledger"
        )
        contents = controller.post(before, again, samples=samples).contents
        _same(
            contents,
            after.contents,
            f"round {orders.t}: asked twice, the rule keeps other samples",
        )
        _same_fields(
            before,
            copy,
            f"round {orders.t}: post changed {{}} of the ledger it was given",
        )


def _check_batch(
    controllers: Iterable[Controller],
    history: list[Step],
    prices: Floats,
    reporting: bool = False,
    samples: SampleView | None = None,
) -> None:
    """Check that each run alone gives the same as in the batch; `controllers` have one
    run each.
    """
    for r, controller in enumerate(controllers):
        own_prices = prices[r : r + 1]
        alone = list(
            _play(controller, own_prices, reporting=reporting, samples=samples)
        )
        for (_, orders, after), (_, own_orders, own) in zip(
            history, alone, strict=True
        ):
            _same(
                orders.admitted[r],
                own_orders.admitted[0],
                f"round {orders.t}: run {r} decides differently alone",
            )
            if after.places is not None and own.places is not None:
                _same(
                    after.places[r],
                    own.places[0],
                    f"round {orders.t}: run {r} keeps other samples alone",
                )
            for name in ("debt", "uses", "squared_uses", "distinct"):
                _same(
                    getattr(after, name)[r],
                    getattr(own, name)[0],
                    f"round {orders.t}: run {r} has other {name} alone",
                )


def _check_causality(
    controller: Controller, history: list[Step], prices: Floats, reporting: bool
) -> None:
    half = prices.shape[1] // 2
    other = prices.copy()
    other[:, half:] = prices.max() + prices.min() - other[:, half:]
    for (_, orders, _), (_, changed, _) in zip(
        history[:half], _play(controller, other, reporting=reporting), strict=False
    ):
        _same_fields(
            orders, changed, f"round {orders.t}: a later price changed the decision"
        )


def _check_file(
    controller: Controller, history: list[Step], prices: Floats, reporting: bool
) -> None:
    middle = history[len(history) // 2][2]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.npz"
        save_ledger(middle, path)
        loaded = load_ledger(path, controller)
    _same_fields(middle, loaded, "{} does not survive its file")
    resumed = list(_play(controller, prices, loaded, reporting))
    for (_, orders, _), (_, again, _) in zip(history[middle.t :], resumed, strict=True):
        _same_fields(
            orders, again, f"round {orders.t}: differs after a restart from a file"
        )


@dataclass(frozen=True, eq=False)
class _Scripted(AdmissionPolicy):
    """A policy with random admissions of all sizes, including empty rounds and
    bursts.
    """

    rule: Retention
    seed: int
    first: int = 0
    """the number of the first run"""

    def retention(self, system: System) -> Retention:
        return self.rule

    def admit(self, view: View, memory: Arrays) -> tuple[AdmissionRequest, Arrays]:
        runs = self.first + np.arange(view.debt.size)
        draw = uniform(self.seed, Purpose.PRICE, view.t, runs)
        sizes = np.array(
            [0.0, 0.4, 1.0, 3.3, float(view.system.all_places), 2.5 * view.system.all_places]
        )
        return AdmissionRequest(sizes[(draw * len(sizes)).astype(int)]), memory


def _same_fields(one: Orders | Ledger, other: Orders | Ledger, message: str) -> None:
    """Compare two objects field by field; `{}` in the message becomes the name of the
    field that differs.
    """
    for f in fields(one):
        _same(getattr(one, f.name), getattr(other, f.name), message.format(f.name))


def _same(one: Any, other: Any, message: str) -> None:
    if isinstance(one, dict):
        _need(
            one.keys() == other.keys()
            and all(np.array_equal(one[name], other[name]) for name in one),
            message,
        )
    elif isinstance(one, tuple):
        for own, its in zip(one, other, strict=True):
            _same(own, its, message)
    else:
        missing = (
            isinstance(one, np.ndarray) and one.dtype.kind == "f"
        )  # losses may be NaN
        _need(np.array_equal(one, other, equal_nan=missing), message)


def _need(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)
