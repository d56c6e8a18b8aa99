"""The client: it admits samples as ordered into a store on disk, and trains on the
samples that it holds.
"""

from pathlib import Path

from headgate.flower import recipe_client

app = recipe_client(str(Path(__file__).with_name("recipe.toml")))
