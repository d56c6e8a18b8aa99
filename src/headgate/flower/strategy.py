"""headgate as a strategy of Flower: it decides what each client may admit, averages their models, and writes all of it down.

`start` is Flower's, with two differences: it goes on where the run folder stands, and every wait has a limit.
"""

from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from logging import INFO
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.common import log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from numpy.typing import ArrayLike, NDArray

from headgate.books.accounts import Accounts, OpenRound, Settlement, check_playable
from headgate.books.durable import on_disk
from headgate.books.ledger_store import NOTHING_KNOWN, Event, Medians
from headgate.books.messages import HELD_LOSS, NEW_LOSS, RECORD, Ended, Order, to_wire
from headgate.control.policies.budgeted.base import BudgetedPolicy
from headgate.control.types import Floats, Ints, Ledger, Losses
from headgate.errors import SettingError
from headgate.experiment import Experiment, load
from headgate.flower.capping import capped
from headgate.flower.keys import NONCE, keys_of_the_deployment, nonce
from headgate.flower.parameters import ServerModel, average, keep_only, read_parameters, write_parameters
from headgate.flower.roster import ANSWER_WITHIN, Roster
from headgate.flower.rounds import CheckedReplies, Discipline, evaluations, hear, losses_told, mean_metrics, order_messages
from headgate.flower.run_folder import RunRecord
from headgate.flower.senders import guarded, sorted_out
from headgate.flower.validation import NamedArrays
from headgate.learning.concepts import ConceptSchedule
from headgate.learning.server import aggregation_weights, draw_cohort
from headgate.records.writer import FolderLock
from headgate.theory.bound import learning_error
from headgate.theory.reuse import effective_sample_size

Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]
FEW = 1_000
"""clients up to which what each admits and holds is recorded"""
END = f"{MessageType.QUERY}.end"
LISTED = 8
"""missing clients that the line of a round names"""


class AdmissionStrategy(Strategy):
    """One policy of headgate over the clients of a grid, in a run folder like the simulator's.

    `experiment`, or the recipe that it is loaded from, has one policy and one seed. Its prices count unless `prices` gives
    round t's, one number or one for each client. `client_evaluation` asks clients to evaluate after every round, as Flower's
    own strategies do.
    """

    def __init__(
        self,
        experiment: Experiment | str,
        folder: Path | str,
        *,
        discipline: Discipline | None = None,
        prices: Callable[[int], ArrayLike] | None = None,
        client_evaluation: bool = False,
        watch: Callable[[str], None] | None = None,
    ) -> None:
        experiment = load(experiment) if isinstance(experiment, str) else experiment
        self.experiment, self.discipline = experiment, discipline or Discipline()
        check_playable(experiment)  # before anything is written
        if self.discipline.quorum > experiment.system.clients:
            raise SettingError(f"discipline.quorum = {self.discipline.quorum}: there are {experiment.system.clients} clients")
        self._prices, self._client_evaluation = prices, client_evaluation
        self._keys = keys_of_the_deployment()
        self._held = FolderLock()
        try:
            with on_disk(Path(folder)):
                self._record = RunRecord.open(Path(folder), experiment, self._held, own_prices=prices is not None)
            self.store = self._record.ledger(watch)
            self._held.callback(self.store.close)
            self.accounts = Accounts(experiment, self.store)
        except BaseException:
            self._held.close()
            raise
        self._roster = Roster(self.store, experiment.system.clients, self._keys)
        self._evaluate: Evaluate | None = None
        self._learned = ServerModel({}, {})
        self._file, self._medians = ("", ""), NOTHING_KNOWN
        self._now: OpenRound | None = None
        self._sent: dict[int, Order] = {}
        self._asked: dict[int, int] = {}
        self._messages: list[Message] = []

    @property
    def ledger(self) -> Ledger:
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
        """Play all rounds that are left, up to `num_rounds` where it is given. `timeout` is the deadline of a round."""
        rounds = self.experiment.rounds if num_rounds is None else num_rounds
        if rounds > self.experiment.rounds:
            raise SettingError(f"num_rounds = {rounds}: the recipe plans for run.rounds = {self.experiment.rounds}")
        if timeout is not None:
            self.discipline = replace(self.discipline, deadline=timeout)
        self._evaluate, result, grid = evaluate_fn, Result(), guarded(grid)
        self._record.discipline = asdict(self.discipline)
        with on_disk(self._record.folder):
            arrays = self._go_on(initial_arrays)
            self._record.state("running", self.accounts.t)
        self.summary()
        while self.accounts.t < rounds:
            t = self.accounts.t + 1
            messages = self.configure_train(t, arrays, train_config or ConfigRecord(), grid)
            replies = grid.send_and_receive(messages, timeout=self.discipline.deadline)
            moved, metrics = self.aggregate_train(t, replies)
            arrays = arrays if moved is None else moved
            if metrics is not None:
                result.train_metrics_clientapp[t] = metrics
            if self._client_evaluation:
                judged_by_clients = record_of(self._learned.judged)
                asked = self.configure_evaluate(t, judged_by_clients, evaluate_config or ConfigRecord(), grid)
                judged = self.aggregate_evaluate(t, grid.send_and_receive(asked, timeout=self.discipline.deadline))
                if judged is not None:
                    result.evaluate_metrics_clientapp[t] = judged
        result.arrays = record_of(self._learned.judged)
        for past in self.store.rounds():
            judged_here = {name: past.metrics.get(name) for name in ("test_accuracy", "test_loss", "validation_accuracy")}
            if any(value is not None for value in judged_here.values()):
                kept = {name: value for name, value in judged_here.items() if value is not None}
                result.evaluate_metrics_serverapp[past.round] = MetricRecord(kept)
        if self.accounts.t == self.experiment.rounds:
            self._say_that_it_is_over(grid)
        with on_disk(self._record.folder):
            self._record.end(self.accounts.t)
        return result

    def configure_train(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> Iterable[Message]:
        """Round t's orders, on disk before they are sent, each in a record of its client's own."""
        if not self._file[0] or server_round != self.accounts.t + 1:
            raise SettingError("AdmissionStrategy: is played by its own start() alone; no other strategy can wrap it")
        rules = self.discipline
        there = self._roster.gather(grid, server_round, rules.quorum, rules.gather, rules.deadline)
        away = self.store.quarantined()
        nodes = {client: node for client, node in there.items() if client not in away}
        self._now = self.accounts.begin(self._price(server_round), nodes)
        trains = self._cohort(server_round)
        self._sent = {
            node: self.accounts.order(self._now, client, trains is None or client in trains) for client, node in nodes.items()
        }
        self._messages = order_messages(self._sent, arrays, config, rules.deadline, self.accounts.looks_at_samples)
        return self._messages

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Settle round t: what was admitted, by every answer; the model, if there are answers enough."""
        now = self._now
        if now is None or now.t != server_round:
            raise SettingError(f"server_round = {server_round}: no orders were given for it")
        sent = {node: order.client for node, order in self._sent.items()}
        genuine, forged = sorted_out(now.t, self._messages, sent, replies, self._keys)
        heard = hear(self.accounts, now, self._sent, genuine, self._learned.model, self.discipline)
        self.accounts.check_up_to_date(now, heard.answers)
        losses = losses_told(heard.updates, self.experiment.system.clients) if self.accounts.asks else None
        done = self.accounts.settled(now, heard.answers, self.discipline.offences, losses)
        done = done.with_events([*forged, *heard.events])
        learned, medians, events = self._step(now.t, heard)
        arrays = record_of((learned or self._learned).model)
        metrics = self._metrics(done, heard, self._judged(now.t, record_of((learned or self._learned).judged)))
        with on_disk(self._record.folder):
            file = write_parameters(self._record.parameters, now.t, learned) if learned is not None else self._file
            self.accounts.commit(done.with_events(events), file, metrics, self._clients(done), medians)
            self._medians = medians
            if learned is not None:
                self._learned, self._file = learned, file
            self._now, self._sent, self._messages = None, {}, []
            self._record.append(self.store.rounds(after=now.t - 1)[0])
            told = self._told(heard, metrics)
            self._record.state("running", now.t, told)
            keep_only(self._record.parameters, [file[0]])
        log(INFO, "%s", told)
        return (arrays if learned is not None else None), mean_metrics(heard.updates)

    def configure_evaluate(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> Iterable[Message]:
        there, away = self._roster.look(grid, server_round, self.discipline.deadline), self.store.quarantined()
        self._asked = {node: client for client, node in there.items() if client not in away}
        own = ConfigRecord({**config, "server-round": server_round})
        self._messages = [
            Message(
                RecordDict({"arrays": arrays, "config": own, NONCE: nonce()}),
                node,
                MessageType.EVALUATE,
                ttl=self.discipline.deadline,
                group_id=str(server_round),
            )
            for node in self._asked
        ]
        return self._messages

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """The mean of what clients measured, by their weights in the recipe; with keys, of what these have signed."""
        genuine, forged = sorted_out(server_round, self._messages, self._asked, replies, self._keys)
        if forged:
            self.store.note(forged)
        judged = evaluations(genuine, self._asked)
        return mean_metrics(judged, self.experiment.system.weight) if judged else None

    def summary(self) -> None:
        system = self.experiment.system
        log(INFO, "headgate: policy %s, seed %s, %s clients", self.accounts.policy, self.accounts.seed, system.clients)
        log(INFO, "  budget %s a round, round %s of %s", system.budget, self.accounts.t, self.experiment.rounds)
        if isinstance(policy := self.experiment.policies[self.accounts.policy], BudgetedPolicy) and policy.fill:
            log(INFO, "  round 1 costs at most %g; `headgate plan` shows later rounds", policy.most_in_first_round(system))

    # its parts

    def _say_that_it_is_over(self, grid: Grid) -> None:
        """Clients that are there remove the run's samples, unless their settings keep them."""
        seconds, over = min(self.discipline.deadline, ANSWER_WITHIN), ConfigRecord(to_wire(Ended(self.store.experiment)))
        messages = [
            Message(RecordDict({RECORD: over, NONCE: nonce()}), node, END, ttl=seconds, group_id=str(self.accounts.t))
            for node in self._roster.look(grid, self.accounts.t, seconds).values()
        ]
        replies = list(grid.send_and_receive(messages, timeout=seconds)) if messages else []
        heard, clients = sum(not reply.has_error() for reply in replies), self.experiment.system.clients
        log(INFO, "headgate: the run is over; %s of %s clients were told to remove its samples", heard, clients)

    def _go_on(self, initial: ArrayRecord) -> ArrayRecord:
        """The model as the last settled round left it; tables as the ledger has them."""
        folder, settled = self._record.parameters, self.store.rounds(after=self.accounts.t - 1)
        self._file = (settled[0].parameters, settled[0].sha256) if settled else self.store.initial()
        if not self._file[0]:
            self._file = write_parameters(folder, 0, ServerModel.first(numpy_of(initial), self.experiment.server))
            self.store.remember_initial(*self._file)
        self._learned = read_parameters(folder, *self._file)
        self._medians = settled[0].medians if settled else NOTHING_KNOWN
        self._record.rewrite(self.store)
        keep_only(folder, [self._file[0]])
        return record_of(self._learned.model)

    def _price(self, t: int) -> Floats:
        if self._prices is None:
            return np.asarray(self.experiment.prices.path(self.experiment.seeds, t, t + 1)[0, 0] + self.accounts.looks)
        price = np.asarray(self._prices(t), np.float64)
        if price.size not in (1, self.experiment.system.clients):
            raise SettingError(f"prices({t}) = {price.tolist()}: must be one number, or one for each client")
        return price + self.accounts.looks

    def _cohort(self, t: int) -> set[int] | None:
        size = self.experiment.training.cohort
        if size is None:
            return None
        return set(draw_cohort(self.accounts.seed, t, self.experiment.system.clients, size).tolist())

    def _step(self, t: int, heard: CheckedReplies) -> tuple[ServerModel | None, Medians, list[Event]]:
        """What the server update makes of the mean, which is the model itself where nobody trained; None: too few answers."""
        if heard.valid < self.discipline.quorum:
            few = Event(t, -1, "no quorum", f"{heard.valid} valid answers, {self.discipline.quorum} are needed")
            return None, self._medians, [few]
        kept, medians, events = heard.updates, self._medians, list[Event]()
        if multiple := self.discipline.norm_multiple:
            kept, medians, events = capped(t, kept, self._learned.model, multiple, medians)
        alpha = self.experiment.system.weight[[update.client for update in heard.updates]]
        n = np.array([[update.n for update in heard.updates]], dtype=np.int64)
        weights = aggregation_weights(self.experiment.training.aggregation, alpha[None], n)[0]
        updates = [update.model for update in kept]
        learned = self._learned.step(t, average(self._learned.model, updates, weights), self.experiment.server)
        learned = learned.averaged(t, self.experiment.training.average)
        if not all(np.isfinite(array).all() for array in learned.model.values() if array.dtype.kind == "f"):
            diverged = Event(t, -1, "diverged", "the new model is not finite; the model stays as it was")
            return None, medians, [*events, diverged]
        return learned, medians, events

    def _judged(self, t: int, arrays: ArrayRecord) -> dict[str, float | None]:
        """Accuracy and loss by the user's function, under our names or those of Flower's examples."""
        due = t % self.experiment.training.evaluate_every == 0 or t == self.experiment.rounds
        found = self._evaluate(t, arrays) if self._evaluate is not None and due else None
        given = {} if found is None else {name: float(value) for name, value in found.items() if np.isscalar(value)}  # type: ignore[arg-type]
        return {
            "test_accuracy": given.get("test_accuracy", given.get("accuracy")),
            "test_loss": given.get("test_loss", given.get("loss")),
            "validation_accuracy": given.get("validation_accuracy"),
            **{
                f"accuracy_{concept}": given.get(f"accuracy_{concept}") for concept in range(len(self.experiment.data.concepts))
            },
        }

    def _metrics(self, done: Settlement, heard: CheckedReplies, judged: dict[str, float | None]) -> dict[str, Any]:
        """A row of the metrics, as the simulator's. N and n_eff are counted by the clients."""
        before, after, now = done.now.before, done.ledger, done.now
        clients = {**self.accounts.clients, **{row.client: row for row in done.clients}}.values()
        N, uses, squares = (sum(getattr(row, name) for row in clients) for name in ("distinct", "uses", "squares"))
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
        row |= self._concepts(now.t, judged) | self._looked(done)
        return {name: None if isinstance(value, float) and not np.isfinite(value) else value for name, value in row.items()}

    def _held_now(self, done: Settlement) -> Ints:
        """What clients hold: by the ledger, without what they have withdrawn."""
        held: Ints = done.ledger.occupancy[0].copy()
        for row in {**self.accounts.clients, **{row.client: row for row in done.clients}}.values():
            held[row.client] = max(held[row.client] - row.withdrawn, 0)
        return held

    def _concepts(self, t: int, judged: dict[str, float | None]) -> dict[str, float]:
        """What the record says of a world that changes, as the simulator's does."""
        given = self.experiment
        if given.data.changes is None:
            return {}
        where = ConceptSchedule(given.data.changes, len(given.data.concepts), given.seeds[:1], given.system.clients)
        by_concept = [judged.get(f"accuracy_{concept}") for concept in range(where.concepts)]
        told = where.columns(t, given.system.weight, np.array([by_concept], dtype=np.float64))
        return {name: values[0] for name, values in told.items()}

    def _looked(self, done: Settlement) -> dict[str, Any]:
        """What the record says of looks, as the simulator's does: a window for each label, for clients tell of no more."""
        given, before, after = self.experiment, done.now.before, done.ledger
        rule = given.policies[self.accounts.policy].selection
        if rule is None or not (rule.looks and given.data.chooses(rule)):
            return {}
        looked = given.data.window * int(after.admitted.sum() - before.admitted.sum())
        paid = 0.0 if after.looks is None or before.looks is None else float(after.looks[0] - before.looks[0])
        return {"looked": looked, "looks": paid}

    def _clients(self, done: Settlement) -> dict[str, Any] | None:
        """What each client admitted, holds and, where prices differ, was paid; late answers count in the round they came."""
        clients = self.experiment.system.clients
        if clients > FEW:
            return None
        paid, rows = np.zeros(clients), [*done.closed, *done.corrected]
        np.add.at(paid, [order.client for order in rows], [order.charge for order in rows])
        return {
            "policy": self.accounts.policy,
            "seed": self.accounts.seed,
            "t": done.now.t,
            "admitted": (done.ledger.admitted - done.now.before.admitted)[0].tolist(),
            "held": self._held_now(done).tolist(),
            "paid": paid.tolist() if done.now.orders.price.ndim == 2 else None,
            **({} if done.losses is None else _recorded(done.losses)),
        }

    def _told(self, heard: CheckedReplies, row: dict[str, Any]) -> str:
        """The round in one line: answers, samples, money, accuracy, and which clients gave no valid answer."""
        clients, rounds, spent = self.experiment.system.clients, self.experiment.rounds, float(self.ledger.spent[0])
        missing = sorted(set(range(clients)) - {answer.client for answer in heard.answers if answer.reason is None})
        listed = ", ".join(map(str, missing[:LISTED])) + (f" and {len(missing) - LISTED} more" if missing[LISTED:] else "")
        return (
            f"round {row['t']} of {rounds}: {heard.valid} of {clients} answers, {row['admitted']} samples "
            f"for {row['spend']:.6g}, spent {spent:.6g} of {self.experiment.system.budget * rounds:.6g}, {row['n']} held"
            + ("" if row["test_accuracy"] is None else f", accuracy {row['test_accuracy']:.3f}")
            + (f"; no valid answer from clients {listed}" if missing else "")
        )


def _recorded(losses: Losses) -> dict[str, list[float | None]]:
    return {
        name: [None if np.isnan(loss) else loss for loss in each[0].tolist()]
        for name, each in zip((NEW_LOSS, HELD_LOSS), losses, strict=True)
    }


def numpy_of(arrays: ArrayRecord) -> dict[str, NDArray[Any]]:
    return {name: array.numpy() for name, array in arrays.items()}


def record_of(model: NamedArrays) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(array, order="C")) for name, array in model.items()})
