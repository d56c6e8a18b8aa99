"""The policies, one a file."""

from headgate.control.policies.acdpp import Acdpp
from headgate.control.policies.bucket import Bucket
from headgate.control.policies.constant import Constant
from headgate.control.policies.dpp import Dpp
from headgate.control.policies.foresight import Clairvoyant
from headgate.control.policies.headgate import Headgate
from headgate.control.policies.hybrid import Hybrid
from headgate.control.policies.lookahead import Lookahead
from headgate.control.policies.oracle import Oracle
from headgate.control.policies.pacing import Pacing
from headgate.control.policies.pi import Pi
from headgate.control.policies.random import Random
from headgate.control.policies.released import Released
from headgate.control.policies.resolving import Resolving
from headgate.control.policies.threshold import Threshold

__all__ = [
    "Acdpp",
    "Bucket",
    "Clairvoyant",
    "Constant",
    "Dpp",
    "Headgate",
    "Hybrid",
    "Lookahead",
    "Oracle",
    "Pacing",
    "Pi",
    "Random",
    "Released",
    "Resolving",
    "Threshold",
]
