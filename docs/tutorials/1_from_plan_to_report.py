"""
One budget, from plan to report
===============================

How to go from a budget to a decision: plan, rehearse, learn, compare, and read the
results.

You have ten devices that read digits. Each has room for about ten labelled images, a
label costs between 1 and 10, and you may spend 40 a round for 20 rounds. Which policy,
and what will you get?
"""

import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from pictures import level, line, panels, spread  # pictures.py is on the page Tutorials

import headgate

folder = Path(tempfile.mkdtemp())  # where runs are written

# %% The experiment --------------
#
# A recipe by name, and what is different in your system, in the same words as ``--set``
# on the command line.

e = headgate.load(
    "digits",
    "system.budget=40",
    "run.rounds=20",
    "run.seeds=10",
    'run.policies=["headgate", "acdpp", "constant", "oracle"]',
)
print(
    e.system.clients,
    "clients,",
    e.system.all_places,
    "places,",
    e.system.budget,
    "a round",
)

# %% Plan ----
#
# What the recommended policy will do, before anything runs. A plan that breaks a limit
# has a warning.

plan = headgate.plan(e)
print(plan)
print("warning:", headgate.plan(e, "acdpp").warning)

# %% Rehearse --------
#
# Control over the whole horizon, without learning: a second, and money and memory are
# exactly those of a run. The oracle renews everything at any price, so it is left out
# of the picture of the money.

rows = headgate.rehearse(e).frame
by_round = rows.group_by("policy", "t", maintain_order=True).agg(
    pl.col("spend", "n", "N").mean()
)

figure, (money, memory) = panels("Money spent so far", "Samples in memory")
for name in ("headgate", "acdpp", "constant"):
    own = by_round.filter(pl.col("policy") == name)
    line(money, own["t"].to_numpy(), np.cumsum(own["spend"].to_numpy()), name)
    line(memory, own["t"].to_numpy(), own["n"].to_numpy(), name)
t = np.arange(1, 21)
line(money, t, e.system.budget * t, "budget", color="#7c8794", linestyle="--")
level(memory, e.system.all_places, "places")
for axes in (money, memory):
    axes.set(xlabel="round", xlim=(0, 25))
spread(money, memory)

# %% ``headgate`` fills the buffers first, then waits for low prices. ``acdpp`` begins
# with a burst: for some rounds it holds more than there are places for.
#
# Learn -----
#
# All policies and seeds in one call, into a folder. If it is stopped and called again,
# it resumes.

run = headgate.run(e, folder / "run", quiet=True)
print(run)

# %% Accuracy over the money that was really spent is the fair picture: a policy that
# spends faster must not look better for it.

metrics = run.frame.filter(pl.col("test_accuracy").is_not_null())
figure, (by_money,) = panels("Best test accuracy so far (%)", width=6.5, height=3.6)
for name in ("constant", "acdpp", "headgate"):
    own = (
        metrics.filter(pl.col("policy") == name)
        .with_columns(
            pl.col("test_accuracy").cum_max().over("seed"),
            spent=pl.col("spend").cum_sum().over("seed"),
        )
        .group_by("t", maintain_order=True)
        .agg(pl.col("test_accuracy", "spent").mean())
    )
    line(by_money, own["spent"].to_numpy(), 100 * own["test_accuracy"].to_numpy(), name)
best = (
    100
    * metrics.filter(pl.col("policy") == "oracle")
    .group_by("seed")
    .agg(pl.col("test_accuracy").max())["test_accuracy"]
    .mean()
)
level(by_money, best, "oracle: everything new in every round, at any price")
by_money.set(xlabel="money spent", ylim=(60, None))
spread(by_money)

# %% Compare -------
#
# One budget is one point. ``compare`` learns at several, checks both limits in every
# run and round, and shows which policies cannot be distinguished.

compared = headgate.compare(e, budgets=[20, 40], out=folder / "compared", quiet=True)
print(compared)

# %% The report ----------
#
# ``run`` has written one already: a page in one file that needs no network. On the
# command line all of this is ``headgate plan``, ``rehearse``, ``run``, ``compare`` and
# ``report``.

print(run.report().name, f"{run.report().stat().st_size / 1e6:.1f} MB")
