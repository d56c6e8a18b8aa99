"""A client: it admits, adds one to the model, and is in trouble in some rounds.

- site-1 waits in round 3 until there is a file named `go`, and in round 5 until the round is over.
- site-2 can have no more than four samples a round.
- site-3 reports nonsense in round 4.
"""

import json
import sys
import time
from pathlib import Path

import nvflare.client as flare

from headgate.nvflare import Admissions


def wait_for(path):
    while not path.exists():
        time.sleep(0.05)


def main(folder, site):
    folder = Path(folder)
    flare.init()
    admissions = Admissions(folder / site)
    while flare.is_running():
        if (model := flare.receive()) is None:
            break
        held = admissions.admit(model, most=4 if site == "site-2" else None)
        t, report = model.current_round, admissions.report
        with (folder / f"{site}.jsonl").open("a") as log:
            log.write(json.dumps([t, report["headgate"]["admitted"][-1], held.start, held.stop]) + "\n")
        if (site, t) == ("site-1", 3):
            wait_for(folder / "go")
        if (site, t) == ("site-1", 5):
            wait_for(folder / "server" / "model-00000005.safetensors")
        if (site, t) == ("site-3", 4):
            report["headgate"]["admitted"][-1] = 10**6
        flare.send(flare.FLModel(params={"w": model.params["w"] + 1}, meta=report))


if __name__ == "__main__":
    main(*sys.argv[1:])
