"""Label Studio as a queue: a project for each client, a task for each sample, with its
client, key and round in `meta`. Polls are the truth; a webhook only wakes them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from threading import Event
from typing import TYPE_CHECKING, Any

from headgate.control.checks import amount
from headgate.errors import DataError, require
from headgate.escaping import shown
from headgate.labels.nouns import (
    LABELLED,
    REJECTED,
    SKIPPED,
    WAITING,
    Keys,
    LabelAnswer,
    LabelTask,
    Queue,
)
from headgate.labels.prices import imported_httpx

if TYPE_CHECKING:
    from headgate.labels.bell import Bell
    from headgate.labels.studio import Project, Studio, StudioTask

DELETED = "its label was deleted in Label Studio"
CLIENT = attrgetter("client")
GONE = "its task was deleted in Label Studio"


@dataclass
class LabelStudio(Queue):
    """A queue in Label Studio. The token is in the environment variable
    LABEL_STUDIO_API_KEY.

    Parameters
    ----------
    url : str, default "http://127.0.0.1:8080"
        Address of Label Studio.
    interface : str
        File with the labelling interface, in Label Studio's XML, of projects that are
        made. It may use the fields of the tasks' data.
    prefix : str, default "headgate"
        What the name of a project begins with; the name of the client follows.
    timeout : float, default 60.0
        The most seconds until an answer begins.
    webhook : int, default 0
        Port of 127.0.0.1 on which Label Studio says that something has changed; 0:
        none.
    """

    url: str = "http://127.0.0.1:8080"
    interface: str = field(default="", metadata={"path": True})
    prefix: str = "headgate"
    timeout: float = 60.0
    webhook: int = 0

    def __post_init__(self) -> None:
        fits = self.url.startswith(("http://", "https://")) and "@" not in self.url
        require(fits, "url", self.url, "an http address without user and password")
        amount("timeout", self.timeout, least=1.0, most=3600.0)
        require(0 <= self.webhook < 2**16, "webhook", self.webhook, "a port, or 0")

    @cached_property
    def _studio(self) -> "Studio":
        imported_httpx()
        from headgate.labels.studio import Studio

        return Studio(self.url, self.timeout, self.prefix)

    @cached_property
    def _bell(self) -> "Bell":
        from headgate.labels.bell import Bell

        return Bell(self.webhook)

    def release(self, tasks: Sequence[LabelTask]) -> None:
        """Import the tasks that are not there yet."""
        projects = self._studio.projects()
        for client, own in groupby(sorted(tasks, key=CLIENT), CLIENT):
            project = projects.get(client) or self._studio.make(client, self.interface)
            there = self._studio.look(project).keys(client)
            new = [_imported(task) for task in own if task.key not in there]
            self._studio.put(project, new)

    def collect(self, known: Mapping[str, Mapping[str, str]]) -> Iterator[LabelAnswer]:
        """Yield what changed since the last call; the first yields everything."""
        projects = self._studio.projects() if known else {}
        for client, states in known.items():
            if client in projects:
                yield from self._answers(client, projects[client], states)
            elif states:
                raise DataError(
                    f"Label Studio has no project of {shown(client)} any more, where"
                    f" {len(states)} tasks were; restore it from a backup"
                )

    def _answers(
        self,
        client: str,
        project: "Project",
        states: Mapping[str, str],
    ) -> Iterator[LabelAnswer]:
        if self.webhook:
            self._studio.hook(project, self._bell)
        seen = self._studio.look(project)
        tasks = seen.keys(client)
        again = [row for rows in tasks.values() for row in rows[1:]]
        self._studio.delete(project, again)  # of an import that took too long
        for key in {**tasks, **states} if seen.all_new else seen.changed(tasks):
            answer = _answer(client, key, tasks.get(key, []), states.get(key, ""))
            if answer is not None:
                yield answer
        seen.told()

    def withdraw(self, keys: Keys) -> None:
        """Delete the tasks that nobody has labelled or skipped."""
        projects = self._studio.projects()
        for client in filter(projects.get, keys):
            tasks = self._studio.look(projects[client]).keys(client)
            rows = [row for key in keys[client] for row in tasks.get(key, [])]
            self._studio.delete(projects[client], rows)

    def wait(self, seconds: float, stop: Event) -> None:
        """Return after so many seconds, when a webhook rings, or if `stop` is set."""
        if self.webhook:
            self._bell.wait(seconds, stop)
        else:
            super().wait(seconds, stop)

    def close(self) -> None:
        """Close the connections, and the bell."""
        made = vars(self)
        for name in ("_studio", "_bell"):
            if name in made:
                made.pop(name).close()


def _imported(task: LabelTask) -> dict[str, Any]:
    """Return a task as Label Studio imports it."""
    meta = {"client": task.client, "key": task.key, "round": task.round}
    return {"data": dict(task.data), "meta": meta}


def _answer(
    client: str,
    key: str,
    rows: Sequence["StudioTask"],
    state: str,
) -> LabelAnswer | None:
    """Return what became of a task that has `state` so far; None: it waits."""
    annotations = [each for row in rows for each in row.annotations]
    labels = [each for each in annotations if not each.was_cancelled]
    if labels:
        first = min(labels, key=lambda each: each.id)
        label, extra = first.label, len(labels) - 1
        return LabelAnswer(client, key, LABELLED, label, extra=extra)
    if state == LABELLED:
        return LabelAnswer(client, key, REJECTED, why=DELETED if rows else GONE)
    if annotations:
        return LabelAnswer(client, key, SKIPPED, why="skipped in Label Studio")
    if state == WAITING and not rows:
        return LabelAnswer(client, key, SKIPPED, why=GONE)
    return None
