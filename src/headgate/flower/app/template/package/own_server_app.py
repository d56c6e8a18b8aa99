"""The server: headgate decides each round what every client may admit, averages, and keeps the accounts."""

from contextlib import closing
from pathlib import Path

from flwr.app import Array, ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from headgate.analysis.report import conclude
from headgate.flower import AdmissionStrategy, Discipline

from . import task

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    said = context.run_config
    recipe = str(Path(__file__).with_name("recipe.toml"))
    discipline = Discipline(deadline=float(said["deadline"]), quorum=int(said["quorum"]))
    with closing(AdmissionStrategy(recipe, str(said["out"]), discipline=discipline)) as strategy:
        start = ArrayRecord({name: Array(array) for name, array in task.start().items()})
        strategy.start(grid, start, evaluate_fn=evaluate)
    folder = Path(str(said["out"]))
    conclude([folder], folder)  # what `headgate run` leaves, too: summary.json and report.html


def evaluate(t: int, arrays: ArrayRecord) -> MetricRecord:
    return MetricRecord({**task.evaluate({name: array.numpy() for name, array in arrays.items()})})
