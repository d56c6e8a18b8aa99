"""Admission around any strategy of Flower: headgate orders what each client may admit,
and settles and records the replies.

The inner strategy samples clients, configures and averages; it does not see orders.
`start` works like Flower's, with two differences: it continues the run in the run
folder, and every wait has a limit.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from logging import INFO, WARNING
from pathlib import Path
from typing import Any, cast

import numpy as np
from flwr.app import (
    ArrayRecord,
    ConfigRecord,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.common import log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedXgbBagging, FedXgbCyclic, Result, Strategy
from numpy.typing import ArrayLike

from headgate.books.border import prices_for
from headgate.books.durable import on_disk
from headgate.books.nouns import Event
from headgate.books.saved import money_text
from headgate.books.statement import statement
from headgate.books.updates import NamedArrays, in_type_of
from headgate.control.checks import amount, path, true_or_false, whole_number
from headgate.control.policies.budgeted.base import BudgetedPolicy
from headgate.control.prices.live import Live
from headgate.control.types import Floats, Ints, Ledger
from headgate.errors import SettingError, require
from headgate.escaping import one_line, shown
from headgate.experiment import Experiment
from headgate.experiment.build import build
from headgate.experiment.recipes import read_recipe
from headgate.flower.accounts import OpenRound, Settlement
from headgate.flower.averaging import Averaging
from headgate.flower.border import function, instance, items, writable_texts
from headgate.flower.keys import VARIABLE
from headgate.flower.logs import shorten_refusals
from headgate.flower.messages import (
    RECORD,
    Ended,
    Order,
    to_wire,
)
from headgate.flower.parameters import (
    StrategyMemory,
    keep_only,
    model_of,
    numpy_of,
    read_parameters,
    record_of,
    write_parameters,
)
from headgate.flower.playable import check_playable
from headgate.flower.roster import (
    ANSWER_WITHIN,
    ClientGrid,
    Roster,
    TooFewNodes,
    addressed,
    guarded,
)
from headgate.flower.rounds import (
    CheckedReplies,
    Discipline,
    Update,
    check_replies,
    evaluations,
    for_any_strategy,
    mean_metrics,
)
from headgate.flower.run_folder import RunRecord
from headgate.flower.sources import REAL
from headgate.limits import TINY
from headgate.records.rows import (
    PlayedRound,
    Row,
    Usage,
    client_rows,
    metric_rows,
    with_none_for_nan,
)
from headgate.writing import FolderLock

Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]
Configure = Callable[[int, ArrayRecord, ConfigRecord, Grid], Iterable[Message]]
ONE_RUN = {"seeds": 1, "policies": ["headgate"]}
"""what a recipe may leave out of its section [run]"""
LIVE = f"{Live.__module__}:{Live.__name__}"
END = f"{MessageType.QUERY}.end"
JUDGED = ("test_accuracy", "test_loss", "validation_accuracy")
SAID = {
    "test_accuracy": ("accuracy", "eval_accuracy", "eval_acc", "test_accuracy", "acc"),
    "test_loss": ("loss", "eval_loss", "test_loss"),
}
"""names that clients give to the accuracy and the loss that they measure"""
LISTED = 8
"""largest number of missing clients that the line of a round names"""


class Gated(Strategy):
    """Strategy of Flower that adds admission to another strategy, and records a run
    folder like the simulator's.

    Parameters
    ----------
    inner : flwr.serverapp.strategy.Strategy
        Any strategy. It samples, configures and averages as it does alone, but sees
        only nodes that are clients, and only replies that have passed all checks.
    experiment : Experiment, str, pathlib.Path or dict
        A recipe with one policy and one seed: its name, its file, or its content. Its
        `system`, `prices`, `run` and policy are used; headgate with one seed if it
        names none. It needs no `prices` if `prices` is a function.
    folder : str or pathlib.Path
        The run folder. If it has a run already, this run is continued.
    discipline : Discipline, optional
        How long a round waits, and which replies it accepts.
    prices : callable, optional
        Function of the round that returns its price, one number or one for each client,
        instead of the recipe's prices.
    everyone : bool, optional
        Whether clients that the inner strategy does not sample also get orders, without
        the model.
    fixed_shapes : bool, optional
        Whether clients' arrays must have the shapes of the model's. By default true,
        except for Flower's XGBoost strategies.
    track : sequence of str, optional
        Names of experiment trackers, as for `headgate run --track`.

    Examples
    --------
    In a ServerApp::

        strategy = Gated(FedAdam(fraction_train=0.5), "recipe.toml", "runs/first")
        strategy.start(grid, initial_arrays)

    Examples
    --------
    >>> import tempfile
    >>> from flwr.serverapp.strategy import FedAvg
    >>> recipe = {
    ...     "system": {"buffers": [40], "clients": 4, "budget": 150.0},
    ...     "prices": {"kind": "uniform", "low": 1.0, "high": 9.0},
    ...     "run": {"rounds": 3, "seeds": 1, "policies": ["headgate"]},
    ... }
    >>> strategy = Gated(FedAvg(), recipe, tempfile.mkdtemp() + "/run")
    """

    def __init__(
        self,
        inner: Strategy,
        experiment: Experiment | str | Mapping[str, Any],
        folder: Path | str,
        *,
        discipline: Discipline | None = None,
        prices: Callable[[int], ArrayLike] | None = None,
        everyone: bool = False,
        fixed_shapes: bool | None = None,
        track: Sequence[str] = (),
    ) -> None:
        shorten_refusals()
        call = type(self).__name__
        self.inner = instance(f"{call}: inner", inner, Strategy, "a strategy of Flower")
        if prices is not None:
            function(f"{call}: prices", prices, "a function of the round")
        self.experiment, own = _experiment(call, experiment, prices is not None)
        self.discipline = _discipline(call, discipline)
        place = path(f"{call}: folder", folder)
        trackers = writable_texts(f"{call}: track", track)
        if fixed_shapes is None:
            fixed_shapes = not _of_trees(inner)
        self._fixed_shapes = true_or_false(f"{call}: fixed_shapes", fixed_shapes)
        check_playable(self.experiment)  # before anything is written
        clients = self.experiment.system.clients
        if self.discipline.quorum > clients:
            raise SettingError(
                f"discipline.quorum = {self.discipline.quorum}: there are {clients}"
                " clients"
            )
        self._prices = prices
        self._everyone = true_or_false(f"{call}: everyone", everyone)
        self._memory = StrategyMemory(inner)
        self._weight = getattr(inner, "weighted_by_key", "num-examples")
        self._lock = FolderLock()
        try:
            with on_disk(place):
                self._record = RunRecord(
                    place,
                    self.experiment,
                    self._lock,
                    trackers,
                    prices is not None,
                    own,
                )
            self.accounts = self._record.accounts
        except BaseException:
            self._lock.close()
            raise
        keys = os.environ.get(VARIABLE)
        self._roster = Roster(self.accounts, clients, Path(keys) if keys else None)
        self._evaluate: Evaluate | None = None
        self._started = False
        self._grid = cast(Grid, None)
        self._dismissed: set[int] = set()
        self._model: NamedArrays = {}
        self._file = ("", "")
        self._now: OpenRound | None = None
        self._sent: dict[int, Order] = {}
        self._asked: dict[int, int] = {}

    @property
    def ledger(self) -> Ledger:
        """The ledger after the last settled round."""
        return self.accounts.ledger

    def close(self) -> None:
        """Close the ledger and unlock the run folder."""
        self._lock.close()

    # Flower's strategy

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int | None = None,
        timeout: float | None = None,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Evaluate | None = None,
    ) -> Result:
        """Run the remaining rounds.

        Parameters
        ----------
        grid : flwr.serverapp.Grid
            The grid of the ServerApp.
        initial_arrays : flwr.app.ArrayRecord
            The model before round 1. A run that is continued has its own.
        num_rounds : int, optional
            Round after which to stop; left out: the last one of the recipe, also as it
            is amended meanwhile.
        timeout : float, optional
            Seconds after which a round no longer waits for replies, in place of
            `Discipline.deadline`.
        train_config, evaluate_config : flwr.app.ConfigRecord, optional
            Configs for the clients, as in Flower.
        evaluate_fn : callable, optional
            Function of the round and the arrays that returns accuracy and loss.

        Returns
        -------
        flwr.serverapp.strategy.Result
            The last model and the metrics of each round.

        Raises
        ------
        SettingError
            If an argument is not what it must be.
        """
        grid = guarded(_grid("start", grid))
        model_of("start: initial_arrays", initial_arrays)
        planned = self.experiment.rounds
        if num_rounds is not None:
            num_rounds = whole_number("start: num_rounds", num_rounds)
            if num_rounds > planned:
                raise SettingError(
                    f"start: num_rounds = {num_rounds}: the recipe plans for run.rounds"
                    f" = {planned}"
                )
        deadline = self.discipline.deadline
        if timeout is not None:
            deadline = amount("start: timeout", timeout, TINY)
        train_config = _config("start: train_config", train_config)
        evaluate_config = _config("start: evaluate_config", evaluate_config)
        if evaluate_fn is not None:
            wanted = "a function of the round and the arrays"
            function("start: evaluate_fn", evaluate_fn, wanted)

        self.discipline = replace(self.discipline, deadline=deadline)
        self._evaluate, self._started = evaluate_fn, True
        arrays = self.continue_from(initial_arrays)
        self.summary()
        if num_rounds is not None and num_rounds < planned:
            log(
                WARNING,
                "headgate: num_rounds = %s ends before the recipe's run.rounds = %s, for"
                " which the money is planned: some of it stays unspent",
                num_rounds,
                planned,
            )
        result, begun = self._earlier(), self.accounts.t
        if begun == 0:
            self._judge_first_model(arrays, result)
        while True:
            last = self._up_to_date() if num_rounds is None else num_rounds
            if self.accounts.t >= last:
                break
            arrays = self._play(grid, arrays, train_config, evaluate_config, result)
        result.arrays = self._judged_arrays(arrays)
        self._end(grid, played=self.accounts.t > begun)
        return result

    def _judge_first_model(self, arrays: ArrayRecord, result: Result) -> None:
        """Evaluate the model before round 1, as Flower does; an error of the user's
        function comes before anything is bought.
        """
        if self._evaluate is None:
            return
        found = self._evaluate(0, self._judged_arrays(arrays))
        if isinstance(found, Mapping):
            numbers: dict[str, int | float | list[int] | list[float]] = {
                name: value
                for name, value in found.items()
                if isinstance(value, int | float)
            }
            result.evaluate_metrics_serverapp[0] = MetricRecord(numbers)

    def _earlier(self) -> Result:
        """Return the metrics of the rounds that are recorded."""
        result = Result()
        for past in self.accounts.rounds():
            self._remember(result, past.metrics)
        for t, said in self.accounts.evaluations().items():
            result.evaluate_metrics_clientapp[t] = MetricRecord(dict(said))
        return result

    def _remember(self, result: Result, row: Row) -> None:
        known = {name: row[name] for name in JUDGED if row.get(name) is not None}
        for name, own in (("accuracy", "test_accuracy"), ("loss", "test_loss")):
            if own in known:  # as Flower's examples name it, too
                known[name] = known[own]
        if known and self._evaluate is not None:
            result.evaluate_metrics_serverapp[row["t"]] = MetricRecord(known)

    def continue_from(self, initial_arrays: ArrayRecord) -> ArrayRecord:
        """Return the model that the run continues with.

        `start` calls this method. If another strategy wraps this one and has its own
        `start`, pass it the result as `initial_arrays`: it then begins with the model
        that clients received last, and counts its rounds from 1.

        Parameters
        ----------
        initial_arrays : flwr.app.ArrayRecord
            The model before round 1.

        Returns
        -------
        flwr.app.ArrayRecord
            `initial_arrays` before round 1, later the model of the run folder.
        """
        initial = model_of("continue_from: initial_arrays", initial_arrays)
        self._record.discipline = asdict(self.discipline)
        with on_disk(self._record.folder):
            folder = self._record.parameters
            settled = self.accounts.rounds(after=self.accounts.t - 1)
            if settled:
                self._file = settled[0].parameters, settled[0].sha256
            else:
                self._file = self.accounts.initial()
            if not self._file[0]:
                self._file = write_parameters(folder, 0, initial)
                self.accounts.remember_initial(*self._file)
            self._model, memory = read_parameters(folder, *self._file)
            self._memory.restore(memory)
            self._record.rewrite()
            keep_only(folder, [self._file[0]])
            self._record.state("running", self.accounts.t)
        return record_of(self._model)

    def configure_train(
        self,
        server_round: int,
        arrays: ArrayRecord,
        config: ConfigRecord,
        grid: Grid,
    ) -> Iterable[Message]:
        """Return the inner strategy's messages, each with the order to its client.
        Orders are on disk before they are sent.
        """
        whole_number("configure_train: server_round", server_round)
        model = model_of("configure_train: arrays", arrays)
        config = _config("configure_train: config", config)
        grid = _grid("configure_train", grid)
        t, rules = self.accounts.t + 1, self.discipline
        self._sent, self._now = {}, None
        self._up_to_date()
        if t > self.experiment.rounds:
            log(
                WARNING,
                "headgate: all rounds of the recipe (run.rounds = %s) are over; nothing"
                " is ordered",
                t - 1,
            )
            return []
        if not self._file[0]:
            if self.accounts.t:
                hint = "hand start() the arrays that Gated.continue_from() returns"
                raise SettingError(
                    f"initial_arrays: the run stands at round {self.accounts.t}; {hint}"
                )
            self.continue_from(arrays)
        self._model, self._grid = self._in_model_dtypes(model), guarded(grid)

        there = self._roster.gather(grid, t, rules.quorum, rules.gather, rules.deadline)
        price = self._price(t)  # before anything of the round is written
        self._dismiss_those_who_left(grid, there)
        excluded = self._excluded()
        view = self._view(grid, t)
        view.clients = {
            node: client for client, node in there.items() if client not in excluded
        }
        try:
            drawn = _drawn(
                self.inner.configure_train, t, record_of(self._model), config, view
            )
        except TooFewNodes as error:
            drawn = {}
            self.accounts.note([Event(t, -1, "no training", str(error))])

        asked = {
            node: client
            for node, client in _by_client(view).items()
            if self._everyone or node in drawn
        }
        self._now = self.accounts.begin(price, set(asked.values()))
        for node, client in asked.items():
            train = node in drawn
            self._sent[node] = self.accounts.order(self._now, client, train)
            if not train:
                content = self._content_without_training(t, config)
                drawn[node] = Message(content, node, MessageType.TRAIN)
        return [
            self._message(t, drawn[node], **{RECORD: ConfigRecord(to_wire(order))})
            for node, order in self._sent.items()
        ]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Settle the round: record the samples that each reply reports, and update the
        model if enough replies are valid.
        """
        whole_number("aggregate_train: server_round", server_round)
        replies = _messages("aggregate_train: replies", replies)
        now = self._now
        if now is None:
            if self.accounts.t < self.experiment.rounds:
                raise SettingError(
                    f"server_round = {server_round}: no orders were given for it"
                )
            return None, None
        checked = check_replies(
            self.accounts,
            now,
            self._sent,
            replies,
            self._model,
            self.discipline,
            self._fixed_shapes,
        )
        self.accounts.check_up_to_date(checked.answers)
        losses = None
        if self.accounts.fixed["losses"]:
            losses = checked.losses(self.experiment.system.clients)
        done = self.accounts.settled(
            now, checked.answers, self.discipline.offences, losses
        )

        failure, moved, reported = None, None, None
        try:
            moved, reported, events = self._aggregated(now.t, checked)
        except Exception as error:  # purchases are settled before it ends the run
            failure = error
            why = f"{type(error).__name__}: {error}"
            events = [Event(now.t, -1, "not aggregated", why)]
        if moved is None:
            _, memory = read_parameters(self._record.parameters, *self._file)
            self._memory.restore(memory)
        self._commit(done, checked, moved, events)
        if failure is not None:
            raise failure
        if not self._started and now.t == self.experiment.rounds:
            self._end(self._grid)
        return None if moved is None else record_of(moved), reported

    def configure_evaluate(
        self,
        server_round: int,
        arrays: ArrayRecord,
        config: ConfigRecord,
        grid: Grid,
    ) -> Iterable[Message]:
        """Return the inner strategy's messages to clients in good standing."""
        whole_number("configure_evaluate: server_round", server_round)
        instance("configure_evaluate: arrays", arrays, ArrayRecord, "an ArrayRecord")
        config = _config("configure_evaluate: config", config)
        t, view = (
            self.accounts.t,
            self._view(_grid("configure_evaluate", grid), self.accounts.t),
        )
        try:
            drawn = _drawn(self.inner.configure_evaluate, t, arrays, config, view)
        except TooFewNodes as error:
            log(WARNING, "headgate: round %s is not evaluated by clients: %s", t, error)
            return []
        clients = _by_client(view)
        self._asked = {node: clients[node] for node in clients if node in drawn}
        return [self._message(t, drawn[node]) for node in self._asked]

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Return the metrics that the inner strategy aggregates from the replies."""
        whole_number("aggregate_evaluate: server_round", server_round)
        replies = _messages("aggregate_evaluate: replies", replies)
        found, events = self._evaluated(evaluations(replies, self._asked, self._weight))
        if events:
            self.accounts.note(events)
        if found is not None:
            self._record_evaluation(found)
        return found

    def _record_evaluation(self, found: MetricRecord) -> None:
        """Write what clients measured of the round's model into its metrics, where the
        server has not evaluated it.
        """
        t, judged = self.accounts.t, dict[str, float]()
        said = {
            name: float(value)
            for name, value in found.items()
            if isinstance(value, int | float) and abs(value) <= REAL
        }
        done = self.accounts.rounds(after=t - 1)[0]
        for name, names in SAID.items():
            known = [said[each] for each in names if each in said]
            if known and done.metrics.get(name) is None:
                judged[name] = known[0]
        self.accounts.evaluated(t, judged, said)
        if not self._started:
            self._record.append(self.accounts.rounds(after=t - 1)[0])

    def summary(self) -> None:
        """Log the settings of the run, and the summary of the inner strategy."""
        own, system = self.accounts, self.experiment.system
        log(
            INFO,
            "headgate: policy %s, seed %s, %s clients",
            own.policy,
            own.seed,
            system.clients,
        )
        log(
            INFO,
            "  budget %s a round, %s in all, %s of it spent; round %s of %s",
            money_text(system.budget, system.currency),
            money_text(system.money(self.experiment.rounds), system.currency),
            money_text(float(self.ledger.spent[0]), system.currency),
            own.t,
            self.experiment.rounds,
        )
        policy, most, fill = self.experiment.policies[own.policy], 0.0, 0.0
        if isinstance(policy, BudgetedPolicy):
            most, fill = policy.money_to_fill(system), policy.fill
        if most and not own.t:
            line = "  round 1 fills the buffers, for at most %s (fill = %g)"
            if self._prices is None:
                line += "; `headgate plan` shows later rounds"
            log(INFO, line, money_text(most, system.currency), fill)
        self.inner.summary()

    def _play(
        self,
        grid: Grid,
        arrays: ArrayRecord,
        train_config: ConfigRecord,
        evaluate_config: ConfigRecord,
        result: Result,
    ) -> ArrayRecord:
        """Run a round, note the clients' metrics in the result and return the model."""
        t, deadline = self.accounts.t + 1, self.discipline.deadline
        messages = self.configure_train(t, arrays, train_config, grid)
        replies = grid.send_and_receive(messages, timeout=deadline)
        moved, metrics = self.aggregate_train(t, replies)
        if metrics is not None:
            result.train_metrics_clientapp[t] = metrics
        if moved is not None:
            arrays = moved

        judged = self._judged_arrays(arrays)
        asked = list(self.configure_evaluate(t, judged, evaluate_config, grid))
        if asked:
            replies = grid.send_and_receive(asked, timeout=deadline)
            metrics = self.aggregate_evaluate(t, replies)
            if metrics is not None:
                result.evaluate_metrics_clientapp[t] = metrics
        done = self.accounts.rounds(after=t - 1)[0]
        self._record.append(done)
        self._remember(result, done.metrics)
        return arrays

    # internals

    def _up_to_date(self) -> int:
        """Apply amendments, unless a round is open; return the last round under the
        amended terms.
        """
        system = self.accounts.newest().system
        if system is not self.experiment.system:
            self.experiment = self.experiment.under(system)
            self._roster.clients = system.clients
            self._record.rounds = self.experiment.rounds
            if isinstance(self.inner, Averaging):
                self.inner.experiment = self.experiment
        return self.experiment.rounds

    def _excluded(self) -> set[int]:
        """Return the clients that get no orders: those in quarantine, and those that
        have left.
        """
        state = self.accounts.newest()
        return state.quarantined | state.left

    def _view(self, grid: Grid, t: int) -> ClientGrid:
        """Return the grid for the inner strategy."""

        def connected_clients() -> dict[int, int]:
            there = self._roster.connected(grid, t, self.discipline.deadline)
            excluded = self._excluded()
            return {
                client: node for client, node in there.items() if client not in excluded
            }

        return ClientGrid(grid, connected_clients, self.discipline.gather)

    def _message(
        self,
        t: int,
        inner: Message,
        **records: ConfigRecord,
    ) -> Message:
        """Return a copy of the inner message with our records; FedAvg uses the same
        content object for all clients.
        """
        content, about = {**inner.content, **records}, inner.metadata
        kind, seconds = about.message_type, self.discipline.deadline
        return addressed(content, about.dst_node_id, kind, t, seconds)

    def _content_without_training(self, t: int, config: ConfigRecord) -> RecordDict:
        """Return the content for a client that does not train. It has the model only if
        rules look at samples.
        """
        content = RecordDict({"config": ConfigRecord({**config, "server-round": t})})
        if self.accounts.looks_at_samples:
            content["arrays"] = record_of(self._model)
        return content

    def _aggregated(
        self, t: int, checked: CheckedReplies
    ) -> tuple[NamedArrays | None, MetricRecord | None, list[Event]]:
        """Return the new model in the dtypes of the old one, or None if it does not
        change; its metrics; and events.
        """
        needed = self.discipline.quorum
        if checked.valid < needed:
            few = f"{checked.valid} valid answers, {needed} are needed"
            event = Event(t, -1, "no quorum", few)
            return None, mean_metrics(checked.updates), [event]
        arrays, metrics, events = self._by_inner(t, checked)
        if arrays is None:
            return None, metrics, events
        moved = self._in_model_dtypes(numpy_of(arrays))
        if _is_finite(moved):
            return moved, metrics, events
        why = "the new model is not finite; the model stays as it was"
        return None, metrics, [*events, Event(t, -1, "diverged", why)]

    def _by_inner(
        self, t: int, checked: CheckedReplies
    ) -> tuple[ArrayRecord | None, MetricRecord | None, list[Event]]:
        """Return the model and the metrics of the inner strategy, and events."""
        replies, events = for_any_strategy(t, checked.updates, self._weight)
        if not replies:
            return None, None, events
        arrays, metrics = self.inner.aggregate_train(t, replies)
        return arrays, metrics, events

    def _evaluated(
        self, judged: list[Update]
    ) -> tuple[MetricRecord | None, list[Event]]:
        """Return what the inner strategy makes of the clients' metrics, and events."""
        replies, events = for_any_strategy(self.accounts.t, judged, self._weight)
        if not replies:
            return None, events
        return self.inner.aggregate_evaluate(self.accounts.t, replies), events

    def _in_model_dtypes(self, model: NamedArrays) -> NamedArrays:
        """Return the arrays in the dtypes of the current model, because Flower's
        averages turn many dtypes into float64.
        """
        return {
            name: in_type_of(self._model[name], array) if name in self._model else array
            for name, array in model.items()
        }

    def _judged_arrays(self, arrays: ArrayRecord) -> ArrayRecord:
        """Return the arrays to evaluate, which are also the result of a run."""
        return arrays

    def _commit(
        self,
        done: Settlement,
        checked: CheckedReplies,
        moved: NamedArrays | None,
        events: Iterable[Event],
    ) -> None:
        """Write a settled round with its model, and log it."""
        t, file = done.now.t, self._file
        why, ordered = done.now.why, done.now.orders.admitted.sum()
        model = self._model if moved is None else moved
        judged, unread = self._judged(t, self._judged_arrays(record_of(model)))
        metrics = self._metrics(done, checked, judged)
        with on_disk(self._record.folder):
            if moved is not None:
                # A wrapping strategy may still change the model: save what clients
                # received.
                kept = moved if self._started else self._model
                memory = self._memory.now()
                file = write_parameters(self._record.parameters, t, kept, memory)
            self.accounts.commit(
                done,
                file,
                metrics,
                self._clients(done),
                events=[*checked.events, *events, *unread],
            )
            self._file, self._model = file, model
            self._now, self._sent = None, {}
            if not self._started:
                self._record.append(self.accounts.rounds(after=t - 1)[0])
            if metrics["admitted"] != ordered:
                why += f", {metrics['admitted']} came"
            line = self._progress_line(checked, metrics, why)
            self._record.state("running", t, line)
            keep_only(self._record.parameters, [file[0]])
        log(INFO, "%s", line)

    def _end(self, grid: Grid, played: bool = True) -> None:
        """Record the end of the rounds and say what was saved. After the last one,
        clients remove the run's samples, unless set to keep them.
        """
        t, rounds = self.accounts.t, self.experiment.rounds
        if t == rounds:
            seconds = min(self.discipline.deadline, ANSWER_WITHIN)
            there = self._roster.connected(grid, t, seconds)
            log(
                INFO,
                "headgate: the run is over; %s of %s clients were told to remove its"
                " samples (those with `headgate-keep=true` keep them)",
                self._dismiss(grid, there.values()),
                self.experiment.system.clients,
            )
        if not played:
            log(
                WARNING,
                "headgate: the run in %s is finished; nothing was bought or trained;"
                " choose another `out`",
                self._record.folder,
            )
        found = statement(self.accounts.journal)
        for line in filter(None, (found.sentence, found.dry)):
            log(INFO, "headgate: %s", line)
        with on_disk(self._record.folder):
            self._record.end(t)

    def _dismiss_those_who_left(self, grid: Grid, there: Mapping[int, int]) -> None:
        """Make clients that have left remove the run's samples, once."""
        left = self.accounts.newest().left - self._dismissed
        gone = {client: node for client, node in there.items() if client in left}
        self._dismiss(grid, gone.values())
        self._dismissed |= gone.keys()

    def _dismiss(self, grid: Grid, nodes: Iterable[int]) -> int:
        """Make these nodes remove the run's samples; return how many replied."""
        seconds = min(self.discipline.deadline, ANSWER_WITHIN)
        over = {RECORD: ConfigRecord(to_wire(Ended(self.accounts.name)))}
        t = self.accounts.t
        messages = [addressed(over, node, END, t, seconds) for node in nodes]
        if not messages:
            return 0
        replies = grid.send_and_receive(messages, timeout=seconds)
        return sum(not reply.has_error() for reply in replies)

    def _price(self, t: int) -> Floats:
        """Return the price of a sample in round t, with that of looks: (1,), or (M,)
        for each client.
        """
        given = self.experiment
        if self._prices is None:
            price = given.prices.path(given.seeds, t, t + 1)[0, 0]
        else:
            price = prices_for(f"prices({t})", self._prices(t), given.system.clients)
        return np.asarray(price + self.accounts.looks)

    def _judged(
        self, t: int, arrays: ArrayRecord
    ) -> tuple[dict[str, float | None], list[Event]]:
        """Return accuracy and loss from the user's function, which may name them as
        headgate or as Flower's examples do.

        What is no finite number is left out, with an event for the ledger, because the
        round must be settled in any case.
        """
        judged, events = dict[str, float | None].fromkeys(JUDGED), list[Event]()
        every = self.experiment.training.evaluate_every
        due = t % every == 0 or t == self.experiment.rounds
        if self._evaluate is None or not due:
            return judged, events
        found = self._evaluate(t, arrays)
        if found is None:
            return judged, events

        call = f"evaluate_fn({t})"
        try:
            measured = instance(call, found, Mapping, "a MetricRecord or a dict")
        except SettingError as error:
            return judged, [Event(t, -1, "not evaluated", one_line(error))]
        stated = {
            "test_accuracy": measured.get("accuracy"),
            "test_loss": measured.get("loss"),
            **measured,
        }
        for name in JUDGED:
            value = stated.get(name)
            if value is None:
                continue
            try:
                judged[name] = amount(f"{call}: {name}", value, -REAL, REAL)
            except SettingError as error:
                events.append(Event(t, -1, "not evaluated", one_line(error)))
        return judged, events

    def _metrics(
        self,
        done: Settlement,
        checked: CheckedReplies,
        judged: dict[str, float | None],
    ) -> Row:
        """Return the round's row of the metrics. Clients report the counts for N and
        n_eff.
        """
        known = done.told.values()
        usage = Usage(
            np.array([sum(update.n for update in checked.updates)]),
            np.array([sum(row.distinct for row in known)]),
            np.array([sum(row.uses for row in known)]),
            np.array([sum(row.squares for row in known)]),
        )
        reported = mean_metrics(checked.updates)
        loss = reported.get("train_loss", reported.get("loss"))
        measured = {name: [value] for name, value in judged.items()}
        now = self._played(done)
        (row,) = metric_rows(
            [now],
            {**measured, "train_loss": [loss]},
            usage,
            self.experiment.system.buffer,
            self.experiment.bound,
            held=self._held_now(done).sum(keepdims=True),
            more=self._looked(now),
        )
        return with_none_for_nan(row)

    def _clients(self, done: Settlement) -> Row | None:
        """Return the round's row of the table of clients. Samples that a late reply
        reports count in the round of the reply.
        """
        held = self._held_now(done)[None]
        rows = client_rows(self._played(done), held, done.paid, done.losses)
        return with_none_for_nan(rows[0]) if rows else None

    def _played(self, done: Settlement) -> PlayedRound:
        policy, seed = self.accounts.policy, self.accounts.seed
        now = done.now
        return PlayedRound(policy, [seed], now.orders, now.before, done.ledger)

    def _held_now(self, done: Settlement) -> Ints:
        """Return how many samples each client holds: by the ledger, less those that it
        has withdrawn.
        """
        held: Ints = done.ledger.occupancy[0].copy()
        for client, own in done.told.items():
            held[client] = max(held[client] - own.withdrawn, 0)
        return held

    def _looked(self, now: PlayedRound) -> dict[str, list[Any]]:
        """Return the columns on looks, as in the simulator. Clients report no looks, so
        a sample counts as a full window.
        """
        data = self.experiment.data
        rule = self.experiment.policies[now.policy].selection
        if rule is None or not (rule.looks and data.chooses(rule)):
            return {}
        bought = (rule.looking(now.before) * now.admitted).sum()
        return {"looked": [data.window * int(bought)], "looks": now.paid_for_looks}

    def _progress_line(
        self,
        checked: CheckedReplies,
        row: dict[str, Any],
        why: str,
    ) -> str:
        """Return the round in one line: replies, samples, money and why it was spent,
        accuracy, and the clients that were asked and sent no valid reply.
        """
        system, rounds = self.experiment.system, self.experiment.rounds
        spent, money = float(self.ledger.spent[0]), system.money(rounds)
        asked = {each.client for each in checked.answers}
        answered = {each.client for each in checked.answers if each.reason is None}
        unit = system.currency
        if row["admitted"]:
            why += f" for {money_text(row['spend'], unit)}"
        line = (
            f"round {row['t']} of {rounds}: {checked.valid} of {len(asked)} asked"
            f" answered; {why}; spent {money_text(spent, unit)} of"
            f" {money_text(money, unit)}, {money_text(money - spent, unit)} left,"
            f" {row['n']} held"
        )
        if row["test_accuracy"] is not None:
            line += f", accuracy {row['test_accuracy']:.3f}"
        if len(asked) < system.clients:
            line += f"; {system.clients - len(asked)} clients not asked"
        named = self.accounts.named
        missing = [named(client) for client in sorted(asked - answered)]
        if missing:
            line += f"; no valid answer from clients {', '.join(missing[:LISTED])}"
        if len(missing) > LISTED:
            line += f" and {len(missing) - LISTED} more"
        short = [each for each in checked.answers if each.receipt and each.receipt.note]
        for each in short[:LISTED]:
            assert each.receipt is not None
            line += f"; client {named(each.client)}: {each.receipt.note}"
        return line


class AdmissionStrategy(Gated):
    """Strategy of Flower that runs one policy with the averaging of the recipe: `Gated`
    around `Averaging`.

    Parameters
    ----------
    experiment, folder, discipline
        As for `Gated`.
    client_evaluation : bool, optional
        Whether clients evaluate the model after every round.
    **more
        `prices` and `track`, as for `Gated`.

    Examples
    --------
    >>> import headgate, tempfile
    >>> e = headgate.load("digits", "run.rounds=3", "run.seeds=1")
    >>> e = e.only(["headgate"])
    >>> AdmissionStrategy(e, tempfile.mkdtemp() + "/run").summary()
    """

    def __init__(
        self,
        experiment: Experiment | str | Mapping[str, Any],
        folder: Path | str,
        *,
        discipline: Discipline | None = None,
        client_evaluation: bool = False,
        **more: Any,
    ) -> None:
        shorten_refusals()
        call = type(self).__name__
        told = more.get("prices") is not None
        experiment, _ = _experiment(call, experiment, told)
        discipline = _discipline(call, discipline)
        evaluates = true_or_false(f"{call}: client_evaluation", client_evaluation)
        self._averaging = Averaging(experiment, discipline.norm_multiple, evaluates)
        super().__init__(
            self._averaging,
            experiment,
            folder,
            discipline=discipline,
            everyone=True,
            **more,
        )

    def _by_inner(
        self, t: int, checked: CheckedReplies
    ) -> tuple[ArrayRecord | None, MetricRecord | None, list[Event]]:
        """Apply the server update, also if no client trained. Clients may report
        different metrics.
        """
        arrays, events = self._averaging.combined(t, checked.updates)
        return arrays, mean_metrics(checked.updates), events

    def _evaluated(
        self, judged: list[Update]
    ) -> tuple[MetricRecord | None, list[Event]]:
        """Return the mean of what clients measured, with their weights in the
        recipe.
        """
        if not judged:
            return None, []
        return mean_metrics(judged, self.experiment.system.weight), []

    def _judged_arrays(self, arrays: ArrayRecord) -> ArrayRecord:
        mean = self._averaging.mean
        return arrays if mean is None else record_of(mean)


def _drawn(
    configure: Configure,
    t: int,
    arrays: ArrayRecord,
    config: ConfigRecord,
    view: ClientGrid,
) -> dict[int, Message]:
    """Return the messages of the inner strategy by node."""
    messages = configure(t, arrays, ConfigRecord(dict(config)), cast(Grid, view))
    return {message.metadata.dst_node_id: message for message in messages}


def _by_client(view: ClientGrid) -> dict[int, int]:
    """Return the client of each node, sorted by client."""
    return dict(sorted((view.clients or {}).items(), key=lambda pair: pair[1]))


def _is_finite(model: NamedArrays) -> bool:
    real = (array for array in model.values() if array.dtype.kind == "f")
    return all(np.isfinite(array).all() for array in real)


def _of_trees(strategy: Any) -> bool:
    """Return whether the strategy, or one that it wraps, sends trees as bytes."""
    if isinstance(strategy, FedXgbBagging | FedXgbCyclic):
        return True
    inside = getattr(strategy, "strategy", None)
    return inside is not None and _of_trees(inside)


# what a user hands in


def _experiment(
    call: str,
    given: object,
    told: bool,
) -> tuple[Experiment, tuple[str, ...]]:
    """Return the experiment, and which of data and model its recipe leaves to the app.

    If prices are `told` by a function, the recipe may leave them out.
    """
    if isinstance(given, Experiment):
        return given, ()
    named = isinstance(given, str | os.PathLike | Mapping)
    wanted = "a recipe's name, its file or its content"
    require(named, f"{call}: experiment", given, wanted)
    name, raw, folder = read_recipe(cast(str, given))
    if told and "prices" not in raw:
        raw["prices"] = {"kind": LIVE}
    if isinstance(run := raw.get("run"), dict):
        raw["run"] = {**ONE_RUN, **run}
    own = tuple(section for section in ("data", "model") if section not in raw)
    return build(name, raw, folder), own


def _discipline(call: str, given: Discipline | None) -> Discipline:
    if given is None:
        return Discipline()
    return instance(f"{call}: discipline", given, Discipline, "a Discipline")


def _grid(call: str, given: Grid) -> Grid:
    return instance(f"{call}: grid", given, Grid, "a grid of Flower")


def _config(name: str, given: Mapping[str, Any] | None) -> ConfigRecord:
    """Return a config as Flower sends it, with the numbers of numpy as plain ones."""
    if given is None:
        return ConfigRecord()
    config = instance(name, given, Mapping, "a ConfigRecord or a dict")
    plain = {
        key: value.item() if isinstance(value, np.generic) else value
        for key, value in config.items()
    }
    try:
        return ConfigRecord(plain)
    except (TypeError, ValueError) as error:
        raise SettingError(
            f"{name} = {shown(plain)}: must be a ConfigRecord ({one_line(error)})"
        ) from None


def _messages(name: str, given: object) -> list[Message]:
    listed = items(name, given, "a list of messages")
    return [
        instance(f"{name}[{place}]", each, Message, "a Message")
        for place, each in enumerate(listed)
    ]
