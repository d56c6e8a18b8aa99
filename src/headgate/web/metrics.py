"""The newest runs in the text format of Prometheus."""

from collections.abc import Iterator

import numpy as np

from headgate.analysis.intervals import Floats
from headgate.analysis.runs import Runs
from headgate.errors import DataError
from headgate.records.reader import WARN_AT
from headgate.web.answers import runs_in
from headgate.web.runs import Library

MOST_RUNS = 50
HELP = {
    "rounds": "rounds finished", "spent": "money spent", "left": "money left of all rounds", "price": "price of the last round",
    "warning": f"1 from {WARN_AT:.0%} of the money on", "admitted": "samples admitted", "held": "samples held",
    "mean_age": "rounds since the newest samples, as many as are held, were admitted", "accuracy": "last test accuracy",
    "refused": "answers of clients that were refused", "quarantined": "clients in quarantine",
}  # fmt: skip


def metrics_text(library: Library) -> str:
    """Return the means over seeds for each policy of the newest runs. Damaged runs are
    left out.
    """
    lines = {
        name: [f"# HELP headgate_{name} {text}", f"# TYPE headgate_{name} gauge"]
        for name, text in HELP.items()
    }
    for head in sorted(
        library.heads().values(), key=lambda head: head.started, reverse=True
    )[:MOST_RUNS]:
        try:
            run = library.open(head.name)
            found = [runs_in(library, head.name, policy) for policy in run.policies]
        except DataError:
            continue
        for one in found:
            own = (
                dict(_values(one, run.system.budget * run.rounds))
                if one.complete
                else {}
            )
            own |= {
                name: run.state[name]
                for name in ("refused", "quarantined")
                if isinstance(run.state.get(name), int)
            }
            labels = ",".join(
                f'{key}="{_escaped(text)}"'
                for key, text in (("run", run.name), ("policy", one.policy))
            )
            for name, value in own.items():
                lines[name].append(f"headgate_{name}{{{labels}}} {value:.15g}")
    return "\n".join(line for each in lines.values() for line in each) + "\n"


def _values(one: Runs, money: float) -> Iterator[tuple[str, float]]:
    values = {
        name: one.values[name][:, : one.complete]
        for name in ("spend", "price", "admitted", "n", "test_accuracy")
    }
    spent, held = float(values["spend"].sum(axis=1).mean()), values["n"][:, -1]
    yield from (
        ("rounds", one.complete),
        ("spent", spent),
        ("left", money - spent),
        ("warning", spent >= WARN_AT * money),
    )
    yield from (
        ("price", float(values["price"][:, -1].mean())),
        ("admitted", float(values["admitted"].sum(axis=1).mean())),
    )
    yield from (
        ("held", float(held.mean())),
        ("mean_age", mean_age(values["admitted"], held)),
    )
    seen = values["test_accuracy"][:, np.isfinite(values["test_accuracy"]).all(axis=0)]
    yield from [("accuracy", float(seen[:, -1].mean()))] if seen.size else []


def mean_age(admitted: Floats, held: Floats) -> float:
    """Return the mean age in rounds of the newest `held` (R,) samples of those
    `admitted` (R, T).

    >>> mean_age(np.array([[2.0, 0.0, 1.0]]), np.array([2.0]))
    1.0
    """
    newest = np.diff(
        np.minimum(np.cumsum(admitted[:, ::-1], axis=1), held[:, None]),
        axis=1,
        prepend=0,
    )
    return float((newest @ np.arange(admitted.shape[1])).sum() / max(held.sum(), 1))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
