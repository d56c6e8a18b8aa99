"""Sides of claims made up from curves and from money, so that rules can be tried on
numbers one can see through.
"""

from studies.paper.outcomes import Control, policy_numbers, side_of

from ...analysis.made_up import BUDGET, outcome


def control(
    policy="acdpp", batch="written", spend=BUDGET, error=0.001, rounds=20, **rest
):
    """Rehearsed runs of a policy that spends so much a round, within its buffers unless
    told otherwise.
    """
    own = {
        "growth": (0.0, 0.001),
        "debts": (50.0, 50.0),
        "fullest": (1.0, 0.001),
        "peak_share": 1.0,
        **rest,
    }
    fixed = {"budget": BUDGET, "runs": 4000, "peak_n": 10, "memory": 10, "settings": ""}
    return Control(
        batch=batch, policy=policy, rounds=rounds, spend=(spend, error), **own, **fixed
    )


def side(policy, curves, spend=BUDGET, batch="written", **rest):
    """A policy with these curves, (seeds, evaluations), and this expected spend."""
    numbers = policy_numbers(outcome(policy, curves, batch=batch, **rest))
    return side_of(numbers, {(batch, policy): [control(policy, batch, spend)]})
