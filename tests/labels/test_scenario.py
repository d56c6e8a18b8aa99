"""The scenario with the queue of plain files."""

import csv
import json
from contextlib import contextmanager

from tests.labels.scenario import CLIENTS, Labellers, play


class Spreadsheets(Labellers):
    """People who put files into the folder of labels."""

    def __init__(self, folder):
        self.folder, self.number, self.rows = folder, 0, []

    def queue(self):
        return '[queue]\nkind = "folder"\ntasks = "tasks"\nlabels = "in"\nsettled = 0\n'

    def tasks(self):
        found = []
        for client in CLIENTS:
            for path in sorted((self.folder / "tasks" / client).glob("round-*.csv")):
                with path.open(encoding="utf-8-sig", newline="") as file:
                    found += [(client, row["key"]) for row in csv.DictReader(file)]
        return found

    def label(self, client, key, label):
        self.rows.append((client, {"key": key, "label": label}))

    def skip(self, client, key):
        self.rows.append((client, {"key": key, "state": "skipped"}))

    def reject(self, client, key):
        self.rows.append((client, {"key": key, "state": "rejected", "why": "wrong"}))

    def flush(self):
        self.number += 1
        for client in CLIENTS:
            own = [json.dumps(row) for name, row in self.rows if name == client]
            folder = self.folder / "in" / client
            folder.mkdir(parents=True, exist_ok=True)
            if own:
                path = folder / f"day-{self.number:03}.jsonl"
                path.write_text("\n".join(own) + "\n")
        self.rows = []

    @contextmanager
    def down(self):
        """The drive is gone: in its place is a file."""
        aside = self.folder / "aside"
        for name in ("tasks", "in"):
            (self.folder / name).rename(aside.with_name(f"aside-{name}"))
            (self.folder / name).write_text("")
        try:
            yield
        finally:
            for name in ("tasks", "in"):
                (self.folder / name).unlink()
                aside.with_name(f"aside-{name}").rename(self.folder / name)


def test_forty_rounds_with_kills_agree_to_the_sample_and_the_cent(tmp_path):
    made = play(tmp_path, Spreadsheets(tmp_path))
    assert len(made.labels) > 300
