"""headgate: adaptive data admission and retention for streaming federated learning.

    import headgate

    e = headgate.load("digits", "run.rounds=20", "run.seeds=3")
    headgate.plan(e)              # what to expect of the run
    run = headgate.run(e, "out")  # run it, or resume it if it was interrupted
    run.summary                   # accuracy, spend, limits and memory of each policy

Functions

    load              an experiment from a recipe's name, path or content
    sweep             all points of a recipe with a [sweep]
    plan              the settings of a policy and what to expect of it
    rehearse          control over the whole horizon, without learning
    run               run all policies and seeds, and write a run folder
    open              read a run folder
    compare           accuracy against the money spent, at every budget
    replay            compare real purchases with those that headgate would have made
    shadow            what a policy would buy beside a pipeline, round by round

Classes: results of these functions

    Experiment        all that a run needs, from `load`
    PlanResult        from `plan`: settings, limits and what to expect
    RehearsalResult   from `rehearse`: tables of what is spent, held and used
    Run               from `run` and `open`: tables of all that a run folder holds
    Comparison        from `compare`: a table, a page and the best policy at each budget
    ReplayResult      from `replay`: what the same samples or the same money would be
    ShadowResult      from `shadow`: what was bought and what would have been bought
    HeadgateError     the base class of all errors that headgate raises

Classes: for your own loop, policies, rules and prices (those that come with headgate
are in `headgate.control`)

    System            the given terms: buffers, budget, horizon, weights
    Controller        decides every round, and keeps the ledger
    Report            what clients really did in a round
    Supply            which clients take part in a round, and what they offer
    Amendment         terms that change from the next round on
    Books             a controller with its ledger on disk, which survives a kill
    Purchase          from `Books.begin`: what a client is to admit
    Delivery          for `Books.settle`: what a client has done
    AdmissionPolicy   base class: how much to admit
    Retention         base class: which samples stay in a buffer
    Selection         base class: which samples of a window are bought
    PriceProcess      base class: the prices of every round
    View              what a policy knows when it decides
    AdmissionRequest  what a policy decides to admit
    Candidates        the samples that a retention or selection rule ranks

Heavy modules are imported only when they are used.
"""

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from headgate.analysis.replay import ReplayResult, ShadowResult, replay, shadow
    from headgate.api import (
        Comparison,
        PlanResult,
        RehearsalResult,
        Run,
        compare,
        load,
        open,
        plan,
        rehearse,
        run,
        sweep,
    )
    from headgate.books.books import Books
    from headgate.books.nouns import Delivery, Purchase
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
    from headgate.version import __version__

__all__ = [
    "AdmissionPolicy",
    "AdmissionRequest",
    "Amendment",
    "Books",
    "Candidates",
    "Comparison",
    "Controller",
    "Delivery",
    "Experiment",
    "HeadgateError",
    "PlanResult",
    "PriceProcess",
    "Purchase",
    "RehearsalResult",
    "ReplayResult",
    "Report",
    "Retention",
    "Run",
    "Selection",
    "ShadowResult",
    "Supply",
    "System",
    "View",
    "__version__",
    "compare",
    "load",
    "open",
    "plan",
    "rehearse",
    "replay",
    "run",
    "shadow",
    "sweep",
]
_HOME = {
    "headgate.analysis.replay": "replay ReplayResult shadow ShadowResult",
    "headgate.api": (
        "compare load open plan rehearse run sweep Comparison PlanResult"
        " RehearsalResult Run"
    ),
    "headgate.books.books": "Books",
    "headgate.books.nouns": "Delivery Purchase",
    "headgate.control": (
        "AdmissionPolicy AdmissionRequest Amendment Candidates Controller Report"
        " Retention Selection Supply System View"
    ),
    "headgate.control.prices": "PriceProcess",
    "headgate.errors": "HeadgateError",
    "headgate.experiment": "Experiment",
    "headgate.version": "__version__",
}
"""the module of each public name, which is imported when the name is first used"""
_NAMES = {name: home for home, names in _HOME.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _NAMES:
        raise AttributeError(f"module 'headgate' has no attribute {name!r}")
    found = globals()[name] = getattr(_importlib.import_module(_NAMES[name]), name)
    return found


def __dir__() -> list[str]:
    return __all__
