"""
A labelling bill
================

From a file of unlabelled samples to labels that are paid for, and to the statement of
what they cost, in five minutes. One team with a labelling bill is enough.

In a terminal the same is ``headgate labels new bill``, then
``headgate labels run bill/gate.toml``; :doc:`/do/labels` has all of it. Here the people
who label are a function.
"""

import csv
import json
import tempfile
from pathlib import Path

from headgate.books.statement import opened, statement
from headgate.labels.gate import run
from headgate.labels.write import write_new

# %% Your samples and your prices ----------------------------
#
# ``unlabelled/team.jsonl`` has a line for each sample: a key, and what people see. Rows
# may be appended at any time. ``prices.csv`` says what a label costs on each day;
# ``gate.toml`` names both, the money, and the folder in which people find their tasks.

folder = Path(tempfile.mkdtemp()) / "bill"
gate = write_new(folder)
print((folder / "unlabelled" / "team.jsonl").read_text().splitlines()[0])
print((folder / "prices.csv").read_text().splitlines()[:4])

# so that this program need not wait until a file is two seconds old
gate.write_text(gate.read_text().replace("[queue]", "[queue]\nsettled = 0.0"))

# %% The first day -------------
#
# One step looks at the price, decides how many samples are worth it, and writes a file
# of tasks. It says in one line what it did and why.

run(gate, print, once=True, now=True)
print((folder / "tasks" / "team" / "round-0001.csv").read_text("utf-8-sig")[:120])

# %% Somebody labels ---------------
#
# They fill in the column ``label``, or ``state`` where they skip a sample, and put the
# file into ``labels/team``. Any CSV or JSONL file with a key and a label will do.


def label_what_waits():
    for path in (folder / "tasks" / "team").glob("round-*.csv"):
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        for number, row in enumerate(rows):
            row["label"] = "urgent" if "angry" in row["text"] else "normal"
            if number % 10 == 9:
                row["label"], row["state"] = "", "skipped"
        with (folder / "labels" / "team" / path.name).open("w", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]))
            table.writeheader()
            table.writerows(rows)


# %% Ten days -----------
#
# ``headgate labels run`` would take ten days for this. Where a label is dear it waits;
# what is skipped costs nothing.

for _ in range(10):
    label_what_waits()
    run(gate, print, once=True, now=True)

# %% A label is given back ---------------------
#
# A row with the state ``rejected`` refunds it, and a line of the labelled file says so.

labelled = folder / "labelled" / "team.jsonl"
first = json.loads(labelled.read_text().splitlines()[0])
(folder / "labels" / "team" / "complaint.jsonl").write_text(
    json.dumps({"key": first["key"], "state": "rejected", "why": "not urgent at all"})
)
run(gate, print, once=True)
print(labelled.read_text().splitlines()[-1])

# %% The statement -------------
#
# Each order with what arrived of it, and what the labels would have cost if they had
# been bought evenly. The accounts are those of :class:`headgate.Books`.

with opened(folder / "accounts") as accounts:
    found = statement(accounts)
print(found)
paid = [json.loads(line) for line in labelled.read_text().splitlines()]
assert sum("label" in line for line in paid) == sum(
    line.delivered for line in found.lines
)
