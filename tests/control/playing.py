"""Policies that are played at given prices; a price is as `decide` takes it."""

from headgate.control import Controller
from headgate.testing import a_system


def goes_on(controller, prices, ledger=None, report=lambda orders: None):
    """(orders, the ledger after them) of each round, from this ledger on; `report` says what clients did of their orders."""
    ledger = ledger or controller.open()
    for price in prices:
        orders = controller.decide(ledger, price)
        ledger = controller.post(ledger, orders, report(orders))
        yield orders, ledger


def after(controller, prices, ledger=None):
    """The ledger after the last round."""
    *_, (_, last) = goes_on(controller, prices, ledger)
    return last


def played(system, policy, prices, runs=1):
    return goes_on(Controller(system, policy, runs), prices)


def begun(policy, price=2.0):
    """A controller, its ledger before round 1, and its orders for that round."""
    controller = Controller(a_system(), policy)
    ledger = controller.open()
    return controller, ledger, controller.decide(ledger, price)
