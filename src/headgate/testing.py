"""Checks for your own policies, retention rules, selection rules, price processes and
label queues.

    from headgate.testing import check_policy
    check_policy(MyPolicy())

Each check raises AssertionError with a message on what is wrong. All policies, rules
and prices of headgate pass the checks.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from headgate.control.controller import Controller, debt_update
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

if TYPE_CHECKING:
    from headgate.labels.nouns import LabelTask, Queue

__all__ = [
    "a_system",
    "check_policy",
    "check_prices",
    "check_queue",
    "check_retention",
    "check_selection",
]
RUNS = 3


def a_system(horizon: int | None = 40) -> System:
    """Return a system of five unequal clients that is small enough to check by brute
    force.

    Parameters
    ----------
    horizon : int, optional
        The number of rounds that policies know; None: the run has no known end.

    Returns
    -------
    System
        Buffers for 20 samples and a budget of 11 a round.

    Examples
    --------
    >>> a_system().all_places
    20
    """
    return System(
        np.array([3, 1, 7, 4, 5]),
        budget=11.0,
        horizon=horizon,
    )


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

    Parameters
    ----------
    policy : AdmissionPolicy
        The policy to check.
    system : System, optional
        The system for which it decides; by default that of `a_system`.
    rounds : int
        The number of rounds to play.
    prices : PriceProcess, optional
        The prices; by default uniform between 1 and 10.

    Raises
    ------
    AssertionError
        If a check fails; the message states what is wrong.
    SettingError
        If no controller can use the policy at all.

    Examples
    --------
    >>> from headgate.control.policies import Headgate
    >>> check_policy(Headgate(), rounds=5)  # silent where nothing is wrong
    """
    check_is_policy(policy)
    system = system or a_system(rounds)
    prices = prices or Uniform(1.0, 10.0)
    policy = policy.resolved(
        PolicyContext(system, prices, BoundConstants(), np.arange(RUNS), rounds)
    )
    path = prices.path(np.arange(RUNS), 1, rounds + 1)
    controller = Controller(system, policy, RUNS)
    alone = [Controller(system, policy, 1, np.array([run])) for run in range(RUNS)]
    for reporting in (False, True) if policy.listens else (False,):
        trial = _Trial(controller, path, reporting=reporting)
        trial.check_rounds()
        trial.check_alone(alone)
        trial.check_causality()
        trial.check_file()


def check_retention(
    retention: Retention,
    system: System | None = None,
    rounds: int = 40,
) -> None:
    """Check that a rule keeps what fits, and the same samples alone as in a batch, for
    admissions of all sizes.

    A rule that needs `scores` is
    checked without a model, as in a rehearsal, with scores of all sizes, and with the
    zero scores of a model that has diverged.

    Parameters
    ----------
    retention : Retention
        The rule to check.
    system : System, optional
        The system whose clients hold the samples; by default that of `a_system`.
    rounds : int
        The number of rounds to play.

    Raises
    ------
    AssertionError
        If a check fails; the message states what is wrong.
    SettingError
        If no controller can use the rule at all.

    Examples
    --------
    >>> from headgate.control import Fifo
    >>> check_retention(Fifo(), rounds=5)  # silent where nothing is wrong
    """
    system = system or a_system(rounds)
    path = np.ones((RUNS, rounds))
    models = (None, _scores, partial(_scores, factor=np.nan))
    for seed, scores in product(range(3), models if retention.scores else (None,)):
        policy = _Scripted(retention, seed)
        samples = SampleView(_labels, scores)
        trial = _Trial(Controller(system, policy, RUNS), path, samples)
        trial.check_rounds()
        if trial.last.places is None:
            # A window rule makes no choice, and its settings may differ between runs.
            continue
        alone = [
            Controller(system, replace(policy, first=run), 1, np.array([run]))
            for run in range(RUNS)
        ]
        trial.check_alone(alone)


def check_prices(
    prices: PriceProcess,
    rounds: int = 400,
    seeds: int = 200,
) -> None:
    """Check that prices are finite, not negative, a function of seed and round alone,
    and on average as `mean` states.

    The paths of a process with a price per client are (seeds, rounds, clients).

    Parameters
    ----------
    prices : PriceProcess
        The process to check.
    rounds : int
        The number of rounds of each path.
    seeds : int
        The number of paths, at least 10.

    Raises
    ------
    AssertionError
        If a check fails; the message states what is wrong.

    Examples
    --------
    >>> check_prices(Uniform(1.0, 10.0))  # silent where nothing is wrong
    """
    many = np.arange(seeds)
    path = prices.path(many, 1, rounds + 1)
    _need(
        path.shape[:2] == (seeds, rounds),
        f"path has shape {path.shape}, expected {(seeds, rounds)}",
    )
    _need(np.isfinite(path) & (path >= 0), "a price is negative or not finite")

    middle = rounds // 3
    late = prices.path(many, middle, rounds)
    _same(late, path[:, middle - 1 : -1], "a price depends on where path starts")
    early = prices.path(many, 1, middle)
    _same(early, path[:, : middle - 1], "a price depends on how many are asked for")
    some = prices.path(many[7:9], 1, rounds + 1)
    _same(some, path[7:9], "a price depends on the other seeds")

    by_seed = path.reshape(seeds, -1).mean(axis=1)
    found, stated = by_seed.mean(), prices.mean(rounds)
    error = by_seed.std() / np.sqrt(seeds)
    _need(
        abs(found - stated) <= 5 * error + 1e-9,
        f"the mean price is {found:.6g}, but mean says {stated:.6g}",
    )


def check_queue(
    queue: "Queue | str",
    act: "Callable[[str, LabelTask], object] | None" = None,
    seen: Callable[[], Iterable[tuple[str, str]]] | None = None,
    **settings: Any,
) -> None:
    """Check that a label queue can be asked again after a kill: nothing is released
    twice, and no answer is lost by a start.

    It releases a few tasks for clients named north and south, so check a queue that is
    not in use.

    Parameters
    ----------
    queue : Queue or str
        The queue, or its name as `module:Class`.
    act : callable, optional
        Function of what labellers do ("labelled", "skipped" or "rejected") and the
        task, which does it. Left out: only what needs no labellers is checked.
    seen : callable, optional
        Function that returns client and key of each task that labellers see, as often
        as they see it.
    **settings
        Settings of the queue, if it is named.

    Raises
    ------
    AssertionError
        If a check fails; the message states what is wrong.
    SettingError
        If the queue cannot be made.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> check_queue("folder", tasks=mkdtemp(), labels=mkdtemp())  # nothing is wrong
    """
    from headgate.labels.checking import check

    check(queue, act, seen, **settings)


def check_selection(
    selection: Selection,
    clients: int = 6,
    rounds: int = 40,
) -> None:
    """Check that a rule uses no labels and buys exactly as many samples of a window as
    were ordered.

    A second call must choose the same samples, the offers of other clients must not
    matter, and the arguments must stay unchanged. The scores of the model are
    artificial: random, equal for all samples, or 0.

    Parameters
    ----------
    selection : Selection
        The rule to check.
    clients : int
        The number of clients that are offered samples.
    rounds : int
        The number of offers to each client.

    Raises
    ------
    AssertionError
        If a check fails; the message states what is wrong.
    SettingError
        If the rule cannot be used at all.

    Examples
    --------
    >>> from headgate.control import ByMargin
    >>> check_selection(ByMargin())  # silent where nothing is wrong
    """
    selection.check()
    for t in range(rounds):
        offered = _an_offer(selection, t, clients)
        copy = deepcopy(offered)
        takes = chosen(selection, offered)
        again = chosen(selection, offered)
        _same(again, takes, f"offer {t}: asked twice, the rule chooses other samples")
        _same(offered, copy, f"offer {t}: the rule changed what it was given")
        for row in np.flatnonzero(offered.there.any(axis=1)).tolist():
            there = np.flatnonzero(offered.there[row])
            alone = chosen(selection, _offer_of(offered, row, there))
            _same(
                alone[0],
                takes[row, there],
                f"offer {t}: client {row} chooses other samples alone",
            )


def _an_offer(
    selection: Selection,
    t: int,
    clients: int,
) -> Candidates:
    """Return windows of up to 12 samples with gaps, 4 classes and 5 features, and up to
    3 held samples for each client.
    """

    random = np.random.default_rng(t)
    window = 1 + t % 12
    there = random.random((clients, window)) < (0.6 if t % 3 else 1.0)
    steps = random.integers(1, 4, there.shape)
    offered = Candidates(
        position=np.where(there, 40 * t + np.cumsum(steps, axis=1), -1),
        room=random.integers(
            0,
            there.sum(
                axis=1,
                keepdims=True,
            )
            + 1,
        ),
        seed=np.full((clients, 1), t),
        client=np.arange(clients)[:, None],
        purpose=Purpose.SELECTION,
    )

    def score(*shape: int) -> Floats:
        values = random.random((*there.shape, *shape))
        if t % 5 == 4:
            values[:] = 0.0
        if t % 2:
            values = values.round(1)
        values[~there] = 0.0
        return values

    if selection.scores:
        every = {
            "entropy": score(),
            "margin": score(),
            "guess": score(4) - 0.25 * there[..., None],
            "features": score(5),
        }
        asked = {name: every[name] for name in selection.scores}
        offered = offered._replace(scores=Scores(**asked))
    if selection.beside_held:
        held_there = random.random((clients, 3)) < 0.7
        held = random.random((clients, 3, 5))
        held[~held_there] = 0.0
        offered = offered._replace(
            held=held,
            held_there=held_there,
        )
    return offered


def _offer_of(
    offered: Candidates,
    row: int,
    there: Ints,
) -> Candidates:
    """Return the offer of one client alone, without empty places."""
    own = slice(row, row + 1)
    known: dict[str, Any] = {
        name: array[own]
        for name, array in offered._asdict().items()
        if isinstance(array, np.ndarray)
    }
    known["position"] = known["position"][:, there]
    if offered.scores is not None:
        scores = (each if each is None else each[own] for each in offered.scores)
        known["scores"] = Scores(
            *(each if each is None else each[:, there] for each in scores)
        )
    return offered._replace(**known)


def _labels(
    runs: Ints,
    clients: Ints,
    positions: Ints,
) -> Ints:
    """Return labels in three unequal classes; they are the same in every run, because
    rows of a batch have no number.
    """
    classes = np.array([0, 0, 0, 1, 1, 2])
    drawn = uniform(0, Purpose.PARTITION, positions, clients)
    return classes[(6 * drawn).astype(np.int64)]


def _scores(
    runs: Ints,
    clients: Ints,
    positions: Ints,
    asked: tuple[str, ...],
    factor: float = 1.0,
) -> Scores:
    """Return the scores of a model for these classes whose last layer has three inputs
    and a bias; the same in every run. The `factor` is NaN for a model that has
    diverged.
    """
    index = 8 * positions[:, None] + np.arange(6)
    drawn = factor * uniform(0, Purpose.PRICE, index, clients[:, None])
    logits = 8 * drawn[:, :3]
    features = np.insert(drawn[:, 3:] - 0.3, 3, 1.0, axis=1)
    return scores_of(asked, logits, _labels(runs, clients, positions), features)


Step = tuple[Ledger, Orders, Ledger]
"""the ledger before a round, the orders of the round and the ledger after it"""


class _Trial:
    """All rounds of some runs, played at given prices, and checks of these rounds.

    Clients report losses if the trial is `reporting`.
    """

    def __init__(
        self,
        controller: Controller,
        prices: Floats,
        samples: SampleView | None = None,
        reporting: bool = False,
    ) -> None:
        self.controller = controller
        self.prices = prices
        self.samples = samples or SampleView(_labels)
        self.reporting = reporting
        self.history = list(self.play(controller.open()))
        self.last = self.history[-1][2]

    def play(self, ledger: Ledger) -> Iterator[Step]:
        """Yield the rounds after those of the ledger."""
        for t in range(ledger.t, self.prices.shape[1]):
            orders = self.controller.decide(ledger, self.prices[:, t].copy())
            report = None
            if self.reporting:
                report = Report(orders.admitted, losses=self.losses(orders))
            after = self.controller.post(ledger, orders, report, self.samples)
            yield ledger, orders, after
            ledger = after

    def losses(self, orders: Orders) -> Losses:
        """Return losses from 0 to large, NaN where a client admitted nothing and at
        random where it reports nothing.
        """
        seeds = self.controller.buffers.seeds[:, None]
        index = 3 * np.arange(self.controller.system.clients)
        large, kept, silent = (
            uniform(seeds, Purpose.PRICE, orders.t, index + part) for part in range(3)
        )
        reported = (orders.admitted > 0) & (silent < 0.8)
        size = np.floor(5 * large) ** 3
        new = np.where(reported, size, np.nan)
        old = kept * np.where(reported, size, 1.0)
        return Losses(new, np.where(silent > 0.1, old, np.nan))

    def check_rounds(self) -> None:
        """Check the accounts, the samples and the repeatability of every round."""
        self.check_accounts()
        self.check_samples()
        self.check_purity()

    def check_accounts(self) -> None:
        """Check that Z and spend follow from the orders, that samples carried over stay
        below one, and that memory is finite.
        """
        debt = spent = np.zeros(self.controller.runs)
        for _, orders, after in self.history:
            charge = orders.charge(orders.admitted)
            debt = debt_update(debt, charge, self.controller.system.budget)
            spent = spent + charge
            carry = orders.carry
            facts = {
                "a negative admission": orders.admitted >= 0,
                "a negative charge": charge >= 0,
                "the accounts are off": (debt == after.debt) & (spent == after.spent),
                "a remainder of a sample or more": (carry > -1e-6) & (carry < 1),
            }
            _need_all(orders.t, facts | _finite(after.memory))
        controller = self.controller
        begun = controller.policy.start(controller.system, controller.runs)
        _need_all(1, _finite(begun))

    def check_samples(self) -> None:
        """Check that samples that were dropped stay away, and that clients hold at most
        their capacity.
        """
        limit = self.controller.buffers.limit
        most = np.inf if limit is None else limit
        for before, orders, after in self.history:
            new = orders.admitted
            facts = {
                "admissions do not add up": after.admitted == before.admitted + new,
                "a dropped sample came back": after.dropped >= before.dropped,
                "more was dropped than admitted": after.occupancy >= 0,
                "a client holds more than its capacity": after.occupancy <= most,
                "samples were ordered that no one can hold": new <= most,
            }
            _need_all(orders.t, facts)

    def check_purity(self) -> None:
        """Check that `decide` and `post` repeat and leave their ledger unchanged."""
        for before, orders, after in self.history[::5]:
            where = f"round {orders.t}"
            copy = deepcopy(before)
            again = self.controller.decide(before, self.prices[:, before.t].copy())
            _same_fields(orders, again, f"{where}: decide is not repeatable")
            _same_fields(before, copy, f"{where}: decide changed {{}} of the ledger")

            contents = self.controller.post(
                before, again, samples=self.samples
            ).contents
            _same(
                contents,
                after.contents,
                f"{where}: asked twice, the rule keeps other samples",
            )
            _same_fields(
                before,
                copy,
                f"{where}: post changed {{}} of the ledger it was given",
            )

    def check_alone(self, controllers: Iterable[Controller]) -> None:
        """Check that each run gives the same alone as in the batch; each of the
        controllers has one run.
        """
        for run, controller in enumerate(controllers):
            prices = self.prices[run : run + 1]
            alone = _Trial(controller, prices, self.samples, self.reporting)
            for (_, orders, after), (_, own_orders, own) in zip(
                self.history, alone.history, strict=True
            ):
                where = f"round {orders.t}: run {run}"
                _same(
                    orders.admitted[run],
                    own_orders.admitted[0],
                    f"{where} decides differently alone",
                )
                if after.places is not None and own.places is not None:
                    _same(
                        after.places[run],
                        own.places[0],
                        f"{where} keeps other samples alone",
                    )
                for name in ("debt", "uses", "squared_uses", "distinct"):
                    _same(
                        getattr(after, name)[run],
                        getattr(own, name)[0],
                        f"{where} has other {name} alone",
                    )

    def check_causality(self) -> None:
        """Check that the first half of the orders is the same at other later prices."""
        half = self.prices.shape[1] // 2
        other = self.prices.copy()
        other[:, half:] = other.max() + other.min() - other[:, half:]
        changed = _Trial(self.controller, other, self.samples, self.reporting)
        self.check_orders(changed.history[:half], "a later price changed the decision")

    def check_file(self) -> None:
        """Check that a run gives the same when it is resumed from a file."""
        middle = self.history[len(self.history) // 2][2]
        with TemporaryDirectory() as folder:
            path = Path(folder) / "ledger.npz"
            save_ledger(middle, path)
            loaded = load_ledger(path, self.controller)
        _same_fields(middle, loaded, "{} does not survive its file")
        self.check_orders(self.play(loaded), "differs after a restart from a file")

    def check_orders(self, steps: Iterable[Step], difference: str) -> None:
        """Check that these steps have the orders of the same rounds of the history."""
        for before, again, _ in steps:
            _, orders, _ = self.history[before.t]
            _same_fields(orders, again, f"round {orders.t}: {difference}")


@dataclass(
    frozen=True,
    eq=False,
)
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
        places = float(view.system.all_places)
        sizes = np.array([0.0, 0.4, 1.0, 3.3, places, 2.5 * places])
        asked = sizes[(draw * len(sizes)).astype(int)]
        return AdmissionRequest(asked), memory


def _same_fields(
    one: Orders | Ledger,
    other: Orders | Ledger,
    message: str,
) -> None:
    """Compare two objects field by field; `{}` in the message becomes the name of the
    field that differs.
    """
    for f in fields(one):
        _same(getattr(one, f.name), getattr(other, f.name), message.format(f.name))


def _same(
    one: Any,
    other: Any,
    message: str,
) -> None:
    """Compare arrays, or dicts and tuples of arrays; losses may be NaN in both."""
    try:
        np.testing.assert_equal(one, other)
    except AssertionError:
        raise AssertionError(message) from None


def _finite(memory: Mapping[str, Any]) -> dict[str, Any]:
    """Return for each array of a memory whether its numbers are finite."""
    return {
        f"memory[{name!r}] holds a number that is not finite": (
            array.dtype.kind != "f" or np.isfinite(array)
        )
        for name, array in memory.items()
    }


def _need_all(t: int, facts: Mapping[str, Any]) -> None:
    """Refuse a round by the message of the first fact that does not hold everywhere."""
    for message, fact in facts.items():
        _need(fact, f"round {t}: {message}")


def _need(fact: Any, message: str) -> None:
    if not np.all(fact):
        raise AssertionError(message)
