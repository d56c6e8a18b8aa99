"""Every feature with a memory of its own: stopped and resumed, in parts and beside
other runs, a run ends in the same bytes.
"""

import numpy as np
import polars as pl
import pytest

from headgate.errors import Interrupted
from headgate.experiment import load
from headgate.learning.datasets import load_dataset
from headgate.records.owner import OwnedRun
from headgate.simulation.run import examine, play_chunk
from headgate.simulation.schedule import perform

DATA = load_dataset("digits")
ROUNDS, STOP = 6, 4
SMALL = [
    f"run.rounds={ROUNDS}",
    "run.seeds=2",
    "training.steps=2",
    "run.policies=['headgate', 'constant']",
]
ZOO = {
    "listening": "studies.zoo.listening:Listening",
    "gss": "studies.zoo.gss:GSS",
    "balancer": "studies.zoo.fedbalancer:FedBalancer",
    "cbrs": "studies.zoo.cbrs:CBRS",
    "vessal": "studies.zoo.vessal:VeSSAL",
    "coreset": "studies.zoo.kcentre:KCentre",
    "pacing": "studies.zoo.plain:Pacing",
}
CONCEPTS = (
    "data.concepts=['same', 'rotated', {kind='swapped', to=[1, 0, 3, 2, 5, 4, 7, 6, 9,"
    " 8]}]"
)
SEVERAL = [
    CONCEPTS,
    "run.policies=['headgate', 'hybrid', 'acdpp', 'balanced', 'listening']",
    f"policies.listening.kind={ZOO['listening']}",
    f"policies.balanced={{kind='{ZOO['pacing']}', rule='class-balanced'}}",
]
CHOOSING = [
    "run.policies=['headgate', 'margin', 'entropy', 'vessal', 'coreset', 'old']",
    "data.window=3",
    "data.look=0.25",
    "data.keep=4",
    *(
        f"policies.{name}={{kind='headgate', selection='{name}'}}"
        for name in ("margin", "entropy")
    ),
    f"policies.vessal={{kind='headgate', selection='{ZOO['vessal']}'}}",
    (
        "policies.coreset={kind='headgate', rule='reservoir',"
        f" selection='{ZOO['coreset']}'}}"
    ),
    (
        f"policies.old={{kind='constant', K=2, selection={{kind='{ZOO['vessal']}',"
        " ridge=0.1}}"
    ),
]
RECURRING = (
    "data.changes={kind='recurring', every=3, order=[0, 2, 1], clients=[0, 1, 2, 3,"
    " 4, 5]}"
)
FEATURES = {
    "yogi": ["server={kind = 'yogi', lr = 0.02, tau = 0.01, beta2 = 0.9}"],
    "momentum, the mean of models, moved images": [
        "server.kind=momentum",
        "training.average=6",
        "training.shift=1",
    ],
    "a cohort that is listened to": [*SEVERAL[1:], "training.cohort=6"],
    "rules that draw lots": [
        "run.policies=['reservoir', 'class-balanced', 'kept']",
        "policies.kept={kind='constant', rule='reservoir', capacity='buffer', rate=25}",
        *(
            f"policies.{one}={{kind='headgate', rule='{one}'}}"
            for one in ("reservoir", "class-balanced")
        ),
    ],
    "rules that look": [
        "run.policies=['headgate', 'gss', 'balancer', 'cbrs']",
        *(
            f"policies.{rule}={{kind='headgate', rule='{ZOO[rule]}'}}"
            for rule in ("gss", "balancer", "cbrs")
        ),
    ],
    "sudden changes": [
        *SEVERAL,
        "data.changes={kind='sudden', rounds=[3, 6], stagger=1}",
    ],
    "gradual changes": [
        *SEVERAL,
        "data.changes={kind='gradual', start=2, stop=6, order=[2, 1]}",
    ],
    "clients that choose, in a world that changes": [*CHOOSING, CONCEPTS, RECURRING],
    "clients that choose, labels late": [*CHOOSING, "data.late=2"],
    "dependent streams": ["data.stream={kind='markov', mixing=8}"],
    "dependent streams that flow": [
        *CHOOSING,
        "data.stream={kind='markov', mixing=8, passing=7}",
    ],
    "many clients": [
        "system.clients=20000",
        "system.budget=110000",
        "data.partition={kind='pairs'}",
        "training.cohort=40",
    ],
}


def content(folder):
    """Tables, models and ledgers."""
    last = folder / "checkpoints" / f"{ROUNDS:08}"
    yield from (
        (folder / name).read_bytes() for name in ("metrics.parquet", "clients.parquet")
    )
    yield (last / "tensors.safetensors").read_bytes()
    for file in sorted(last.glob("ledger-*.npz")):
        with np.load(file) as ledger:
            yield {name: ledger[name].tobytes() for name in ledger.files}


@pytest.mark.parametrize("name", FEATURES)
def test_stopped_in_parts_or_alone_a_run_ends_in_the_same_bytes(tmp_path, name):
    experiment, done, trust = (
        load("digits", [*SMALL, *FEATURES[name]]),
        [],
        list(ZOO.values()),
    )
    made = examine(experiment, DATA, "cpu", "auto")[0]["environment"]
    whole = perform(experiment, tmp_path / "whole", processes=1)[0].path
    (chunk,) = OwnedRun.begin(tmp_path / "stopped", experiment, made, []).chunks
    with pytest.raises(Interrupted):
        play_chunk(chunk, DATA, "cpu", done.append, lambda: len(done) == STOP)
    perform(None, tmp_path / "stopped", processes=1, trust=trust)
    assert list(content(tmp_path / "stopped")) == list(content(whole))
    each = [experiment.only([name]) for name in experiment.policies]
    OwnedRun.begin(tmp_path / "parts", experiment, made, each)
    perform(None, tmp_path / "parts", processes=1, trust=trust)
    for table in ("metrics.parquet", "clients.parquet"):
        assert (tmp_path / "parts" / table).read_bytes() == (whole / table).read_bytes()
    seed = perform(
        experiment.only(list(experiment.policies), experiment.seeds[1:]),
        tmp_path / "seed",
        processes=1,
    )[0].path
    alone, beside = (
        pl.read_parquet(each / "metrics.parquet") for each in (seed, whole)
    )
    assert alone.equals(beside.filter(pl.col("seed") == 1))
