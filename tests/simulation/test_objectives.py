"""What clients minimise, from the recipe to the checkpoint: who is fresh, what is remembered, and what goes on after a kill."""

import numpy as np
import pytest
import torch

from headgate.errors import SettingError
from headgate.experiment import load
from headgate.learning.datasets import load_dataset
from headgate.learning.objectives import OBJECTIVE
from headgate.simulation.engine import Simulation

from ..learning import losses_written_out as written

DATA = load_dataset("digits")
SETTINGS = ["run.rounds=6", "run.seeds=2", 'run.policies=["headgate", "constant"]', "training.steps=2"]
KINDS = [kind for kind in OBJECTIVE.kinds if kind != "plain"]


def simulation(*settings, executor="auto"):
    return Simulation(load("digits", [*SETTINGS, "training.dtype=float64", *settings]), DATA, "cpu", executor)


def played(*settings, executor="reference"):
    own = simulation(*settings, executor=executor)
    thetas = []
    for _ in range(own.experiment.rounds):
        own.step()
        thetas.append(own.theta)
    return own, np.stack(thetas)


@pytest.mark.parametrize("kind", ["fresh", "scaffold"])  # what they remember goes from round to round
@pytest.mark.parametrize("executor", ["gram", "flat", "batched"])
def test_executors_agree_over_rounds(executor, kind):
    judge, expected = played(f"objective.kind={kind}")
    own, thetas = played(f"objective.kind={kind}", executor=executor)
    assert own.learner.executor.name == executor
    np.testing.assert_allclose(thetas, expected, rtol=1e-9, atol=1e-11)
    for name, array in judge.models.clients.items():
        np.testing.assert_allclose(own.models.clients[name], array, rtol=1e-8, atol=1e-10)


def test_each_kind_learns_something_else():
    _, plain = played(executor="gram")
    others = [played(f"objective.kind={kind}", executor="gram")[1] for kind in KINDS]
    ends = [thetas[-1] for thetas in (plain, *others)]
    assert len({end.tobytes() for end in ends}) == len(ends)


@pytest.mark.parametrize(("setting", "executor"), [("model.kind=logistic", "gram"), ("training.batch_size=4", "flat")])
def test_auto_finds_one_that_does_it(setting, executor):
    assert simulation(setting, "objective.kind=fedrs").learner.executor.name == executor


@pytest.mark.parametrize("more", [[], ["data.late=2"], ['policies.constant.rule={kind="reservoir"}'], ["training.cohort=3"]])
def test_fresh_is_what_a_client_has_labels_of_since_this_round(more, monkeypatch):
    own = simulation("objective={kind='fresh', share=0.7}", *more)
    seen, advance = [], own.learner.executor.advance
    monkeypatch.setattr(
        own.learner.executor, "advance", lambda theta, packed, *rest: seen.append(packed) or advance(theta, packed, *rest)
    )
    mixed, held_before = 0, [set() for _ in own.run_seeds]
    for _ in range(own.experiment.rounds):
        now = own._prepare(own.t + 1, own.ledgers, own.purchases)
        own.step()
        packed = seen[-1]
        for segment, (first, last) in enumerate(zip(packed.offsets[:-1], packed.offsets[1:], strict=True)):
            run, client = divmod(segment, now.clients.shape[1])
            who = int(now.clients[run, client])
            places = [(who, int(sample)) for sample in now.samples[first:last]]
            new = now.new[first:last].tolist()
            expected = written.share_of_fresh(new, 0.7)
            np.testing.assert_allclose(packed.factors[first:last], expected)
            mixed += len(set(expected)) > 1
            if not own.experiment.training.cohort:  # what was trained on before is old, and all else is fresh
                assert [place not in held_before[run] for place in places] == new
                held_before[run].update(places)
    assert mixed > 0


def scaffold_written_out(own):
    """Karimireddy et al.'s algorithm 1, option II, client by client, beside the simulation that plays it; the last models."""
    training, classes = own.experiment.training, len(DATA.classes)
    images = torch.from_numpy(DATA.train_images).double()
    mean, std = (torch.tensor(values, dtype=torch.float64).view(-1, 1, 1) for values in (DATA.mean, DATA.std))
    x_all, y_all = ((images / 255 - mean) / std).flatten(1), torch.from_numpy(DATA.train_labels)
    runs, clients, features = len(own.run_seeds), own.experiment.system.clients, x_all.shape[1]
    models = [(torch.zeros(classes, features).double(), torch.zeros(classes).double()) for _ in range(runs)]
    remembered = [[tuple(map(torch.zeros_like, models[r])) for _ in range(clients)] for r in range(runs)]
    for _ in range(own.experiment.rounds):
        now = own._prepare(own.t + 1, own.ledgers, own.purchases)
        own.step()
        for r in range(runs):
            weights = now.batch.weights[r]
            common = [sum(float(w) * c[i] for w, c in zip(weights, remembered[r], strict=True)) for i in (0, 1)]
            change = [torch.zeros_like(each) for each in models[r]]
            for m in range(clients):
                first, last = now.batch.offsets[r * clients + m : r * clients + m + 2]
                if first == last:
                    continue
                rows, local = now.batch.rows[first:last], models[r]
                for _ in range(training.steps):
                    local = [each.detach().requires_grad_() for each in local]
                    loss = torch.nn.functional.cross_entropy(x_all[rows] @ local[0].T + local[1], y_all[rows])
                    gradients = torch.autograd.grad(loss, local)
                    local = [
                        each.detach() - training.lr * (g + c - c_m)
                        for each, g, c, c_m in zip(local, gradients, common, remembered[r][m], strict=True)
                    ]
                remembered[r][m] = tuple(
                    c_m - c + (before - after) / (training.steps * training.lr)
                    for c_m, c, before, after in zip(remembered[r][m], common, models[r], local, strict=True)
                )
                change = [each + weights[m] * (a - b) for each, a, b in zip(change, local, models[r], strict=True)]
            models[r] = tuple(each + step for each, step in zip(models[r], change, strict=True))
    flat = [[torch.cat([part.flatten() for part in c]) for c in of_run] for of_run in remembered]
    return torch.stack([torch.cat([part.flatten() for part in model]) for model in models]), torch.stack(
        [torch.stack(c) for c in flat]
    )


@pytest.mark.parametrize("executor", ["gram", "flat"])
def test_control_variates_are_those_of_the_paper(executor):
    own = simulation("objective.kind=scaffold", "training.steps=3", executor=executor)
    models, remembered = scaffold_written_out(own)
    np.testing.assert_allclose(own.theta, models, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(own.models.clients["controls"], remembered, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_breaks_down_is_lost_and_leaves_the_others_alone(kind):
    own, other = (simulation(f"objective.kind={kind}", "training.average=2") for _ in range(2))
    for _ in range(3):
        own.step()
        other.step()
    broken = own.models.theta.copy()
    broken[0, 0] = np.nan
    own.models = own.models._replace(theta=broken)
    for _ in range(3):
        found, rows = own.step().metrics, other.step().metrics
    assert own.diverged[0] > 0
    assert (own.diverged[1:] == 0).all()
    np.testing.assert_array_equal(own.theta[1:], other.theta[1:])
    assert rows[1:] == found[1:]


def test_what_clients_remember_is_refused_where_it_takes_too_much_memory(monkeypatch):
    monkeypatch.setenv("HEADGATE_MEMORY", "0.0005")
    with pytest.raises(SettingError, match=r"^objective.kind = scaffold: what 10 clients of 4 runs remember, and their models"):
        simulation("objective.kind=scaffold")
