"""What clients drop. A rule says who stays when a client is full; the controller keeps ages and counts uses."""

from headgate.control.retention.balancer import Balancer
from headgate.control.retention.cbrs import Cbrs
from headgate.control.retention.choosing import ClassBalanced, DynamicRatio, Reservoir, StaticRatio
from headgate.control.retention.gss import Gss
from headgate.control.retention.ode import Ode, coordinated
from headgate.control.retention.rule import Candidates, Capacity, Retention
from headgate.control.retention.windows import Fifo, KStep, WindowRule

KINDS: dict[str, type[Retention]] = {
    "fifo": Fifo,
    "kstep": KStep,
    "reservoir": Reservoir,
    "class-balanced": ClassBalanced,
    "static": StaticRatio,
    "dynamic": DynamicRatio,
    "cbrs": Cbrs,
    "gss": Gss,
    "balancer": Balancer,
    "ode": Ode,
}
"""by their names in recipes"""
