"""
Your own data, model and prices
===============================

How to bring what your system has: samples, a network, and the prices that labels really
had.

The network is torch's: this needs ``headgate[sim]``.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from pictures import line, panels, spread  # pictures.py is on the page Tutorials

import headgate

folder = Path(tempfile.mkdtemp())

# %% Data: a file ------------
#
# A table is a file with a row for each sample: ``.csv``, ``.parquet``, or ``.npz`` with
# an array of samples, which may be images, and one of labels. Here they are stripes
# under noise.

labels = np.arange(1500) % 3
images = np.random.default_rng(0).integers(0, 216, (1500, 8, 8), dtype=np.uint8)
images[labels == 0, ::2, :] += 40
images[labels == 1, :, ::2] += 40
np.savez(folder / "stripes.npz", x=images, y=labels)

# %% A model: a class ----------------
#
# What is not a file is a frozen data class whose fields are its settings. Its module is
# beside the recipe, and the recipe names it as ``module:Class``. This model has one
# hidden layer.

(folder / "shop.py").write_text('''
from dataclasses import dataclass

from headgate.learning.models import Model


@dataclass(frozen=True)
class TwoLayers(Model):
    """One hidden layer with a smooth activation."""

    width: int = 16

    def build(self, shape, classes):
        from torch import nn

        features = shape[0] * shape[1] * shape[2]
        hidden = nn.Linear(features, self.width)
        last = nn.Linear(self.width, classes)
        return nn.Sequential(nn.Flatten(), hidden, nn.Tanh(), last)
''')

# %%
# Prices: a file
# --------------
#
# Prices that were recorded are a file with a column ``price``: one row a round.

t = np.arange(48)
recorded = (
    5 + 3 * np.sin(t / 24 * 2 * np.pi) + np.random.default_rng(1).uniform(-1, 1, t.size)
)
pl.DataFrame({"price": recorded.round(2)}).write_csv(folder / "prices.csv")

(folder / "shop.toml").write_text("""
[system]
buffers = [6, 8, 10]
budget = 30.0

[prices]
kind = "trace"
file = "prices.csv"
at_end = "repeat"

[run]
rounds = 48
seeds = 3
policies = ["headgate", "constant"]

[data]
kind = "table"
file = "stripes.npz"
label = "y"
partition = "iid"

[model]
kind = "shop:TwoLayers"
width = 12
""")

# %%
# Plan, then learn
# ----------------
#
# Planning needs prices and buffers alone; the module is not even imported for it.

e = headgate.load(folder / "shop.toml")
print(headgate.plan(e))
print("shop" in sys.modules)

# %%
run = headgate.run(e, folder / "run", processes=1, quiet=True)
print(run)

# %% Waiting for the night ---------------------
#
# The recorded prices have a cheap half of the day. ``headgate`` buys there,
# ``constant`` pays what is asked.

rows = run.frame.group_by("policy", "t", maintain_order=True).agg(
    pl.col("price", "admitted").mean()
)
figure, (prices, bought) = panels("Price of a sample", "Samples bought so far")
own = rows.filter(pl.col("policy") == "headgate")
line(prices, own["t"].to_numpy(), own["price"].to_numpy(), "price", color="#7c8794")
for name in ("headgate", "constant"):
    own = rows.filter(pl.col("policy") == name)
    line(bought, own["t"].to_numpy(), np.cumsum(own["admitted"].to_numpy()), name)
for axes in (prices, bought):
    axes.set(xlabel="round", xlim=(0, 58))
spread(bought)

# %%
# A mistake is reported in one line, with the key, before anything runs.

try:
    headgate.load(folder / "shop.toml", "prices.at_end=wrap")
except headgate.HeadgateError as error:
    print(error)

# %% :doc:`/do/parts` has an example of every kind of part: policies, rules, prices,
# data, models and server updates.
