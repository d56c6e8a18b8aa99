"""
Your own policy
===============

How to write a policy, check it, and find out at equal money whether it is any good.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from pictures import line, panels, spread  # pictures.py is on the page Tutorials

import headgate
from headgate.control import AdmissionPolicy, AdmissionRequest
from headgate.control.policies import BudgetedPolicy
from headgate.errors import SettingError
from headgate.testing import check_policy

folder = Path(tempfile.mkdtemp())

# %% Three things to know --------------------
#
# ``view`` is what a server may know: the price, the debt, what was spent, what is held.
# ``AdmissionRequest`` is what the policy asks for. Its memory is named arrays of fixed
# shape. Arrays lead with the runs of a batch, so one policy object decides for all
# seeds at once: work on whole arrays, not on single numbers.
#
# This policy asks for twice a rate while the price is at most its average so far.


@dataclass(frozen=True, eq=False)
class BelowAverage(AdmissionPolicy):
    """Twice the rate while the price is at most its average so far, nothing
    otherwise.
    """

    rate: float = 10.0

    def start(self, system, runs):
        return {"prices": np.zeros(runs)}

    def admit(self, view, memory):
        seen = memory["prices"] + view.price
        cheap = view.price <= seen / view.t
        return AdmissionRequest(np.where(cheap, 2 * self.rate, 0.0)), {"prices": seen}


# %% Fields are settings: ``rate`` can be set in a recipe. ``check_policy`` runs it in
# many ways and says in one line what is wrong. It checks that a policy is pure, causal,
# independent of the batch, resumable and correct in its accounts.

check_policy(BelowAverage())


@dataclass(frozen=True, eq=False)
class Forgetful(BelowAverage):
    """The same with a mistake: its memory grows."""

    def admit(self, view, memory):
        ask, _ = super().admit(
            view, {"prices": memory["prices"][:1] * np.ones(view.price.shape)}
        )
        return ask, {"prices": np.append(memory["prices"], 0.0)}


try:
    check_policy(Forgetful())
except SettingError as wrong:
    print(wrong)

# %% Keeping the limits ------------------
#
# Nothing holds ``BelowAverage`` to its budget. A subclass of ``BudgetedPolicy`` returns
# the share of the places to renew and leaves the accounts to its base class: the money
# is never overdrawn and no buffer overfilled, at any prices.


@dataclass(frozen=True, eq=False, kw_only=True)
class BelowAverageBuyer(BudgetedPolicy):
    """Renews all places while the price is at most `part` of its average so far."""

    part: float = 0.6

    def start(self, system, runs):
        return {**super().start(system, runs), "prices": np.zeros(runs)}

    def wanted(self, view, memory):
        seen = memory["prices"] + view.price
        return np.where(view.price <= self.part * seen / view.t, 1.0, 0.0), {
            **memory,
            "prices": seen,
        }


check_policy(BelowAverageBuyer())

# %%
# Rehearse
# --------
#
# A rehearsal takes policy objects. In a second it shows what each does with the money.

e = headgate.load(
    "digits", "run.rounds=20", "run.seeds=10", 'run.policies=["headgate"]'
)
e = e.with_policy("below average", BelowAverage()).with_policy(
    "mine", BelowAverageBuyer()
)
rows = headgate.rehearse(e).frame
figure, (money, distinct) = panels(
    "Money spent so far, of the budget so far (%)", "Distinct samples"
)
for name in e.policies:
    own = (
        rows.filter(pl.col("policy") == name)
        .group_by("t", maintain_order=True)
        .agg(pl.col("spend", "N").mean())
    )
    t = own["t"].to_numpy()
    line(
        money, t, 100 * np.cumsum(own["spend"].to_numpy()) / (e.system.budget * t), name
    )
    line(distinct, t, own["N"].to_numpy(), name)
for axes in (money, distinct):
    axes.set(xlabel="round", xlim=(0, 29))
money.axhline(100, color="#7c8794", linestyle="--", linewidth=1)
spread(money, distinct)

# %% At equal money --------------
#
# Accuracy decides. ``compare`` gives each policy the same budgets and reports what was
# really spent.

yardsticks = headgate.load(
    "digits",
    "run.rounds=20",
    "run.seeds=10",
    'run.policies=["headgate", "constant", "oracle"]',
)
compared = headgate.compare(
    yardsticks.with_policy("mine", BelowAverageBuyer()),
    [20, 55],
    folder / "compared",
    quiet=True,
)
found = pl.DataFrame(compared.rows).select(
    "budget",
    "policy",
    "spend",
    "overspent_runs",
    "kept_limits",
    pl.col("best").list.first(),
)
with pl.Config(tbl_rows=20, tbl_hide_column_data_types=True):
    print(found)

# %% Then put it into a module beside a recipe, and name it there:
# ``kind = "my_policy:BelowAverageBuyer"``. Everything that takes a shipped policy takes
# yours:
# the command line, sweeps, the planner's page, Flower.
