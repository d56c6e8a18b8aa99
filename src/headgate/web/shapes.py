"""The shapes of all answers. The document of the API is made from them, and tests hold the answers to them."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, RootModel, create_model

from headgate.analysis.intervals import Estimate
from headgate.analysis.rehearsal import Summary
from headgate.analysis.summary import PolicySummary
from headgate.control.plan import Candidate
from headgate.web.gate import COLUMNS

Numbers = list[float | None]
State = Literal["running", "finished", "interrupted", "diverged"]


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")


Mirror = TypeVar("Mirror", bound=Shape)


def mirrors(source: type | Mapping[str, Any], *but: str) -> Callable[[type[Mirror]], type[Mirror]]:
    """Adds the fields of a data class that is answered as it is, or those named with their types, but for these and those
    that the shape has of its own."""
    known = source if isinstance(source, Mapping) else get_type_hints(source)
    own = fields(source) if isinstance(source, type) and is_dataclass(source) else ()
    may_lack = {each.name for each in own if each.default is None}  # told where there is something to tell

    def made(shape: type[Mirror]) -> type[Mirror]:
        hints = {name: hint for name, hint in known.items() if name not in (*but, *shape.model_fields)}
        told: dict[str, Any] = {
            name: (EstimateShape | None if hint == Estimate | None else hint, None if name in may_lack else ...)
            for name, hint in hints.items()
        }
        return create_model(shape.__name__, __base__=shape, __doc__=shape.__doc__, __module__=__name__, **told)

    return made


class Problem(Shape):
    error: str
    """one line that names what was asked and its value"""


class Document(RootModel[dict[str, Any]]):
    """The OpenAPI document itself."""


class Health(Shape):
    name: Literal["headgate"]
    version: str
    folder: str


class Standing(Shape):
    """Which run, and how far it has come."""

    name: str
    state: State
    round: int
    rounds: int
    budget: float | None
    data: str | None
    model: str | None


class Row(Standing):
    """A run in the list."""

    sweep: str | None
    policies: list[str]
    seeds: int
    runs: int
    lost: int
    """runs whose model diverged"""
    spend_per_round: dict[str, float]
    spend_shares: dict[str, float]
    """share of the budget that each policy spent a round"""
    spend_policy: str | None
    """the best policy; where there is none, the one that spent most, references aside"""
    spend_share: float | None
    """its share of them"""
    broken: str
    """which limits it broke: money, memory or both; empty where it kept them"""
    over_budget: list[str]
    """other policies of which a run spent more than its budget in all, references aside"""
    best_policy: str | None
    """of those that kept both limits in every run"""
    best_accuracy: float | None
    spark: list[float]
    started: float
    elapsed: float | None
    problem: str | None


class Unreadable(Shape):
    name: str
    problem: str


class RunList(Shape):
    total: int
    matching: int
    offset: int
    limit: int
    rows: list[Row]
    unreadable: list[Unreadable]


class DifferenceShape(Shape):
    """Mean over runs and half its 80 % interval."""

    mean: float
    half: float | None


class EstimateShape(DifferenceShape):
    runs: int


@mirrors(PolicySummary)
class PolicySummaryShape(Shape): ...


class SummaryColumn(Shape):
    title: str
    meaning: str


class SummaryCell(Shape):
    text: str
    broken: bool
    """a limit"""


class SummaryTable(Shape):
    """The results as the closing table and the report show them, a row for each policy."""

    columns: list[SummaryColumn]
    rows: list[list[SummaryCell]]


class Detail(Standing):
    sweep: str | None
    policies: list[str]
    seeds: list[int]
    diverged: list[dict[str, Any]]
    guessing: list[dict[str, Any]]
    buffers: list[int]
    memory: int
    clients: int
    target: float | None
    started: float
    elapsed: float | None
    note: str | None
    recorded: bool
    """what each client held"""
    settings: dict[str, Any]
    toml: str
    environment: dict[str, Any]
    conclusion: str
    warning: str
    summary: list[PolicySummaryShape]
    table: SummaryTable


class Series(Shape):
    """Mean over runs and half its 80 % interval; null where there is none."""

    mean: Numbers
    half: Numbers


class PolicyCurves(Shape):
    policy: str
    runs: int
    rounds: int
    complete: int
    t: list[int]
    series: dict[str, Series]
    evaluated: list[int]
    judged: dict[str, Series]


class Curves(Shape):
    name: str
    state: State
    round: int
    rounds: int
    budget: float
    memory: int
    since: int
    policies: list[PolicyCurves]


class Clients(Shape):
    name: str
    policy: str
    seed: int | None
    clients: list[str]
    buffers: list[float]
    t: list[int]
    last: int
    ratio: list[Numbers]
    held: list[Numbers]


@mirrors(dict.fromkeys(COLUMNS, Numbers))
class TraceShape(Shape):
    """One run, round by round."""

    name: str | None
    policy: str
    seed: int
    policies: list[str]
    seeds: list[int]
    state: State
    rounds: int
    first: int
    budget: float
    K: int | None
    clients: list[str]
    buffers: list[int]
    t: list[int]
    held: list[list[int]] | None
    admitted_by_client: list[list[int]] | None
    recorded: bool
    """what each client admitted"""


class ComparedRun(Standing):
    seeds: int


class Compared(Series):
    """A line of a comparison, or how far it is from another."""

    run: str
    policy: str
    seeds: int
    x: list[float]


class ComparedLine(Compared):
    end: EstimateShape | None
    runs: int
    """all of them, those whose model was lost too"""
    spend_per_round: float | None
    runs_over_budget: int
    dearest_share: float | None


class ComparedDifference(Compared):
    to_run: str
    to_policy: str
    paired: bool
    end: DifferenceShape | None


class DifferingSetting(Shape):
    key: str
    values: list[Any]


class ComparisonShape(Shape):
    x: Literal["round", "money"]
    metric: str
    runs: list[ComparedRun]
    lines: list[ComparedLine]
    differences: list[ComparedDifference]
    settings: list[DifferingSetting]
    savings: str
    """what each policy needs for the accuracy of constant admission; empty where the runs do not tell it"""


class Key(Shape):
    name: str
    required: bool
    default: Any


class Recipe(Shape):
    name: str
    system: dict[str, Any]
    prices: dict[str, Any]
    rounds: int
    bound: dict[str, Any]


class Choices(Shape):
    policies: list[str]
    prices: dict[str, list[Key]]
    recipes: list[Recipe]
    limits: dict[str, float]


class PlanCurves(Shape):
    t: list[int]
    series: dict[str, Series]


class ClairvoyantShape(Shape):
    bound: float
    surrogate: float
    ratio: float
    seeds: int


@mirrors(Candidate, "ck_bound")
class CandidateShape(Shape):
    bound: float | None
    chosen: bool


@mirrors(Summary, "runs", "spend_per_round", "kept_limits", "mean_n", "free", "mean_penalty")
class PlanShape(Shape):
    K: int | None
    rate: float | None
    V: float | None
    rho: float | None
    why: str
    warning: str
    """which limit is broken, by how much, and the way out; empty where both are kept"""
    seeds: int
    spend: float
    peak_spend: float
    """what the most costly round took"""
    spend_share: float
    dearest_share: float
    """what the dearest run spent, as a share of its budget"""
    memory: int
    peak_buffer: int
    peak_client: int
    peak_places: int
    """how many samples that client has room for"""
    n_eff: float | None
    bound: float | None
    oracle_bound: float
    regret: float | None
    surrogate: float | None
    clairvoyant: ClairvoyantShape | None
    clairvoyant_note: str
    candidates: list[CandidateShape]
    curves: PlanCurves
    trace: TraceShape | None
    toml: str
    command: str
    took_ms: float


class Prices(Shape):
    column: str
    columns: list[str]
    count: int
    prices: list[float]
    least: float
    most: float
    mean: float
