"""A labelling queue with real prices and data of one's own, from plan to report:
python examples/labelling_queue.py

Ten shops hold a few labelled customers each and see many more without a label. A label
costs what electricity does in Texas at that hour and comes two rounds after it is
ordered; a look at an unlabelled customer costs a little, too. How many labels to order,
and for which customers?
"""

import sys
from pathlib import Path

import headgate

LATE = 2
PATIENT = {
    "kind": "headgate",
    "turnover": 1 / (LATE + 1),
}  # whoever is bought stays until its label has come
QUEUES = {
    "headgate": PATIENT,  # the next customers, when labels are cheap
    "by-lot": {**PATIENT, "selection": "random"},
    "unsure": {
        **PATIENT,
        "selection": "margin",
    },  # those between whose classes the model hesitates
    "every-hour": {"kind": "constant", "purse": True},
}
CUSTOMERS = {
    "kind": "table",
    "file": str(Path(__file__).with_name("customers.csv")),
    "label": "stays",
}
RECIPE = {
    "system": {"buffers": [6, 8, 10, 12, 14] * 2, "budget": 20.0},
    "prices": {"kind": "ercot", "scale": 0.1},
    "run": {"rounds": 72, "seeds": 20, "policies": list(QUEUES)},
    "data": {**CUSTOMERS, "window": 4, "look": 0.05, "keep": 10, "late": LATE},
    "model": {"kind": "logistic"},
    "training": {"lr": 0.1, "steps": 10},
    "policies": QUEUES,
}


def main(out: Path, *changes: str) -> headgate.Run:
    """Plans, runs and reports. `changes` are words as for `--set`."""
    e = headgate.load(RECIPE, *changes)
    print(headgate.plan(e))
    run = headgate.run(e, out)
    print(run)
    print("report:", run.report())
    return run


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "queue"))
