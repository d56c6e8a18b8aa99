"""The policies, one a file."""

from headgate.control.policies.acdpp import Acdpp
from headgate.control.policies.constant import Constant
from headgate.control.policies.dpp import Dpp
from headgate.control.policies.hybrid import Hybrid
from headgate.control.policies.oracle import Oracle
from headgate.control.policies.released import Released

__all__ = ["Acdpp", "Constant", "Dpp", "Hybrid", "Oracle", "Released"]
