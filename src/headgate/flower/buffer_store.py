"""The store of a client on disk: the samples that it holds, and what it has admitted on
which order.

The key of an admission is (experiment, round, client). One transaction writes its row,
its samples and the cursor of the source, and deletes what retention drops. An order
that arrives again, also after a crash, finds the row and admits nothing.
"""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headgate.books.durable import Durable, statements
from headgate.control.buffers import keeps_alone
from headgate.control.checks import path as checked_path
from headgate.control.checks import whole_number
from headgate.control.randomness import Purpose
from headgate.control.ranking import Candidates, chosen
from headgate.control.retention import Retention
from headgate.control.scores import WITHOUT_LABELS, Scores, checked_scores
from headgate.control.selection import Selection
from headgate.control.types import Bools, Ints
from headgate.errors import DataError, SettingError
from headgate.flower.border import (
    instance,
    rule_classes,
    unseen,
    writable_text,
    writable_texts,
)
from headgate.flower.messages import NO_LIMIT, Order, Receipt
from headgate.flower.rules import StatedChoice, choice_of, rule_of
from headgate.flower.sources import (
    HeldSample,
    Label,
    Sample,
    SampleScorer,
    Source,
    checked_batch,
    checked_labels,
)
from headgate.limits import CLIENTS

VARIABLE = "HEADGATE_STORE"
"""environment variable with the folder of the stores"""
SAMPLES = """
(
    experiment TEXT,
    position INTEGER CHECK (position >= 0),
    key TEXT NOT NULL,
    payload BLOB NOT NULL,
    label ANY CHECK (typeof(label) IN ('integer', 'real', 'text', 'null')),
    round INTEGER NOT NULL CHECK (round >= 0),
    PRIMARY KEY (experiment, position)
) STRICT
"""
"""columns of a table of samples"""


SCHEMA = f"""
CREATE TABLE IF NOT EXISTS experiments (
    experiment TEXT PRIMARY KEY,
    position INTEGER NOT NULL CHECK (position >= 0),
    first INTEGER NOT NULL CHECK (first >= 0),
    cursor INTEGER NOT NULL CHECK (cursor >= 0),
    lost INTEGER NOT NULL CHECK (lost >= 0),
    erased INTEGER NOT NULL CHECK (erased >= 0)
) STRICT;
CREATE TABLE IF NOT EXISTS admissions (
    experiment TEXT,
    round INTEGER CHECK (round >= 0),
    client INTEGER CHECK (client >= 0),
    last INTEGER NOT NULL CHECK (last >= 0),
    admitted INTEGER NOT NULL CHECK (admitted >= 0),
    trained INTEGER NOT NULL CHECK (trained IN (0, 1)),
    note TEXT NOT NULL,
    PRIMARY KEY (experiment, round, client)
) STRICT;
CREATE TABLE IF NOT EXISTS samples {SAMPLES};
CREATE TABLE IF NOT EXISTS uses (
    experiment TEXT,
    key TEXT,
    uses INTEGER NOT NULL CHECK (uses >= 0),
    PRIMARY KEY (experiment, key)
) STRICT;
CREATE TABLE IF NOT EXISTS looked (
    experiment TEXT PRIMARY KEY,
    samples INTEGER NOT NULL CHECK (samples >= 0)
) STRICT;
CREATE TABLE IF NOT EXISTS spare {SAMPLES};
CREATE TABLE IF NOT EXISTS erasures (
    key TEXT PRIMARY KEY,
    time TEXT NOT NULL,
    samples INTEGER NOT NULL CHECK (samples >= 0)
) STRICT;
"""
"""the tables of a store

A row of `uses` stays when its sample is dropped: if a later pass of the stream returns
the sample, it has the same key. `looked` and `spare` are for buying rules: how many
samples the client was offered, and those that it keeps without having bought them.
"""


class Admission(NamedTuple):
    """What a client did on an order."""

    round: int
    admitted: int
    trained: bool
    note: str


class ClientState(NamedTuple):
    """Counts and positions of a client in an experiment."""

    position: int
    """number of samples ever admitted, including lost ones"""
    first: int
    """position before which all samples were dropped; 0 unless the retention rule is a
    window
    """
    cursor: int
    """cursor after the samples that were read from the source"""
    lost: int
    erased: int
    """number of admitted samples that were erased"""


class Erasure(NamedTuple):
    """The receipt of an erasure, which stays in the store."""

    key: str
    time: str
    """time of the latest erasure with this key, in UTC"""
    samples: int
    """number of samples with this key that were erased, in total"""


class BufferStore(Durable):
    """The file of one client. It may hold several experiments, which share nothing but
    the erased keys.
    """

    format = "headgate buffer 3"
    schema = statements(SCHEMA)

    def __init__(
        self,
        path: Path | str,
        client: int,
        rules: Collection[type] = (),
    ) -> None:
        """Open the store of a client. `rules` are its own retention and buying rules,
        in addition to the shipped ones.
        """
        self.client = whole_number("BufferStore: client", client, most=CLIENTS - 1)
        self.rules = rule_classes("BufferStore: rules", rules)
        super().__init__(checked_path("BufferStore: path", path))

    def _opened(self) -> None:
        # overwrites the bytes of deleted rows
        self._rows("PRAGMA secure_delete = ON")
        found = self._fixed("client", self.client)
        if found != self.client:
            raise DataError(
                f"{self.path}: is the memory of client {found}, not of client"
                f" {self.client}"
            )

    # one order

    def admit(
        self,
        order: Order,
        source: Source,
        scorer: SampleScorer | None = None,
    ) -> bool:
        """Carry out an order once. Return False, and ignore it, after a newer order or
        another order of the same round.

        `scorer` returns the scores of samples under the model, for rules that need
        them. What the source returns is checked before anything is written.
        """
        instance("admit: order", order, Order, "an Order")
        with self.transaction():
            newest = self.newest(order.experiment)
            if newest[0] >= order.round:
                return newest == (order.round, order.last)
            state = self.state(order.experiment)
            # samples that were admitted into an earlier file, which is gone
            gone = max(order.known - state.position, 0)
            position = state.position + gone
            wanted = max(order.last - position, 0)
            samples, cursor = self._bought(order, source, state.cursor, wanted, scorer)
            self._write_admission(order, position, wanted, samples)
            last = position + len(samples)
            first = self._retain(order, state.first, position, last, scorer)
            self._run(
                "INSERT OR REPLACE INTO experiments VALUES (?, ?, ?, ?, ?, ?)",
                (
                    order.experiment,
                    last,
                    first,
                    cursor,
                    state.lost + gone,
                    state.erased,
                ),
            )
        return True

    def _bought(
        self,
        order: Order,
        source: Source,
        cursor: int,
        wanted: int,
        scorer: SampleScorer | None,
    ) -> tuple[list[Sample], int]:
        """Return at most `wanted` samples of the source, none of which was erased, and
        the cursor after those that were read.
        """
        choice = choice_of(order, self.rules)
        if not wanted:
            return [], cursor
        asked = wanted if choice is None else wanted * choice.window
        name = f"source of client {self.client}"
        batch = checked_batch(name, source.read(cursor, asked), asked)
        erased = {erasure.key for erasure in self.erasures()}
        samples = [sample for sample in batch.samples if sample.key not in erased]
        if choice is not None:
            samples = self._chosen(order, choice, samples, wanted, scorer)
        return samples, batch.cursor

    def _write_admission(
        self,
        order: Order,
        position: int,
        wanted: int,
        samples: Sequence[Sample],
    ) -> None:
        """Write what is admitted on an order, from `position` on."""
        note, admitted = "", len(samples)
        if admitted < wanted:
            note = f"the source had {admitted} of {wanted} samples"
        self._run(
            "INSERT INTO admissions VALUES (?, ?, ?, ?, ?, 0, ?)",
            (order.experiment, order.round, self.client, order.last, admitted, note),
        )
        self._run_each(
            "INSERT INTO samples VALUES (?, ?, ?, ?, ?, ?)",
            [
                (order.experiment, place, *sample, order.round)
                for place, sample in enumerate(samples, position)
            ],
        )
        self._run_each(
            "INSERT OR IGNORE INTO uses VALUES (?, ?, 0)",
            [(order.experiment, sample.key) for sample in samples],
        )

    def _chosen(
        self,
        order: Order,
        choice: StatedChoice,
        fresh: Sequence[Sample],
        wanted: int,
        scorer: SampleScorer | None,
    ) -> list[Sample]:
        """Return the samples to buy, out of the new ones and those kept from earlier
        rounds. Keep the newest of the others.
        """
        looked = self.looked(order.experiment)
        candidates = self.spare(order.experiment)
        candidates += [
            HeldSample(place, *sample, order.round)
            for place, sample in enumerate(fresh, looked)
        ]
        many = min(wanted, len(candidates))
        takes = [False] * len(candidates)
        if many:
            takes = self._picks(order, choice.rule, candidates, many, scorer)
        bought, left = list[Sample](), list[HeldSample]()
        for sample, taken in zip(candidates, takes, strict=True):
            if taken:
                bought.append(Sample(sample.key, sample.payload, sample.label))
            else:
                left.append(sample)

        self._run(
            "INSERT OR REPLACE INTO looked VALUES (?, ?)",
            (order.experiment, looked + len(fresh)),
        )
        self._run("DELETE FROM spare WHERE experiment = ?", (order.experiment,))
        kept = left[max(len(left) - choice.keep, 0) :]
        self._run_each(
            "INSERT INTO spare VALUES (?, ?, ?, ?, ?, ?)",
            [(order.experiment, *sample) for sample in kept],
        )
        return bought

    def _picks(
        self,
        order: Order,
        rule: Selection,
        samples: Sequence[HeldSample],
        many: int,
        scorer: SampleScorer | None,
    ) -> list[bool]:
        """Return for each sample in `samples` whether to buy it, for `many` of them.
        The rule sees no labels.
        """
        offered = Candidates(
            np.array([[sample.position for sample in samples]], dtype=np.int64),
            np.array([[many]]),
            np.array([[order.seed]]),
            np.array([[order.client]]),
            purpose=Purpose.SELECTION,
        )
        if rule.looks:
            scores = _scores(rule, rule.scores, _unlabelled(samples), scorer)
            offered = offered._replace(scores=scores)
        if rule.beside_held:
            held = _unlabelled(self.held(order.experiment))
            features: Any = np.zeros((1, 0, 0))
            if held:
                features = _scores(rule, ("features",), held, scorer).features
            there = np.full((1, len(held)), True)
            offered = offered._replace(
                held=features,
                held_there=there,
            )
        takes: list[bool] = chosen(rule, offered)[0].tolist()
        return takes

    def _retain(
        self,
        order: Order,
        first: int,
        position: int,
        last: int,
        scorer: SampleScorer | None,
    ) -> int:
        """Drop samples by the retention rule; return the position at which the window
        begins, 0 for other rules.
        """
        rule = rule_of(order, self.rules)
        if rule is None:
            room = 0 if order.limit == NO_LIMIT else last - order.limit
            first = max(first, min(order.kept_from, last), room)
            self._run(
                "DELETE FROM samples WHERE experiment = ? AND position < ?",
                (order.experiment, first),
            )
            return first
        stay, places = self._stay(order, rule, position, scorer)
        self._run_each(
            "DELETE FROM samples WHERE experiment = ? AND position = ?",
            [(order.experiment, int(place)) for place in places[~stay]],
        )
        return 0

    def _stay(
        self,
        order: Order,
        rule: Retention,
        position: int,
        scorer: SampleScorer | None,
    ) -> tuple[Bools, Ints]:
        """Return which samples stay under a rule that is no window, and the positions
        of all. Those from `position` on are new.
        """
        rows = self._rows(
            "SELECT position, label, round FROM samples WHERE experiment = ? ORDER BY"
            " position",
            (order.experiment,),
        )
        places = np.array([row[0] for row in rows], dtype=np.int64)
        rounds = np.array([row[2] for row in rows], dtype=np.int64)
        age = np.where(places >= position, 0, np.maximum(order.round - rounds, 1))
        scores = None
        if rule.scores and len(rows) > order.limit and bool((age == 0).any()):
            held = self.held(order.experiment)
            # scores that need a label are unknown for a sample without one
            blind = set(rule.scores) <= set(WITHOUT_LABELS)
            known = [blind or sample.label is not None for sample in held]
            scores = _scores(rule, rule.scores, held, scorer, np.array(known, bool))
        stay = keeps_alone(
            rule,
            order.limit,
            order.seed,
            self.client,
            places,
            age,
            _classes([row[1] for row in rows]),
            scores,
        )
        return stay, places

    def fill_in_labels(self, experiment: str, source: Source) -> None:
        """Store the labels that the source now has for samples that were admitted
        without one.
        """
        rows = self._rows(
            "SELECT DISTINCT key FROM samples WHERE experiment = ? AND label IS NULL",
            (experiment,),
        )
        if not rows:
            return
        found = source.labels([key for (key,) in rows])
        labels = checked_labels(f"source of client {self.client}", found)
        if labels:
            with self.transaction():
                self._run_each(
                    "UPDATE samples SET label = ? WHERE experiment = ? AND key = ? AND"
                    " label IS NULL",
                    [(label, experiment, key) for key, label in labels.items()],
                )

    def count_uses(self, order: Order, keys: Sequence[str]) -> None:
        """Count one more use of each of these samples, once per order even if the
        client trains on it several times.
        """
        keys = writable_texts("count_uses: keys", keys)
        with self.transaction():
            marked = self._run(
                "UPDATE admissions SET trained = 1 WHERE experiment = ? AND round = ?"
                " AND client = ? AND trained = 0",
                (order.experiment, order.round, self.client),
            )
            if marked:
                self._run_each(
                    "UPDATE uses SET uses = uses + 1 WHERE experiment = ? AND key = ?",
                    [(order.experiment, key) for key in keys],
                )

    def receipt(self, order: Order, n: int) -> Receipt:
        """Return the receipt for an order that was carried out, and for the outstanding
        orders before it.
        """
        n = whole_number("receipt: n", n)
        state = self.state(order.experiment)
        held = len(self.positions(order.experiment))
        first = state.first
        if order.limit != NO_LIMIT:
            first = max(first, state.position - order.limit)
        unreported = self._unreported(order, state.position)
        ((distinct, uses, squares),) = self._rows(
            "SELECT count(*), coalesce(sum(uses), 0), coalesce(sum(uses * uses), 0)"
            " FROM uses WHERE experiment = ? AND uses > 0",
            (order.experiment,),
        )
        return Receipt(
            experiment=order.experiment,
            round=order.round,
            client=self.client,
            rounds=tuple(each.round for each in unreported),
            admitted=tuple(each.admitted for each in unreported),
            position=state.position,
            occupancy=held,
            n=n,
            trained=unreported[-1].trained,
            lost=state.lost,
            withdrawn=0 if state.lost else state.position - first - held,
            distinct=distinct,
            uses=uses,
            squares=squares,
            note=unreported[-1].note,
            erased=state.erased,
        )

    def _unreported(self, order: Order, position: int) -> list[Admission]:
        """Return the admissions that the server does not know, oldest first, by its
        last receipt and its count of samples.
        """
        found: list[Admission] = []
        for one in self.admissions(order.experiment):
            if one.round <= order.acknowledged and position <= order.known:
                break
            found.append(one)
            position -= one.admitted
        return found[::-1]

    # contents

    def state(self, experiment: str) -> ClientState:
        """Return the counts and positions of the client; zeros before its first
        order.
        """
        rows = self._rows(
            "SELECT position, first, cursor, lost, erased FROM experiments WHERE"
            " experiment = ?",
            (experiment,),
        )
        return ClientState(*rows[0]) if rows else ClientState(0, 0, 0, 0, 0)

    def held(self, experiment: str, table: str = "samples") -> list[HeldSample]:
        """Return the samples that the client holds, in ascending order."""
        rows = self._rows(
            f"SELECT position, key, payload, label, round FROM {table} WHERE experiment"
            " = ? ORDER BY position",
            (experiment,),
        )
        return [HeldSample(*row) for row in rows]

    def looked(self, experiment: str) -> int:
        """Return how many samples the client was offered to choose from."""
        query = "SELECT samples FROM looked WHERE experiment = ?"
        rows = self._rows(query, (experiment,))
        return int(rows[0][0]) if rows else 0

    def spare(self, experiment: str) -> list[HeldSample]:
        """Return the samples that the client keeps unbought, at their positions among
        those that it was offered.
        """
        return self.held(experiment, "spare")

    def positions(self, experiment: str) -> list[int]:
        """Return the positions of the samples that the client holds, in ascending
        order.
        """
        query = "SELECT position FROM samples WHERE experiment = ? ORDER BY position"
        return [position for (position,) in self._rows(query, (experiment,))]

    def admissions(self, experiment: str) -> Iterator[Admission]:
        """Return what the client did on its orders, newest first."""
        rows = self._db.execute(
            "SELECT round, admitted, trained, note FROM admissions WHERE experiment = ?"
            " AND client = ? ORDER BY round DESC",
            (experiment, self.client),
        )
        return (
            Admission(round, admitted, bool(trained), note)
            for round, admitted, trained, note in rows
        )

    def experiments(self) -> list[str]:
        """Return the names of the experiments, in alphabetical order."""
        query = "SELECT experiment FROM experiments ORDER BY experiment"
        return [name for (name,) in self._rows(query)]

    def forget(self, experiment: str) -> int:
        """Remove all samples and keys of an experiment; return how many samples. Counts
        stay, so no order is repeated.
        """
        experiment = writable_text("forget: experiment", experiment)
        with self.transaction():
            removed = self._remove("experiment", experiment)
            self._run("DELETE FROM uses WHERE experiment = ?", (experiment,))
        self._overwrite()
        return removed

    def erase(self, keys: Collection[str]) -> list[Erasure]:
        """Remove the samples with these keys from all experiments. A sample with such a
        key is never admitted again.

        Return the receipts in the order of the keys. The store keeps them, and the next
        reply to each server has the count.
        """
        keys = writable_texts("erase: keys", keys)
        time = datetime.now(UTC).isoformat(timespec="seconds")
        with self.transaction():
            for key in keys:
                self._run(
                    "UPDATE experiments SET erased = erased + (SELECT count(*) FROM"
                    " samples AS s WHERE s.experiment = experiments.experiment AND"
                    " s.key = ?)",
                    (key,),
                )
                self._run(
                    "INSERT INTO erasures VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE "
                    "SET time = excluded.time, samples = samples + excluded.samples",
                    (key, time, self._remove("key", key)),
                )
        self._overwrite()
        kept = {erasure.key: erasure for erasure in self.erasures()}
        return [kept[key] for key in keys]

    def erasures(self) -> list[Erasure]:
        """Return the receipts of all erasures, sorted by key."""
        query = "SELECT key, time, samples FROM erasures ORDER BY key"
        return [Erasure(*row) for row in self._rows(query)]

    def _remove(self, column: str, value: str) -> int:
        return sum(
            self._run(f"DELETE FROM {table} WHERE {column} = ?", (value,))
            for table in ("samples", "spare")
        )

    def _overwrite(self) -> None:
        """Empty the log of SQLite, which has copies of the removed rows."""
        with self._one_line("written"):
            busy, *_ = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise DataError(
                f"{self.path}: is in use; samples are removed, their bytes are not yet"
                " overwritten: try again"
            )

    def newest(self, experiment: str) -> tuple[int, int]:
        """Return the round and the `last` of the newest order that was carried out, (0,
        0) if there is none.
        """
        rows = self._rows(
            "SELECT round, last FROM admissions WHERE experiment = ? ORDER BY round"
            " DESC LIMIT 1",
            (experiment,),
        )
        return rows[0] if rows else (0, 0)


def erase(
    keys: Collection[str], store: Path | str | None = None
) -> dict[Path, list[Erasure]]:
    """Erase samples from the stores of this machine's clients.

    Parameters
    ----------
    keys : collection of str
        Keys of the samples, as their source names them.
    store : str or pathlib.Path, optional
        The folder of the stores; by default $HEADGATE_STORE, then
        ~/.local/state/headgate.

    Returns
    -------
    dict of pathlib.Path to list of Erasure
        Receipts in the order of the keys, by the path of the store.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> BufferStore(folder / "client-00000.sqlite", 0).close()
    >>> (receipts,) = erase(["client-7/4711"], store=folder).values()
    >>> receipts[0].key, receipts[0].samples  # it holds no such sample
    ('client-7/4711', 0)
    """
    keys = writable_texts("erase: keys", keys)
    found = {}
    for client, path in stores_in(store_folder(store, "erase: store")):
        with closing(BufferStore(path, client)) as own:
            found[path] = own.erase(keys)
    return found


def store_folder(folder: object = None, name: str = "store") -> Path:
    """Return the folder of the stores: `folder` if given, else $HEADGATE_STORE, else
    ~/.local/state/headgate.

    `name` is that of the argument or setting with the folder, for a message.
    """
    if folder is not None:
        return checked_path(name, folder)
    stated = os.environ.get(VARIABLE)
    return Path(stated) if stated else Path("~/.local/state/headgate").expanduser()


def store_name(client: int) -> str:
    """Return the name of a client's file in the folder of the stores."""
    return f"client-{client:05d}.sqlite"


def stores_in(folder: Path) -> list[tuple[int, Path]]:
    """Return the clients whose stores are in a folder, with their files. A folder
    without a store is refused.
    """
    found = []
    for path in folder.glob("client-*"):
        match = re.fullmatch(r"client-(\d{5,9})\.sqlite", path.name)
        if match:
            found.append((int(match[1]), path))
    if not found:
        raise DataError(f"{folder}: holds no store of a client (client-00000.sqlite)")
    return sorted(found)


def _unlabelled(samples: Iterable[HeldSample]) -> list[HeldSample]:
    return [sample._replace(label=None) for sample in samples]


def _scores(
    rule: Retention | Selection,
    asked: tuple[str, ...],
    samples: Sequence[HeldSample],
    scorer: SampleScorer | None,
    known: Bools | None = None,
) -> Scores:
    """Return the scores of the samples, 0 where `known` is false; left out: all are
    known, in the shape (1, number of samples).
    """
    if scorer is None:
        hint = "headgate_client(..., scores=...) says how"
        raise DataError(
            f"order: {type(rule).__name__} looks at samples, which this client was not"
            f" told to do: {hint}"
        )
    if known is None:
        known = np.full((1, len(samples)), True)
    shown = [sample for sample, one in zip(samples, known.flat, strict=True) if one]
    found = unseen(
        "scores", scorer(shown, asked), Scores, "Scores, as scores_of() returns them"
    )
    try:
        checked = checked_scores(found, asked, len(shown))
    except (TypeError, ValueError) as error:
        raise SettingError(
            f"scores: must be numbers ({type(error).__name__})"
        ) from None
    return checked.placed(known)


def _classes(labels: Sequence[Label | None]) -> Ints:
    """Return labels that are whole numbers unchanged, so that rules see the classes of
    the recipe; number other labels.
    """
    if all(isinstance(label, int) for label in labels):
        return np.array(labels, dtype=np.int64)
    _, classes = np.unique([str(label) for label in labels], return_inverse=True)
    return classes.astype(np.int64)
