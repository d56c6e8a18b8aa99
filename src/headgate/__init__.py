"""headgate: adaptive data admission and retention for streaming federated learning.

    import headgate

    e = headgate.load("digits", "run.rounds=20", "run.seeds=3")   # a recipe's name, its path or its content
    headgate.plan(e)                                              # what to expect, before anything runs
    run = headgate.run(e, "out")                                  # learn; goes on where `out` was begun by the same
    run.summary                                                   # accuracy with spend, limits and memory beside it

For a loop of one's own: `Controller`, `System` and the policies in `headgate.control.policies`. Nothing heavy is
imported before it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headgate.api import Comparison, PlanResult, RehearsalResult, Run, compare, load, open, plan, rehearse, run, sweep
    from headgate.control import (
        AdmissionPolicy,
        Ask,
        Candidates,
        Controller,
        Offered,
        Report,
        Retention,
        Selection,
        System,
        View,
    )
    from headgate.control.prices import PriceProcess
    from headgate.errors import HeadgateError
    from headgate.experiment import Experiment

    __version__: str

_HOME = {
    "headgate.api": "compare load open plan rehearse run sweep Comparison PlanResult RehearsalResult Run",
    "headgate.control": "AdmissionPolicy Ask Candidates Controller Offered Report Retention Selection System View",
    "headgate.control.prices": "PriceProcess",
    "headgate.errors": "HeadgateError",
    "headgate.experiment": "Experiment",
}
"""where each name lives; it is imported when it is first asked for"""
_NAMES = {name: home for home, names in _HOME.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("headgate")
    if name not in _NAMES:
        raise AttributeError(f"module 'headgate' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_NAMES[name]), name)
    return found


def __dir__() -> list[str]:
    return [*_NAMES, "__version__"]
