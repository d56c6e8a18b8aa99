"""Policies that are played at given prices; a price is as `decide` takes it."""

from headgate.control import Controller


def goes_on(controller, prices, ledger=None):
    """(orders, the ledger after them) of each round, from this ledger on."""
    ledger = ledger or controller.open()
    for price in prices:
        orders = controller.decide(ledger, price)
        ledger = controller.post(ledger, orders)
        yield orders, ledger


def after(controller, prices, ledger=None):
    """The ledger after the last round."""
    *_, (_, last) = goes_on(controller, prices, ledger)
    return last


def played(system, policy, prices, runs=1):
    return goes_on(Controller(system, policy, runs), prices)
