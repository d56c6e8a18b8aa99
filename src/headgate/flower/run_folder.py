"""The run folder of a Flower run: that of the simulator, with the ledger and the
parameters in addition.

The transaction that settles a round also writes its rows to the ledger, and the tables
are written from the ledger.
"""

import os
import time
from collections.abc import Collection, Mapping, Sequence
from importlib.metadata import version
from logging import WARNING
from pathlib import Path
from typing import Any

from flwr.common import log

from headgate.books.database import LEDGER
from headgate.books.in_file import FileTables
from headgate.errors import DataError
from headgate.experiment import Experiment
from headgate.experiment.build import differing
from headgate.flower.accounts import FlowerAccounts, SettledRound
from headgate.flower.playable import without_folder
from headgate.reading import read_toml
from headgate.records.reader import (
    CONFIG,
    ENVIRONMENT,
    MEAN_PRICE,
    OF_THE_APP,
    WARN_AT,
    RunFolder,
)
from headgate.records.tables import STATE, read_sealed
from headgate.records.trackers import Watching
from headgate.records.writer import (
    RunWriter,
    commit,
    create,
    write_tables,
)
from headgate.writing import FolderLock

PARAMETERS = "parameters"
EXECUTOR = "flower"


class RunRecord:
    """The record of one run: creates its folder or continues it, opens its ledger, and
    writes its tables and state.

    The folder is locked by `lock` before anything in it is read, because two processes
    may start at once. `track` names the trackers that log rounds, as for `headgate
    run`. If `own_prices`, the user's function sets prices, whose mean is unknown. The
    sections `of_the_app`, data and model, are not those of the recipe and not written.
    """

    def __init__(
        self,
        folder: Path,
        experiment: Experiment,
        lock: FolderLock,
        track: Sequence[str] = (),
        own_prices: bool = False,
        of_the_app: Sequence[str] = (),
    ) -> None:
        # refuses unknown names before anything is written
        self._watching = Watching(track) if track else None
        folder.parent.mkdir(
            parents=True,
            exist_ok=True,
        )
        folder.mkdir(
            mode=0o700,
            exist_ok=True,
        )
        lock.take(folder, folder)
        if not (folder / STATE).exists():
            mean = None if own_prices else experiment.prices.mean(experiment.rounds)
            facts = _environment(mean)
            if of_the_app:
                facts[OF_THE_APP] = list(of_the_app)
            create(folder, _without(experiment.tables(), of_the_app), facts)
        else:
            _check_same(folder, experiment, of_the_app)
        self.folder, self.parameters = folder, folder / PARAMETERS
        self.rounds = experiment.rounds
        self._writer, self._experiment = RunWriter(folder), experiment
        self._began, self._line = time.monotonic(), ""
        self.discipline: dict[str, Any] = {}
        """fields of the `Discipline` of the run, for the state file"""
        if self._watching is not None:
            lock.enter_context(self._watching)
            self._watching(folder, [])
        tables = FileTables(folder / LEDGER)
        lock.callback(tables.close)
        self.accounts = FlowerAccounts.of(experiment, tables)

    def rewrite(self) -> None:
        """Write the tables again from the ledger, because a crash may have come between
        writing the ledger and a table.
        """
        rounds = self.accounts.rounds()
        self._writer.rewrite("metrics", [each.metrics for each in rounds])
        self._writer.rewrite(
            "clients", [each.clients for each in rounds if each.clients is not None]
        )

    def append(self, done: SettledRound) -> None:
        self._writer.append("metrics", [done.metrics])
        self._writer.append("clients", [] if done.clients is None else [done.clients])
        if self._watching is not None:
            self._watching(self.folder, [done.metrics])
        spent = done.spent
        money = self._experiment.system.budget * self._experiment.rounds
        if spent - done.metrics["spend"] < WARN_AT * money <= spent:
            log(
                WARNING,
                "headgate: %.3g %% of the money is spent, %.6g of %.6g",
                100 * spent / money,
                spent,
                money,
            )

    def state(
        self,
        state: str,
        t: int,
        line: str = "",
    ) -> None:
        """Write the state file. `line` describes the last round in one line, for
        programs that follow the run.
        """
        self._line = line or self._line
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
            line=self._line,
            **self.accounts.refusals(),
        )

    def end(self, t: int) -> None:
        """Write the final state of this process. After the last round, turn the parts
        into tables, as in the simulator.
        """
        if t < self.rounds:
            self.state("interrupted", t)
        else:
            write_tables(RunFolder.open(self.folder))
            self.state("finished", t)


def _without(tables: Mapping[str, Any], of_the_app: Collection[str]) -> dict[str, Any]:
    """Return the tables of a recipe without the sections that are the app's own."""
    return {name: each for name, each in tables.items() if name not in of_the_app}


def _check_same(
    folder: Path, experiment: Experiment, of_the_app: Collection[str]
) -> None:
    """Refuse to continue the run of another experiment. Only the folder of the recipe's
    modules may differ.
    """
    if read_sealed(folder / ENVIRONMENT).get("executor") != EXECUTOR:
        raise DataError(
            f"{folder}: holds a run of the simulator; choose another folder"
        )
    for key, reason in experiment.unnamed.items():
        raise DataError(
            f"{folder}: cannot be continued, {key} is known to the process that began"
            f" it alone: {reason}"
        )
    begun = _without(without_folder(read_toml(folder / CONFIG)), of_the_app)
    wanted = _without(without_folder(experiment.tables()), of_the_app)
    if begun != wanted:
        other = f"was begun with other settings ({differing(begun, wanted)})"
        raise DataError(
            f"{folder}: {other}; choose another folder, or go on with its config.toml"
        )


def _environment(mean_price: float | None) -> dict[str, Any]:
    made_by = commit()
    return {
        "executor": EXECUTOR,
        "device": "clients",
        "flwr": version("flwr"),
        "threads": os.cpu_count(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        MEAN_PRICE: mean_price,
        **({"commit": made_by} if made_by else {}),
    }
