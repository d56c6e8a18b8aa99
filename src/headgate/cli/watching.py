"""Rounds as they are finished: lines of JSON for machines, means over seeds for the loggers of others."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headgate.cli.console import say
from headgate.records.reader import RunFolder
from headgate.records.trackers import FOLDERS, Tracker, make_trackers
from headgate.writing import check_no_link

Row = Mapping[str, Any]


class Watching:
    """Told of every round that a part of a run has finished."""

    def __init__(self, trackers: Sequence[str], lines: bool) -> None:
        self.names, self.lines = trackers, lines
        self.wanted = bool(trackers) or lines
        self._runs: dict[Path, RunFolder] = {}
        self._means: dict[Path, SeedMeans] = {}

    def __enter__(self) -> "Watching":
        return self

    def __exit__(self, *_: object) -> None:
        for means in self._means.values():
            means.close()

    def watch(self, folder: Path, rows: Sequence[Row]) -> None:
        """No rows: the run is about to be played, and what its parts have done before is on disk."""
        if folder not in self._runs:
            self._runs[folder] = RunFolder.open(folder)
            if self.names:
                self._means[folder] = SeedMeans(self._runs[folder], make_trackers(self.names))
        if not rows:
            return
        if self.lines:
            self._say(self._runs[folder], rows)
        if self.names:
            self._means[folder].add(rows)

    def _say(self, run: RunFolder, rows: Sequence[Row]) -> None:
        seen = [row["test_accuracy"] for row in rows if row["test_accuracy"] is not None]
        line = {
            "run": run.name,
            "policies": list(dict.fromkeys(row["policy"] for row in rows)),
            "seeds": list(dict.fromkeys(row["seed"] for row in rows)),
            "round": rows[0]["t"],
            "rounds": run.rounds,
            "mean_test_accuracy": sum(seen) / len(seen) if seen else None,
        }
        say(json.dumps(line), error=True)


class SeedMeans:
    """Logs a policy's round when all its seeds have done it: its runs may be played in several parts."""

    def __init__(self, run: RunFolder, trackers: Sequence[Tracker]) -> None:
        self.trackers, self.seeds = trackers, len(run.state["seeds"])
        self._waiting: dict[tuple[str, int], dict[int, Row]] = {}
        for row in run.metrics().iter_rows(named=True):  # where a run is taken up again, some parts are ahead of others
            self._waiting.setdefault((row["policy"], row["t"]), {})[row["seed"]] = row
        self._waiting = {key: rows for key, rows in self._waiting.items() if len(rows) < self.seeds}
        check_no_link(*(run.path / each for each in FOLDERS))  # loggers write where a stranger might point to
        for tracker in trackers:
            tracker.start(run.name, run.config, run.path)

    def add(self, rows: Sequence[Row]) -> None:
        for row in rows:
            key = row["policy"], row["t"]
            together = self._waiting.setdefault(key, {})
            together[row["seed"]] = row
            if len(together) == self.seeds:
                self._log(*key, list(self._waiting.pop(key).values()))

    def _log(self, policy: str, t: int, rows: Sequence[Row]) -> None:
        names = [name for name in rows[0] if name not in ("policy", "seed", "t")]
        known = {name: [row[name] for row in rows if row[name] is not None] for name in names}
        means = {name: sum(values) / len(values) for name, values in known.items() if values}
        for tracker in self.trackers:
            tracker.log(policy, t, means)

    def close(self) -> None:
        for tracker in self.trackers:
            tracker.close()
