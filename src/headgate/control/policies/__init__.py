"""The policies: the recommended one, others with a purse, the paper's, references."""

from headgate.control.policies.budgeted.alert import Alert
from headgate.control.policies.budgeted.base import BudgetedPolicy
from headgate.control.policies.budgeted.headgate import Headgate
from headgate.control.policies.budgeted.simple import (
    Below,
    Threshold,
)
from headgate.control.policies.dpp import Acdpp, Dpp
from headgate.control.policies.references import (
    Clairvoyant,
    Constant,
    Held,
    Hybrid,
    Oracle,
)
from headgate.control.policy import AdmissionPolicy

KINDS: dict[str, type[AdmissionPolicy]] = {
    "headgate": Headgate,
    "alert": Alert,
    "threshold": Threshold,
    "below": Below,
    "acdpp": Acdpp,
    "dpp": Dpp,
    "constant": Constant,
    "hybrid": Hybrid,
    "oracle": Oracle,
    "clairvoyant": Clairvoyant,
    "held": Held,
}
"""policies by their names in recipes, the recommended one first"""

__all__ = [
    "KINDS",
    "Acdpp",
    "AdmissionPolicy",
    "Alert",
    "Below",
    "BudgetedPolicy",
    "Clairvoyant",
    "Constant",
    "Dpp",
    "Headgate",
    "Held",
    "Hybrid",
    "Oracle",
    "Threshold",
]
