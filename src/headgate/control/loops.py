"""What takes the time of a round of very many clients, so that somebody else may do it quicker, to the same outcome."""

from collections.abc import Callable
from typing import NamedTuple

from headgate.control.apportion import apportion
from headgate.control.renewed import Renew, renewed
from headgate.control.types import Ints
from headgate.field_docs import fields_in_help


@fields_in_help
class Loops(NamedTuple):
    """With numpy alone, unless others are given."""

    apportion: Callable[[Ints, Ints, Ints, Ints | None], tuple[Ints, Ints]] = apportion
    """whole samples per client, and its credit after that"""
    renewed: Renew = renewed
    """since when each place of a window is taken"""
