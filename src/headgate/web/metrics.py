"""The newest runs in the text format of Prometheus."""

import numpy as np

from headgate.analysis.accounts import ledger_facts
from headgate.analysis.intervals import Floats
from headgate.analysis.runs import Runs
from headgate.errors import DataError
from headgate.escaping import exposition
from headgate.records.reader import WARN_AT, RunFolder
from headgate.web.answers import runs_in
from headgate.web.runs import Library

MOST_RUNS = 50
HELP = {
    "rounds": "rounds finished",
    "spent": "money spent",
    "left": "money left of all rounds",
    "price": "price of the last round",
    "warning": f"1 from {WARN_AT:.0%} of the money on",
    "admitted": "samples admitted",
    "held": "samples held",
    "mean_age": ("rounds since the newest samples, as many as are held, were admitted"),
    "accuracy": "last test accuracy",
    "saved": "money saved, beside the same labels bought evenly at the same prices",
    "even_labels": "labels that the same money buys if it is spent evenly",
    "refused": "answers of clients that were refused",
    "quarantined": "clients in quarantine",
}


def metrics_text(library: Library) -> str:
    """Return the means over seeds for each policy of the newest runs.

    Damaged runs are left out.
    """
    samples: dict[str, list[tuple[dict[str, str], float]]] = {name: [] for name in HELP}
    heads = sorted(library.heads().values(), key=lambda head: -head.started)
    for head in heads[:MOST_RUNS]:
        try:
            run = library.open(head.name)
            found = [runs_in(library, head.name, policy) for policy in run.policies]
        except DataError:
            continue
        for one in found:
            labels = {"run": run.name, "policy": one.policy}
            for name, value in (_values(one) | _of_clients(run)).items():
                samples[name].append((labels, value))
    return exposition(HELP, samples)


def _of_clients(run: RunFolder) -> dict[str, float]:
    """Return what the state and the ledger of a run on Flower count of its clients."""
    counts = {name: run.state.get(name) for name in ("refused", "quarantined")}
    found = {name: float(n) for name, n in counts.items() if isinstance(n, int)}
    saved = ledger_facts(run).saved
    if saved is not None:
        found |= {"saved": saved.money, "even_labels": saved.even_labels}
    return found


def _values(one: Runs) -> dict[str, float]:
    """Return the numbers of a policy's runs; none before the first round."""
    if not one.complete:
        return {}
    spend, price, admitted, n, accuracy = (
        one.values[name][:, : one.complete]
        for name in ("spend", "price", "admitted", "n", "test_accuracy")
    )
    spent = float(spend.sum(axis=1).mean())
    held = n[:, -1]
    values = {
        "rounds": one.complete,
        "spent": spent,
        "left": one.money - spent,
        "warning": spent >= WARN_AT * one.money,
        "price": float(price[:, -1].mean()),
        "admitted": float(admitted.sum(axis=1).mean()),
        "held": float(held.mean()),
        "mean_age": mean_age(admitted, held),
    }
    seen = accuracy[:, np.isfinite(accuracy).all(axis=0)]
    if seen.size:
        values["accuracy"] = float(seen[:, -1].mean())
    return values


def mean_age(admitted: Floats, held: Floats) -> float:
    """Return the mean age in rounds of the newest `held` (R,) samples.

    `admitted` are the samples of each round, (R, T).

    >>> mean_age(np.array([[2.0, 0.0, 1.0]]), np.array([2.0]))
    1.0
    """
    newest_first = np.cumsum(admitted[:, ::-1], axis=1)
    held_by_age = np.diff(
        np.minimum(newest_first, held[:, None]),
        axis=1,
        prepend=0,
    )
    ages = held_by_age @ np.arange(admitted.shape[1])
    return float(ages.sum() / max(held.sum(), 1))
