"""Policies that renew places of the buffers and never exceed the budget."""

__all__ = [
    "alert",
    "all_prices",
    "base",
    "headgate",
    "latest_prices",
    "price_limit",
    "purse",
    "simple",
    "wear",
]
