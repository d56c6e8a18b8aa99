"""The server: headgate decides each round what every client may admit, averages, and keeps the accounts."""

from pathlib import Path

from headgate.flower import recipe_server


def finished(folder: Path) -> None:
    """What `headgate run` leaves, too: summary.json and report.html."""
    from headgate.analysis.conclude import conclude

    conclude([folder], folder)


app = recipe_server(str(Path(__file__).with_name("recipe.toml")), finished=finished)
