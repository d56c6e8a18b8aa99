"""The server: headgate decides each round what every client may admit, averages, and keeps the accounts."""

from pathlib import Path

from headgate.flower import recipe_server

app = recipe_server(str(Path(__file__).with_name("recipe.toml")))
