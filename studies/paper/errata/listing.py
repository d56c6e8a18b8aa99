"""The list of errata, in the order of their weight, with their counts and numbers."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from headgate.errors import SettingError
from studies.paper.errata import about_the_bound, about_the_rates, about_the_recursion, about_the_rule  # noqa: F401
from studies.paper.errata.shown import SHOWN, Numbers


@dataclass(frozen=True)
class Erratum:
    """One point of the paper that cannot be taken literally."""

    number: int
    """never changes"""
    weight: str
    title: str
    place: str
    labels: tuple[str, ...]
    """of the paper's source"""
    says: str
    is_: str
    """what is true instead"""
    survives: str
    """whether the paper's conclusion stands"""

    def numbers(self) -> Numbers:
        """What shows it, computed now."""
        return SHOWN[self.number]()


@dataclass(frozen=True)
class ErrataList:
    right: tuple[str, ...]
    """what stands"""
    weights: dict[str, str]
    """each weight and its heading, the heaviest first"""
    errata: tuple[Erratum, ...]

    def of(self, weight: str) -> list[Erratum]:
        return [each for each in self.errata if each.weight == weight]

    def counts(self) -> dict[str, int]:
        return {weight: len(self.of(weight)) for weight in self.weights}

    def numbered(self, number: int) -> Erratum:
        for each in self.errata:
            if each.number == number:
                return each
        raise SettingError(f"erratum {number}: there are 1 to {len(self.errata)}")


@cache
def listed() -> ErrataList:
    tables = tomllib.loads((files("studies.paper.errata") / "errata.toml").read_text("utf-8"))
    made = (
        Erratum(labels=tuple(table.pop("labels")), is_=table.pop("is"), **table)
        for table in (dict(each) for each in tables["erratum"])
    )
    return ErrataList(tuple(tables["right"]), tables["weights"], tuple(made))


def counted() -> str:
    """The counts in words, as README and pages say them."""
    count = listed().counts()
    return (
        f"{count['error']} errors, {count['gap']} gaps that can be closed, {count['slip']} slips, "
        f"{count['convention']} conventions and consequences"
    )


def numbers_as_text(erratum: Erratum) -> str:
    """What shows it, in one line."""
    return "; ".join(f"{name}: {_short(value)}" for name, value in erratum.numbers().items())


def _short(value: float) -> str:
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}".replace("-", "−")
    return (f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}").replace("-", "−")
