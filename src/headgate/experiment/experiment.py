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


@dataclass(
    frozen=True,
    eq=False,
)
class Experiment:
    """All settings of a run.

    Settings that policies leave out (K, rate, V, ρ, limits) are derived when the
    experiment is made.

    Parameters
    ----------
    system : System
        Buffers, budget, horizon and weights of the clients.
    prices : PriceProcess
        The price of a sample in every round.
    policies : mapping of str to AdmissionPolicy
        The policies to compare, by their names in tables and files.
    rounds : int
        The number of rounds.
    seeds : array of int
        Consecutive whole numbers; every policy plays one run for each seed.
    bound : BoundConstants
        Constants of the learning bound, from which some settings are derived.
    data : Data
        The data set, its partition among the clients, and their streams.
    model : Model
        The model that the clients train.
    training : Training
        Local training, aggregation and evaluation.
    server : ServerUpdate
        How the server makes the next model of the mean of the clients' models.
    name : str
        The name of the recipe.
    folder : Path, optional
        The folder of the modules that a recipe names.
    stated : mapping of str to pair of AdmissionPolicy
        Each policy as it was stated and as it was resolved, so that it can be resolved
        again for another system.

    Examples
    --------
    >>> import headgate
    >>> experiment = headgate.load("digits", "run.rounds=20")
    >>> experiment.rounds, experiment.with_budget(40.0).system.budget
    (20, 40.0)
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
    stated: Mapping[str, tuple[AdmissionPolicy, AdmissionPolicy]] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "seeds", np.asarray(self.seeds, dtype=np.int64))
        self._check_settings()
        self._check_budget()
        stated = {name: self._resolved(name) for name in self.policies}
        resolved = {name: made for name, (_, made) in stated.items()}
        object.__setattr__(self, "stated", stated)
        object.__setattr__(self, "policies", resolved)

    def _check_settings(self) -> None:
        seeds = self.seeds
        fits = seeds.ndim == 1 and seeds.size > 0 and seeds[0] >= 0
        require(
            bool(fits and np.all(np.diff(seeds) == 1)),
            "seeds",
            seeds.tolist(),
            "whole numbers from 0 on that follow one another",
        )
        require(self.rounds >= 1, "run.rounds", self.rounds, "at least 1")
        if not self.policies:
            raise SettingError("run.policies = []: at least one policy is needed")

        cohort, clients = self.training.cohort, self.system.clients
        require(
            cohort is None or 1 <= cohort <= clients,
            "training.cohort",
            cohort,
            f"1 to {clients}, the number of clients",
        )
        if self.data.changes is not None:
            try:
                self.data.changes.check(len(self.data.concepts), clients)
            except SettingError as error:
                raise SettingError(f"data.changes.{error}") from None

    def _check_budget(self) -> None:
        price = self.prices.mean(self.system.horizon)
        if price <= 0:
            raise SettingError(
                f"prices: every price in rounds 1 to {self.rounds} is zero; a budget"
                " decides nothing then"
            )
        if not self._buys_a_sample(price):
            raise InfeasibleError(
                f"system.budget = {self.system.budget:g}: buys less than one sample in"
                f" {self.rounds} rounds at a mean price of {price:g}"
            )

    def _buys_a_sample(self, price: float) -> bool:
        return not self.system.budget * self.rounds < price  # a price may be unknown

    def _resolved(self, name: str) -> tuple[AdmissionPolicy, AdmissionPolicy]:
        """Return a policy as it was stated and with its settings derived."""
        policy = self.policies[name]
        stated, before = self.stated.get(name, (policy, None))
        if policy is not before:  # a replaced policy has its own settings
            stated = policy
        check_is_policy(stated, f"policies.{name}")
        given = self.given_for(stated)
        if not self._buys_a_sample(given.prices.mean(self.system.horizon)):
            looks = self.data.price_of_looks(stated.selection)
            raise InfeasibleError(
                f"data.look = {self.data.look:g}: with looks for {looks:g} the budget"
                " buys no label"
            )
        try:
            made = stated.resolved(given)
            self._check_rules(made, given)
        except SettingError as error:
            raise SettingError(f"policies.{name}.{error}") from None
        return stated, made

    def _check_rules(self, policy: AdmissionPolicy, given: PolicyContext) -> None:
        """Refuse rules that do not fit the system, the memory or late labels."""
        rule = policy.selection
        if rule is not None:
            if not isinstance(rule, Selection):
                raise SettingError(
                    f"selection = {rule!r}: must be a Selection, as in"
                    " headgate.control.ByEntropy()"
                )
            rule.check()
        # The controller refuses what does not fit the system or the memory.
        controller = Controller(given.system, policy, len(given.seeds), given.seeds)
        kept_by = controller.buffers.rule
        by_label = kept_by.by_class or not {*kept_by.scores} <= {*WITHOUT_LABELS}
        if self.data.late and by_label:
            raise SettingError(
                f"retention: {type(kept_by).__name__} looks at labels, which come late"
                f" (data.late = {self.data.late})"
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

        Parameters
        ----------
        system : System
            The amended system.

        Returns
        -------
        Experiment
            A copy whose rounds end at the horizon of the system.
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
            self.data.delays,
        )

    def given_for(self, policy: AdmissionPolicy) -> PolicyContext:
        """Return this context at the prices that a policy pays, which include looks if
        its clients look before they buy.

        Parameters
        ----------
        policy : AdmissionPolicy
            The policy, with its buying rule.

        Returns
        -------
        PolicyContext
            The context for the settings of this policy.
        """
        looks = self.data.price_of_looks(policy.selection)
        if not looks:
            return self.given
        return replace(self.given, prices=WithLooks(self.prices, looks))

    def check_prices(self) -> None:
        """Check before the run that no policy that needs one price for all clients gets
        several.

        Raises
        ------
        SettingError
            If prices differ between clients and a policy needs one price.
        """
        first = self.prices.path(self.seeds[:1], 1, 2)
        if first.ndim < 3:  # the price of looks is the same for all
            return
        for name, policy in self.policies.items():
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

        Returns
        -------
        Experiment
            A copy with this policy.
        """
        return replace(self, policies={**self.policies, name: policy})

    def with_budget(self, budget: float) -> Self:
        """Return the same experiment with another budget; settings that policies leave
        out are derived again.

        Parameters
        ----------
        budget : float
            Money for each round.

        Returns
        -------
        Experiment
            A copy with this budget.
        """
        return replace(self, system=replace(self.system, budget=budget))

    def held(self) -> Self:
        """Return the same experiment with all policies limited to the money and the
        buffers; references (oracle) are not.

        Returns
        -------
        Experiment
            A copy with these policies.
        """
        policies = {name: held(stated) for name, (stated, _) in self.stated.items()}
        return replace(self, policies=policies)

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

        Returns
        -------
        Experiment
            A copy with these policies and seeds.
        """
        chosen = {name: self.policies[name] for name in policies}
        return replace(
            self,
            policies=chosen,
            seeds=self.seeds if seeds is None else seeds,
        )

    # the experiment as tables

    def tables(self) -> dict[str, Any]:
        """Return the experiment as the tables of a recipe, from which the same
        experiment can be built.

        A part that a recipe cannot name is marked; `unnamed` states the reason.

        Returns
        -------
        dict
            The sections by name; `headgate.load` takes them.
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

        def named(
            key: str,
            part: Any,
            slot: Slot,
        ) -> dict[str, Any]:
            try:
                return self.data.table() if slot is DATA else table_of(slot, part)
            except Unnamed as error:
                unnamed[key] = str(error)
                part = part.policy if isinstance(part, Held) else part
                kind = f"{IN_PROCESS}{type(part).__qualname__}"
                written: dict[str, Any] = {"kind": kind}
                # The settings are stated if possible, so that other parts differ.
                with suppress(Unnamed):
                    written |= settings_of(part)
                return written

        run: dict[str, Any] = {
            "rounds": self.rounds,
            "seeds": len(self.seeds),
            "first_seed": int(self.seeds[0]),
            "policies": list(self.policies),
        }
        horizon = self.system.horizon
        if horizon != self.rounds:
            run["horizon"] = "open" if horizon is None else horizon
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
