"""The comparisons behind the page, each a recipe better/NAME."""

from dataclasses import dataclass

from headgate.experiment import Experiment, sweep_points
from headgate.experiment.recipes import study_table

RESPONSES = ("response-logistic", "response-lenet", "response-cifar10")
"""what accuracy depends on"""
NAMES = ("mnist", "ablations", "acdpp-grid", "logistic-helped", "lenet", "lenet-helped", "cifar10", "imagenette", *RESPONSES)
"""in the order of the page"""


@dataclass(frozen=True)
class BetterStudy:
    name: str
    points: tuple[tuple[str, Experiment], ...]
    needs_gpu: bool

    @property
    def command(self) -> str:
        """What makes its numbers again, by themselves."""
        money = ",".join(f"{experiment.system.budget:g}" for _, experiment in self.points)
        return f"headgate compare better/{self.name} --budgets {money} --policies recipe"


def study(name: str, overrides: tuple[str, ...] = ()) -> BetterStudy:
    recipe = f"better/{name}"
    return BetterStudy(name, tuple(sweep_points(recipe, overrides)), bool(study_table(recipe).get("needs_gpu")))


def title(name: str) -> str:
    return str(study_table(f"better/{name}")["title"])
