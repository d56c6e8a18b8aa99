"""headgate: adaptive data admission and retention for streaming federated learning.

    import headgate

    e = headgate.load("digits", "run.rounds=20", "run.seeds=3")   # a recipe's name, its path or its content
    headgate.plan(e)                                              # what to expect, before anything runs
    run = headgate.run(e, "out")                                  # learn; resumes what the same call began
    run.summary                                                   # accuracy with spend, limits and memory beside it

Functions

    load              an experiment from a recipe
    sweep             all points of a recipe with a [sweep]
    plan              what to expect of a policy
    rehearse          control over the whole horizon, without learning
    run               learn, into a run folder
    open              read a run folder
    compare           accuracy against the money spent, at every budget
    replay            purchases that were made, beside those that headgate would have made
    shadow            what a policy would buy beside a pipeline, round by round

Classes: what these return

    Experiment        everything a run needs
    PlanResult        of `plan`: settings, limits and what to expect
    RehearsalResult   of `rehearse`: tables of what is spent, held and used
    Run               of `run` and `open`: tables of all that a run folder holds
    Comparison        of `compare`: a table, the page and which policy is best where
    ReplayResult      of `replay`: what as many samples cost, what as much money buys, a table and a figure
    ShadowResult      of `shadow`: a table of what was bought and what the policy would have bought
    HeadgateError     the base of every error that headgate raises

Classes: for a loop or parts of one's own (policies, prices and rules that ship are in `headgate.control`)

    System            what is given: buffers, budget, horizon, weights
    Controller        decides every round, and keeps the ledger
    Report            what clients really did in a round
    Supply            who is there in a round, and what can be had
    Amendment         terms that change from the next round on
    Books             the same on disk, safe to be killed anywhere, with statements for finance
    Purchase          of `Books.begin`: what a client is to admit
    Delivery          for `Books.settle`: what a client has done
    AdmissionPolicy   base class: how much to admit
    Retention         base class: which samples stay in a buffer
    Selection         base class: which samples of a window are bought
    PriceProcess      base class: the prices of every round
    View              what a policy knows when it decides
    AdmissionRequest  what it wants
    Candidates        what a rule of either kind ranks

Nothing heavy is imported before it is used.
"""

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from headgate.analysis.replay import ReplayResult, ShadowResult, replay, shadow
    from headgate.api import Comparison, PlanResult, RehearsalResult, Run, compare, load, open, plan, rehearse, run, sweep
    from headgate.books.books import Books, Delivery, Purchase
    from headgate.control import (
        AdmissionPolicy,
        AdmissionRequest,
        Amendment,
        Candidates,
        Controller,
        Report,
        Retention,
        Selection,
        Supply,
        System,
        View,
    )
    from headgate.control.prices import PriceProcess
    from headgate.errors import HeadgateError
    from headgate.experiment import Experiment

    __version__: str

_HOME = {
    "headgate.analysis.replay": "replay ReplayResult shadow ShadowResult",
    "headgate.api": "compare load open plan rehearse run sweep Comparison PlanResult RehearsalResult Run",
    "headgate.books.books": "Books Delivery Purchase",
    "headgate.control": (
        "AdmissionPolicy AdmissionRequest Amendment Candidates Controller Report Retention Selection Supply System View"
    ),
    "headgate.control.prices": "PriceProcess",
    "headgate.errors": "HeadgateError",
    "headgate.experiment": "Experiment",
}
"""where each name lives; it is imported when it is first asked for"""
_NAMES = {name: home for home, names in _HOME.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("headgate")
    if name not in _NAMES:
        raise AttributeError(f"module 'headgate' has no attribute {name!r}")
    found = globals()[name] = getattr(_importlib.import_module(_NAMES[name]), name)
    return found


def __dir__() -> list[str]:
    return [*_NAMES, "__version__"]
