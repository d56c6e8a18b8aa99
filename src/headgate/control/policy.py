"""What a policy is: a frozen value whose fields are its settings, and which says every round how much to admit."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

from headgate.control.prices.processes import PriceProcess
from headgate.control.retention import Fifo, Retention
from headgate.control.selection import Selection
from headgate.control.types import AdmissionRequest, Arrays, Ints, System, View
from headgate.errors import SettingError
from headgate.escaping import shown
from headgate.theory.bound import BoundConstants
from headgate.theory.comparison import Benchmark, ck_bound, optimal_K, saturated
from headgate.theory.labels import paper

OPEN_END = 1000
"""rounds over which an open-ended run is judged"""


@paper("eq:kstep-opt-problem")
def better_of_corollary(system: System, mean_price: float, k: BoundConstants) -> Benchmark:
    """Return the better of Corollary 2's two candidates, judged by Ē_T(π^CK): they solve eq:kstep-opt-problem in the reals."""
    rounds = system.horizon or OPEN_END
    candidates = optimal_K(mean_price, system.buffer, system.budget)
    return min(candidates, key=lambda point: ck_bound(point.K, point.rate, rounds, k).sum())


@dataclass(frozen=True, eq=False)
class PolicyContext:
    """What the settings that a policy was not given are worked out from."""

    system: System
    prices: PriceProcess
    bound: BoundConstants
    seeds: Ints
    rounds: int
    linear: bool = True
    """whether the model is linear; true where no model is known"""

    @cached_property
    def mean_price(self) -> float:
        """c̄"""
        return self.prices.mean(self.system.horizon)

    def better_K(self) -> int:
        """Return Corollary 2's K, for a policy that was given none."""
        return better_of_corollary(self.system, self.mean_price, self.bound).K

    def highest_rate(self, K: int, buffer: Ints | None = None) -> float:
        """Return the Λ̄ at which the money or the places, of all clients or of those with these buffers, are used up."""
        own = self.system.buffer if buffer is None else buffer
        return saturated(K, self.mean_price, own, self.system.budget).rate


@paper("eq:joint-policy")
@dataclass(frozen=True, eq=False)
class AdmissionPolicy(ABC):
    """Decides how much to admit. With its `retention` it is the paper's joint policy π.

    A policy of one's own is one method, `admit`; the others have defaults.
    """

    selection: Selection | None = field(default=None, kw_only=True)
    """which samples of a window (`data.window`) clients buy; left out: the next ones of their streams"""

    listens: ClassVar[bool] = False
    """whether it needs the losses of clients' samples in the round before, `View.losses`; control then waits for the round"""

    @property
    def hears(self) -> bool:
        """Whether the policy listens, or its selection does."""
        return self.listens or (self.selection is not None and self.selection.listens)

    def resolved(self, given: PolicyContext) -> Self:
        """Return the policy with all settings that were left out worked out; the record holds them."""
        return self

    def required(self, name: str) -> Any:
        """Return a setting without which the policy cannot decide; refused where it is still to be worked out."""
        value = getattr(self, name)
        if value is None:
            raise SettingError(f"{type(self).__name__}.{name}: is missing; state it, or let headgate.load work it out")
        return value

    def retention(self, system: System) -> Retention:
        """Return the rule by which clients drop samples. Default: the oldest leave a full buffer of B_m places."""
        return Fifo()

    def shares(self, system: System) -> Ints:
        """Return whole-number weights by which a total is divided among the clients, (M,). Default: B_m."""
        return system.buffer

    def start(self, system: System, runs: int) -> Arrays:
        """Return the policy's own memory before round 1.

        Parameters
        ----------
        system : System
            Buffers, budget and horizon.
        runs : int
            R, the leading axis of every array.

        Returns
        -------
        dict of str to array
            Finite numbers. Shapes and types stay the same in all rounds.
        """
        return {}

    @abstractmethod
    def admit(self, view: View, memory: Arrays) -> tuple[AdmissionRequest, Arrays]:
        """Decide what to admit in round view.t.

        Parameters
        ----------
        view : View
            What the server may know.
        memory : dict of str to array
            What `start` or the round before returned. It must not be changed in place.

        Returns
        -------
        request, memory : tuple of AdmissionRequest and dict
            What to admit, and the memory for the next round. The same arguments give the same result.
        """


def check_is_policy(policy: object, where: str = "policy") -> None:
    """Refuses what is none, as the class of one."""
    if isinstance(policy, type):
        raise SettingError(f"{where} = {policy.__name__}: is a class; a policy is made of it, as in {policy.__name__}()")
    if not isinstance(policy, AdmissionPolicy):
        raise SettingError(f"{where} = {shown(policy)}: must be an AdmissionPolicy, as in headgate.control.policies.Headgate()")
