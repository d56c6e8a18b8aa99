"""`python -m studies`, from a checkout: what the studies are made with."""

import typer

from headgate.cli.command_group import CommandGroup
from headgate.cli.commands import play
from studies.commands import theory
from studies.commands.leaderboard import leaderboard
from studies.commands.reproduce import reproduce

app = typer.Typer(
    cls=CommandGroup, no_args_is_help=True, add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False
)


@app.callback()
def root() -> None:
    """What was measured with headgate: the paper and its claims, its theory, and other policies beside the paper's."""


app.command()(reproduce)
app.command()(leaderboard)
app.add_typer(theory.commands, name="theory")

if __name__ == "__main__":
    play(app)
