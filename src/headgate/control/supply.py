"""Who is there in a round, and what can be had."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from headgate.control.checks import whole, whole_numbers
from headgate.control.types import Ints, System
from headgate.errors import SettingError


class Supply(NamedTuple):
    """What can be had in a round.

    >>> Supply(present=[True, False, True], in_all=5).places(System([4, 4, 4], budget=9.0), None, t=1)
    array([2, 0, 3])
    """

    present: ArrayLike | None = None
    """whether each client is there, (M,); left out: all are"""
    most: ArrayLike | None = None
    """the most samples of each client, (M,), or one number for every one of them; left out: as many as fit"""
    in_all: int | None = None
    """the most samples of all clients together, as of a team that labels so many a day; left out: no limit"""
    lot: int = 1
    """samples come in multiples of this number, client by client"""
    money: float = np.inf
    """the most that may have been spent after this round, as where a month has a budget of its own"""

    def places(self, system: System, limit: Ints | None, t: int) -> Ints | None:
        """Return how many samples each client can be given, (M,); None where nothing but its room limits it.

        Parameters
        ----------
        system : System
            Clients, and who has left.
        limit : array or None
            The most samples that each client can hold, (M,).
        t : int
            The round.
        """
        whole("lot", self.lot)
        gone = () if system.amended is None else system.amended.left
        if system.amended is not None and system.amended.suspended:
            return np.zeros(system.clients, dtype=np.int64)
        if self.present is None and self.most is None and self.in_all is None and self.lot == 1 and not gone:
            return None
        places = np.array(system.buffer if limit is None else limit)
        if self.most is not None:
            most = whole_numbers("most", self.most)
            if most.ndim > 1 or most.size not in (1, system.clients) or np.any(most < 0):
                raise SettingError(f"most: must be one number, or one for each of {system.clients} clients, 0 or more")
            places = np.minimum(places, most)
        if self.present is not None:
            present = np.asarray(self.present)
            if present.shape != places.shape or present.dtype != np.bool_:
                raise SettingError(f"present: must be true or false for each of {system.clients} clients")
            places[~present] = 0
        places[list(gone)] = 0
        places //= self.lot
        if self.in_all is not None:
            whole("in_all", self.in_all, least=0)
            places = _cut(places, self.in_all // self.lot, t)
        return places * self.lot


EVERYTHING = Supply()


def _cut(places: Ints, most: int, t: int) -> Ints:
    """No more than `most` in all, in proportion; what does not divide goes to other clients in every round."""
    if (size := int(places.sum())) <= most:
        return places
    cut = places * most // size
    open_ = np.flatnonzero(cut < places)
    cut[np.roll(open_, -t)[: most - int(cut.sum())]] += 1
    return cut
