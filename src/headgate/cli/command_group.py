"""Commands that belong together, as typer has them."""

import sys
from typing import Any

from typer.core import TyperGroup

CLICK = sys.modules[TyperGroup.__mro__[1].__module__]
"""what typer is built on: newer ones bring their own"""


class CommandGroup(TyperGroup):
    """Suggest once what a wrong command may have meant: where click does, typer does not."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.suggest_commands = not hasattr(CLICK, "NoSuchCommand")
