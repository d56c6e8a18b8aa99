"""A policy that is played at given prices."""

from headgate.control import Controller


def played(system, policy, prices, runs=1):
    """(orders, the ledger after them) of each round; a price is as `decide` takes it."""
    controller = Controller(system, policy, runs)
    ledger = controller.open()
    for price in prices:
        orders = controller.decide(ledger, price)
        ledger = controller.post(ledger, orders)
        yield orders, ledger
