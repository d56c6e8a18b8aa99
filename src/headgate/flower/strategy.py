"""Admission around any strategy of Flower: headgate orders what each client may admit,
and settles and records the replies.

The inner strategy samples clients, configures and averages; it does not see orders.
`start` works like Flower's, with two differences: it continues the run in the run
folder, and every wait has a limit.
"""

import os
import sys
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

from headgate.books.accounts import Accounts, OpenRound, Settlement, check_playable
from headgate.books.border import prices_for
from headgate.books.durable import on_disk
from headgate.books.ledger_store import Event
from headgate.books.messages import (
    NONCE,
    RECORD,
    Ended,
    Order,
    to_wire,
)
from headgate.books.updates import NamedArrays, in_type_of
from headgate.control.checks import amount, path, true_or_false, whole_number
from headgate.control.policies.budgeted.base import BudgetedPolicy
from headgate.control.types import Floats, Ints, Ledger
from headgate.errors import SettingError, require
from headgate.escaping import one_line, shown
from headgate.experiment import Experiment, load
from headgate.flower.averaging import Averaging
from headgate.flower.border import function, instance, items, writable_texts
from headgate.flower.keys import VARIABLE
from headgate.flower.parameters import (
    StrategyMemory,
    keep_only,
    model_of,
    numpy_of,
    read_parameters,
    record_of,
    write_parameters,
)
from headgate.flower.roster import (
    ANSWER_WITHIN,
    ClientGrid,
    Roster,
    TooFewNodes,
    guarded,
    nonce,
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
END = f"{MessageType.QUERY}.end"
JUDGED = ("test_accuracy", "test_loss", "validation_accuracy")
LISTED = 8
"""largest number of missing clients that the line of a round names"""


class Gated(Strategy):
    """Strategy of Flower that adds admission to another strategy, and records a run
    folder like the simulator's.

    Parameters
    ----------
    inner
        Any strategy. It samples, configures and averages as it does alone, but sees
        only nodes that are clients, and only replies that have passed all checks.
    experiment
        A recipe with one policy and one seed: its name, its file, or a dict. Its
        `system`, `prices`, `run` and policy are used.
    folder
        The run folder. If it has a run already, this run is continued.
    discipline
        How long a round waits, and which replies it accepts.
    prices
        Function of the round that returns its price, one number or one for each client,
        instead of the recipe's prices.
    everyone
        Whether clients that the inner strategy does not sample also get orders, without
        the model.
    fixed_shapes
        Whether clients' arrays must have the shapes of the model's. By default true,
        except for Flower's XGBoost strategies.
    track
        Names of experiment trackers, as for `headgate run --track`.

    Examples -------- In a ServerApp, `strategy = Gated(FedAdam(fraction_train=0.5),
    "recipe.toml", "runs/first")`, and `strategy.start(grid, …)` as before.
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
        call = type(self).__name__
        self.inner = instance(f"{call}: inner", inner, Strategy, "a strategy of Flower")
        self.experiment = experiment = _experiment(call, experiment)
        self.discipline = _discipline(call, discipline)
        place = path(f"{call}: folder", folder)
        trackers = writable_texts(f"{call}: track", track)
        if prices is not None:
            function(f"{call}: prices", prices, "a function of the round")
        if fixed_shapes is not None:
            fixed_shapes = true_or_false(f"{call}: fixed_shapes", fixed_shapes)
        check_playable(experiment)  # before anything is written
        if self.discipline.quorum > experiment.system.clients:
            raise SettingError(
                f"discipline.quorum = {self.discipline.quorum}: there are"
                f" {experiment.system.clients} clients"
            )
        self._prices, self._everyone = (
            prices,
            true_or_false(f"{call}: everyone", everyone),
        )
        self._fixed_shapes = (
            not _of_trees(inner) if fixed_shapes is None else fixed_shapes
        )
        self._memory, self._weight = (
            StrategyMemory(inner),
            getattr(inner, "weighted_by_key", "num-examples"),
        )
        self._held = FolderLock()
        try:
            with on_disk(place):
                self._record = RunRecord(
                    place,
                    experiment,
                    self._held,
                    trackers,
                    own_prices=prices is not None,
                )
            self.store = self._record.store
            self.accounts = Accounts.of(experiment, self.store)
        except BaseException:
            self._held.close()
            raise
        keys = os.environ.get(VARIABLE)
        self._roster = Roster(
            self.store, experiment.system.clients, Path(keys) if keys else None
        )
        self._evaluate: Evaluate | None = None
        self._started, self._grid = False, cast(Grid, None)
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
        self._held.close()

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
        """Run the remaining rounds, up to `num_rounds` if it is given. `timeout` is the
        deadline of a round, in seconds.
        """
        grid = guarded(_grid("start", grid))
        model_of("start: initial_arrays", initial_arrays)
        rounds = (
            self.experiment.rounds
            if num_rounds is None
            else whole_number("start: num_rounds", num_rounds)
        )
        if rounds > self.experiment.rounds:
            raise SettingError(
                f"start: num_rounds = {rounds}: the recipe plans for run.rounds ="
                f" {self.experiment.rounds}"
            )
        deadline = (
            self.discipline.deadline
            if timeout is None
            else amount("start: timeout", timeout, TINY)
        )
        train_config = _config("start: train_config", train_config)
        evaluate_config = _config("start: evaluate_config", evaluate_config)
        if evaluate_fn is not None:
            function(
                "start: evaluate_fn",
                evaluate_fn,
                "a function of the round and the arrays",
            )
        self.discipline = replace(self.discipline, deadline=deadline)
        self._evaluate, self._started, result = evaluate_fn, True, Result()
        arrays = self.continue_from(initial_arrays)
        self.summary()
        while self.accounts.t < (self._up_to_date() if num_rounds is None else rounds):
            t = self.accounts.t + 1
            messages = self.configure_train(t, arrays, train_config, grid)
            replies = grid.send_and_receive(messages, timeout=self.discipline.deadline)
            moved, metrics = self.aggregate_train(t, replies)
            arrays = arrays if moved is None else moved
            if metrics is not None:
                result.train_metrics_clientapp[t] = metrics
            asked = list(
                self.configure_evaluate(
                    t, self._judged_arrays(arrays), evaluate_config, grid
                )
            )
            if asked:
                judged = self.aggregate_evaluate(
                    t, grid.send_and_receive(asked, timeout=self.discipline.deadline)
                )
                if judged is not None:
                    result.evaluate_metrics_clientapp[t] = judged
        result.arrays = self._judged_arrays(arrays)
        for past in self.store.rounds():
            if found := {
                name: past.metrics[name]
                for name in JUDGED
                if past.metrics.get(name) is not None
            }:
                result.evaluate_metrics_serverapp[past.round] = MetricRecord(found)
        self._end(grid)
        return result

    def continue_from(self, initial_arrays: ArrayRecord) -> ArrayRecord:
        """Return the model that the run continues with: `initial_arrays` before round
        1, later that of the run folder.

        `start` calls this method. If another strategy wraps this one and has its own
        `start`, pass it the result as `initial_arrays`: it then begins with the model
        that clients received last, and counts its rounds from 1.
        """
        initial = model_of("continue_from: initial_arrays", initial_arrays)
        self._record.discipline = asdict(self.discipline)
        with on_disk(self._record.folder):
            folder, settled = (
                self._record.parameters,
                self.store.rounds(after=self.accounts.t - 1),
            )
            self._file = (
                (settled[0].parameters, settled[0].sha256)
                if settled
                else self.store.initial()
            )
            if not self._file[0]:
                self._file = write_parameters(folder, 0, initial)
                self.store.remember_initial(*self._file)
            self._model, memory = read_parameters(folder, *self._file)
            self._memory.restore(memory)
            self._record.rewrite()
            keep_only(folder, [self._file[0]])
            self._record.state("running", self.accounts.t)
        return record_of(self._model)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return the inner strategy's messages, each with the order to its client.
        Orders are on disk before they are sent.
        """
        whole_number("configure_train: server_round", server_round)
        model = model_of("configure_train: arrays", arrays)
        config, grid = (
            _config("configure_train: config", config),
            _grid("configure_train", grid),
        )
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
        excluded = self._excluded()
        gone = {
            client: node
            for client, node in there.items()
            if client in self.accounts.left - self._dismissed
        }
        self._dismiss(grid, gone.values())
        self._dismissed |= gone.keys()
        view = self._view(
            grid,
            t,
            {node: client for client, node in there.items() if client not in excluded},
            rules.gather,
        )
        try:
            inner = self.inner.configure_train(
                t, record_of(self._model), ConfigRecord(dict(config)), cast(Grid, view)
            )
            drawn = {message.metadata.dst_node_id: message for message in inner}
        except TooFewNodes as error:
            drawn = {}
            self.store.note([Event(t, -1, "no training", str(error))])
        clients = {
            node: client
            for node, client in _by_client(view).items()
            if node in drawn or self._everyone
        }
        self._now, messages = (
            self.accounts.begin(price, set(clients.values())),
            list[Message](),
        )
        for node, client in clients.items():
            self._sent[node] = order = self.accounts.order(
                self._now, client, node in drawn
            )
            message = drawn.get(node) or Message(
                self._content_without_training(t, config), node, MessageType.TRAIN
            )
            messages.append(
                self._message(t, message, **{RECORD: ConfigRecord(to_wire(order))})
            )
        return messages

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
        self.accounts.check_up_to_date(now, checked.answers)
        losses = (
            checked.losses(self.experiment.system.clients)
            if self.accounts.fixed.get("losses")
            else None
        )
        done = self.accounts.settled(
            now, checked.answers, self.discipline.offences, losses
        )
        failure, moved, reported = None, None, None
        try:
            moved, reported, events = self._aggregated(now.t, checked)
        except (
            Exception
        ) as error:  # purchases are settled before the error ends the run
            failure, events = (
                error,
                [
                    Event(
                        now.t, -1, "not aggregated", f"{type(error).__name__}: {error}"
                    )
                ],
            )
        if moved is None:
            self._memory.restore(
                read_parameters(self._record.parameters, *self._file)[1]
            )
        model = self._model if moved is None else moved
        judged, unread = self._judged(now.t, self._judged_arrays(record_of(model)))
        metrics = self._metrics(done, checked, judged)
        with on_disk(self._record.folder):
            file = self._file
            if (
                moved is not None
                # a wrapping strategy may still change the model: save what clients
                # received
            ):
                kept = moved if self._started else self._model
                file = write_parameters(
                    self._record.parameters, now.t, kept, self._memory.now()
                )
            self.accounts.commit(
                done,
                file,
                metrics,
                self._clients(done),
                events=[*checked.events, *events, *unread],
            )
            self._file, self._model, self._now, self._sent = file, model, None, {}
            self._record.append(self.store.rounds(after=now.t - 1)[0])
            line = self._progress_line(checked, metrics)
            self._record.state("running", now.t, line)
            keep_only(self._record.parameters, [file[0]])
        log(INFO, "%s", line)
        if failure is not None:
            raise failure
        if not self._started and now.t == self.experiment.rounds:
            self._end(self._grid)
        return (None if moved is None else record_of(moved)), reported

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return the inner strategy's messages to clients in good standing."""
        whole_number("configure_evaluate: server_round", server_round)
        instance("configure_evaluate: arrays", arrays, ArrayRecord, "an ArrayRecord")
        config, grid = (
            _config("configure_evaluate: config", config),
            _grid("configure_evaluate", grid),
        )
        t = self.accounts.t
        view = self._view(grid, t, None, self.discipline.gather)
        try:
            inner = self.inner.configure_evaluate(
                t, arrays, ConfigRecord(dict(config)), cast(Grid, view)
            )
            drawn = {message.metadata.dst_node_id: message for message in inner}
        except TooFewNodes as error:
            log(WARNING, "headgate: round %s is not evaluated by clients: %s", t, error)
            return []
        self._asked = {
            node: client for node, client in _by_client(view).items() if node in drawn
        }
        return [self._message(t, drawn[node]) for node in self._asked]

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Return the metrics that the inner strategy aggregates from the replies."""
        whole_number("aggregate_evaluate: server_round", server_round)
        replies = _messages("aggregate_evaluate: replies", replies)
        found, events = self._evaluated(evaluations(replies, self._asked, self._weight))
        if events:
            self.store.note(events)
        return found

    def summary(self) -> None:
        """Log the settings of the run, and the summary of the inner strategy."""
        e, own = self.experiment, self.accounts
        log(
            INFO,
            "headgate: policy %s, seed %s, %s clients",
            own.policy,
            own.seed,
            e.system.clients,
        )
        log(
            INFO,
            "  budget %s a round, round %s of %s",
            e.system.budget,
            own.t,
            e.rounds,
        )
        if isinstance(policy := e.policies[own.policy], BudgetedPolicy) and (
            most := policy.money_to_fill(e.system)
        ):
            log(
                INFO,
                "  round 1 costs at most %g; `headgate plan` shows later rounds",
                most,
            )
        self.inner.summary()

    # internals

    def _up_to_date(self) -> int:
        """Apply amendments, unless a round is open; return the last round under the
        amended terms.
        """
        if self.store.begun() is None:
            self.accounts.take_up()
        system = self.accounts.system
        if system is not self.experiment.system:
            self.experiment, self._roster.clients = (
                self.experiment.under(system),
                system.clients,
            )
            self._record.rounds = self.experiment.rounds
            if isinstance(self.inner, Averaging):
                self.inner.experiment = self.experiment
        return self.experiment.rounds

    def _excluded(self) -> set[int]:
        """Return the clients that get no orders: those in quarantine, and those that
        have left.
        """
        return self.store.quarantined() | self.accounts.left

    def _view(
        self, grid: Grid, t: int, nodes: dict[int, int] | None, patience: float
    ) -> ClientGrid:
        """Return the grid for the inner strategy. `nodes` has the clients of connected
        nodes, if they are known.
        """

        def connected_clients() -> dict[int, int]:
            there, excluded = (
                self._roster.connected(grid, t, self.discipline.deadline),
                self._excluded(),
            )
            return {
                client: node for client, node in there.items() if client not in excluded
            }

        view = ClientGrid(grid, connected_clients, patience)
        view.clients = nodes
        return view

    def _message(self, t: int, inner: Message, **records: ConfigRecord) -> Message:
        """Return a copy of the inner message with our records; FedAvg uses the same
        content object for all clients.
        """
        content, metadata = (
            RecordDict({**inner.content, **records, NONCE: nonce()}),
            inner.metadata,
        )
        return Message(
            content,
            metadata.dst_node_id,
            metadata.message_type,
            ttl=self.discipline.deadline,
            group_id=str(t),
        )

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
        if checked.valid < self.discipline.quorum:
            few = Event(
                t,
                -1,
                "no quorum",
                f"{checked.valid} valid answers, {self.discipline.quorum} are needed",
            )
            return None, mean_metrics(checked.updates), [few]
        arrays, metrics, events = self._by_inner(t, checked)
        moved = None if arrays is None else self._in_model_dtypes(numpy_of(arrays))
        if moved and not all(
            np.isfinite(array).all()
            for array in moved.values()
            if array.dtype.kind == "f"
        ):
            moved, events = (
                None,
                [
                    *events,
                    Event(
                        t,
                        -1,
                        "diverged",
                        "the new model is not finite; the model stays as it was",
                    ),
                ],
            )
        return moved, metrics, events

    def _by_inner(
        self, t: int, checked: CheckedReplies
    ) -> tuple[ArrayRecord | None, MetricRecord | None, list[Event]]:
        replies, events = for_any_strategy(t, checked.updates, self._weight)
        return (
            *(self.inner.aggregate_train(t, replies) if replies else (None, None)),
            events,
        )

    def _evaluated(
        self, judged: list[Update]
    ) -> tuple[MetricRecord | None, list[Event]]:
        replies, events = for_any_strategy(self.accounts.t, judged, self._weight)
        return (
            self.inner.aggregate_evaluate(self.accounts.t, replies) if replies else None
        ), events

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

    def _end(self, grid: Grid) -> None:
        """Record the end of the rounds. After the last one, clients remove the run's
        samples, unless set to keep them.
        """
        if self.accounts.t == self.experiment.rounds:
            there = self._roster.connected(
                grid, self.accounts.t, min(self.discipline.deadline, ANSWER_WITHIN)
            )
            replied, clients = (
                self._dismiss(grid, there.values()),
                self.experiment.system.clients,
            )
            log(
                INFO,
                "headgate: the run is over; %s of %s clients were told to remove its"
                " samples",
                replied,
                clients,
            )
        with on_disk(self._record.folder):
            self._record.end(self.accounts.t)

    def _dismiss(self, grid: Grid, nodes: Iterable[int]) -> int:
        """Make these nodes remove the run's samples; return how many replied."""
        seconds, over = (
            min(self.discipline.deadline, ANSWER_WITHIN),
            ConfigRecord(to_wire(Ended(self.store.experiment))),
        )
        messages = [
            Message(
                RecordDict({RECORD: over, NONCE: nonce()}),
                node,
                END,
                ttl=seconds,
                group_id=str(self.accounts.t),
            )
            for node in nodes
        ]
        replies = grid.send_and_receive(messages, timeout=seconds) if messages else ()
        return sum(not reply.has_error() for reply in replies)

    def _price(self, t: int) -> Floats:
        if self._prices is None:
            return np.asarray(
                self.experiment.prices.path(self.experiment.seeds, t, t + 1)[0, 0]
                + self.accounts.looks
            )
        stated = prices_for(
            f"prices({t})", self._prices(t), self.experiment.system.clients
        )
        return np.asarray(stated + self.accounts.looks)

    def _judged(
        self, t: int, arrays: ArrayRecord
    ) -> tuple[dict[str, float | None], list[Event]]:
        """Return accuracy and loss from the user's function, which may name them as
        headgate or as Flower's examples do.

        What is no finite number is left out, with an event for the ledger, because the
        round must be settled in any case.
        """
        due = (
            t % self.experiment.training.evaluate_every == 0
            or t == self.experiment.rounds
        )
        found = (
            self._evaluate(t, arrays) if self._evaluate is not None and due else None
        )
        judged, events = dict[str, float | None].fromkeys(JUDGED), list[Event]()
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
            if stated.get(name) is None:
                continue
            try:
                judged[name] = amount(
                    f"{call}: {name}",
                    stated[name],
                    -sys.float_info.max,
                    sys.float_info.max,
                )
            except SettingError as error:
                events.append(Event(t, -1, "not evaluated", one_line(error)))
        return judged, events

    def _metrics(
        self, done: Settlement, checked: CheckedReplies, judged: dict[str, float | None]
    ) -> Row:
        """Return the round's row of the metrics. Clients report the counts for N and
        n_eff.
        """
        known = done.known.values()
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
        closed = [*done.closed, *done.corrected]
        paid = np.zeros((1, self.experiment.system.clients))
        clients = [order.client for order in closed]
        np.add.at(paid[0], clients, [order.charge for order in closed])
        held = self._held_now(done)[None]
        rows = client_rows(self._played(done), held, paid, done.losses)
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
        for row in done.known.values():
            held[row.client] = max(held[row.client] - row.withdrawn, 0)
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

    def _progress_line(self, checked: CheckedReplies, row: dict[str, Any]) -> str:
        """Return the round in one line: replies, samples, money, accuracy, and the
        clients without a valid reply.
        """
        clients, rounds, spent = (
            self.experiment.system.clients,
            self.experiment.rounds,
            float(self.ledger.spent[0]),
        )
        missing = sorted(
            set(range(clients))
            - {answer.client for answer in checked.answers if answer.reason is None}
        )
        listed = ", ".join(map(str, missing[:LISTED])) + (
            f" and {len(missing) - LISTED} more" if missing[LISTED:] else ""
        )
        return (
            f"round {row['t']} of {rounds}: {checked.valid} of {clients} answers,"
            f" {row['admitted']} samples for {row['spend']:.6g}, spent {spent:.6g} of"
            f" {self.experiment.system.money(rounds):.6g}, {row['n']} held"
            + (
                ""
                if row["test_accuracy"] is None
                else f", accuracy {row['test_accuracy']:.3f}"
            )
            + (f"; no valid answer from clients {listed}" if missing else "")
        )


class AdmissionStrategy(Gated):
    """Strategy of Flower that runs one policy with the averaging of the recipe: `Gated`
    around `Averaging`.

    Parameters
    ----------
    experiment, folder, discipline, prices, track
        As for `Gated`.
    client_evaluation
        Whether clients evaluate the model after every round.
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
        call = type(self).__name__
        experiment, discipline = (
            _experiment(call, experiment),
            _discipline(call, discipline),
        )
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
        return (
            mean_metrics(judged, self.experiment.system.weight) if judged else None
        ), []

    def _judged_arrays(self, arrays: ArrayRecord) -> ArrayRecord:
        return (
            arrays if self._averaging.mean is None else record_of(self._averaging.mean)
        )


def _by_client(view: ClientGrid) -> dict[int, int]:
    """Return the client of each node, sorted by client."""
    return dict(sorted((view.clients or {}).items(), key=lambda pair: pair[1]))


def _of_trees(strategy: Any) -> bool:
    """Return whether the strategy, or one that it wraps, sends trees as bytes."""
    inside = getattr(strategy, "strategy", None)
    return isinstance(strategy, FedXgbBagging | FedXgbCyclic) or (
        inside is not None and _of_trees(inside)
    )


# what a user hands in


def _experiment(call: str, given: object) -> Experiment:
    if isinstance(given, Experiment):
        return given
    named = isinstance(given, str | os.PathLike | Mapping)
    require(
        named, f"{call}: experiment", given, "a recipe's name, its file or its content"
    )
    return load(cast(str, given))


def _discipline(call: str, given: Discipline | None) -> Discipline:
    return (
        Discipline()
        if given is None
        else instance(f"{call}: discipline", given, Discipline, "a Discipline")
    )


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
