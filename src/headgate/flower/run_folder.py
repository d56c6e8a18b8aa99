"""The run folder of a Flower run: the simulator's, plus the ledger and the parameters.

Rows are kept in the ledger, in the transaction that settles their round, and the tables are written from there.
"""

import hashlib
import json
import os
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tomli_w

from headgate.errors import DataError
from headgate.experiment import Experiment
from headgate.flower.ledger_store import LedgerStore, Settled
from headgate.records.parts import clear_killed_start, create, left_by_a_killed_start
from headgate.records.reader import ENVIRONMENT, MEAN_PRICE, read_object
from headgate.records.source import commit
from headgate.records.sweeps import STATE
from headgate.records.writer import RunWriter

LEDGER = "ledger.sqlite"
PARAMETERS = "parameters"
EXECUTOR = "flower"


class RunRecord:
    """Writes the folder of one run; `open` makes it or goes on with it."""

    def __init__(self, folder: Path, experiment: Experiment) -> None:
        self.folder, self._writer, self._experiment = folder, RunWriter(folder), experiment
        self._began = time.monotonic()

    @classmethod
    def open(cls, folder: Path, experiment: Experiment, own_prices: bool = False) -> "RunRecord":
        """`own_prices`: they come from a feed, so that nobody knows what they are in expectation."""
        if folder.is_dir() and any(folder.iterdir()) and left_by_a_killed_start(folder):
            clear_killed_start(folder)
        if not (folder / STATE).exists():
            mean_price = None if own_prices else experiment.prices.mean(experiment.rounds)
            create(folder, experiment.tables(), _environment(mean_price), parts=())
        found = read_object(folder / ENVIRONMENT)
        if found.get("executor") != EXECUTOR:
            raise DataError(f"{folder}: holds a run of the simulator; choose another folder")
        text = tomli_w.dumps(experiment.tables())
        if found.get("config_sha256") != hashlib.sha256(text.encode()).hexdigest():
            raise DataError(f"{folder}: was begun with other settings; choose another folder, or go on with its config.toml")
        return cls(folder, experiment)

    @property
    def parameters(self) -> Path:
        return self.folder / PARAMETERS

    def rewrite(self, store: LedgerStore) -> None:
        """The tables as the ledger has them: a crash between the ledger and a table leaves no trace."""
        rounds = store.rounds()
        for name, rows in (("metrics", [each.metrics for each in rounds]), ("clients", [each.clients for each in rounds])):
            lines = "".join(json.dumps(row) + "\n" for row in rows if row is not None)
            self._writer.replace(f"{name}.jsonl", lines.encode())

    def append(self, done: Settled) -> None:
        self._writer.append("metrics", [done.metrics])
        self._writer.append("clients", [] if done.clients is None else [done.clients])

    def state(self, state: str, t: int, diverged: bool = False, **more: Any) -> None:
        run: Mapping[str, Any] = {"policy": next(iter(self._experiment.policies)), "seed": int(self._experiment.seeds[0])}
        self._writer.state(
            state,
            t,
            self._experiment.rounds,
            elapsed_s=round(time.monotonic() - self._began, 3),
            policies=[run["policy"]],
            seeds=[run["seed"]],
            diverged=[{**run, "t": t}] if diverged else [],
            guessing=[],
            **more,
        )


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
