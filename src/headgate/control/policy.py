"""The base class of policies: frozen values whose fields are settings.

They decide every round how much to admit.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from headgate.control.retention import Fifo, Retention
from headgate.control.selection import Selection
from headgate.control.types import (
    AdmissionRequest,
    Arrays,
    Floats,
    Ints,
    System,
    View,
)
from headgate.errors import SettingError
from headgate.escaping import shown
from headgate.theory.labels import paper

if TYPE_CHECKING:
    from headgate.control.delays import Delays
    from headgate.control.prices import PriceProcess
    from headgate.theory.bound import BoundConstants
    from headgate.theory.comparison import Benchmark

OPEN_END = 1000
"""number of rounds over which the bound of a run with an open end is summed"""


@paper("eq:kstep-opt-problem")
def better_of_corollary(
    system: System,
    mean_price: float,
    k: "BoundConstants",
) -> "Benchmark":
    """Return the candidate of Corollary 2 with the lower Ē_T(π^CK).

    Both solve eq:kstep-opt-problem in real numbers.
    """
    from headgate.theory.comparison import ck_bound, optimal_K

    rounds = system.horizon or OPEN_END

    def bound(point: "Benchmark") -> float:
        return float(ck_bound(point.K, point.rate, rounds, k).sum())

    return min(optimal_K(mean_price, system.buffer, system.budget), key=bound)


@dataclass(
    frozen=True,
    eq=False,
)
class PolicyContext:
    """The information from which a policy works out the settings that were left out.

    Parameters
    ----------
    system : System
        The system.
    prices : PriceProcess
        Price process of the experiment.
    bound : BoundConstants
        Constants of the bound.
    seeds : array of int
        Seed of each run, (R,).
    rounds : int
        Number of rounds of the run.
    linear : bool, default True
        Whether the model is linear; true also if no model is known.
    delays : Delays, optional
        How many rounds samples take to arrive; None: they are there at once.

    Examples
    --------
    >>> import headgate
    >>> given = headgate.load("digits").given
    >>> given.rounds, round(given.mean_price, 1)
    (60, 5.5)
    """

    system: System
    prices: "PriceProcess"
    bound: "BoundConstants"
    seeds: Ints
    rounds: int
    linear: bool = True
    delays: "Delays | None" = None

    @cached_property
    def mean_price(self) -> float:
        """The expected mean price of a sample over the horizon, c̄; SettingError is
        raised if it is not known.
        """
        from headgate.control.prices.live import UNKNOWN

        price = self.prices.mean(self.system.horizon)
        if np.isnan(price):
            raise SettingError(UNKNOWN)
        return price

    def better_K(self) -> int:
        """Return the K of the better candidate of Corollary 2.

        Returns
        -------
        int
            The number of rounds for which a sample is kept.
        """
        return better_of_corollary(self.system, self.mean_price, self.bound).K

    def highest_rate(self, K: int, buffer: Ints | None = None) -> float:
        """Return the highest rate Λ̄ that the budget and the places allow.

        Parameters
        ----------
        K : int
            The number of rounds for which a sample is kept.
        buffer : array of int, optional
            The places of those clients that count; left out: of all clients.

        Returns
        -------
        float
            The rate, in samples per round.
        """
        from headgate.theory.comparison import saturated

        own = self.system.buffer if buffer is None else buffer
        return saturated(K, self.mean_price, own, self.system.budget).rate


@paper("eq:joint-policy")
@dataclass(
    frozen=True,
    eq=False,
)
class AdmissionPolicy(ABC):
    """Decide how much to admit in each round.

    With its `retention` a policy is the paper's joint policy π. A new policy must
    define one method, `admit`; the others have defaults.

    Parameters
    ----------
    selection : Selection, optional
        Rule that chooses which samples of a window (`data.window`) clients buy; left
        out: the next ones of their streams.

    Examples
    --------
    >>> import numpy as np
    >>> from headgate import AdmissionRequest, System
    >>> from headgate.testing import check_policy
    >>> class OneEach(AdmissionPolicy):
    ...     def admit(self, view, memory):
    ...         clients = float(view.system.clients)
    ...         return AdmissionRequest(np.full(view.debt.shape, clients)), memory
    >>> check_policy(OneEach())  # silent where nothing is wrong
    """

    selection: Selection | None = field(
        default=None,
        kw_only=True,
    )

    listens: ClassVar[bool] = False
    """whether the policy needs the losses of the previous round, `View.losses`;
    decisions then wait for that round's reports
    """

    above_limit: ClassVar[str] = "bought all the same"
    """why the policy buys above its price limit, for the log"""

    @property
    def hears(self) -> bool:
        """Whether the policy or its selection listens."""
        return self.listens or (self.selection is not None and self.selection.listens)

    def resolved(self, given: PolicyContext) -> Self:
        """Return the policy with values for all settings that were left out.

        Parameters
        ----------
        given : PolicyContext
            The information from which the values are worked out.

        Returns
        -------
        AdmissionPolicy
            The policy. The run's record contains its values.
        """
        return self

    def required(self, name: str) -> Any:
        """Return the value of a setting that the policy needs.

        Parameters
        ----------
        name : str
            The name of the setting.

        Returns
        -------
        object
            The value.

        Raises
        ------
        SettingError
            If it was not worked out.
        """
        value = getattr(self, name)
        if value is None:
            raise SettingError(
                f"{type(self).__name__}.{name}: is missing; state it, or let"
                " headgate.load work it out"
            )
        return value

    def retention(self, system: System) -> Retention:
        """Return the rule by which clients drop samples.

        Parameters
        ----------
        system : System
            Buffers, budget and horizon.

        Returns
        -------
        Retention
            The rule. By default the oldest samples leave a full buffer of B_m places.
        """
        return Fifo()

    def shares(self, system: System) -> Ints:
        """Return the weights by which a total is divided among the clients.

        Parameters
        ----------
        system : System
            Buffers, budget and horizon.

        Returns
        -------
        array of int
            The weights, (M,). By default these are B_m.
        """
        return system.buffer

    def start(self, system: System, runs: int) -> Arrays:
        """Return the policy's own memory before round 1.

        Parameters
        ----------
        system : System
            Buffers, budget and horizon.
        runs : int
            R, the length of every array's first axis.

        Returns
        -------
        dict of str to array
            Finite numbers. Shapes and types must stay the same in all rounds.
        """
        return {}

    def price_limit(self, view: View, memory: Arrays) -> Floats | None:
        """Return the price up to which the policy bought in a round, for the log.

        Parameters
        ----------
        view : View
            The information that the policy had.
        memory : dict of str to array
            The memory after the decision.

        Returns
        -------
        array or None
            The limit, (R,); None, the default, if the policy has no such limit.
        """
        return None

    @abstractmethod
    def admit(self, view: View, memory: Arrays) -> tuple[AdmissionRequest, Arrays]:
        """Decide what to admit in round view.t.

        Parameters
        ----------
        view : View
            The information that the server may use.
        memory : dict of str to array
            The memory returned by `start` or by the previous round. It must not be
            changed in place.

        Returns
        -------
        request, memory : tuple of AdmissionRequest and dict
            The samples to admit, and the memory for the next round. The same arguments
            must give the same result.
        """


def check_is_policy(policy: object, where: str = "policy") -> None:
    """Raise SettingError unless `policy` is an instance of AdmissionPolicy."""
    if isinstance(policy, type):
        raise SettingError(
            f"{where} = {policy.__name__}: is a class; a policy is made of it, as in"
            f" {policy.__name__}()"
        )
    if not isinstance(policy, AdmissionPolicy):
        raise SettingError(
            f"{where} = {shown(policy)}: must be an AdmissionPolicy, as in"
            " headgate.control.policies.Headgate()"
        )
