"""Where numbers come from: the command, and the commits, dates, machines, time and memory of the runs behind them."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headgate import __version__
from headgate.analysis.formatting import DASH, duration
from headgate.analysis.markdown import table
from headgate.reading import read_object
from headgate.records.reader import RunFolder
from headgate.records.source import commit
from headgate.records.sums import read_sealed
from headgate.records.tables import shard_folders

UNRECORDED = "not recorded"


@dataclass(frozen=True)
class Machine:
    """What one run folder says about how it was played.

    Device memory is `peak_device_mib` of environment.json, or of a gpu.json beside it that came with the run.
    """

    batch: str
    device: str
    executor: str
    dtype: str
    commit: str
    date: str
    seconds: float
    """of computing, all parts together"""
    rounds: int
    models: int
    peak_device_mib: float | None

    @property
    def where(self) -> str:
        return f"{self.device}, {self.executor}, {self.dtype}"


def machine(run: RunFolder) -> Machine:
    beside = run.path / "gpu.json"
    said = (read_object(beside) if beside.is_file() else {}) | run.environment
    parts = [read_sealed(part / "state.json") for part in shard_folders(run.path)]
    seconds = _number(said.get("seconds")) or sum(_number(part.get("elapsed_s")) or 0.0 for part in parts)
    peak = said.get("peak_device_mib")
    return Machine(
        batch=run.name,
        device=str(said.get("device", "cpu")),
        executor=str(said.get("executor")),
        dtype=str(said.get("dtype")),
        commit=str(said.get("commit") or UNRECORDED),
        date=str(said.get("started", ""))[:10],
        seconds=round(seconds, 1),
        rounds=run.rounds,
        models=len(run.state["policies"]) * len(run.state["seeds"]),
        peak_device_mib=_number(peak),
    )


def _number(said: object) -> float | None:
    """As a folder tells it, which may be somebody else's."""
    return float(said) if isinstance(said, int | float) and not isinstance(said, bool) else None


def facts_of(command: str, machines: Sequence[Machine], quick: bool = False) -> dict[str, Any]:
    """Command, the runs' commits and dates, machines and computing time, and the commit the page was made from."""
    commits, dates = (sorted({getattr(each, key) for each in machines}) for key in ("commit", "date"))
    devices = list(dict.fromkeys(each.where for each in machines))
    return _facts(command, quick, commits, dates, devices, sum(each.seconds for each in machines))


def facts_of_now(command: str, took_s: float, quick: bool = False) -> dict[str, Any]:
    """The same for what was computed just now, on this machine."""
    return _facts(command, quick, [_this_code()], [time.strftime("%Y-%m-%d")], ["cpu"], took_s)


def _facts(
    command: str, quick: bool, commits: list[str], dates: list[str], devices: list[str], seconds: float
) -> dict[str, Any]:
    return {
        "command": command,
        "quick": quick,
        "page_commit": _this_code(),
        "commits": commits,
        "dates": dates,
        "devices": devices,
        "computing_s": round(seconds, 1),
    }


def _this_code() -> str:
    return commit() or f"headgate {__version__}"


def how_made(facts: dict[str, Any]) -> str:
    """Two sentences, and a warning where the runs are not all of one clean commit."""
    wall = f" ({duration(facts['elapsed_s'])} from start to end where they were made)" if facts.get("elapsed_s") else ""
    said = (
        f"Made by `{facts['command']}`. Runs: {runs_of(facts)}; {'; '.join(facts['devices'])}; "
        f"{duration(facts['computing_s'])} of computing in all{wall}. Page and verdicts: commit {facts['page_commit']}."
    )
    return with_doubts(said, facts)


def runs_of(facts: dict[str, Any]) -> str:
    commits, dates = facts["commits"], facts["dates"]
    days = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return f"commit{'s' if len(commits) > 1 else ''} {', '.join(commits)}, {days}"


def with_doubts(said: str, facts: dict[str, Any]) -> str:
    """
    >>> with_doubts("Made.", {"commits": ["abc"]}), with_doubts("Made.", {"commits": ["abc-dirty"]})
    ('Made.', 'Made. **Some runs were made with uncommitted changes.**')
    """
    commits: list[str] = facts["commits"]
    doubts = []
    if len({each.removesuffix("-dirty").removesuffix("+changes") for each in commits}) > 1:
        doubts.append("The runs come from different commits.")
    if any(each.endswith(("-dirty", "+changes")) for each in commits):
        doubts.append("Some runs were made with uncommitted changes.")
    if UNRECORDED in commits:
        doubts.append("Some runs do not say from which commit they are.")
    return f"{said} **{' '.join(doubts)}**" if doubts else said


def machine_table(machines: Sequence[Machine]) -> str:
    header = ["runs", "device, executor, arithmetic", "commit", "date", "models", "rounds", "computing", "a round and model"]
    lines = []
    for each in machines:
        per = 1000 * each.seconds / each.rounds / each.models
        counts = (str(each.models), str(each.rounds), f"{each.seconds:.0f} s", f"{per:.1f} ms")
        memory = DASH if each.peak_device_mib is None else f"{each.peak_device_mib:,.0f} MiB"
        lines.append([each.batch, each.where, each.commit, each.date, *counts, memory])
    return table([*header, "device memory, peak"], lines)
