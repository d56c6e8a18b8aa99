"""What runs: the run folders of each data set, one for each recipe paper/DATA/PART, or
for each point of its sweep.

As written: K = 10, Λ̄ = C/c̄, prices uniform on [1, 10], the text's models. As
released: what the published scripts do (studies/paper/README.md).
"""

from functools import cache
from typing import Any, NamedTuple

from headgate.experiment import Experiment, sweep_points
from headgate.experiment.recipes import read_recipe
from studies import HOME, recipe, study_table

PARTS = WRITTEN, RELEASED, EQUAL, FAIR_V, OPEN, CONSTANTS, HORIZON, STATED, RATES = (
    "written", "released", "equal-means", "fair-values", "open-values", "constants",
    "horizon", "stated-rate", "learning-rate",
)  # fmt: skip
"""which question a run folder answers, by how its name begins; dearest first, so that
there is something beside it to run
"""
NAMES = ("mnist", "cifar10", "imagenette")
QUICK = (
    'data.kind="digits"',
    'model.kind="logistic"',
    "run.rounds=8",
    "run.seeds=2",
    "training.evaluate_every=2",
    "training.lr=0.5",
    "training.momentum=0.0",
    'training.dtype="float32"',
)
"""so small that the whole chain runs in a test: its numbers mean nothing"""
WHOLE = f"{HORIZON}-600-whole"
"""as written, with all images of CIFAR-10: claims are judged by it where the shorter
runs stay out of reach
"""
OURS = {WRITTEN: "acdpp", RELEASED: "released"}
"""the policy that goes by the name of ACDPP in each flavour"""
SHARED_ORACLE = ("imagenette",)
"""where the oracle as written is the same run as the one as released: equal weights,
and no price moves it
"""


class StudyRun(NamedTuple):
    """One run folder."""

    name: str
    experiment: Experiment
    needs_gpu: bool
    """left out where there is none; the page then says that it was not run"""


def batches(data: str, quick: bool = False) -> list[StudyRun]:
    """Everything that the page of a data set is made from."""
    found = []
    for part, file in recipes_of(data):
        gpu = bool(study_table(file).get("needs_gpu")) and not quick
        for label, experiment in sweep_points(file, QUICK if quick else ()):
            found.append(
                StudyRun(
                    f"{part}-{label.replace('training.', '')}" if label else part,
                    experiment,
                    gpu,
                )
            )
    return found


def recipes_of(data: str) -> list[tuple[str, str]]:
    """(part with its value, recipe) of a data set, in the order of `PARTS`."""
    found = [
        (path.stem, str(path))
        for path in sorted((HOME / "recipes" / "paper" / data).glob("*.toml"))
    ]
    return sorted(
        found,
        key=lambda each: next(
            place for place, part in enumerate(PARTS) if each[0].startswith(part)
        ),
    )


@cache
def about(data: str) -> dict[str, Any]:
    """Title and panel, the paper's gains and speeds, what differs from it in sentences,
    and the target accuracy.
    """
    file = recipe(f"paper/{data}/{WRITTEN}")
    return {**study_table(file), "target": read_recipe(file)[1]["training"]["target"]}
