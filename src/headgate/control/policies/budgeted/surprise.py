"""Do new samples lose more than they did? A sequential test with a stated rate of false alarms.

A round in which n new samples lose x on average speaks for a changed world by how much better it fits a loss of `RISE` times
the usual: the logarithm of the ratio of two gamma densities, whose relative variance is that of a mean of n such losses. The
sum of these, never below 0, is Page's CUSUM (1954). A likelihood ratio has a mean of at most 1 while losses do not rise. So
the sum of ratios over all rounds in which the change may have begun, Shiryaev's and Roberts's, grows by at most 1 a round in
the mean; it is not below T/a when the CUSUM exceeds log(T/a), and then the sum restarts. So at most a alarms are expected in T
calm rounds. What is usual, and how much losses scatter, is learnt on the way; that this does not spoil the rate is a test.
"""

import numpy as np

from headgate.control.types import Arrays, Bools, Floats, View

RISE = 3.0
"""times the usual loss: the change that is looked for"""
SCATTER = 5.0
"""relative variance of a single sample's loss, until it is learnt; it counts as much as `LEARNT` rounds"""
LEARNT = 8.0
ENOUGH = 60.0
"""samples: a round of more tells little more, because models differ from round to round"""
LASTING = 150.0
"""samples: after so many more, those heard before count by a factor e less for the usual loss"""
FIRST = 30.0
"""samples that must have been heard before anything can surprise"""
LOUDEST = 1e6
"""a loss above it counts as this much: clients may be strangers"""
NAMES = ("usual", "usual_samples", "scatter", "scatter_rounds", "evidence")


def unheard(runs: int) -> Arrays:
    """Nothing was heard yet."""
    return {**{name: np.zeros(runs) for name in NAMES}, **nothing_counted(runs)}


def nothing_counted(runs: int) -> Arrays:
    """What `heard` needs to know how many samples a round brought."""
    return {"heard_until": np.zeros(runs, dtype=np.int64)}


def heard(view: View, memory: Arrays) -> tuple[Floats, Floats, Arrays]:
    """Mean loss of the new samples of the round before and how many they were, (R,); none where nobody told. And the memory
    for the next round. Clients count by their buffers, as they do when a purchase is shared out."""
    after = {**memory, "heard_until": view.admitted}
    if view.losses is None:
        return np.zeros(view.debt.shape), np.zeros(view.debt.shape), after
    new, places = view.losses.new, view.system.buffer
    told = ~np.isnan(new)
    weight = (told * places).sum(axis=-1)
    loss = (np.where(told, np.minimum(new, LOUDEST), 0.0) * places).sum(axis=-1) / np.maximum(weight, 1)
    return loss, np.minimum(view.admitted - memory["heard_until"], weight).astype(np.float64), after


def observe(view: View, memory: Arrays, settled: Bools | None = None) -> tuple[Arrays, Floats, Floats]:
    """The memory with what was heard of the round before, and by how much it exceeds the usual: times it, 1 where nothing was
    heard or nothing is usual yet, and of how many samples, (R,). Where a run is not `settled` nothing is learnt of it."""
    loss, count, memory = heard(view, memory)
    usual, samples = memory["usual"], memory["usual_samples"]
    known = (samples >= FIRST) & (usual > 0) & (count > 0)
    ratio = np.divide(loss, usual, out=np.ones_like(loss), where=known)
    heard_of = np.where(known, count, 0.0)
    if settled is not None:
        count, known = np.where(settled, count, 0.0), known & settled
    told = count * ENOUGH / (count + ENOUGH)
    scatter = (LEARNT * SCATTER + memory["scatter"]) / (LEARNT + memory["scatter_rounds"])
    evidence = memory["evidence"] + np.where(known, told / scatter * (ratio * (1 - 1 / RISE) - np.log(RISE)), 0.0)
    off = told * (np.minimum(ratio, RISE) - 1) ** 2
    kept = samples * np.exp(-told / LASTING)
    learnt = {
        "evidence": np.maximum(evidence, 0.0),
        "scatter": memory["scatter"] + np.where(known, off, 0.0),
        "scatter_rounds": memory["scatter_rounds"] + known,
        "usual": np.divide(usual * kept + loss * told, kept + told, out=np.zeros_like(usual), where=kept + told > 0),
        "usual_samples": kept + told,
    }
    return {**memory, **learnt}, ratio, heard_of


def forgotten(memory: Arrays, runs: Bools) -> Arrays:
    """Where `runs` is true, nothing was heard yet."""
    return {**memory, **{name: np.where(runs, 0.0, memory[name]) for name in NAMES}}
