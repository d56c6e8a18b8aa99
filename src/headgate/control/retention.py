"""Retention rules decide which samples a full client keeps.

The controller records ages and counts uses. A window rule makes a buffer a window of
the client's stream, first..last−1, which the controller computes from counts alone
(`control/buffers.py`). `rank` gives the same result sample by sample; a test compares
the two.

Other rules may drop a sample in the round in which it arrives. Such a sample is paid
for but never trained on; it counts in `Ledger.unused`, not in N.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from headgate.control.checks import whole_numbers
from headgate.control.ranking import Candidates, RankingRule, ordered, rank_within
from headgate.control.types import Ints, System
from headgate.errors import SettingError, require
from headgate.limits import ROUNDS
from headgate.theory.labels import paper

Capacity = int | tuple[int, ...] | Ints | Literal["buffer"]
"""the most samples that a client can hold: "buffer" for B_m, one number for all
clients, or one for each client
"""


@dataclass(
    frozen=True,
    eq=False,
)
class Retention(RankingRule):
    """Rank the samples that a client holds and those that it has just admitted.

    The lowest ranks stay. A client keeps all of these samples, or as many as its limit
    allows. A rule that names `scores` receives them if a model is available. Without a
    model it must still rank.

    Parameters
    ----------
    capacity : "buffer", int or array_like of int, optional
        The most samples that each client can hold: "buffer" for B_m, one number for all
        clients, or one for each client. None: no limit, which only window rules may
        have.

    Examples
    --------
    >>> from headgate.testing import check_retention
    >>> class Oldest(Retention):
    ...     def rank(self, candidates):
    ...         return candidates.position
    >>> check_retention(Oldest())  # silent where nothing is wrong
    """

    capacity: Capacity | None = field(
        default="buffer",
        kw_only=True,
    )

    by_class: ClassVar[bool] = False
    """whether the rule looks at classes, so that the ledger must hold them"""

    def __post_init__(self) -> None:
        if self.capacity is None:
            return
        if isinstance(self.capacity, str):
            if self.capacity != "buffer":
                raise SettingError(
                    f'capacity = "{self.capacity}": must be "buffer", a number, or one'
                    " number per client"
                )
        elif np.any(whole_numbers("capacity", self.capacity) < 1):
            raise SettingError(
                f"capacity = {self.capacity}: every client needs room for at least"
                " one sample"
            )

    @property
    def fills_buffer(self) -> bool:
        """Whether clients can hold as many samples as their buffers have places."""
        return isinstance(self.capacity, str)

    def limit(self, system: System) -> Ints | None:
        """Return the most samples that each client can hold.

        Parameters
        ----------
        system : System
            The system with the clients' buffers.

        Returns
        -------
        array of int or None
            The number for each client, (M,). None means no limit, which only window
            rules may have.

        Raises
        ------
        SettingError
            If the capacity does not fit the number of clients.
        """
        if self.capacity is None:
            return None
        if isinstance(self.capacity, str):
            return system.buffer
        room = whole_numbers("capacity", self.capacity)
        if room.ndim > 1 or (room.ndim == 1 and room.size != system.clients):
            raise SettingError(
                f"capacity has {room.size} entries for {system.clients} clients"
            )
        return np.broadcast_to(room, (system.clients,))


# rules by age and order


class WindowRule(Retention):
    """Drop the oldest samples of a full client."""

    def rank(self, candidates: Candidates) -> NDArray[Any]:
        return -candidates.position


@paper("def:kstep", "eq:kstep-drop", "eq:buffer-occupancy")
@dataclass(
    frozen=True,
    eq=False,
)
class KStep(WindowRule):
    """Every sample is trained on for exactly K rounds.

    There are fewer rounds if a `capacity` is set and its client is full. Clients named
    in `forever` never drop a sample; the hybrid policy uses this for its stale clients.

    Parameters
    ----------
    K : int
        Number of rounds for which a sample is kept.
    capacity : "buffer", int or array_like of int, optional
        The most samples that each client can hold: "buffer" for B_m, one number for all
        clients, or one for each client. None: age alone decides which samples leave.
    forever : tuple of int, default ()
        Numbers of the clients that never drop a sample by age.

    Examples
    --------
    >>> KStep(10).K  # a sample is used in ten rounds
    10
    """

    K: int
    capacity: Capacity | None = field(
        default=None,
        kw_only=True,
    )
    forever: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        require(np.ndim(self.K) == 0, "K", self.K, "one whole number")
        if whole_numbers("K", self.K, ROUNDS) < 1:
            raise SettingError(
                f"K = {self.K}: a sample must be kept for at least one round"
            )


@dataclass(
    frozen=True,
    eq=False,
)
class Fifo(WindowRule):
    """The oldest samples of a full client make room for new ones.

    Parameters
    ----------
    capacity : "buffer", int or array_like of int, default "buffer"
        The most samples that each client can hold: "buffer" for B_m, one number for all
        clients, or one for each client.

    Examples
    --------
    >>> from headgate.control.policies import Headgate
    >>> Headgate(rule=Fifo(capacity=5)).rule.capacity
    5
    """

    capacity: Capacity = "buffer"


# rules by random draws or by classes


@dataclass(
    frozen=True,
    eq=False,
)
class Reservoir(Retention):
    """The buffer is a uniformly random choice among all samples ever admitted.

    The distribution is that of Vitter's algorithm R (1985): the i-th sample enters with
    probability B/i and replaces a random one. Each sample has one random key and the
    smallest keys stay (Fan, Muller and Rezucha 1962), so the choice does not depend on
    the rounds in which the samples arrived.

    Parameters
    ----------
    capacity : "buffer", int or array_like of int, default "buffer"
        The most samples that each client can hold: "buffer" for B_m, one number for all
        clients, or one for each client.

    Examples
    --------
    >>> from headgate.control.policies import Headgate
    >>> Headgate(rule=Reservoir()).rule.capacity
    'buffer'
    """

    capacity: Capacity = "buffer"

    def rank(self, candidates: Candidates) -> NDArray[Any]:
        return candidates.draw()


@dataclass(
    frozen=True,
    eq=False,
)
class ClassBalanced(Retention):
    """Each excess sample is dropped from the client's largest class.

    It is a random old sample, or a new one if no old one is left. This is the greedy
    balancing of Prabhu, Torr and Dokania (2020), for all samples of a round together.
    Among classes of the same size the choice is random. Without labels all samples are
    one class, and old ones leave at random.

    Parameters
    ----------
    capacity : "buffer", int or array_like of int, default "buffer"
        The most samples that each client can hold: "buffer" for B_m, one number for all
        clients, or one for each client.

    Examples
    --------
    >>> from headgate.control.policies import Headgate
    >>> Headgate(rule=ClassBalanced()).rule.by_class
    True
    """

    capacity: Capacity = "buffer"
    by_class = True

    def rank(self, candidates: Candidates) -> NDArray[Any]:
        draw = candidates.draw(again=candidates.end)
        return ordered(rank_within(candidates.group, ~candidates.new, draw), draw)


KINDS: dict[str, type[Retention]] = {
    "fifo": Fifo,
    "kstep": KStep,
    "reservoir": Reservoir,
    "class-balanced": ClassBalanced,
}
"""retention rules by their names in recipes"""
