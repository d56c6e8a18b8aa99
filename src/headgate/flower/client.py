"""The client side of a run: it admits samples as ordered, and trains on what it holds
with the user's function.

    @headgate_client(app, source=my_source)
    def train(message, context, held):
        ...

The decorator replaces `@app.train()`. The function is called with the samples to train
on, and is not called without samples. A record of what was admitted is added to its
reply.
"""

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.client.mod import make_ffn
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import Mod
from numpy.typing import ArrayLike, NDArray

from headgate.control.checks import path, whole_number
from headgate.control.scores import Scores
from headgate.control.types import HALF, Bools
from headgate.errors import DataError, SettingError, require
from headgate.escaping import shown
from headgate.flower.border import Rule, function, instance, items, rule_classes
from headgate.flower.buffer_store import BufferStore, store_folder, store_name
from headgate.flower.logs import tell_store
from headgate.flower.messages import (
    HELD_LOSS,
    NEW_LOSS,
    NEW_RIGHT,
    RECORD,
    Ahead,
    Ended,
    Identity,
    Order,
    from_wire,
    to_wire,
)
from headgate.flower.sources import HeldSample, Label, Source, unpack
from headgate.limits import CLIENTS

Train = Callable[[Message, Context, "HeldSamples"], Message]
Scorer = Callable[[Message, Context, "HeldSamples", tuple[str, ...]], Scores]
Sources = Source | Callable[[Context], Source]
Rules = Collection[type[Rule]] | Callable[[Context], Collection[type[Rule]]]
KEEP_VARIABLE = "HEADGATE_KEEP"
"""environment variable: whether a client keeps its samples after a run, unless the node
has the setting `headgate-keep`
"""


class HeldSamples(Sequence[HeldSample]):
    """The samples that a client may train on in this round, in the order in which they
    were admitted.
    """

    def __init__(self, samples: Sequence[HeldSample], order: Order) -> None:
        self._samples, self.order = samples, order

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: Any) -> Any:
        return self._samples[index]

    @property
    def payloads(self) -> list[bytes]:
        return [sample.payload for sample in self._samples]

    @property
    def labels(self) -> list[Label]:
        return [sample.label for sample in self._samples if sample.label is not None]

    @property
    def keys(self) -> list[str]:
        return [sample.key for sample in self._samples]

    @property
    def new(self) -> Bools:
        """Mask of the samples that were admitted in this round or, if labels come late,
        got their labels in it.
        """
        ripe = self.order.round - self.order.late
        return np.array([sample.round == ripe for sample in self._samples], dtype=bool)

    def loss_metrics(self, losses: ArrayLike) -> dict[str, float]:
        """Return the metrics that an order requests by `order.losses`.

        These are the mean loss of new samples, that of samples held before, and the
        share of new samples to whose class the model gave more than ½. `losses` has the
        loss of each sample under the received model. Means of no samples are left out.
        """
        try:
            stated = np.asarray(losses)
        except Exception:  # objects of other packages have their own code for this
            stated = np.asarray(None)
        known = stated.shape == (len(self),) and stated.dtype.kind in "iuf"
        require(known, "loss_metrics: losses", losses, "one number for each sample")
        own, new = stated.astype(np.float64), self.new
        chosen = {
            NEW_LOSS: own[new],
            HELD_LOSS: own[~new],
            NEW_RIGHT: np.where(np.isfinite(own), own < HALF, np.nan)[new],
        }
        return {
            name: max(float(each.mean()), 0.0)
            for name, each in chosen.items()
            if each.size and np.isfinite(each).all()
        }

    def arrays(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return (samples, labels) as arrays. The source must pack arrays, or pairs of
        an array and a label.
        """
        samples = [
            item[0] if isinstance(item, tuple) else item for item in self.items()
        ]
        return np.stack(samples), np.asarray(self.labels)

    def items(self) -> list[Any]:
        """Return the items of a `DatasetSource`, with arrays in place of tensors, for a
        `DataLoader`.
        """
        return [unpack(payload) for payload in self.payloads]


def headgate_client(
    app: ClientApp,
    source: Sources,
    store: Path | str | None = None,
    rules: Rules = (),
    scores: Scorer | None = None,
    mods: Sequence[Mod] = (),
) -> Callable[[Train], Train]:
    """Register a training function and the client's identity with `app`.

    Parameters
    ----------
    app : flwr.clientapp.ClientApp
        The ClientApp. Its own mods see all messages, including orders and queries; most
        mods of Flower belong in `mods`.
    source : Source or callable
        The source of the samples, or a function that returns it for a context.
    store : str or pathlib.Path, optional
        The folder of the client's store; by default the node's setting
        `headgate-store`, then $HEADGATE_STORE, then ~/.local/state/headgate.
    rules : collection of type, or callable, optional
        Your own retention and buying rules that an order may name, or a function that
        returns them for a context.
    scores : callable, optional
        A function of message, context, samples and the names of the requested scores,
        for rules that look at samples. `control.scores.scores_of` computes scores from
        the outputs of a model. Scores never leave the client.
    mods : sequence of callable, optional
        Mods of Flower that apply to the training only, such as `fixedclipping_mod`.
        They get the message without the order.

    Returns
    -------
    callable
        A decorator for the function of message, context and held samples that trains.

    Raises
    ------
    SettingError
        If an argument is not what it must be.

    Examples
    --------
    >>> import numpy as np
    >>> from flwr.clientapp import ClientApp
    >>> from headgate.flower import DatasetSource
    >>> app = ClientApp()
    >>> source = DatasetSource(np.zeros((5, 2)), [0, 1, 0, 1, 1])
    >>> @headgate_client(app, source)
    ... def train(message, context, held):
    ...     images, labels = held.arrays()  # train on these, then return a Message
    """

    call = "headgate_client"
    instance(f"{call}: app", app, ClientApp, "a ClientApp")
    if not _reads(source):
        function(
            f"{call}: source",
            source,
            "a source, or a function that returns it for a context",
        )
    folder = None if store is None else path(f"{call}: store", store)
    by_context = callable(rules) and not isinstance(rules, type)
    own_rules: Rules = rules if by_context else rule_classes(f"{call}: rules", rules)
    if scores is not None:
        function(f"{call}: scores", scores)
    own_mods: list[Mod] = items(f"{call}: mods", mods, "a list of mods")
    for place, mod in enumerate(own_mods):
        function(f"{call}: mods[{place}]", mod, "a mod of Flower")

    def decorate(trains: Train) -> Train:
        function(f"{call}: function", trains, "the function that trains")

        @app.query("identity")
        def identity(message: Message, context: Context) -> Message:
            with closing(open_store(context, folder)) as own:
                return _reply(message, Identity(own.client))

        @app.query("end")
        def end(message: Message, context: Context) -> Message:
            ended = from_wire(Ended, dict(message.content.config_records[RECORD]))
            with closing(open_store(context, folder)) as own:
                if not _keeps(context):
                    own.forget(ended.experiment)
                return _reply(message, Identity(own.client))

        @app.train()
        def train(message: Message, context: Context) -> Message:
            order = from_wire(Order, dict(message.content.config_records[RECORD]))
            known = own_rules(context) if callable(own_rules) else own_rules
            with closing(open_store(context, folder, known)) as own:
                return carry_out(order, own, message, context)

        def carry_out(
            order: Order,
            own: BufferStore,
            message: Message,
            context: Context,
        ) -> Message:
            if order.client != own.client:
                raise DataError(
                    f"order.client = {order.client}: this is client {own.client}"
                )
            samples: Any = source
            if callable(source) and not _reads(source):
                samples = source(context)
            if not _reads(samples):
                raise SettingError(
                    f"source of client {own.client} = {shown(samples)}: must have the"
                    " method read"
                )

            def scorer(shown: Sequence[HeldSample], asked: tuple[str, ...]) -> Scores:
                assert scores is not None
                return scores(message, context, HeldSamples(shown, order), asked)

            if not own.admit(order, samples, None if scores is None else scorer):
                newest, _ = own.newest(order.experiment)
                ahead = Ahead(order.experiment, order.round, own.client, newest)
                return _reply(message, ahead)
            own.fill_in_labels(order.experiment, samples)
            ripe = order.round - order.late
            labelled = [
                each
                for each in own.held(order.experiment)
                if each.label is not None and each.round <= ripe
            ]
            reply = Message(RecordDict(), reply_to=message)
            if labelled and order.train:
                held = HeldSamples(labelled, order)
                run = make_ffn(lambda inner, ctx: trains(inner, ctx, held), own_mods)
                reply = run(_without_order(message), context)
                if reply.has_error():
                    # of a mod: the next reply reports what was admitted
                    return reply
                own.count_uses(order, held.keys)
            receipt = own.receipt(order, len(labelled))
            reply.content[RECORD] = ConfigRecord(to_wire(receipt))
            return reply

        return trains

    return decorate


def _reads(source: object) -> bool:
    """Return whether this is a source; a class of sources is a function that returns
    one.
    """
    return hasattr(source, "read") and not isinstance(source, type)


def _reply(message: Message, value: Ahead | Identity) -> Message:
    content = RecordDict({RECORD: ConfigRecord(to_wire(value))})
    return Message(content, reply_to=message)


def _without_order(message: Message) -> Message:
    """Return the message as the inner strategy made it."""
    records = message.content.items()
    content = {name: each for name, each in records if not name.startswith(RECORD)}
    return Message(  # type: ignore[no-any-return]
        content=RecordDict(content),
        metadata=message.metadata,
    )  # type: ignore[call-overload]


def open_store(
    context: Context,
    folder: Path | None,
    rules: Collection[type[Rule]] = (),
) -> BufferStore:
    """Open the store of the client that runs on this node."""
    client = whole_number(
        "node_config partition-id",
        context.node_config.get("partition-id"),
        most=CLIENTS - 1,
    )
    stated = context.node_config.get("headgate-store") or None
    home = folder or store_folder(stated, "node_config headgate-store")
    tell_store(home.absolute())
    return BufferStore(home / store_name(client), client, rules)


def _keeps(context: Context) -> bool:
    usual = os.environ.get(KEEP_VARIABLE, "")
    setting = context.node_config.get("headgate-keep", usual)
    return str(setting).lower() in ("1", "true", "yes")
