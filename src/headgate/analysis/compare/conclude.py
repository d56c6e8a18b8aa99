"""From finished runs to the page, the numbers and the figure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType

from headgate.analysis.compare import page
from headgate.analysis.compare.figure import draw
from headgate.analysis.runs import Runs, read_finished
from headgate.analysis.shown import Shown
from headgate.analysis.tables import comparison_shown
from headgate.records.reader import RunFolder

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Shown):
    """Policies at equal spend, at each budget."""

    path: Path
    """the page"""
    runs: Sequence[Runs]
    rows: list[dict[str, Any]]
    """one for each budget and policy"""

    @property
    def frame(self) -> "pl.DataFrame":
        """The rows as a table."""
        import polars as pl

        return pl.DataFrame(self.rows, infer_schema_length=None)

    def shown(self) -> list[RenderableType]:
        return comparison_shown(self.rows, page.places(self.runs))


def conclude(runs: Sequence[Path], folder: Path, name: str, command: str, quick: bool = False) -> Comparison:
    """Writes NAME.md, NAME.json and NAME.svg into `folder`."""
    outcomes = [one for run in runs for one in read_finished([run])]
    rows = page.rows(outcomes)  # refuses what cannot be compared before anything is written
    draw(outcomes, folder / f"{name}.svg")
    text = page.markdown(
        f"{name}: policies at equal spend", outcomes, command, f"{name}.svg", _setting(RunFolder.open(runs[0])), _made(runs)
    )
    (folder / f"{name}.md").write_text(text, encoding="utf-8")
    numbers = {"command": command, "quick": quick, "rows": rows}
    (folder / f"{name}.json").write_text(json.dumps(numbers, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return Comparison(folder / f"{name}.md", outcomes, rows)


def _setting(run: RunFolder) -> str:
    """From the settings as recorded: what is not there had no say."""
    training, clients = run.config.get("training", {}), run.buffers
    average, shift, every = (training.get(key) for key in ("average", "shift", "evaluate_every"))
    helps = [f"the mean of the server's models is judged (η = {average:g})"] if average is not None else []
    helps += [f"images are moved by up to {shift} pixels a round"] if shift else []
    judged = "every round" if every in (None, 1) else f"every {every} rounds"
    said = [f"{name} {training[key]:g}" for key, name in (("lr", "lr"), ("momentum", "momentum")) if key in training]
    said += [f"{training['steps']} local steps"] if "steps" in training else []
    return (
        f"{run.kind('data')}, {run.kind('model')}, {', '.join(said)}; {run.rounds} rounds, {len(run.seeds)} seeds, "
        f"accuracy taken {judged}; {len(clients)} clients, buffers of {sum(clients)} samples in all"
        + "".join(f"; for all policies alike {each}" for each in helps)
        + "."
    )


def _made(runs: Sequence[Path]) -> str:
    """With which code and on what."""
    facts = [RunFolder.open(run).environment for run in runs]
    said = [sorted({str(fact[key]) for fact in facts if key in fact}) for key in ("device", "commit")]
    text = f", on {', '.join(said[0])}" if said[0] else ""
    return text + (f", with the code of commit {', '.join(said[1])}" if said[1] else "")
