"""The comparisons behind the page, each a recipe better/NAME."""

from dataclasses import dataclass
from functools import cache

from headgate.analysis.formatting import prices_text
from headgate.experiment import Experiment, sweep_points
from headgate.experiment.recipes import study_table
from studies import recipe

PRICED = ("ercot", "brent", "prices", "ercot-lenet", "brent-lenet", "prices-lenet")
"""with other prices than the paper's"""
GRIDS = ("acdpp-grid", "acdpp-grid-lenet")
"""beside ACDPP, with a grid of its settings"""
AT_EQUAL_SPEND = (
    "mnist",
    "ablations",
    "acdpp-grid",
    "logistic-helped",
    "lenet",
    "acdpp-grid-lenet",
    "lenet-helped",
    "cifar10",
    "cifar10-helped",
    "imagenette",
    "imagenette-helped",
    *PRICED,
)
RESPONSES = ("response-logistic", "response-lenet", "response-cifar10")
"""what accuracy depends on"""
NAMES = (*AT_EQUAL_SPEND, *RESPONSES)
"""in the order of the page"""
SERVERS = ("help-logistic", "help-lenet")
"""what the server's step is worth"""
OBJECTIVES = ("losses-logistic", "losses-lenet")
"""what another objective of the clients is worth"""


@dataclass(frozen=True)
class BetterStudy:
    name: str
    points: tuple[tuple[str, Experiment], ...]
    needs_gpu: bool

    @property
    def command(self) -> str:
        """What makes its numbers again, by themselves."""
        one_price = len({prices_text(experiment.tables()["prices"]) for _, experiment in self.points}) == 1
        money = ",".join(f"{experiment.system.budget:g}" for _, experiment in self.points) if one_price else "recipe"
        return f"headgate compare studies/recipes/better/{self.name}.toml --budgets {money} --policies recipe --as-printed"


@cache  # a page asks for the same ones again and again
def study(name: str, overrides: tuple[str, ...] = ()) -> BetterStudy:
    file = recipe(f"better/{name}")
    return BetterStudy(name, tuple(sweep_points(file, overrides)), bool(study_table(file).get("needs_gpu")))


def title(name: str) -> str:
    return str(study_table(recipe(f"better/{name}"))["title"])
