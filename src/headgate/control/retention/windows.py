"""What clients drop: by age, by capacity, or both. In each case a buffer is a window of the stream.

Rules under which it is not: `replacement.py`.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headgate.control.checks import whole_numbers
from headgate.control.types import Arrays, Ints, Streams, System, Window
from headgate.errors import SettingError
from headgate.theory.labels import paper


@paper("def:kstep", "eq:kstep-drop", "eq:buffer-occupancy")
@dataclass(frozen=True, eq=False)
class KStep:
    """Every sample is trained on for exactly K rounds. K may differ from run to run, (R,).

    Clients marked in `forever` (M,) never drop anything: the stale half of the hybrid policy.
    """

    K: int | Ints
    forever: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        K = whole_numbers("K", self.K)
        if np.any(K < 1):
            raise SettingError(f"K = {self.K}: a sample must be kept for at least one round")

    @cached_property
    def _rows_by_K(self) -> list[tuple[int, Ints | slice]]:
        """The runs of each K; every round asks for them."""
        rows = {int(K): np.flatnonzero(np.asarray(self.K) == K) for K in np.unique(self.K)}
        together = {K: own[-1] - own[0] + 1 == own.size for K, own in rows.items()}  # as in a plan: a slice is quicker
        return [(K, slice(int(own[0]), int(own[-1]) + 1) if together[K] else own) for K, own in rows.items()]

    def open(self, system: System, runs: int) -> Arrays:
        longest = int(np.max(self.K))
        none = np.zeros((runs, system.clients), dtype=np.int64)
        return {f"admitted.{slot}": none for slot in range(longest)}

    def limit(self, system: System) -> Ints | None:
        return None

    def expire(self, state: Arrays, t: int, held: Window) -> Ints:
        """All that was admitted up to round t − K is gone."""
        longest = int(np.max(self.K))
        if np.ndim(self.K) == 0:
            gone = state[f"admitted.{t % longest}"]
        else:
            gone = np.empty_like(held.first)
            for K, rows in self._rows_by_K:
                gone[rows] = state[f"admitted.{(t - K) % longest}"][rows]
        return gone if self.forever is None else np.where(self.forever, held.first, gone)

    def settle(
        self, state: Arrays, t: int, held: Window, kept_from: Ints, last: Ints, streams: Streams | None = None
    ) -> tuple[Arrays, Ints, Ints]:
        left = (kept_from - held.first).sum(axis=-1)
        return self.remember(state, t, last), kept_from, left * self.K

    def remember(self, state: Arrays, t: int, last: Ints) -> Arrays:
        """A ring of references to the last K cumulative admissions: nothing is copied, nothing overwritten."""
        return {**state, f"admitted.{t % int(np.max(self.K))}": last}


@dataclass(frozen=True, eq=False)
class Fifo:
    """The oldest samples make room for new ones once a client holds `capacity` (one number or one per client)."""

    capacity: int | Ints

    def __post_init__(self) -> None:
        check_capacity(self.capacity)

    def open(self, system: System, runs: int) -> Arrays:
        """The round in which each sample in memory was admitted; sample i of client m sits in slot i mod capacity."""
        slots = int(self._capacity(system.clients).max())
        return {"born": np.zeros((runs, system.clients, slots), dtype=np.int32)}

    def limit(self, system: System) -> Ints | None:
        return self._capacity(system.clients)

    def expire(self, state: Arrays, t: int, held: Window) -> Ints:
        return held.first

    def settle(
        self, state: Arrays, t: int, held: Window, kept_from: Ints, last: Ints, streams: Streams | None = None
    ) -> tuple[Arrays, Ints, Ints]:
        capacity = self._capacity(last.shape[-1])
        first = np.maximum(kept_from, last - capacity)
        born = state["born"]
        left = self._each(born, capacity, held.first, np.minimum(first, held.last))
        used = t - born[left]  # once in every round from the one of admission to the last
        spent_uses = np.bincount(left[0], weights=used, minlength=last.shape[0]).astype(np.int64)  # exact below 2^53
        born = born.copy()
        born[self._each(born, capacity, np.maximum(held.last, first), last)] = t
        return {**state, "born": born}, first, spent_uses

    def _capacity(self, clients: int) -> Ints:
        return np.broadcast_to(np.asarray(self.capacity, dtype=np.int64), (clients,))

    @staticmethod
    def _each(born: NDArray[np.int32], capacity: Ints, begin: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
        """Index of (run, client, slot) for every sample begin ≤ i < end of every client."""
        count = np.maximum(end - begin, 0).ravel()
        owner = np.repeat(np.arange(count.size), count)
        nth = np.arange(owner.size) - np.repeat(np.cumsum(count) - count, count)
        run, client = owner // capacity.size, owner % capacity.size
        return run, client, (begin.ravel()[owner] + nth) % capacity[client]


@dataclass(frozen=True, eq=False)
class KStepFifo:
    """Both together: a sample leaves after K rounds, or earlier when its client is full."""

    K: int | Ints
    capacity: int | Ints

    def __post_init__(self) -> None:
        self._by_age, self._by_room  # noqa: B018  # refuses what either rule refuses

    @cached_property
    def _by_age(self) -> KStep:
        return KStep(self.K)

    @cached_property
    def _by_room(self) -> Fifo:
        return Fifo(self.capacity)

    def open(self, system: System, runs: int) -> Arrays:
        return {**self._by_age.open(system, runs), **self._by_room.open(system, runs)}

    def limit(self, system: System) -> Ints | None:
        return self._by_room.limit(system)

    def expire(self, state: Arrays, t: int, held: Window) -> Ints:
        return np.maximum(held.first, self._by_age.expire(state, t, held))

    def settle(
        self, state: Arrays, t: int, held: Window, kept_from: Ints, last: Ints, streams: Streams | None = None
    ) -> tuple[Arrays, Ints, Ints]:
        state, first, spent_uses = self._by_room.settle(state, t, held, kept_from, last)
        return self._by_age.remember(state, t, last), first, spent_uses


def check_capacity(capacity: int | Ints) -> None:
    if np.any(whole_numbers("capacity", capacity) < 1):
        raise SettingError(f"capacity = {capacity}: every client needs room for at least one sample")


def capacity_of(setting: ArrayLike | str | None, system: System) -> Ints | None:
    """A capacity as users state it: None, "buffer" for B_m, a number for all or one for each client."""
    if setting is None:
        return None
    if isinstance(setting, str):
        if setting != "buffer":
            raise SettingError(f'capacity = "{setting}": must be "buffer", a number, or one number per client')
        return system.buffer
    capacity = whole_numbers("capacity", setting)
    if capacity.ndim > 1 or (capacity.ndim == 1 and capacity.size != system.clients):
        raise SettingError(f"capacity has {capacity.size} entries for {system.clients} clients")
    return np.broadcast_to(capacity, (system.clients,))
