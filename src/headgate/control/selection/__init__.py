"""Which samples clients buy: of the unlabelled ones in a window of their streams, as many as were ordered."""

from headgate.control.selection.coreset import KCentre
from headgate.control.selection.entropy import ByEntropy
from headgate.control.selection.first import FirstCome
from headgate.control.selection.lot import ByLot
from headgate.control.selection.margin import ByMargin
from headgate.control.selection.rule import Offered, Selection
from headgate.control.selection.vessal import Vessal

KINDS: dict[str, type[Selection]] = {
    "first": FirstCome,
    "random": ByLot,
    "entropy": ByEntropy,
    "margin": ByMargin,
    "vessal": Vessal,
    "coreset": KCentre,
}
"""by their names in recipes"""
