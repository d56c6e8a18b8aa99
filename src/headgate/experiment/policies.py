"""The sections `[policies.NAME]`: one model for each kind of policy, and what it is completed from."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import ConfigDict

from headgate.control import policies as kinds
from headgate.control.plan import better_of_corollary
from headgate.control.policies.buying.threshold import known_edge
from headgate.control.prices.processes import PriceProcess
from headgate.control.retention.windows import capacity_of
from headgate.control.types import AdmissionPolicy, Ints, System
from headgate.errors import SettingError
from headgate.experiment.retention import Capacity, Rule, retention_of
from headgate.experiment.settings import BoundSettings, Settings, Whole
from headgate.parts import call_outside
from headgate.theory.bound import BoundConstants
from headgate.theory.comparison import optimal_K, saturated


@dataclass(frozen=True)
class Given:
    """What a policy's settings are completed from."""

    system: System
    mean_price: float
    bound: BoundConstants
    prices: PriceProcess
    seeds: Ints
    rounds: int


class PolicySettings(Settings):
    """A policy's settings. What is left out, or "auto", is worked out from the system."""

    kinds: ClassVar[dict[str, type["PolicySettings"]]] = {}
    kind: str

    def __init_subclass__(cls, kind: str, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if kind:
            PolicySettings.kinds[kind] = cls

    def build(self, given: Given) -> AdmissionPolicy:
        raise SettingError(f"kind = {self.kind}: cannot be built")


class ConstantSettings(PolicySettings, kind="constant"):
    K: Whole | None = None
    rate: float | None = None
    capacity: Capacity | None = None
    retention: Rule | None = None
    """left out: K rounds, and with a capacity the oldest earlier; else K is a limit of age only where it is stated"""
    ratio: float | None = None
    purse: bool = False

    def build(self, given: Given) -> AdmissionPolicy:
        K, rate = operating_point(self.K, self.rate, given)
        capacity = capacity_of(self.capacity, given.system)
        if self.retention is not None:
            rule = retention_of(self.retention, given.system, self.K, self.capacity, self.ratio)
            return kinds.Constant(rate=rate, K=K, capacity=capacity, rule=rule, purse=self.purse)
        if self.ratio is not None:
            raise SettingError(f'ratio = {self.ratio}: goes with retention = "static"')
        return kinds.Constant(rate=rate, K=K, capacity=capacity, purse=self.purse)


class DppSettings(PolicySettings, kind="dpp"):
    K: Whole | None = None
    V: float | None = None
    gamma: float = 0.5
    N0: float = 0.0
    n0: float = 0.0
    burst: Literal["buffer", "none"] | float = "buffer"
    capacity: Capacity | None = None
    purse: bool = False
    bound: BoundSettings = BoundSettings()

    def shared(self, given: Given) -> dict[str, Any]:
        return {
            "V": self.V,
            "gamma": self.gamma,
            "N0": self.N0,
            "n0": self.n0,
            "burst": None if self.burst == "none" else self.burst,
            "capacity": capacity_of(self.capacity, given.system),
            "purse": self.purse,
            "bound": self.bound.build(given.bound),
        }

    def build(self, given: Given) -> AdmissionPolicy:
        return kinds.Dpp(K=operating_point(self.K, None, given)[0], **self.shared(given))


class AcdppSettings(DppSettings, kind="acdpp"):
    rate: float | None = None
    rho: float | None = None
    phi: float = 0.5
    burst: Literal["buffer", "none"] | float = "none"

    def build(self, given: Given) -> AdmissionPolicy:
        K, rate = operating_point(self.K, self.rate, given)
        return kinds.Acdpp(K=K, rate=rate, rho=self.rho, phi=self.phi, **self.shared(given))


class OracleSettings(PolicySettings, kind="oracle"):
    def build(self, given: Given) -> AdmissionPolicy:
        return kinds.Oracle()


class HybridSettings(PolicySettings, kind="hybrid"):
    stale: list[Whole] | None = None
    """client numbers; left out: the second half"""
    fill: str = "first"
    paid: bool = False
    K: Whole | None = None
    rate: float | None = None

    def build(self, given: Given) -> AdmissionPolicy:
        clients = given.system.clients
        names = range((clients + 1) // 2, clients) if self.stale is None else self.stale
        stale = np.zeros(clients, dtype=bool)
        for client in names:
            if not 0 <= client < clients:
                raise SettingError(f"stale = {self.stale}: there is no client {client}; they are numbered 0 to {clients - 1}")
            stale[client] = True
        fresh = given.system.buffer[~stale]
        if fresh.size == 0:
            raise SettingError(f"stale = {self.stale}: names every client, so nobody is left to admit")
        K = optimal_K(given.mean_price, fresh, given.system.budget)[0].K if self.K is None else _at_least_one(self.K)
        rate = saturated(K, given.mean_price, fresh, given.system.budget).rate if self.rate is None else self.rate
        return kinds.Hybrid(rate=rate, K=K, stale=stale, fill=self.fill, paid=self.paid)


class OutsideSettings(PolicySettings, kind=""):
    """A user's own class, `kind = "module:Class"`; every other key is handed to it."""

    model_config = ConfigDict(extra="allow", frozen=True)

    def build(self, given: Given) -> AdmissionPolicy:
        made = call_outside("kind", self.kind, **(self.model_extra or {}))
        if not isinstance(made, AdmissionPolicy):
            raise SettingError(f"kind = {self.kind}: must make an AdmissionPolicy, made {type(made).__name__}")
        return made


class ReleasedSettings(PolicySettings, kind="released"):
    K: Whole = 6
    V: float = 1000.0
    centre: float = 40.0
    base: float = 0.999
    pace: float = 0.01
    width: float = 10.0
    cap: float = 50.0
    least: Whole = 1
    capacity: Capacity | None = None
    bound: BoundSettings = BoundSettings()

    def build(self, given: Given) -> AdmissionPolicy:
        own = self.model_dump(exclude={"kind", "bound", "capacity"})
        capacity = capacity_of(self.capacity, given.system)
        return kinds.Released(**own, capacity=capacity, bound=self.bound.build(given.bound))


class BuyerSettings(PolicySettings, kind=""):
    """What all policies share that buy places with a purse."""

    K: Whole | None = None
    """drop samples after K rounds even where there is room; left out: only to make room"""
    capacity: Capacity = "buffer"
    retention: Rule = "fifo"
    """what leaves a full client: the oldest, or as `headgate.experiment.retention` lists"""
    ratio: float | None = None
    """static: the share of the places for new samples"""
    fill: bool = True
    overdraft: float = 10.0
    fairness: float = 0.25

    def shared(self, given: Given) -> dict[str, Any]:
        return {
            "rule": retention_of(self.retention, given.system, self.K, self.capacity, self.ratio),
            "fill": self.fill,
            "overdraft": self.overdraft,
            "fairness": self.fairness,
        }


class HeadgateSettings(BuyerSettings, kind="headgate"):
    early: float = 0.25

    def build(self, given: Given) -> AdmissionPolicy:
        return kinds.Headgate(early=self.early, **self.shared(given))


class ThresholdSettings(BuyerSettings, kind="threshold"):
    limit: float | None = None
    share: float = 1.0

    def build(self, given: Given) -> AdmissionPolicy:
        if self.limit is not None:
            return kinds.Threshold(limit=self.limit, share=self.share, **self.shared(given))
        limit, share = known_edge(given.prices, given.system, given.rounds, self.fill)
        return kinds.Threshold(limit=limit, share=share, **self.shared(given))


class ResolvingSettings(BuyerSettings, kind="resolving"):
    def build(self, given: Given) -> AdmissionPolicy:
        return kinds.Resolving(**self.shared(given))


class PacingSettings(BuyerSettings, kind="pacing"):
    step: float | None = None
    initial: float | None = None

    def build(self, given: Given) -> AdmissionPolicy:
        return kinds.Pacing(step=self.step, initial=self.initial, **self.shared(given))


class LookaheadSettings(BuyerSettings, kind="lookahead"):
    window: float | None = None

    def build(self, given: Given) -> AdmissionPolicy:
        return kinds.Lookahead(window=self.window, **self.shared(given))


class PiSettings(BuyerSettings, kind="pi"):
    proportional: float = 0.2
    integral: float = 0.05
    windup: float = 2.0
    smoothing: float = 10.0

    def build(self, given: Given) -> AdmissionPolicy:
        own = {name: getattr(self, name) for name in ("proportional", "integral", "windup", "smoothing")}
        return kinds.Pi(**own, **self.shared(given))


class BucketSettings(BuyerSettings, kind="bucket"):
    depth: float = 10.0

    def build(self, given: Given) -> AdmissionPolicy:
        return kinds.Bucket(depth=self.depth, **self.shared(given))


class RandomSettings(BuyerSettings, kind="random"):
    chance: float | None = None
    seed: Whole = 0

    def build(self, given: Given) -> AdmissionPolicy:
        spends_all = min(1.0, given.system.budget / (given.mean_price * given.system.memory))
        return kinds.Random(chance=spends_all if self.chance is None else self.chance, seed=self.seed, **self.shared(given))


class ClairvoyantSettings(BuyerSettings, kind="clairvoyant"):
    aim: Literal["bound", "samples"] = "bound"
    fill: bool = False
    bound: BoundSettings = BoundSettings()

    def build(self, given: Given) -> AdmissionPolicy:
        return kinds.Clairvoyant(
            aim=self.aim,
            prices=given.prices,
            seeds=given.seeds,
            rounds=given.rounds,
            system=given.system,
            bound=self.bound.build(given.bound),
            **self.shared(given),
        )


def operating_point(K: int | None, rate: float | None, given: Given) -> tuple[int, float]:
    """K and Λ̄ where they are not stated: as in the paper the better of Corollary 2's K, and the highest rate that fits."""
    if K is None:
        K = better_of_corollary(given.system, given.mean_price, given.bound).K
    if rate is None:
        rate = saturated(_at_least_one(K), given.mean_price, given.system.buffer, given.system.budget).rate
    return K, rate


def _at_least_one(K: int) -> int:
    if K < 1:
        raise SettingError(f"K = {K}: a sample must be kept for at least one round")
    return K
