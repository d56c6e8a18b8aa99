"""
From a laptop to a Flower deployment
====================================

How the same experiment goes from the simulator to Flower's simulation engine, and from
there to machines of their own.

The recipe, the policy and the seed stay the same, and so do the decisions: each client
is ordered to admit the same samples in the same rounds, wherever it runs. This needs
``headgate[sim,flower]``.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from pictures import GREY, panels  # pictures.py is on the page Tutorials

import headgate

folder = Path(tempfile.mkdtemp())

# %% On a laptop -----------
#
# Choose policy, budget and learning rate here: a round takes milliseconds. An app on
# Flower is one policy and one seed.

settings = [
    "system.buffers=[8, 10, 12]",
    "run.rounds=6",
    "run.seeds=1",
    'run.policies=["headgate"]',
    'data.partition="iid"',
]
e = headgate.load("digits", *settings)
simulated = headgate.run(e, folder / "simulated", quiet=True)

# %% On Flower's simulation engine -----------------------------
#
# ``AdmissionStrategy`` takes the place of Flower's ``FedAvg``. ``recipe_client`` is a
# client that does what the recipe says; ``headgate_client`` puts admission around a
# client that you have. ``headgate flower new DIR`` writes all of this as an app for
# ``flwr run``. The engine needs a process of its own.

(folder / "simulate.py").write_text(f"""
import os, warnings
from pathlib import Path
from headgate.flower import ENVIRONMENT

# no telemetry and no update check: this comes before Flower is imported
os.environ |= dict(ENVIRONMENT)

from flwr.serverapp import ServerApp
from flwr.simulation import run_simulation
from headgate.flower import AdmissionStrategy, recipe_client
from headgate.flower.recipe import task_of

settings = tuple({settings})
server, task = ServerApp(), task_of("digits", settings)

@server.main()
def serve(grid, context):
    strategy = AdmissionStrategy(task.experiment, Path("on-flower"))
    strategy.start(grid, task.start(), evaluate_fn=task.evaluate)
    strategy.close()

warnings.simplefilter("ignore")
client = recipe_client("digits", list(settings), store=Path("stores").absolute())
backend = {{"init_args": {{"num_cpus": 2}}}}
run_simulation(server, client, num_supernodes=3, backend_config=backend)
""")
done = subprocess.run(
    [sys.executable, "simulate.py"],
    cwd=folder,
    env={**os.environ},
    capture_output=True,
    text=True,
    check=False,
)
assert done.returncode == 0, done.stderr[-3000:]
print(*re.findall(r"round \d of 6: .*", done.stderr), sep="\n")

# %%
# The same decisions
# ------------------
#
# Both left a run folder, and the same reader reads them.

on_flower = headgate.open(folder / "on-flower")
ours, theirs = simulated.clients, on_flower.clients
assert ours["admitted"].to_list() == theirs["admitted"].to_list()
print("spent:", simulated.frame["spend"].sum(), "and", on_flower.frame["spend"].sum())

figure, axes = panels(
    "Samples admitted in the simulator", "Samples admitted on Flower", height=2.4
)
for own, rows in zip(axes, (ours, theirs), strict=True):
    admitted = np.array(rows.sort("t")["admitted"].to_list())
    below = np.zeros(len(admitted))
    for client, colour in enumerate(("#0d9488", "#d97706", "#6366f1")):
        own.bar(
            np.arange(1, 7), admitted[:, client], bottom=below, color=colour, width=0.7
        )
        own.annotate(
            f"client {client}",
            (6.5, 6 + 6 * client),
            color=colour,
            fontsize=9,
            annotation_clip=False,
        )
        below += admitted[:, client]
    own.set(xlabel="round", xlim=(0.4, 8.2), ylim=(0, 32), xticks=range(1, 7))
    own.axhline(30, color=GREY, linestyle="--", linewidth=1)

# %% As a deployment ---------------
#
# Two commands more. The first writes an app, the second brings up a SuperLink behind
# nginx and SuperNodes with keys of their own on this machine, runs the app with a line
# a round, and ends every process that it started:
#
# .. code-block:: sh
#
# headgate flower new my-app --recipe digits --clients 4 --rounds 20 headgate flower
# deploy-example my-app --nodes 4
#
# Kill a SuperNode, the ServerApp or the SuperLink while it runs: what was paid for is
# not lost, and nothing is paid for twice. On real machines each client makes a key, the
# server gets a certificate, and ``headgate flower superlink`` and ``headgate flower
# supernode`` write what nginx and systemd need: :doc:`/do/flower` has every step.

print(
    pl.read_parquet(folder / "simulated" / "metrics.parquet").select(
        "t", "price", "admitted", "spend", "n"
    )
)
