"""What runs: for each data set the run folders of both flavours, of the open values and of the comparison at equal means.

As written: K = 10, Λ̄ = C/c̄, prices uniform on [1, 10], the text's models. As released: what the published scripts do
(docs/paper.md). A batch is one run folder, made from a recipe as `headgate run RECIPE --set …` would make it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from headgate.control.policies import Constant, Released
from headgate.control.rehearse import Rehearsal, rehearse
from headgate.control.types import AdmissionPolicy
from headgate.errors import SettingError
from headgate.experiment import Experiment, load

WRITTEN, RELEASED, EQUAL, FAIR_V, OPEN, CONSTANTS, HORIZON, BROKEN, RATES = (
    "written",
    "released",
    "equal-means",
    "fair-values",
    "open-values",
    "constants",
    "horizon",
    "stated-rate",
    "learning-rate",
)
QUICK = ('data.name="digits"', 'model.name="logistic"', "run.rounds=8", "run.seeds=2", "training.evaluate_every=2",
         "training.lr=0.5", "training.momentum=0.0", 'training.dtype="float32"', "data.per_client=200")  # fmt: skip
"""so small that the whole chain runs in a test: its numbers mean nothing"""
STATES_OWN_RATE = (BROKEN, RATES)
SHARED_ORACLE = ("imagenette",)
"""where the oracle as written is the same run as the one as released: equal weights, and no price moves it"""


@dataclass(frozen=True)
class Batch:
    """One run folder: a recipe and the settings that differ from it."""

    name: str
    part: str
    """which question it answers: one of the names above"""
    recipe: str
    settings: tuple[str, ...]
    needs_gpu: bool = False
    """left out where there is none; the page then says that it was not run"""

    def experiment(self, quick: bool = False) -> Experiment:
        return load(self.recipe, self.overrides(quick))

    def overrides(self, quick: bool = False) -> list[str]:
        small = [each for each in QUICK if not (self.part in STATES_OWN_RATE and each.startswith("training.lr"))]
        return [*self.settings, *(small if quick else ())]


@dataclass(frozen=True)
class Study:
    """One data set: how large the system is beside MNIST's, and how it is trained here."""

    name: str
    scale: int
    highest_price: int
    """as released: prices are 1, 2, … up to this"""
    rounds: int
    seeds: int
    training: tuple[str, ...]
    """as written, with a learning rate that works"""
    released_training: tuple[str, ...]
    stated_rate: str
    """the learning rate of the text"""
    stated: tuple[str, ...]
    """settings of the run that shows what this rate does; empty where the comparison uses it anyway"""
    rates: tuple[tuple[str, ...], ...]
    """settings between which the split of the training data chooses"""
    rate_rounds: int
    longest: int
    """rounds of the run that looks further"""
    longer: tuple[str, ...]
    """how it is trained"""
    differs: tuple[str, ...]
    """what is not as in the paper, in sentences"""

    def batches(self) -> list[Batch]:
        """Every run folder, dearest first: what is dear runs while there is something beside it to run."""
        makers: list[Callable[[Study], list[Batch]]] = [
            _written,
            _released,
            _equal,
            _fair_values,
            _open,
            _constants,
            _horizon,
            _stated,
            _rates,
        ]
        return [batch for make in makers for batch in make(self)]


GPU = ('training.dtype="bfloat16"', "training.evaluate_every=5")
STUDIES = (
    Study(
        name="mnist",
        scale=1,
        highest_price=10,
        rounds=100,
        seeds=10,
        training=('model.name="lenet"', "training.lr=0.1", "training.evaluate_every=5"),
        released_training=('model.name="logistic"', "training.lr=0.1", "training.momentum=0.9"),
        stated_rate="0.5",
        stated=('model.name="lenet"', "training.lr=0.5", "training.evaluate_every=5", "run.rounds=20", "run.seeds=2"),
        rates=tuple(('model.name="lenet"', f"training.lr={lr}") for lr in ("0.02", "0.05", "0.1", "0.2", "0.5")),
        rate_rounds=30,
        longest=300,
        longer=("training.evaluate_every=5",),
        differs=(
            "As written LeNet is trained with lr 0.1; what the lr 0.5 of the text does is shown by a run of its own.",
            "As released logistic regression is trained with momentum 0.9, lr 0.1 and E = 10, after the published commands.",
        ),
    ),
    Study(
        name="cifar10",
        scale=2,
        highest_price=49,
        rounds=150,
        seeds=5,
        training=GPU,
        released_training=GPU,
        stated_rate="5e-3",
        stated=(),
        rates=tuple((*GPU, f"training.lr={lr}") for lr in ("0.001", "0.005", "0.02")),
        rate_rounds=60,
        longest=600,
        longer=GPU,
        differs=(
            "The training data are a subset of CIFAR-10 with 1,000 images per class, of which each client draws 500 each.",
            "Arithmetic is bfloat16 on float32 parameters, without augmentation.",
            "As released the prices are 1..49 at an unchanged budget of 110, so there even constant admission overspends; "
            "equal spend and capped buffers are therefore compared on the prices of the text.",
        ),
    ),
    Study(
        name="imagenette",
        scale=4,
        highest_price=10,
        rounds=45,
        seeds=5,
        training=(*GPU, "training.momentum=0.9", "training.lr=0.005"),
        released_training=(*GPU, "training.momentum=0.9", "training.lr=0.005"),
        stated_rate="5e-4",
        stated=(*GPU, "training.lr=0.0005", "run.rounds=30", "run.seeds=1", 'run.policies=["oracle"]'),
        rates=tuple(
            (*GPU, f"training.momentum={momentum}", f"training.lr={lr}")
            for momentum, lr in (("0.0", "0.005"), ("0.9", "0.0005"), ("0.9", "0.005"), ("0.9", "0.02"))
        ),
        rate_rounds=20,
        longest=150,
        longer=(*GPU, "training.momentum=0.9", "training.lr=0.005"),
        differs=(
            "Images are 64×64 instead of 160×160.",
            "Both flavours train with momentum 0.9 and lr 5e-3; what plain gradient descent with the lr 5e-4 of the text "
            "does to the oracle is shown by a run of its own.",
            "As released the mini-batches of at most 32 are whole buffers here.",
            "Arithmetic is bfloat16 on float32 parameters, without augmentation.",
        ),
    ),
)
NAMES = tuple(study.name for study in STUDIES)


def study_of(name: str) -> Study:
    for study in STUDIES:
        if study.name == name:
            return study
    raise SettingError(f"study {name}: must be one of {', '.join(NAMES)}")


def experiments(name: str, quick: bool = False) -> list[tuple[str, Experiment]]:
    """(folder, experiment) of everything a data set's page is made from; the folder is relative to the folder of all runs."""
    return [(f"{name}/{batch.name}", batch.experiment(quick)) for batch in study_of(name).batches()]


def needing_gpu(name: str, quick: bool = False) -> set[str]:
    """The folders that are not played without one."""
    return set() if quick else {f"{name}/{batch.name}" for batch in study_of(name).batches() if batch.needs_gpu}


def _run(study: Study, policies: Sequence[str]) -> tuple[str, ...]:
    names = ", ".join(f'"{policy}"' for policy in policies)
    return (f"run.rounds={study.rounds}", f"run.seeds={study.seeds}", f"run.policies=[{names}]")


def _policy(name: str, **settings: object) -> tuple[str, ...]:
    return tuple(f"policies.{name}.{key}={value}" for key, value in settings.items())


# As written


TEXT_K = 10
"""Corollary 2's K on all three systems"""
TEXT = (*_policy("acdpp", kind="acdpp", K=TEXT_K), *_policy("constant", kind="constant", K=TEXT_K))
CAPPED = _policy("acdpp_capped", kind="acdpp", K=TEXT_K, burst="buffer", capacity="buffer")


def _written(study: Study) -> list[Batch]:
    policies = ["oracle", "acdpp", "constant", "hybrid", *(["acdpp_capped"] if study.name != "imagenette" else [])]
    return [Batch(WRITTEN, WRITTEN, study.name, (*study.training, *_run(study, policies), *TEXT, *CAPPED))]


def _stated(study: Study) -> list[Batch]:
    """The learning rate of the text, where it does not work."""
    if not study.stated:
        return []
    own = (*_run(study, ["oracle", "acdpp", "constant", "hybrid"]), *TEXT, *study.stated)
    return [Batch(f"{BROKEN}-{study.stated_rate}", BROKEN, study.name, own)]


def _rates(study: Study) -> list[Batch]:
    """Constant admission on a tenth of the training data that nobody trains on."""
    judged = ("data.validation=0.1", "run.seeds=2", f"run.rounds={study.rate_rounds}", "training.evaluate_every=10")
    made = []
    for own in study.rates:
        label = ",".join(each.removeprefix("training.") for each in own if each.startswith(("training.lr", "training.mom")))
        settings = (*_run(study, ["constant"]), *TEXT, *own, *judged)
        made.append(Batch(f"{RATES}-{label}", RATES, study.name, settings))
    return made


# As released


def _scripts(study: Study) -> tuple[str, ...]:
    """What the scripts set beside their own policy, whose settings the recipe has."""
    buffers = [study.scale * buffer for buffer in (8, 9, 10, 11, 12) * 2]
    prices = ("cost.kind=integer", "cost.low=1", f"cost.high={study.highest_price}")
    averaged = ("training.aggregation=alpha", f"system.weights={[float(b) for b in buffers]}")
    rate = 10.0 * study.scale
    return (
        *prices,
        *averaged,
        *_policy("constant", kind="constant", K=10, rate=rate),
        *_hybrid(rate),
        *study.released_training,
    )


def _hybrid(rate: float) -> tuple[str, ...]:
    return _policy("hybrid", kind="hybrid", K=10, rate=rate, fill="first", paid="false")


def _released(study: Study) -> list[Batch]:
    policies = ["released", "constant", "hybrid"]
    if study.name not in SHARED_ORACLE:
        policies.insert(0, "oracle")
    return [Batch(RELEASED, RELEASED, study.name, (*_scripts(study), *_run(study, policies)))]


# At equal means


@dataclass(frozen=True)
class Means:
    """What the released policy takes, and the settings that bring it down to its budget or constant admission up to it."""

    spend: float
    memory: float
    V: float
    """about the largest with which it keeps the budget once it need not buy in every round, in hindsight of these prices"""
    rate: float
    """of constant admission that spends as much"""
    K_within: int
    """keeps this rate within the buffers"""
    K_beyond: int
    """holds as many samples as the released policy does on average"""


def _equal(study: Study) -> list[Batch]:
    if study.name == "imagenette":
        return []
    prices = study.name == "cifar10"  # prices up to 49 break every budget there, so equal means are sought on those of the text
    base = (*study.training, *TEXT) if prices else (*_scripts(study), *TEXT, *_policy("constant", rate=10.0 * study.scale))
    found = equal_means(study.name, base, study.rounds, study.seeds)
    tame = {"V": found.V, "least": 0, "K": TEXT_K}
    policies: dict[str, tuple[str, ...]] = {
        "released_fair": (*_like_released(study, "released_fair"), *_policy("released_fair", **tame, capacity="buffer")),
        "released_budget": (*_like_released(study, "released_budget"), *_policy("released_budget", **tame)),
        "released_capped": (*_like_released(study, "released_capped"), *_policy("released_capped", capacity="buffer")),
        "constant_spend": _policy("constant_spend", kind="constant", rate=found.rate, K=found.K_within),
        "constant_both": _policy("constant_both", kind="constant", rate=found.rate, K=found.K_beyond),
    }
    if prices:
        policies |= {"released": ()}
        del policies["released_capped"]  # the other way shows what memory does, and time on a GPU is dear
    else:
        policies |= {"acdpp": (), "acdpp_capped": CAPPED}
    settings = tuple(each for own in policies.values() for each in own)
    return [Batch(EQUAL, EQUAL, study.name, (*base, *_run(study, list(policies)), *settings))]


def _like_released(study: Study, name: str) -> tuple[str, ...]:
    stated = load(study.name).resolved["policies"]["released"]
    return _policy(name, **{key: value for key, value in stated.items() if key != "bound"})


@cache
def equal_means(recipe: str, base: tuple[str, ...], rounds: int, seeds: int) -> Means:
    """Found by rehearsing control on the prices of the study's own seeds; no learning is needed for it."""
    experiment = load(recipe, [*base, f"run.rounds={rounds}", f"run.seeds={seeds}", 'run.policies=["released", "constant"]'])
    system = experiment.system

    def played(policy: AdmissionPolicy) -> Rehearsal:
        return rehearse(system, policy, experiment.prices, experiment.seeds, rounds)

    released, constant = experiment.policies["released"], experiment.policies["constant"]
    assert isinstance(released, Released)
    assert isinstance(constant, Constant)
    taken, usual = played(released), played(constant)
    spend, memory = float(taken.spend.mean()), float(taken.n.mean())

    def keeps_budget(V: float) -> bool:
        fair = replace(released, V=V, least=0, K=TEXT_K, capacity=system.buffer)
        return bool(played(fair).spend.mean() <= system.budget)

    rate = round(float(constant.rate) * spend / float(usual.spend.mean()), 2)
    return Means(
        spend=spend,
        memory=memory,
        V=_largest(keeps_budget, released.V),
        rate=rate,
        K_within=max(int(system.memory / rate), 1),
        K_beyond=max(round(memory / rate), 1),
    )


def _largest(fits: Callable[[float], bool], top: float) -> float:
    """About the largest number of two digits up to `top` that fits, by halving; the smallest tried where none does.

    Exact if everything below a number that fits fits too; spend as a function of V is so only roughly.
    """
    grid = sorted({float(f"{top * 10 ** (-step / 24):.1e}") for step in range(24 * 4 + 1)})
    low, high = 0, len(grid)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(grid[middle]) else (low, middle)
    return grid[low]


# Open values


def _open(study: Study) -> list[Batch]:
    """How much hangs on what the text leaves open; with logistic regression, which is cheap."""
    if study.name != "mnist":
        return []
    variants: dict[str, tuple[str, ...]] = {"oracle": (), "constant": (), "acdpp": (), "hybrid": ()}
    variants |= {f"V_{V:g}": _policy(f"V_{V:g}", kind="acdpp", K=10, V=V) for V in (1.0, 100.0, 1000.0)}
    variants |= {name: _policy(name, kind="acdpp", K=10, rho=rho) for name, rho in (("rho_0_5", 0.5), ("rho_0_99", 0.99))}
    variants |= {f"K_{K}": _policy(f"K_{K}", kind="acdpp", K=K, rate=10.0) for K in (5, 20)}
    variants["N0_Pdim"] = _policy("N0_Pdim", kind="acdpp", K=10, N0=100.0)
    variants["hybrid_paid"] = _policy("hybrid_paid", kind="hybrid", paid="true")
    variants["hybrid_gradual"] = _policy("hybrid_gradual", kind="hybrid", fill="gradual")
    variants["hybrid_K_10"] = _policy("hybrid_K_10", kind="hybrid", K=10, rate=10.0)
    return [_cheap(study, OPEN, variants, TEXT)]


CHANGED = {"D": 100.0, "sigma": 1.0, "eta": 5.0, "loss": 100.0, "pdim": 1000.0}
"""the bound's constants, one at a time; those of the recipe are the released script's"""


def _constants(study: Study) -> list[Batch]:
    """The constants D, σ, η̃, loss bound and Pdim, which the text leaves open too."""
    if study.name != "mnist":
        return []
    variants: dict[str, tuple[str, ...]] = {"acdpp": ()}
    for name, value in CHANGED.items():
        own = f"{name}_{value:g}"
        variants[own] = (*_policy(own, kind="acdpp", K=10), f"policies.{own}.bound.{name}={value}")
    return [_cheap(study, CONSTANTS, variants, TEXT)]


FAIR_VS = (10.0, 100.0, 1000.0)


def _fair_values(study: Study) -> list[Batch]:
    """The released rule held to its buffers, without having to buy in every round, for several V."""
    if study.name != "mnist":
        return []
    variants: dict[str, tuple[str, ...]] = {"constant": ()}
    for V in FAIR_VS:
        own = f"fair_V_{V:g}"
        variants[own] = (*_like_released(study, own), *_policy(own, V=V, least=0, K=TEXT_K, capacity="buffer"))
    return [_cheap(study, FAIR_V, variants, _scripts(study))]


def _cheap(study: Study, name: str, variants: dict[str, tuple[str, ...]], base: tuple[str, ...]) -> Batch:
    settings = tuple(each for own in variants.values() for each in own)
    return Batch(name, name, study.name, (*_run(study, list(variants)), *base, *settings, "training.evaluate_every=5"))


def _horizon(study: Study) -> list[Batch]:
    """The same for longer: have the curves settled, and does anybody get to the target of the text?"""
    cheap = study.name == "mnist"
    run = _run(study, ["oracle", "acdpp", "constant", *(["hybrid"] if cheap else [])])
    settings = (*study.longer, *run, *TEXT, f"run.rounds={study.longest}")
    few = () if cheap else ("run.seeds=1", "training.evaluate_every=10")
    return [Batch(f"{HORIZON}-{study.longest}", HORIZON, study.name, (*settings, *few), needs_gpu=not cheap)]
