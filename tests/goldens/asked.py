"""What the goldens are made of: recipes that are run, federations that are played,
commands that are typed.
"""

import json
from pathlib import Path

from headgate.control.policies import KINDS

ROOT = Path(__file__).parents[2]

BASE = (
    "run.rounds=3", "run.seeds=2", "system.buffers=[3, 2, 4]", "system.clients=10",
    "system.budget=60", "training.steps=3", "training.dtype=float64",
    'run.policies=["headgate", "constant"]',
)  # fmt: skip
CONCEPTS = (
    "data.partition=iid",
    (
        'data.concepts=["same", {kind="rotated", quarters=1}, {kind="swapped", to=[1,'
        ' 0, 2, 3, 4, 5, 6, 7, 9, 8]}, {kind="prior", weights=[1, 0.5, 0.2, 1, 1, 1,'
        " 0.1, 1, 1, 1]}]"
    ),
)


ZOO = {
    "released": "released:Released",
    "resolving": "plain:Resolving", "pacing": "plain:Pacing", "chance": "plain:Random",
    "listening": "listening:Listening", "age": "age:Age", "rccda": "rccda:Rccda",
    "cbrs": "cbrs:CBRS", "gss": "gss:GSS", "balancer": "fedbalancer:FedBalancer",
    "ode": "ode:ODE", "vessal": "vessal:VeSSAL", "coreset": "kcentre:KCentre",
}  # fmt: skip
ZOO = {name: f"studies.zoo.{where}" for name, where in ZOO.items()}
"""what lies outside the package and comes in as `module:Class`, by the names that it
has in the goldens
"""
ZOO_POLICIES, ZOO_RULES = tuple(ZOO)[:7], tuple(ZOO)[7:11]


def _each(key, kinds):
    """A policy for each kind of a part, named as that kind."""
    settings = {
        kind: f'kind="{ZOO.get(kind, kind)}"{", K=2" if kind == "kstep" else ""}'
        for kind in kinds
    }
    tables = {
        kind: f'{{kind="headgate", {key}={{{own}}}}}' for kind, own in settings.items()
    }
    return (
        *(f"policies.{kind}={table}" for kind, table in tables.items()),
        f"run.policies={json.dumps(kinds)}",
    )


ALONE = [*(kind for kind in KINDS if kind != "held"), *ZOO_POLICIES]
"""policies that need no other policy"""
RECIPES = {
    "as it stands": ("digits",),
    "policies": (
        "digits",
        f"run.policies={json.dumps(ALONE)}",
        *(f'policies.{name}.kind="{ZOO[name]}"' for name in ZOO_POLICIES),
    ),
    "held": (
        "digits",
        'policies.held={kind="held", policy={kind="acdpp"}}',
        'run.policies=["held"]',
        "run.horizon=open",
    ),
    "retention": (
        "digits",
        "system.budget=150",
        *_each("rule", ("kstep", "reservoir", "class-balanced", *ZOO_RULES)),
    ),
    "selection": (
        "digits",
        "data.window=4",
        "data.look=0.05",
        "data.keep=2",
        *_each("selection", ("random", "entropy", "margin", "vessal", "coreset")),
    ),
    "sudden changes": (
        "digits",
        *CONCEPTS,
        'data.changes={kind="sudden", rounds=[2, 3], order=[0, 1, 2], stagger=1}',
    ),
    "recurring changes": (
        "digits",
        *CONCEPTS,
        'data.changes={kind="recurring", every=1, order=[3, 1]}',
    ),
    "gradual changes": (
        "digits",
        *CONCEPTS,
        'data.changes={kind="gradual", start=1, stop=4, order=[0, 2]}',
    ),
    "late labels": ("digits", "data.late=1"),
    "server updates": ("digits", 'sweep.server.kind=["momentum", "adam", "yogi"]'),
    "cohort": (
        "digits",
        "training.cohort=4",
        'sweep.training.aggregation=["memory", "alpha", "uniform"]',
    ),
    "batches": (
        "digits",
        "training.batch_size=2",
        "training.momentum=0.5",
        "training.weight_decay=0.01",
    ),
    "judged": (
        "digits",
        "data.validation=0.2",
        "training.average=1",
        "training.shift=1",
        "training.losses=true",
    ),
    "streams": (
        "digits",
        'sweep.data.partition=["iid", "dirichlet"]',
        'sweep.data.stream=["replacement", "stop"]',
    ),
    "table": (ROOT / "examples" / "customers.toml",),
    "prices per client": (
        "digits",
        (
            'prices={kind="per-client", common={kind="uniform", low=1, high=10},'
            " factors=[1, 2, 1, 1, 1, 3, 1, 1, 1, 1]}"
        ),
    ),
    "budgets": ("digits", "sweep.system.budget=[20.0, 200.0]"),
}

NETWORKS = {
    "logistic": ("reference", "gram", "flat", "batched"),
    "mlp": ("reference", "compiled", "flat", "batched"),
    "lenet": ("reference", "flat", "batched"),
}
"""network → executors that fit"""
CHOOSING = {"choosing": {"kind": "headgate", "selection": {"kind": "random"}}}
FEDERATIONS = {"fifo": {}, "reservoir": {}, "kstep": {}, "listening": {}}
FEDERATIONS |= {
    "choosing": {
        "data": {"kind": "digits", "window": 3, "late": 1},
        "policies": CHOOSING,
    }
}
"""policy → the sections of the recipe that differ from the helpers' own"""
REFUSED = """
comparee
data gett
data get mnits
recipes mnits
rehearse mnits
rehearse --no-such-option
rehearse digits --set prices.low=-1
rehearse digits --set prices.kind=unifrom
rehearse digits --set system.budget=0
rehearse digits --set system.budgett=3
rehearse digits --set system.buffers=[5,0]
rehearse digits --set policies.acdpp.K=0
rehearse digits --set run.seeds=2.5
rehearse digits --set nothing
rehearse digits --rounds many
rehearse digits --policies nobody
rehearse digits --policies nowhere:Nobody
rehearse digits --out rows.txt
rehearse digits --out no/such/rows.csv
plan digits --set system.budget=0.01
plan digits --gamma 0.3
plan missing.toml
run digits --set training.lr=-1
run digits --set training.dtype=float16
run digits --set training.cohort=11
run digits --set model.kind=lenet --processes 1
run digits --set data.partition=pair
run digits --set data.concepts=["same"]
run digits --set server.kind=adm
run digits --executor fast --processes 1
run digits --device tpu
run digits --track tensorbord
run --resume nowhere
run --resume nowhere --rounds 5
report nowhere
runs nowhere
compare digits --budgets none
replay none.csv
serve nowhere --port 99999
flower clients nowhere
flower forget nowhere
""".strip().splitlines()

ANSWERED = """
--help
run --help
--version
recipes
recipes digits
plan digits --set run.seeds=2
plan digits --set run.seeds=2 --policy acdpp --format json
rehearse digits --rounds 20 --seeds 2 --quiet
""".strip().splitlines()
