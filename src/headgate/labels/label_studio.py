"""Label Studio as a queue: a project for each client, a task for each sample, with its
client, key and round in `meta`. Polls are the truth; a webhook only wakes them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from pathlib import Path
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
from headgate.reading import read_text

if TYPE_CHECKING:
    from headgate.labels.bell import Bell
    from headgate.labels.studio import Project, Row, Studio

DELETED = "its label was deleted in Label Studio"
GONE = "its task was deleted in Label Studio"
LONGEST = 50
"""the most characters that Label Studio takes as the name of a project"""


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

        return Studio(self.url, self.timeout)

    @cached_property
    def _bell(self) -> "Bell":
        from headgate.labels.bell import Bell

        return Bell(self.webhook)

    def release(self, tasks: Sequence[LabelTask]) -> None:
        """Import the tasks that are not there yet."""
        projects = self._studio.projects(self.prefix)
        by_client = sorted(tasks, key=_client)
        for client, own in groupby(by_client, _client):
            project = projects.get(self._title(client)) or self._made(client)
            there = self._studio.look(project).keys(client)
            new = [_imported(task) for task in own if task.key not in there]
            self._studio.put(project, new)

    def _title(self, client: str) -> str:
        title = f"{self.prefix}: {client}"
        most = f"with the client {client} at most {LONGEST} characters, as projects are"
        require(len(title) <= LONGEST, "prefix", self.prefix, most)
        return title

    def _made(self, client: str) -> "Project":
        require(bool(self.interface), "interface", "", "the labelling interface's file")
        text = read_text(Path(self.interface))
        return self._studio.make(self._title(client), text)

    def collect(self, known: Mapping[str, Mapping[str, str]]) -> Iterator[LabelAnswer]:
        """Yield what changed since the last call; the first yields everything."""
        projects = self._studio.projects(self.prefix) if known else {}
        for client, states in known.items():
            title = self._title(client)
            if title in projects:
                yield from self._answers(client, projects[title], states)
            elif states:
                raise DataError(
                    f"Label Studio has no project {shown(title)} any more, where"
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
        self._studio.delete(project, _twice(tasks))
        changed = seen.changed
        keys: Iterable[str] = {**tasks, **states}
        if changed is not None:
            keys = [key for key, own in tasks.items() if changed & {r.id for r in own}]
        for key in keys:
            answer = _answer(client, key, tasks.get(key, []), states.get(key, ""))
            if answer is not None:
                yield answer
        seen.told()

    def withdraw(self, keys: Keys) -> None:
        """Delete the tasks that nobody has labelled or skipped."""
        projects = self._studio.projects(self.prefix)
        for client, own in keys.items():
            project = projects.get(self._title(client))
            if project is not None:
                tasks = self._studio.look(project).keys(client)
                rows = [row for key in own for row in tasks.get(key, [])]
                empty = [row.id for row in rows if not row.annotations]
                self._studio.delete(project, empty)

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


def _client(task: LabelTask) -> str:
    return task.client


def _imported(task: LabelTask) -> dict[str, Any]:
    """Return a task as Label Studio imports it."""
    meta = {"client": task.client, "key": task.key, "round": task.round}
    return {"data": dict(task.data), "meta": meta}


def _twice(tasks: Mapping[str, Sequence["Row"]]) -> list[int]:
    """Return the tasks without a label whose key has an earlier task: an import that
    took too long was done nevertheless, and repeated.
    """
    later = [row for rows in tasks.values() for row in rows[1:]]
    return [row.id for row in later if not row.annotations]


def _answer(
    client: str,
    key: str,
    rows: Sequence["Row"],
    state: str,
) -> LabelAnswer | None:
    """Return what became of a task that has `state` so far; None: it waits."""
    annotations = [each for row in rows for each in row.annotations]
    labels = [each for each in annotations if not each.was_cancelled]
    if labels:
        first = min(labels, key=lambda each: each.id)
        label, extra = _label(first.result), len(labels) - 1
        return LabelAnswer(client, key, LABELLED, label, extra=extra)
    if state == LABELLED:
        return LabelAnswer(client, key, REJECTED, why=DELETED if rows else GONE)
    if annotations:
        return LabelAnswer(client, key, SKIPPED, why="skipped in Label Studio")
    if state == WAITING and not rows:
        return LabelAnswer(client, key, SKIPPED, why=GONE)
    return None


def _label(result: list[Any]) -> Any:
    """Return the plain value if one was given, as of one choice; else everything.

    >>> _label([{"type": "choices", "value": {"choices": ["cat"]}}])
    'cat'
    >>> _label([{"type": "number", "value": {"number": 3}}])
    3
    >>> len(_label([{"type": "choices", "value": {"choices": ["cat"]}}] * 2))
    2
    """
    value = (
        result[0].get("value")
        if len(result) == 1 and isinstance(result[0], dict)
        else None
    )
    if not isinstance(value, dict) or len(value) != 1:
        return result
    (only,) = value.values()
    return only[0] if isinstance(only, list) and len(only) == 1 else only
