"""A client: it admits what it is ordered to into a store that survives it, and trains on what it holds."""

from pathlib import Path

from headgate.flower import recipe_client

app = recipe_client(str(Path(__file__).with_name("recipe.toml")))
