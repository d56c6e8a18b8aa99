"""Supply: the clients that are present in a round and the samples that can be
bought.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from headgate.control.checks import whole, whole_numbers
from headgate.control.types import Bools, Ints, System
from headgate.errors import SettingError


class Supply(NamedTuple):
    """The samples that can be bought in a round.

    Parameters
    ----------
    present : array_like of bool, optional
        Whether each client is present, (M,); left out: all clients are present.
    most : array_like of int, optional
        The most samples of each client, (M,), or one number that holds for each; left
        out: as many as fit.
    in_all : int, optional
        The most samples of all clients together, for example what a team can label in a
        day; left out: no limit.
    lot : int, default 1
        Number of samples in a lot: every client is given whole lots.
    money : float, default infinity
        The most money that may be spent in all rounds up to this one, for example
        because of a monthly budget.

    Examples
    --------
    >>> supply = Supply(present=[True, False, True], in_all=5)
    >>> supply.places(System([4, 4, 4], budget=9.0), None, t=1)
    array([2, 0, 3])
    """

    present: ArrayLike | None = None
    most: ArrayLike | None = None
    in_all: int | None = None
    lot: int = 1
    money: float = np.inf

    def places(
        self,
        system: System,
        limit: Ints | None,
        t: int,
    ) -> Ints | None:
        """Return how many samples each client can be given.

        Parameters
        ----------
        system : System
            The clients, including those that have left.
        limit : array or None
            The most samples that each client can hold, (M,). None means the buffers of
            `system`.
        t : int
            The round.

        Returns
        -------
        array or None
            The number for each client, (M,), or None if only the room of the clients
            limits them.

        Raises
        ------
        SettingError
            If a field is not possible for these clients.
        """
        whole("lot", self.lot)
        terms = system.amended
        if terms is not None and terms.suspended:
            return np.zeros(system.clients, dtype=np.int64)
        left = () if terms is None else terms.left
        if not left and self._unlimited:
            return None

        places = np.array(system.buffer if limit is None else limit)
        if self.most is not None:
            places = np.minimum(places, self._most(system.clients))
        if self.present is not None:
            places[~self._present(system.clients)] = 0
        places[list(left)] = 0

        lots = places // self.lot
        if self.in_all is not None:
            whole("in_all", self.in_all, least=0)
            lots = _cut(lots, self.in_all // self.lot, t)
        return lots * self.lot

    @property
    def _unlimited(self) -> bool:
        limits = (self.present, self.most, self.in_all)
        return self.lot == 1 and all(each is None for each in limits)

    def _most(self, clients: int) -> Ints:
        assert self.most is not None
        most = whole_numbers("most", self.most)
        fits = most.ndim <= 1 and most.size in (1, clients)
        if not fits or np.any(most < 0):
            raise SettingError(
                f"most: must be one number, or one for each of {clients} clients, 0 or"
                " more"
            )
        return most

    def _present(self, clients: int) -> Bools:
        present = np.asarray(self.present)
        if present.shape != (clients,) or present.dtype != np.bool_:
            raise SettingError(
                f"present: must be true or false for each of {clients} clients"
            )
        return present


EVERYTHING = Supply()
"""all clients are present, and nothing but their room limits them"""


def _cut(
    places: Ints,
    most: int,
    t: int,
) -> Ints:
    """Reduce the places in proportion to at most `most` in all.

    The indivisible rest goes to other clients in every round.
    """
    size = int(places.sum())
    if size <= most:
        return places
    cut = places * most // size
    reduced = np.flatnonzero(cut < places)
    rest = most - int(cut.sum())
    cut[np.roll(reduced, -t)[:rest]] += 1
    return cut
