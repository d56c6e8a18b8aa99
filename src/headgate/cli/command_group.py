"""Commands that belong together, as typer has them."""

from typing import Any

from click import exceptions
from typer.core import TyperGroup


class CommandGroup(TyperGroup):
    """What a wrong command may have meant is said once: where click says it, typer does not."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.suggest_commands = not hasattr(exceptions, "NoSuchCommand")
