"""An experiment as Python objects, from which the content of files is derived."""

from collections.abc import Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from headgate.control.controller import Controller
from headgate.control.policies.references import Held, held
from headgate.control.policy import AdmissionPolicy, PolicyContext, check_is_policy
from headgate.control.prices import PriceProcess
from headgate.control.prices.processes import WithLooks
from headgate.control.scores import WITHOUT_LABELS
from headgate.control.selection import Selection
from headgate.control.types import Ints, System
from headgate.errors import InfeasibleError, SettingError, require
from headgate.experiment.sections import Training, system_table
from headgate.learning.data import DATA, Data
from headgate.learning.local import LocalTraining
from headgate.learning.models import MODEL, Logistic, Model
from headgate.learning.server import SERVER, Average, ServerUpdate
from headgate.registry import POLICY, PRICES, Slot, Unnamed, settings_of, table_of
from headgate.theory.bound import BoundConstants

IN_PROCESS = "in this process: "
"""prefix of the kind of a part that a recipe cannot name"""


@dataclass(frozen=True, eq=False)
class Experiment:
    """All settings of a run. Settings that policies leave out (K, rate, V, ρ, limits)
    are derived when it is made.
    """

    system: System
    prices: PriceProcess
    policies: Mapping[str, AdmissionPolicy]
    rounds: int
    seeds: Ints = field(default_factory=lambda: np.arange(10))
    bound: BoundConstants = field(default_factory=BoundConstants)
    data: Data = field(default_factory=Data)
    model: Model = field(default_factory=Logistic)
    training: Training = field(default_factory=Training)
    server: ServerUpdate = field(default_factory=Average)
    name: str = "experiment"
    folder: Path | None = None
    """folder of the modules that a recipe names"""
    stated: Mapping[str, tuple[AdmissionPolicy, AdmissionPolicy]] = field(
        default_factory=dict
    )
    """each policy as it was stated and as it was resolved, so that it can be resolved
    again for another system
    """

    def __post_init__(self) -> None:
        seeds = np.asarray(self.seeds, dtype=np.int64)
        follow = (
            seeds.ndim == 1
            and seeds.size > 0
            and seeds[0] >= 0
            and bool(np.all(np.diff(seeds) == 1))
        )
        require(
            follow,
            "seeds",
            seeds.tolist(),
            "whole numbers from 0 on that follow one another",
        )
        require(self.rounds >= 1, "run.rounds", self.rounds, "at least 1")
        if not self.policies:
            raise SettingError("run.policies = []: at least one policy is needed")
        cohort, clients = self.training.cohort, self.system.clients
        known = cohort is None or 1 <= cohort <= clients
        require(
            known, "training.cohort", cohort, f"1 to {clients}, the number of clients"
        )
        if self.data.changes is not None:
            try:
                self.data.changes.check(len(self.data.concepts), self.system.clients)
            except SettingError as error:
                raise SettingError(f"data.changes.{error}") from None
        object.__setattr__(self, "seeds", seeds)
        given = self.given
        if given.mean_price <= 0:
            raise SettingError(
                f"prices: every price in rounds 1 to {self.rounds} is zero; a budget"
                " decides nothing then"
            )
        if self.system.budget * self.rounds < given.mean_price:
            less = (
                f"buys less than one sample in {self.rounds} rounds at a mean price of"
                f" {given.mean_price:g}"
            )
            raise InfeasibleError(f"system.budget = {self.system.budget:g}: {less}")
        stated: dict[str, tuple[AdmissionPolicy, AdmissionPolicy]] = {}
        for name, policy in self.policies.items():
            before, resolved = self.stated.get(name, (policy, None))
            own = (
                before if policy is resolved else policy
            )  # a replaced policy is resolved from its own settings
            check_is_policy(own, f"policies.{name}")
            given = self.given_for(own)
            if self.system.budget * self.rounds < given.mean_price:
                looks = self.data.price_of_looks(own.selection)
                raise InfeasibleError(
                    f"data.look = {self.data.look:g}: with looks for {looks:g} the"
                    " budget buys no label"
                )
            try:
                made = own.resolved(given)
                rule, late = made.selection, self.data.late
                if rule is not None:
                    if not isinstance(rule, Selection):
                        raise SettingError(
                            f"selection = {rule!r}: must be a Selection, as in"
                            " headgate.control.ByEntropy()"
                        )
                    rule.check()
                # the controller refuses what does not fit the system or the memory
                kept_by = Controller(
                    given.system, made, len(given.seeds), given.seeds
                ).buffers.rule
                if late and (
                    kept_by.by_class or not {*kept_by.scores} <= {*WITHOUT_LABELS}
                ):
                    late_labels = (
                        f"looks at labels, which come late (data.late = {late})"
                    )
                    raise SettingError(
                        f"retention: {type(kept_by).__name__} {late_labels}"
                    )
            except SettingError as error:
                raise SettingError(f"policies.{name}.{error}") from None
            stated[name] = own, made
        object.__setattr__(self, "stated", stated)
        object.__setattr__(
            self, "policies", {name: made for name, (_, made) in stated.items()}
        )

    def __repr__(self) -> str:
        size = (
            f"{self.system.clients} clients, budget {self.system.budget:g},"
            f" {self.rounds} rounds, {len(self.seeds)} seeds"
        )
        return (
            f"<Experiment {self.name}: {size}; {self.data.kind}, {self.model.kind};"
            f" policies {', '.join(self.policies)}>"
        )

    def under(self, system: System) -> "Experiment":
        """Return the same experiment with an amended system; the policies are not
        resolved again.
        """
        own = copy(self)
        for name in ("given", "local"):
            own.__dict__.pop(name, None)
        object.__setattr__(own, "system", system)
        object.__setattr__(own, "rounds", system.horizon or self.rounds)
        return own

    @cached_property
    def local(self) -> LocalTraining:
        """The local training of a client in a round."""
        own = self.training
        return LocalTraining(
            own.lr, own.steps, own.momentum, own.weight_decay, own.batch_size
        )

    @cached_property
    def given(self) -> PolicyContext:
        """The context from which settings that policies leave out are derived."""
        return PolicyContext(
            self.system,
            self.prices,
            self.bound,
            self.seeds,
            self.rounds,
            self.model.linear,
        )

    def given_for(self, policy: AdmissionPolicy) -> PolicyContext:
        """Return this context at the prices that a policy pays, which include looks if
        its clients look before they buy.
        """
        looks = self.data.price_of_looks(policy.selection)
        return (
            replace(self.given, prices=WithLooks(self.prices, looks))
            if looks
            else self.given
        )

    def check_prices(self) -> None:
        """Raise an error before the run if prices differ between clients and a policy
        needs one price for all of them.
        """
        first = self.prices.path(self.seeds[:1], 1, 2)
        for name, policy in (
            self.policies.items() if first.ndim == 3 else ()
        ):  # the price of looks is the same for all
            alone = Controller(self.system, policy, 1, self.seeds[:1])
            try:
                alone.decide(alone.open(), first[:, 0])
            except SettingError as error:
                raise SettingError(f"policies.{name}: {error}") from None

    # variants of the experiment

    def with_policy(self, name: str, policy: AdmissionPolicy) -> Self:
        """Return the same experiment with one more policy, or with the policy of this
        name replaced.

        Parameters
        ----------
        name : str
            The policy's name in tables and files.
        policy : AdmissionPolicy
            The policy; settings that it leaves out are derived.
        """
        return replace(self, policies={**self.policies, name: policy})

    def with_budget(self, budget: float) -> Self:
        """Return the same experiment with another budget; settings that policies leave
        out are derived again.

        Parameters
        ----------
        budget : float
            Money for each round.
        """
        return replace(self, system=replace(self.system, budget=budget))

    def held(self) -> Self:
        """Return the same experiment with all policies limited to the money and the
        buffers; references (oracle) are not.
        """
        return replace(
            self,
            policies={name: held(stated) for name, (stated, _) in self.stated.items()},
        )

    def only(
        self,
        policies: Mapping[str, AdmissionPolicy] | list[str],
        seeds: Ints | None = None,
    ) -> Self:
        """Return the same experiment with some of its policies and seeds.

        Parameters
        ----------
        policies : list of str or mapping
            Names of the policies to keep.
        seeds : array, optional
            Consecutive seeds; left out: all.
        """
        chosen = {name: self.policies[name] for name in policies}
        return replace(
            self,
            policies=chosen,
            seeds=self.seeds if seeds is None else np.asarray(seeds),
        )

    # the experiment as tables

    def tables(self) -> dict[str, Any]:
        """Return the experiment as the tables of a recipe, from which the same
        experiment can be built.

        A part that a recipe cannot name is marked; `unnamed` states the reason.
        """
        return self._written[0]

    @property
    def unnamed(self) -> dict[str, str]:
        """The parts that a recipe cannot name, each key with the reason. Such an
        experiment runs only in this process.
        """
        return self._written[1]

    @cached_property
    def _written(self) -> tuple[dict[str, Any], dict[str, str]]:
        unnamed: dict[str, str] = {}

        def named(key: str, part: Any, slot: Slot) -> dict[str, Any]:
            try:
                return self.data.table() if slot is DATA else table_of(slot, part)
            except Unnamed as error:
                unnamed[key] = str(error)
                part = part.policy if isinstance(part, Held) else part
                written: dict[str, Any] = {
                    "kind": f"{IN_PROCESS}{type(part).__qualname__}"
                }
                with suppress(
                    Unnamed
                ):  # state the settings if possible, so that others differ
                    written |= settings_of(part)
                return written

        run: dict[str, Any] = {
            "rounds": self.rounds,
            "seeds": len(self.seeds),
            "first_seed": int(self.seeds[0]),
        }
        run["policies"] = list(self.policies)
        if self.system.horizon != self.rounds:
            run["horizon"] = (
                "open" if self.system.horizon is None else self.system.horizon
            )
        if self.folder is not None:
            run["folder"] = str(self.folder)
        written = {
            "system": system_table(self.system),
            "prices": named("prices", self.prices, PRICES),
            "run": run,
            "bound": settings_of(self.bound),
            "data": named("data", self.data.source, DATA),
            "model": named("model", self.model, MODEL),
            "training": settings_of(self.training),
            "server": named("server", self.server, SERVER),
            "policies": {
                name: named(f"policies.{name}", policy, POLICY)
                for name, policy in self.policies.items()
            },
        }
        return written, unnamed
