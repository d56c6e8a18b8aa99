"""Even spending below a running quantile of the prices: what a careful buyer does without any theory."""

from dataclasses import dataclass

import numpy as np

from headgate.control.policies.budgeted.base import BudgetedPolicy
from headgate.control.policies.budgeted.latest_prices import observe, remembered, seen_prices, unseen
from headgate.control.policies.budgeted.purse import pace
from headgate.control.types import Arrays, Floats, System, View
from headgate.errors import SettingError


@dataclass(frozen=True, eq=False, kw_only=True)
class Below(BudgetedPolicy):
    """Buys where the price is at most the running quantile of the last 256 prices, for the money left over such rounds left.

    With `quantile` = 0.5 it buys below the running median, for twice the money left over rounds left. With 1 it spends the
    same money in every round, whatever the price. Where each client has a price, their mean is compared.
    """

    quantile: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.quantile <= 1:
            raise SettingError(f"quantile = {self.quantile}: must be above 0 and at most 1")

    def start(self, system: System, runs: int) -> Arrays:
        return {**super().start(system, runs), **unseen(runs)}

    def wanted(self, view: View, memory: Arrays) -> tuple[Floats, Arrays]:
        price = view.price if view.price.ndim == 1 else view.price.mean(axis=-1)
        memory = observe(memory, view._replace(price=price))
        place = np.ceil(self.quantile * remembered(memory)).astype(np.int64) - 1
        limit = np.take_along_axis(np.sort(seen_prices(memory), axis=-1), place[:, None], axis=-1)[:, 0]
        cost = (view.price if view.price.ndim > 1 else price[:, None]) * self.places(view.system)
        money = pace(view, self.overdraft) / self.quantile
        all_places = cost.sum(axis=-1)
        share = np.divide(money, all_places, out=np.ones_like(money), where=all_places > money)
        share = np.where(price <= limit, share, 0.0)
        return (share if view.price.ndim == 1 else np.broadcast_to(share[:, None], view.price.shape)), memory
