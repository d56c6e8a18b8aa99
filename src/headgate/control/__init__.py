"""Decisions and accounting: numpy only, pure and deterministic.

controller = Controller(system, policy, runs)
ledger = controller.open()
orders = controller.decide(ledger, price)     # changes nothing
ledger = controller.post(ledger, orders)      # the only way time advances
"""

from headgate.control.controller import Controller
from headgate.control.retention.replacement import ClassBalanced, DynamicRatio, Replacement, Reservoir, StaticRatio
from headgate.control.retention.windows import Fifo, KStep, KStepFifo
from headgate.control.types import AdmissionPolicy, Ask, Ledger, Orders, Report, Retention, System, View

__all__ = [
    "AdmissionPolicy",
    "Ask",
    "ClassBalanced",
    "Controller",
    "DynamicRatio",
    "Fifo",
    "KStep",
    "KStepFifo",
    "Ledger",
    "Orders",
    "Replacement",
    "Report",
    "Reservoir",
    "Retention",
    "StaticRatio",
    "System",
    "View",
]
