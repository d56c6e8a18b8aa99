"""headgate around any strategy of Flower: it orders what each client may admit, settles what they answer, and writes it down.

The inner strategy samples clients, configures and averages; it knows nothing of orders. `start` is Flower's, with two
differences: it goes on where the run folder stands, and every wait has a limit.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from logging import INFO, WARNING
from pathlib import Path
from typing import Any, cast

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.common import log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedXgbBagging, FedXgbCyclic, Result, Strategy
from numpy.typing import ArrayLike

from headgate.books.accounts import Accounts, OpenRound, Settlement, check_playable
from headgate.books.durable import on_disk
from headgate.books.ledger_store import Event
from headgate.books.messages import HELD_LOSS, NEW_LOSS, NONCE, RECORD, Ended, Order, to_wire
from headgate.control.policies.budgeted.base import BudgetedPolicy
from headgate.control.types import Floats, Ints, Ledger
from headgate.errors import SettingError
from headgate.experiment import Experiment, load
from headgate.flower.averaging import Averaging, in_type_of
from headgate.flower.keys import VARIABLE
from headgate.flower.parameters import StrategyMemory, keep_only, numpy_of, read_parameters, record_of, write_parameters
from headgate.flower.roster import ANSWER_WITHIN, ClientGrid, Roster, TooFewNodes, guarded, nonce
from headgate.flower.rounds import (
    CheckedReplies,
    Discipline,
    NamedArrays,
    Update,
    evaluations,
    for_any_strategy,
    hear,
    mean_metrics,
)
from headgate.flower.run_folder import RunRecord
from headgate.theory.bound import learning_error
from headgate.theory.reuse import effective_sample_size
from headgate.writing import FolderLock

Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]
FEW = 1_000
"""clients up to which what each admits and holds is recorded"""
END = f"{MessageType.QUERY}.end"
JUDGED = ("test_accuracy", "test_loss", "validation_accuracy")
LISTED = 8
"""missing clients that the line of a round names"""


class Gated(Strategy):
    """Admission around a strategy of Flower, in a run folder like the simulator's.

    Parameters
    ----------
    inner
        Any strategy: it samples, configures and averages as it does alone. It sees only nodes that are clients, and only
        replies that passed all checks.
    experiment
        A recipe, by name, by file or as a dict, with one policy and one seed. Its `system`, `prices`, `run` and policy count.
    folder
        The run folder. A run that is there already is continued.
    discipline
        What a round waits for and accepts.
    prices
        Round t's price, one number or one for each client, in place of the recipe's.
    everyone
        Whether clients that the inner strategy does not sample get orders as well, without the model.
    fixed_shapes
        Whether clients' arrays must have the shapes of the model's. By default all but those of Flower's XGBoost strategies.
    track
        Loggers of others, as `headgate run --track` names them.

    Examples
    --------
    In a ServerApp, `strategy = Gated(FedAdam(fraction_train=0.5), "recipe.toml", "runs/first")`, and `strategy.start(grid, …)`
    as before.
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
        experiment = experiment if isinstance(experiment, Experiment) else load(experiment)
        self.inner, self.experiment, self.discipline = inner, experiment, discipline or Discipline()
        check_playable(experiment)  # before anything is written
        if self.discipline.quorum > experiment.system.clients:
            raise SettingError(f"discipline.quorum = {self.discipline.quorum}: there are {experiment.system.clients} clients")
        self._prices, self._everyone = prices, everyone
        self._fixed_shapes = not _of_trees(inner) if fixed_shapes is None else fixed_shapes
        self._memory, self._weight = StrategyMemory(inner), getattr(inner, "weighted_by_key", "num-examples")
        self._held = FolderLock()
        try:
            with on_disk(Path(folder)):
                self._record = RunRecord(Path(folder), experiment, self._held, track, own_prices=prices is not None)
            self.store = self._record.store
            self.accounts = Accounts.of(experiment, self.store)
        except BaseException:
            self._held.close()
            raise
        keys = os.environ.get(VARIABLE)
        self._roster = Roster(self.store, experiment.system.clients, Path(keys) if keys else None)
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
        """Let go of the run folder."""
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
        """Run all rounds that are left, up to `num_rounds` where it is given. `timeout` is the deadline of a round."""
        rounds = self.experiment.rounds if num_rounds is None else num_rounds
        if rounds > self.experiment.rounds:
            raise SettingError(f"num_rounds = {rounds}: the recipe plans for run.rounds = {self.experiment.rounds}")
        if timeout is not None:
            self.discipline = replace(self.discipline, deadline=timeout)
        self._evaluate, self._started, result, grid = evaluate_fn, True, Result(), guarded(grid)
        arrays = self.continue_from(initial_arrays)
        self.summary()
        while self.accounts.t < (self._up_to_date() if num_rounds is None else rounds):
            t = self.accounts.t + 1
            messages = self.configure_train(t, arrays, train_config or ConfigRecord(), grid)
            replies = grid.send_and_receive(messages, timeout=self.discipline.deadline)
            moved, metrics = self.aggregate_train(t, replies)
            arrays = arrays if moved is None else moved
            if metrics is not None:
                result.train_metrics_clientapp[t] = metrics
            asked = list(self.configure_evaluate(t, self._judged_arrays(arrays), evaluate_config or ConfigRecord(), grid))
            if asked:
                judged = self.aggregate_evaluate(t, grid.send_and_receive(asked, timeout=self.discipline.deadline))
                if judged is not None:
                    result.evaluate_metrics_clientapp[t] = judged
        result.arrays = self._judged_arrays(arrays)
        for past in self.store.rounds():
            if found := {name: past.metrics[name] for name in JUDGED if past.metrics.get(name) is not None}:
                result.evaluate_metrics_serverapp[past.round] = MetricRecord(found)
        self._end(grid)
        return result

    def continue_from(self, initial_arrays: ArrayRecord) -> ArrayRecord:
        """Return the model that the run continues with: `initial_arrays` before round 1, later that of the run folder.

        `start` calls it. Where another strategy wraps this one and has its own `start`, hand that the result as its
        `initial_arrays`: it begins with what clients got last, and counts its rounds from 1.
        """
        self._record.discipline = asdict(self.discipline)
        with on_disk(self._record.folder):
            folder, settled = self._record.parameters, self.store.rounds(after=self.accounts.t - 1)
            self._file = (settled[0].parameters, settled[0].sha256) if settled else self.store.initial()
            if not self._file[0]:
                self._file = write_parameters(folder, 0, numpy_of(initial_arrays))
                self.store.remember_initial(*self._file)
            self._model, memory = read_parameters(folder, *self._file)
            self._memory.restore(memory)
            self._record.rewrite()
            keep_only(folder, [self._file[0]])
            self._record.state("running", self.accounts.t)
        return record_of(self._model)

    def configure_train(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> Iterable[Message]:
        """The inner strategy's messages, each with its client's order, which is on disk before it is sent."""
        t, rules = self.accounts.t + 1, self.discipline
        self._sent, self._now = {}, None
        self._up_to_date()
        if t > self.experiment.rounds:
            log(WARNING, "headgate: all rounds of the recipe (run.rounds = %s) are over; nothing is ordered", t - 1)
            return []
        if not self._file[0]:
            if self.accounts.t:
                hint = "hand start() the arrays that Gated.continue_from() returns"
                raise SettingError(f"initial_arrays: the run stands at round {self.accounts.t}; {hint}")
            self.continue_from(arrays)
        self._model, self._grid = self._typed(numpy_of(arrays)), guarded(grid)
        there = self._roster.gather(grid, t, rules.quorum, rules.gather, rules.deadline)
        away = self._away()
        gone = {client: node for client, node in there.items() if client in self.accounts.left - self._dismissed}
        self._dismiss(grid, gone.values())
        self._dismissed |= gone.keys()
        view = self._view(grid, t, {node: client for client, node in there.items() if client not in away}, rules.gather)
        try:
            inner = self.inner.configure_train(t, record_of(self._model), ConfigRecord(dict(config)), cast(Grid, view))
            drawn = {message.metadata.dst_node_id: message for message in inner}
        except TooFewNodes as error:
            drawn = {}
            self.store.note([Event(t, -1, "no training", str(error))])
        clients = {node: client for node, client in _by_client(view).items() if node in drawn or self._everyone}
        self._now, messages = self.accounts.begin(self._price(t), set(clients.values())), list[Message]()
        for node, client in clients.items():
            self._sent[node] = order = self.accounts.order(self._now, client, node in drawn)
            message = drawn.get(node) or Message(self._bare(t, config), node, MessageType.TRAIN)
            messages.append(self._message(t, message, **{RECORD: ConfigRecord(to_wire(order))}))
        return messages

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Settle the round: what was admitted, by every answer; the model, if there are answers enough."""
        now = self._now
        if now is None:
            if self.accounts.t < self.experiment.rounds:
                raise SettingError(f"server_round = {server_round}: no orders were given for it")
            return None, None
        heard = hear(self.accounts, now, self._sent, replies, self._model, self.discipline, self._fixed_shapes)
        self.accounts.check_up_to_date(now, heard.answers)
        losses = heard.losses(self.experiment.system.clients) if self.accounts.fixed.get("losses") else None
        done = self.accounts.settled(now, heard.answers, self.discipline.offences, losses)
        failure, moved, told = None, None, None
        try:
            moved, told, events = self._aggregated(now.t, heard)
        except Exception as error:  # what was bought is settled before the run ends
            failure, events = error, [Event(now.t, -1, "not aggregated", f"{type(error).__name__}: {error}")]
        if moved is None:
            self._memory.restore(read_parameters(self._record.parameters, *self._file)[1])
        model = self._model if moved is None else moved
        metrics = self._metrics(done, heard, self._judged(now.t, self._judged_arrays(record_of(model))))
        with on_disk(self._record.folder):
            file = self._file
            if moved is not None:  # another strategy's start may change the model further: then what clients got is kept
                kept = moved if self._started else self._model
                file = write_parameters(self._record.parameters, now.t, kept, self._memory.now())
            self.accounts.commit(done, file, metrics, self._clients(done), events=[*heard.events, *events])
            self._file, self._model, self._now, self._sent = file, model, None, {}
            self._record.append(self.store.rounds(after=now.t - 1)[0])
            line = self._told(heard, metrics)
            self._record.state("running", now.t, line)
            keep_only(self._record.parameters, [file[0]])
        log(INFO, "%s", line)
        if failure is not None:
            raise failure
        if not self._started and now.t == self.experiment.rounds:
            self._end(self._grid)
        return (None if moved is None else record_of(moved)), told

    def configure_evaluate(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> Iterable[Message]:
        """The inner strategy's messages, to clients in good standing."""
        t = self.accounts.t
        view = self._view(grid, t, None, self.discipline.gather)
        try:
            inner = self.inner.configure_evaluate(t, arrays, ConfigRecord(dict(config)), cast(Grid, view))
            drawn = {message.metadata.dst_node_id: message for message in inner}
        except TooFewNodes as error:
            log(WARNING, "headgate: round %s is not evaluated by clients: %s", t, error)
            return []
        self._asked = {node: client for node, client in _by_client(view).items() if node in drawn}
        return [self._message(t, drawn[node]) for node in self._asked]

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """What the inner strategy makes of the answers."""
        found, events = self._evaluated(evaluations(replies, self._asked, self._weight))
        if events:
            self.store.note(events)
        return found

    def summary(self) -> None:
        """Log the settings of the run, and the summary of the inner strategy."""
        system = self.experiment.system
        log(INFO, "headgate: policy %s, seed %s, %s clients", self.accounts.policy, self.accounts.seed, system.clients)
        log(INFO, "  budget %s a round, round %s of %s", system.budget, self.accounts.t, self.experiment.rounds)
        if isinstance(policy := self.experiment.policies[self.accounts.policy], BudgetedPolicy) and policy.fill:
            log(INFO, "  round 1 costs at most %g; `headgate plan` shows later rounds", policy.most_in_first_round(system))
        self.inner.summary()

    # its parts

    def _up_to_date(self) -> int:
        """Take up amendments to the terms, unless a round is open; return the last round by them."""
        if self.store.begun() is None:
            self.accounts.take_up()
        system = self.accounts.system
        if system is not self.experiment.system:
            self.experiment, self._roster.clients = self.experiment.under(system), system.clients
            self._record.rounds = self.experiment.rounds
            if isinstance(self.inner, Averaging):
                self.inner.experiment = self.experiment
        return self.experiment.rounds

    def _away(self) -> set[int]:
        """Clients that get no orders: those in quarantine, and those that have left."""
        return self.store.quarantined() | self.accounts.left

    def _view(self, grid: Grid, t: int, nodes: dict[int, int] | None, patience: float) -> ClientGrid:
        """The grid for the inner strategy; `nodes` are those that are known to be there."""

        def look() -> dict[int, int]:
            there, away = self._roster.look(grid, t, self.discipline.deadline), self._away()
            return {client: node for client, node in there.items() if client not in away}

        view = ClientGrid(grid, look, patience)
        view.clients = nodes
        return view

    def _message(self, t: int, inner: Message, **records: ConfigRecord) -> Message:
        """One of the inner strategy's with records of ours: FedAvg hands one content to all clients."""
        content, told = RecordDict({**inner.content, **records, NONCE: nonce()}), inner.metadata
        return Message(content, told.dst_node_id, told.message_type, ttl=self.discipline.deadline, group_id=str(t))

    def _bare(self, t: int, config: ConfigRecord) -> RecordDict:
        """What a client gets that does not train: no model, unless it looks at samples with it."""
        content = RecordDict({"config": ConfigRecord({**config, "server-round": t})})
        if self.accounts.looks_at_samples:
            content["arrays"] = record_of(self._model)
        return content

    def _aggregated(self, t: int, heard: CheckedReplies) -> tuple[NamedArrays | None, MetricRecord | None, list[Event]]:
        """What the inner strategy makes of the updates, in the types of the model; None: the model stays as it is."""
        if heard.valid < self.discipline.quorum:
            few = Event(t, -1, "no quorum", f"{heard.valid} valid answers, {self.discipline.quorum} are needed")
            return None, mean_metrics(heard.updates), [few]
        arrays, metrics, events = self._by_inner(t, heard)
        moved = None if arrays is None else self._typed(numpy_of(arrays))
        if moved and not all(np.isfinite(array).all() for array in moved.values() if array.dtype.kind == "f"):
            moved, events = None, [*events, Event(t, -1, "diverged", "the new model is not finite; the model stays as it was")]
        return moved, metrics, events

    def _by_inner(self, t: int, heard: CheckedReplies) -> tuple[ArrayRecord | None, MetricRecord | None, list[Event]]:
        replies, events = for_any_strategy(t, heard.updates, self._weight)
        return (*(self.inner.aggregate_train(t, replies) if replies else (None, None)), events)

    def _evaluated(self, judged: list[Update]) -> tuple[MetricRecord | None, list[Event]]:
        replies, events = for_any_strategy(self.accounts.t, judged, self._weight)
        return (self.inner.aggregate_evaluate(self.accounts.t, replies) if replies else None), events

    def _typed(self, model: NamedArrays) -> NamedArrays:
        """With the types that the model began with: in Flower's averages whole numbers and float32 become float64."""
        return {name: in_type_of(self._model[name], array) if name in self._model else array for name, array in model.items()}

    def _judged_arrays(self, arrays: ArrayRecord) -> ArrayRecord:
        """What is evaluated, and what a run ends with."""
        return arrays

    def _end(self, grid: Grid) -> None:
        """No more rounds follow now. After the last one clients that are there remove the run's samples, unless their
        settings keep them."""
        if self.accounts.t == self.experiment.rounds:
            there = self._roster.look(grid, self.accounts.t, min(self.discipline.deadline, ANSWER_WITHIN))
            heard, clients = self._dismiss(grid, there.values()), self.experiment.system.clients
            log(INFO, "headgate: the run is over; %s of %s clients were told to remove its samples", heard, clients)
        with on_disk(self._record.folder):
            self._record.end(self.accounts.t)

    def _dismiss(self, grid: Grid, nodes: Iterable[int]) -> int:
        """Have these nodes remove the run's samples; return how many answered."""
        seconds, over = min(self.discipline.deadline, ANSWER_WITHIN), ConfigRecord(to_wire(Ended(self.store.experiment)))
        messages = [
            Message(RecordDict({RECORD: over, NONCE: nonce()}), node, END, ttl=seconds, group_id=str(self.accounts.t))
            for node in nodes
        ]
        replies = grid.send_and_receive(messages, timeout=seconds) if messages else ()
        return sum(not reply.has_error() for reply in replies)

    def _price(self, t: int) -> Floats:
        if self._prices is None:
            return np.asarray(self.experiment.prices.path(self.experiment.seeds, t, t + 1)[0, 0] + self.accounts.looks)
        price = np.asarray(self._prices(t), np.float64)
        if price.size not in (1, self.experiment.system.clients):
            raise SettingError(f"prices({t}) = {price.tolist()}: must be one number, or one for each client")
        return price + self.accounts.looks

    def _judged(self, t: int, arrays: ArrayRecord) -> dict[str, float | None]:
        """Accuracy and loss by the user's function, under our names or those of Flower's examples."""
        due = t % self.experiment.training.evaluate_every == 0 or t == self.experiment.rounds
        found = self._evaluate(t, arrays) if self._evaluate is not None and due else None
        told = {} if found is None else found
        given: dict[str, float | None] = {name: float(value) for name, value in told.items() if np.isscalar(value)}  # type: ignore[arg-type]
        given = {"test_accuracy": given.get("accuracy"), "test_loss": given.get("loss"), **given}
        return {name: given.get(name) for name in JUDGED}

    def _metrics(self, done: Settlement, heard: CheckedReplies, judged: dict[str, float | None]) -> dict[str, Any]:
        """A row of the metrics, as the simulator's. N and n_eff are counted by the clients."""
        before, after, now = done.now.before, done.ledger, done.now
        N, uses, squares = (sum(getattr(row, name) for row in done.known.values()) for name in ("distinct", "uses", "squares"))
        n_eff = float(effective_sample_size(np.array(uses), np.array(squares)))
        trained = sum(update.n for update in heard.updates)
        bound = learning_error(np.array([trained]), np.array([N]), np.array([n_eff / N if N else 1.0]), self.experiment.bound)
        told = mean_metrics(heard.updates)
        loss = told.get("train_loss", told.get("loss"))
        row = {
            "policy": self.accounts.policy,
            "seed": self.accounts.seed,
            "t": now.t,
            **judged,
            "train_loss": loss,
            "n": int(self._held_now(done).sum()),
            "N": N,
            "n_eff": n_eff,
            "admitted": int(after.admitted.sum() - before.admitted.sum()),
            "price": float(now.orders.price.mean()),
            "spend": float(after.spent[0] - before.spent[0]),
            "debt": float(before.debt[0]),
            "bound": float(bound[0]),
            "excess": int((after.occupancy - self.experiment.system.buffer).max()),
        }
        row |= self._looked(done)
        return {name: None if isinstance(value, float) and not np.isfinite(value) else value for name, value in row.items()}

    def _held_now(self, done: Settlement) -> Ints:
        """What clients hold: by the ledger, without what they have withdrawn."""
        held: Ints = done.ledger.occupancy[0].copy()
        for row in done.known.values():
            held[row.client] = max(held[row.client] - row.withdrawn, 0)
        return held

    def _looked(self, done: Settlement) -> dict[str, Any]:
        """What the record says of looks, as the simulator's does: a window for each label, for clients tell of no more."""
        given, before, after = self.experiment, done.now.before, done.ledger
        rule = given.policies[self.accounts.policy].selection
        if rule is None or not (rule.looks and given.data.chooses(rule)):
            return {}
        looked = given.data.window * int((rule.looking(before) * (after.admitted - before.admitted)).sum())
        paid = 0.0 if after.looks is None or before.looks is None else float(after.looks[0] - before.looks[0])
        return {"looked": looked, "looks": paid}

    def _clients(self, done: Settlement) -> dict[str, Any] | None:
        """What each client admitted, holds and, where prices differ, was paid; late answers count in the round they came."""
        clients = self.experiment.system.clients
        if clients > FEW:
            return None
        paid, rows = np.zeros(clients), [*done.closed, *done.corrected]
        told = {} if done.losses is None else {NEW_LOSS: done.losses.new, HELD_LOSS: done.losses.held}
        np.add.at(paid, [order.client for order in rows], [order.charge for order in rows])
        return {
            "policy": self.accounts.policy,
            "seed": self.accounts.seed,
            "t": done.now.t,
            "admitted": (done.ledger.admitted - done.now.before.admitted)[0].tolist(),
            "held": self._held_now(done).tolist(),
            "paid": paid.tolist() if done.now.orders.price.ndim == 2 else None,
            **{name: [None if np.isnan(loss) else loss for loss in each[0].tolist()] for name, each in told.items()},
        }

    def _told(self, heard: CheckedReplies, row: dict[str, Any]) -> str:
        """The round in one line: answers, samples, money, accuracy, and which clients gave no valid answer."""
        clients, rounds, spent = self.experiment.system.clients, self.experiment.rounds, float(self.ledger.spent[0])
        missing = sorted(set(range(clients)) - {answer.client for answer in heard.answers if answer.reason is None})
        listed = ", ".join(map(str, missing[:LISTED])) + (f" and {len(missing) - LISTED} more" if missing[LISTED:] else "")
        return (
            f"round {row['t']} of {rounds}: {heard.valid} of {clients} answers, {row['admitted']} samples "
            f"for {row['spend']:.6g}, spent {spent:.6g} of {self.experiment.system.money(rounds):.6g}, {row['n']} held"
            + ("" if row["test_accuracy"] is None else f", accuracy {row['test_accuracy']:.3f}")
            + (f"; no valid answer from clients {listed}" if missing else "")
        )


class AdmissionStrategy(Gated):
    """One policy of headgate over the clients of a grid, with the averaging of the recipe: `Gated` around `Averaging`.

    Parameters
    ----------
    experiment, folder, discipline, prices, track
        As for `Gated`.
    client_evaluation
        Whether clients are asked to evaluate after every round.
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
        experiment = experiment if isinstance(experiment, Experiment) else load(experiment)
        self._averaging = Averaging(experiment, (discipline or Discipline()).norm_multiple, client_evaluation)
        super().__init__(self._averaging, experiment, folder, discipline=discipline, everyone=True, **more)

    def _by_inner(self, t: int, heard: CheckedReplies) -> tuple[ArrayRecord | None, MetricRecord | None, list[Event]]:
        """A server update moves on also where nobody trained, and clients may tell different metrics."""
        arrays, events = self._averaging.combined(t, heard.updates)
        return arrays, mean_metrics(heard.updates), events

    def _evaluated(self, judged: list[Update]) -> tuple[MetricRecord | None, list[Event]]:
        """The mean of what clients measured, by their weights in the recipe."""
        return (mean_metrics(judged, self.experiment.system.weight) if judged else None), []

    def _judged_arrays(self, arrays: ArrayRecord) -> ArrayRecord:
        return arrays if self._averaging.mean is None else record_of(self._averaging.mean)


def _by_client(view: ClientGrid) -> dict[int, int]:
    """Node → client, by client."""
    return dict(sorted((view.clients or {}).items(), key=lambda pair: pair[1]))


def _of_trees(strategy: Any) -> bool:
    """Whether it, or what it wraps, sends trees in bytes."""
    inside = getattr(strategy, "strategy", None)
    return isinstance(strategy, FedXgbBagging | FedXgbCyclic) or (inside is not None and _of_trees(inside))
