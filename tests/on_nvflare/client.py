"""A client: it admits, adds one to the model, and is in trouble in some rounds.

- site-1 waits in round 3 until there is a file named `go`.
- One site waits in some rounds until the round is over.
- site-2 can have no more than four samples a round.
- site-3 reports nonsense in rounds 4 and 23.
- site-1 erases the youngest sample that it holds in rounds 12 and 28.
"""

import json
import sys
import time
from pathlib import Path

import nvflare.client as flare

from headgate.nvflare import Admissions

ERASED = (12, 28)
SLOW = {5: "site-1", 17: "site-3", 34: "site-1"}
"""who is late in which round"""
NONSENSE = (4, 23)


def entries(log):
    """What a client wrote down: round, samples admitted in it, first and last sample
    held.
    """
    return (
        [
            json.loads(line)
            for line in log.read_text().splitlines(True)
            if line.endswith("\n")
        ]
        if log.exists()
        else []
    )


def erased(log):
    """The samples held last of all that site-1 has erased."""
    own = entries(log) if log.stem == "site-1" else [[0, 0, 0, 0]]
    return {stop - 1 for t, _, _, stop in own if t in ERASED}.intersection(
        range(*own[-1][2:])
    )


def wait_for(path):
    while not path.exists():
        time.sleep(0.05)


def main(folder, site):
    folder = Path(folder)
    log = folder / f"{site}.jsonl"
    most = 4 if site == "site-2" else None
    flare.init()
    admissions = Admissions(folder / site)
    while flare.is_running():
        if (model := flare.receive()) is None:
            break
        held, t = admissions.admit(model, most), model.current_round
        with log.open("a") as file:
            file.write(
                json.dumps(
                    [
                        t,
                        admissions.report["headgate"]["admitted"][-1],
                        held.start,
                        held.stop,
                    ]
                )
                + "\n"
            )
        admissions.admit(model, most, len(erased(log)))
        report = admissions.report
        if (site, t) == ("site-1", 3):
            wait_for(folder / "go")
        if SLOW.get(t) == site:
            wait_for(folder / "server" / f"model-{t:08d}.safetensors")
        if site == "site-3" and t in NONSENSE:
            report["headgate"]["admitted"][-1] = 10**6
        flare.send(flare.FLModel(params={"w": model.params["w"] + 1}, meta=report))


if __name__ == "__main__":
    main(*sys.argv[1:])
