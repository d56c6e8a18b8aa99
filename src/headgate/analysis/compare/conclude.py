"""From finished runs to the page, the numbers and the figure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headgate.analysis.compare import page
from headgate.analysis.compare.figure import draw
from headgate.analysis.compare.scores import by_budget
from headgate.analysis.outcomes import Outcome, read_outcomes
from headgate.experiment import Experiment, load
from headgate.records.reader import RunFolder


@dataclass(frozen=True, eq=False)
class Comparison:
    outcomes: Sequence[Outcome]
    rows: list[dict[str, Any]]

    def show(self) -> None:
        from headgate.analysis.tables import print_comparison

        print_comparison(self.rows, page.places(self.outcomes))


def conclude(runs: Sequence[Path], folder: Path, name: str, command: str, quick: bool = False) -> Comparison:
    """Writes NAME.md, NAME.json and NAME.svg into `folder`."""
    outcomes = [one for run in runs for one in read_outcomes(run.parent, [run.name]).values()]
    by_budget(outcomes)  # refuses what cannot be compared before anything is written
    experiment, rows = load(str(runs[0] / "config.toml")), page.rows(outcomes)
    draw(outcomes, folder / f"{name}.svg")
    text = page.markdown(
        f"{name}: policies at equal spend", outcomes, command, f"{name}.svg", _setting(experiment), _made(runs)
    )
    (folder / f"{name}.md").write_text(text, encoding="utf-8")
    numbers = {"command": command, "quick": quick, "rows": rows}
    (folder / f"{name}.json").write_text(json.dumps(numbers, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return Comparison(outcomes, rows)


def _setting(e: Experiment) -> str:
    training, system = e.training, e.system
    helps = [f"the mean of the server's models is judged (η = {training.average:g})"] if training.average is not None else []
    helps += [f"images are moved by up to {training.shift} pixels a round"] if training.shift else []
    judged = "every round" if training.evaluate_every == 1 else f"every {training.evaluate_every} rounds"
    return (
        f"{e.data.kind}, {e.model.kind}, lr {training.lr:g}, momentum {training.momentum:g}, {training.steps} local steps; "
        f"{e.rounds} rounds, "
        f"{len(e.seeds)} seeds, accuracy taken {judged}; {system.clients} clients, buffers of {system.memory} samples in all"
        + "".join(f"; for all policies alike {each}" for each in helps)
        + "."
    )


def _made(runs: Sequence[Path]) -> str:
    """With which code and on what."""
    facts = [RunFolder.open(run).environment for run in runs]
    said = [sorted({str(fact[key]) for fact in facts if key in fact}) for key in ("device", "commit")]
    text = f", on {', '.join(said[0])}" if said[0] else ""
    return text + (f", with the code of commit {', '.join(said[1])}" if said[1] else "")
