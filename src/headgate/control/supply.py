"""Supply: the clients that are present in a round and the samples that can be
bought.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from headgate.control.checks import whole, whole_numbers
from headgate.control.types import Ints, System
from headgate.errors import SettingError


class Supply(NamedTuple):
    """The samples that can be bought in a round.

    >>> Supply(present=[True, False, True], in_all=5).places(System([4, 4, 4], budget=9.0), None, t=1)
    array([2, 0, 3])
    """

    present: ArrayLike | None = None
    """whether each client is present, (M,); left out: all clients are present"""
    most: ArrayLike | None = None
    """the most samples of each client, (M,), or one number that holds for each; left
    out: as many as fit
    """
    in_all: int | None = None
    """the most samples of all clients together, for example what a team can label in a
    day; left out: no limit
    """
    lot: int = 1
    """number of samples in a lot: every client is given whole lots"""
    money: float = np.inf
    """the most money that may be spent in all rounds up to this one, for example
    because of a monthly budget
    """

    def places(self, system: System, limit: Ints | None, t: int) -> Ints | None:
        """Return how many samples each client can be given, (M,), or None if only the
        room of the clients limits them.

        Parameters
        ----------
        system : System
            The clients, including those that have left.
        limit : array or None
            The most samples that each client can hold, (M,). None means the buffers of
            `system`.
        t : int
            The round.
        """
        whole("lot", self.lot)
        gone = () if system.amended is None else system.amended.left
        if system.amended is not None and system.amended.suspended:
            return np.zeros(system.clients, dtype=np.int64)
        if (
            self.present is None
            and self.most is None
            and self.in_all is None
            and self.lot == 1
            and not gone
        ):
            return None
        places = np.array(system.buffer if limit is None else limit)
        if self.most is not None:
            most = whole_numbers("most", self.most)
            if (
                most.ndim > 1
                or most.size not in (1, system.clients)
                or np.any(most < 0)
            ):
                raise SettingError(
                    f"most: must be one number, or one for each of {system.clients}"
                    " clients, 0 or more"
                )
            places = np.minimum(places, most)
        if self.present is not None:
            present = np.asarray(self.present)
            if present.shape != places.shape or present.dtype != np.bool_:
                raise SettingError(
                    f"present: must be true or false for each of {system.clients}"
                    " clients"
                )
            places[~present] = 0
        places[list(gone)] = 0
        places //= self.lot
        if self.in_all is not None:
            whole("in_all", self.in_all, least=0)
            places = _cut(places, self.in_all // self.lot, t)
        return places * self.lot


EVERYTHING = Supply()


def _cut(places: Ints, most: int, t: int) -> Ints:
    """Reduce the places in proportion to at most `most` in all. The indivisible rest
    goes to other clients in every round.
    """
    if (size := int(places.sum())) <= most:
        return places
    cut = places * most // size
    open_ = np.flatnonzero(cut < places)
    cut[np.roll(open_, -t)[: most - int(cut.sum())]] += 1
    return cut
