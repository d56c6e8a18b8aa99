"""Settings that cannot be simulated are refused by their name, in words that say what
to do.
"""

import re

import pytest

from headgate.errors import InfeasibleError, SettingError

from .digits import simulate

MANY = [
    "system.clients=20000",
    "system.budget=110000",
    "bound.pdim=20000",
    "training.cohort=40",
]
BALANCED = [
    "policies.balanced={kind='studies.zoo.plain:Pacing', rule='class-balanced'}",
    "run.policies=['balanced']",
    "data.late=1",
]
DEAR = [
    "policies.dear={kind='headgate', selection='entropy'}",
    "run.policies=['dear']",
    "data.window=2",
    "data.look=1e6",
]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("training.evaluate_every=0", "training.evaluate_every = 0"),
        (
            "system.clients=20000",
            (
                "system.clients = 20000: at most 10000 can all train .* set"
                " training.cohort"
            ),
        ),
        (
            "training.cohort=0",
            "training.cohort = 0: must be 1 to 10, the number of clients",
        ),
        ("data.partition=column", "data.partition.column: is missing"),
        (
            [*MANY, "data.partition=iid"],
            r"data.partition = iid: client \d+ would have no data",
        ),
        (
            [*MANY, "data.partition=dirichlet"],
            r"data.partition = dirichlet: client \d+ would have no data",
        ),
        ("training.shift=8", "training.shift = 8"),
        ("training.shift=-1", "training.shift = -1"),
        ("training.average=-1", "training.average = -1"),
        (
            "server={kind='momentum', momentum=1.0}",
            "server.momentum = 1.0: must be 0 or more and less than 1",
        ),
        ("server={kind='momentum', lr=0.0}", "server.lr = 0.0"),
        (
            "server={kind='momentun'}",
            "server.kind = momentun: no such server update; did you mean momentum?",
        ),
        ("server={kind='average', lr=1.0}", "server.lr: unknown key"),
        (
            "server={kind='adam', beta2=1.0}",
            "server.beta2 = 1.0: must be 0 or more and less than 1",
        ),
        ("server={kind='yogi', tau=0.0}", "server.tau = 0.0"),
        ("data.window=0", "data.window = 0: must be a whole number, 1 to 1,000"),
        ("data.window=1.5", "data.window = 1.5: must be"),
        ("data.keep=-1", "data.keep = -1: must be"),
        ("data.late=-1", "data.late = -1: must be"),
        ("data.look=-0.5", "data.look = -0.5: must be"),
        (
            "data.stream=markof",
            "data.stream.kind = markof: no such stream; did you mean markov",
        ),
        ("data.stream={kind='markov'}", "data.stream.mixing: is missing"),
        (
            "data.stream={kind='markov', mixing=0.5}",
            "data.stream.mixing = 0.5: must be at least 1 sample",
        ),
        (
            "data.stream={kind='markov', mixing=5, passing=-1}",
            "data.stream.passing = -1: must be a whole number, 0 to 1,000",
        ),
        (
            "policies.headgate.selection='entrpy'",
            "policies.headgate.selection.kind = entrpy: .*did you mean entropy",
        ),
        (
            BALANCED,
            (
                "policies.balanced.retention: ClassBalanced looks at labels, which come"
                " late"
            ),
        ),
        (DEAR, r"data.look = 1e\+06: with looks for 2e\+06 the budget buys no label"),
    ],
    ids=str,
)
def test_what_cannot_be_simulated_is_refused(settings, said):
    with pytest.raises(
        InfeasibleError if settings is DEAR else SettingError
    ) as refusal:
        simulate(
            "run.rounds=6", *([settings] if isinstance(settings, str) else settings)
        )
    assert re.search(said, str(refusal.value))
