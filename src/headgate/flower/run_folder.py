"""The run folder of a Flower run: the simulator's, plus the ledger and the parameters.

Rows are kept in the ledger, in the transaction that settles their round, and the tables are written from there.
"""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from logging import WARNING
from pathlib import Path
from typing import Any

from flwr.common import log

from headgate.books.ledger_store import LEDGER, LedgerStore, RoundRow
from headgate.errors import DataError
from headgate.experiment import Experiment
from headgate.experiment.build import differing
from headgate.reading import read_toml
from headgate.records.reader import CONFIG, ENVIRONMENT, MEAN_PRICE, WARN_AT, RunFolder, read_state
from headgate.records.tables import STATE, read_sealed
from headgate.records.trackers import Watching
from headgate.records.writer import RunWriter, clear_killed_start, commit, create, left_by_a_killed_start, write_tables
from headgate.writing import FolderLock

PARAMETERS = "parameters"
EXECUTOR = "flower"


class RunRecord:
    """Writes the folder of one run, which it makes or goes on with, and opens its ledger.

    The folder is `held` before anything in it is looked at: two first starts may come at once. `track` names trackers to log
    rounds to, as `headgate run` does. With `own_prices`, a function of the user's, their mean is not known.
    """

    def __init__(
        self, folder: Path, experiment: Experiment, held: FolderLock, track: Sequence[str] = (), own_prices: bool = False
    ) -> None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        held.take(folder, folder)
        if any(folder.iterdir()) and left_by_a_killed_start(folder):
            clear_killed_start(folder)
        if not (folder / STATE).exists():
            mean_price = None if own_prices else experiment.prices.mean(experiment.rounds)
            create(folder, experiment.tables(), _environment(mean_price), shards=())
        else:
            _check_same(folder, experiment)
        self.folder, self.parameters, self.rounds = folder, folder / PARAMETERS, experiment.rounds
        self._writer, self._experiment = RunWriter(folder), experiment
        self._began, self._told = time.monotonic(), ""
        self._watching: Watching | None = None
        self.discipline: dict[str, Any] = {}
        """what rounds wait for and accept, for the record"""
        if track:
            self._watching = held.enter_context(Watching(track))
            self._watching(folder, [])
        self.store = self._ledger()
        held.callback(self.store.close)

    def _ledger(self) -> LedgerStore:
        """The ledger; refused where it is gone, or older than the rest of the folder: the run would buy again."""
        path, played = self.folder / LEDGER, 0
        if not path.exists() and self.parameters.exists():  # which are made after it
            raise DataError(f"{path}: is missing, though the run has begun; put it back, or choose another folder")
        with suppress(DataError):  # a state that is damaged will be written again
            played = int(read_state(self.folder)["round"])
        store = LedgerStore(path)
        if (known := store.settled) < played:  # what a round came to is in the ledger first
            store.close()
            raise DataError(f"{path}: knows {known} rounds, {STATE} tells of {played}; put the newest copy in its place")
        return store

    def rewrite(self) -> None:
        """The tables as the ledger has them: a crash between the ledger and a table leaves no trace."""
        rounds = self.store.rounds()
        self._writer.rewrite("metrics", [each.metrics for each in rounds])
        self._writer.rewrite("clients", [each.clients for each in rounds if each.clients is not None])

    def append(self, done: RoundRow) -> None:
        self._writer.append("metrics", [done.metrics])
        self._writer.append("clients", [] if done.clients is None else [done.clients])
        if self._watching is not None:
            self._watching(self.folder, [done.metrics])
        spent, money = done.spent, self._experiment.system.budget * self._experiment.rounds
        if spent - done.metrics["spend"] < WARN_AT * money <= spent:
            log(WARNING, "headgate: %.3g %% of the money is spent, %.6g of %.6g", 100 * spent / money, spent, money)

    def state(self, state: str, t: int, told: str = "") -> None:
        """`told` is the last round in one line, for programs that follow the run."""
        self._told = told or self._told
        self._writer.state(
            state,
            t,
            self.rounds,
            elapsed_s=round(time.monotonic() - self._began, 3),
            policies=list(self._experiment.policies),
            seeds=self._experiment.seeds.tolist(),
            diverged=[],
            guessing=[],
            discipline=self.discipline,
            told=self._told,
            **self.store.refusals(),
        )

    def end(self, t: int) -> None:
        """No more rounds follow now. After the last one the parts become tables, as in the simulator."""
        if t == self.rounds:
            write_tables(RunFolder.open(self.folder))
        self.state("finished" if t == self.rounds else "interrupted", t)


def _check_same(folder: Path, experiment: Experiment) -> None:
    """Refuses to go on with what another experiment began. Where the modules of a recipe lie may differ."""
    if read_sealed(folder / ENVIRONMENT).get("executor") != EXECUTOR:
        raise DataError(f"{folder}: holds a run of the simulator; choose another folder")
    for key, reason in experiment.unnamed.items():
        raise DataError(f"{folder}: cannot be continued, {key} is known to the process that began it alone: {reason}")
    begun, wanted = (
        {**tables, "run": {key: value for key, value in tables["run"].items() if key != "folder"}}
        for tables in (read_toml(folder / CONFIG), experiment.tables())
    )
    if begun != wanted:
        other = f"was begun with other settings ({differing(begun, wanted)})"
        raise DataError(f"{folder}: {other}; choose another folder, or go on with its config.toml")


def _environment(mean_price: float | None) -> dict[str, Any]:
    return {
        "executor": EXECUTOR,
        "device": "clients",
        "flwr": version("flwr"),
        "threads": os.cpu_count(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        MEAN_PRICE: mean_price,
        **({"commit": made_by} if (made_by := commit()) else {}),
    }
