"""Run folders as the simulator leaves them, from a rehearsal with a made-up accuracy: a
round takes a millisecond.
"""

import json
import math
import os
from pathlib import Path

from headgate.control.rehearse import rehearse
from headgate.experiment import build
from headgate.records.reader import RunFolder
from headgate.records.tables import read_sealed
from headgate.records.writer import RunWriter, create, write_tables
from headgate.writing import replace_file

from ..control.playing import by_client

ZOO = {"released": {"kind": "studies.zoo.released:Released"}}
"""policies that are no kinds of the package's"""


def recipe(policies, seeds, rounds, buffers=(4, 6, 5), **sections):
    return {
        "policies": {name: ZOO[name] for name in policies if name in ZOO},
        "system": {"buffers": list(buffers), "budget": 20.0},
        "prices": {"kind": "uniform", "low": 1.0, "high": 10.0},
        "run": {"rounds": rounds, "seeds": seeds, "policies": list(policies)},
        "training": {"target": 0.5, "evaluate_every": 2},
        **sections,
    }


class MadeUp:
    """A run that is played as many rounds at a time as one likes; in parts, one policy
    a chunk.
    """

    def __init__(
        self,
        folder,
        policies=("acdpp", "constant"),
        seeds=2,
        rounds=12,
        parts=False,
        **more,
    ):
        raw = recipe(policies, seeds, rounds, **more)
        self.folder, self.rounds, self.t = Path(folder), rounds, 0
        self.experiment = build("made-up", raw, Path())
        self.seeds = self.experiment.seeds
        each = [
            {"policies": [one], "first_seed": 0, "seeds": seeds} for one in policies
        ]
        environment = {
            "started": "2026-11-15T07:00:00+00:00",
            "executor": "made-up",
            "device": "cpu",
            "mean_price": 5.5,
        }
        create(
            self.folder, self.experiment.tables(), environment, each if parts else []
        )
        self.chunks = {
            name: number if parts else None for number, name in enumerate(policies)
        }
        given = self.experiment
        self.rehearsed = {
            name: rehearse(given.system, policy, given.prices, self.seeds, rounds)
            for name, policy in given.policies.items()
        }
        self.clients = {name: by_client(given, name) for name in given.policies}
        self.reached = dict.fromkeys(self.rehearsed, 0)

    def held(self, name):
        """Of each run and client after the rounds played so far."""
        _, held, _ = self.clients[name]
        return held[:, self.reached[name] - 1]

    def admitted(self, name):
        """In the rounds played so far, likewise."""
        admitted, *_ = self.clients[name]
        return admitted[:, : self.reached[name]].sum(axis=1)

    def play(self, rounds=1, policies=None):
        """These policies alone, where a run is in parts."""
        for _ in range(rounds):
            made = [
                (self.chunks[name], *self._round(name))
                for name in policies or self.reached
            ]
            for chunk in dict.fromkeys(own for own, _, _ in made):
                for table, place in (("metrics", 1), ("clients", 2)):
                    RunWriter(self.folder, chunk=chunk).append(
                        table,
                        [
                            row
                            for each in made
                            if each[0] == chunk
                            for row in each[place]
                        ],
                    )
        self.t = min(self.reached.values())
        self.say("running")
        return self

    def _round(self, name):
        one, t = self.rehearsed[name], self.reached[name]
        self.reached[name] = after = t + 1
        judged = after % 2 == 0 or after == self.rounds
        columns = {
            key: getattr(one, key)
            for key in ("n", "N", "admitted", "price", "spend", "debt")
        }
        columns |= {
            "n_eff": one.N.astype(float),
            "bound": one.bound(self.experiment.bound),
            "excess": one.peak_excess,
        }
        rows, clients = [], []
        for r, seed in enumerate(self.seeds):
            who = {"policy": name, "seed": int(seed), "t": after}
            learnt = {
                "test_accuracy": 1 - math.exp(-after / 8) - 0.01 * r,
                "test_loss": math.exp(-after / 8),
            }
            learnt = learnt if judged else dict.fromkeys(learnt)
            known = {key: values[r, t].item() for key, values in columns.items()}
            rows.append({**who, **learnt, "train_loss": math.exp(-after / 7), **known})
            admitted, held, _ = (values[r, t].tolist() for values in self.clients[name])
            row = {"admitted": admitted, "held": held, "paid": None}
            clients.append({**who, **row})
        return rows, clients

    def say(self, state, diverged=(), **more):
        seeds = [int(seed) for seed in self.seeds]
        lost = [{"policy": policy, "seed": seed, "t": 1} for policy, seed in diverged]
        told = {
            "policies": list(self.reached),
            "seeds": seeds,
            "diverged": lost,
            "guessing": [],
            "elapsed_s": 1.0,
        }
        RunWriter(self.folder).state(state, self.t, self.rounds, **told, **more)
        return self

    def finish(self):
        """All rounds, and the rows become tables."""
        self.play(self.rounds - self.t)
        write_tables(RunFolder.open(self.folder))
        return self.say("finished")


def nobody():
    """A process id that no process has."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return pid


def change_state(folder, **told):
    state = read_sealed(Path(folder) / "state.json")
    replace_file(Path(folder) / "state.json", json.dumps(state | told).encode())


def sweep(folder, labels=("lr=0.1", "lr=0.5,K=3"), **more):
    folder = Path(folder)
    made = [MadeUp(folder / label, **more) for label in labels]
    (folder / "sweep.json").write_text(json.dumps({"points": list(labels)}), "utf-8")
    return made
