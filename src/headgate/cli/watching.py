"""Rounds as they are finished: lines of JSON for machines, means over seeds for the loggers of others."""

import json
from collections.abc import Sequence
from pathlib import Path

from headgate.cli.console import say
from headgate.records.reader import RunFolder
from headgate.records.trackers import Row, SeedMeans, make_trackers


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
