"""The server: headgate decides in each round how much every client may admit, averages,
and keeps the accounts.
"""

from pathlib import Path

from headgate.analysis.report import conclude
from headgate.flower import recipe_server

recipe = str(Path(__file__).with_name("recipe.toml"))
app = recipe_server(
    recipe, finished=lambda folder: conclude([folder], folder)
)  # summary.json and report.html
