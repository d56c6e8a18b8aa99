"""What a run folder was run with, in words taken from its settings."""

from collections.abc import Mapping, Sequence

import numpy as np

from headgate.analysis.pages import words
from headgate.control.policies import Acdpp, Constant, Hybrid, Released
from headgate.control.policy import AdmissionPolicy
from headgate.control.prices import Uniform, UniformInteger
from headgate.experiment import Experiment

WORDS = words(__file__)
Scenes = Mapping[str, Experiment]
"""by the run folder's own name"""


def label(policy: str) -> str:
    """
    >>> label("rho_0_5"), label("V_100"), label("sigma_1"), label("oracle")
    ('ACDPP, ρ = 0.5', 'ACDPP, V = 100', 'ACDPP, σ = 1', 'oracle')
    """
    name, _, value = policy.rpartition("_")
    symbol = WORDS["symbols"].get(name)
    return str(WORDS["labels"].get(policy, f"{symbol} = {value}" if symbol else policy))


def training(experiment: Experiment) -> str:
    """Model, training and how often it is looked at."""
    how = experiment.training
    optimiser = f"momentum {how.momentum:g}" if how.momentum else "plain gradient descent"
    seen = "every round" if how.evaluate_every == 1 else f"every {how.evaluate_every} rounds"
    return (
        f"{experiment.model.kind}, {optimiser}, lr {how.lr:g}, E = {how.steps}; {experiment.rounds} rounds, "
        f"{len(experiment.seeds)} seed{'s' * (len(experiment.seeds) > 1)}, test accuracy taken {seen}"
    )


def settings(experiment: Experiment, only: Sequence[str] = ()) -> str:
    """Every policy with its numbers, or only those named."""
    said = {name: _own(policy) for name, policy in experiment.policies.items() if not only or name in only}
    return "; ".join(f"{label(name)}: {own}" for name, own in said.items() if own)


def _own(policy: AdmissionPolicy) -> str:
    if isinstance(policy, Acdpp):
        named = {"Λ̄": policy.rate, "V": policy.V, "ρ": policy.rho, "N(0)": policy.N0}
        return ", ".join([f"K = {policy.K}", *(f"{symbol} = {_number(value)}" for symbol, value in named.items())])
    if isinstance(policy, Released):
        return f"K = {policy.K}, V = {policy.V:g}, at least {policy.least} sample{'s' * (policy.least != 1)} a client and round"
    if isinstance(policy, Hybrid):
        paid = "paid" if policy.paid else "for nothing"
        return f"K = {policy.K}, Λ̄ = {_number(policy.rate)}, stale clients filled ({policy.fill}) {paid}"
    if isinstance(policy, Constant):
        return f"K = {policy.K}, Λ̄ = {_number(policy.rate)}"
    return ""


def _number(value: object) -> str:
    return f"{float(np.asarray(value).ravel()[0]):.4g}"


def constants(experiment: Experiment) -> str:
    k = experiment.bound
    return f"D = {k.D:g}, σ = {k.sigma:g}, η̃ = {k.eta:g}, loss bound {k.loss:g}, Pdim = {k.pdim:g}"


def prices(experiment: Experiment) -> str:
    match experiment.prices:
        case UniformInteger(low, high):
            return f"prices whole numbers from {low:g} to {high:g}"
        case Uniform(low, high):
            return f"prices uniform on [{low:g}, {high:g}]"
        case other:
            return f"prices {other}"
