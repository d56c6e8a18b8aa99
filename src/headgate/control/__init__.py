"""Decisions and accounting: pure, deterministic code that needs only numpy.

controller = Controller(system, policy, runs)
ledger = controller.open()
orders = controller.decide(ledger, price)     # changes nothing
ledger = controller.post(ledger, orders)      # the only way time advances
"""

from headgate.control.amendments import Amendment
from headgate.control.controller import Controller
from headgate.control.policy import AdmissionPolicy, PolicyContext
from headgate.control.ranking import Candidates, RankingRule
from headgate.control.retention import ClassBalanced, Fifo, KStep, Reservoir, Retention
from headgate.control.scores import Scores
from headgate.control.selection import Adaptive, ByEntropy, ByLot, ByMargin, Selection
from headgate.control.supply import Supply
from headgate.control.types import (
    AdmissionRequest,
    Ledger,
    Losses,
    Orders,
    Report,
    SampleView,
    System,
    View,
)

__all__ = [
    "Adaptive",
    "AdmissionPolicy",
    "AdmissionRequest",
    "Amendment",
    "ByEntropy",
    "ByLot",
    "ByMargin",
    "Candidates",
    "ClassBalanced",
    "Controller",
    "Fifo",
    "KStep",
    "Ledger",
    "Losses",
    "Orders",
    "PolicyContext",
    "RankingRule",
    "Report",
    "Reservoir",
    "Retention",
    "SampleView",
    "Scores",
    "Selection",
    "Supply",
    "System",
    "View",
]
