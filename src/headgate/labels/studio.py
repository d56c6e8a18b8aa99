"""The calls of Label Studio that a queue needs, and what is known of its projects.

A look at a project reads the tasks that changed since the look before, by the server's
clock, and all of them if the numbers of tasks and labels say that some went unseen.
"""

import json
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from headgate.errors import DataError, require
from headgate.labels.bell import HEADER, HOST, Bell
from headgate.labels.calls import Calls, Unauthorized
from headgate.labels.nouns import Later
from headgate.reading import read_text

T = TypeVar("T")
TOKEN = "LABEL_STUDIO_API_KEY"
"""the environment variable of the token, as Label Studio's own library calls it"""
LONGEST = 50
"""the most characters of the name of a project"""
PAGE = 1_000
"""tasks in one call"""
PROJECTS = 100
"""projects in one call, the most that Label Studio lists"""
OVERLAP = timedelta(minutes=1)
"""time before the last look from which is read again: what was written then may have
been committed later
"""
Counts = tuple[int, int, int]
"""numbers of tasks, labels and skips"""
STATED = "id,title,task_number,total_annotations_number,skipped_annotations_number"
EVENTS = ["ANNOTATION_CREATED", "ANNOTATION_UPDATED", "ANNOTATIONS_DELETED"]


class Annotation(BaseModel):
    """A label, or a skip if it was cancelled."""

    id: int
    was_cancelled: bool
    result: list[Any]

    @property
    def label(self) -> Any:
        """The plain value if one was given, as of one choice; else everything.

        >>> region = {"type": "choices", "value": {"choices": ["cat"]}}
        >>> Annotation(id=1, was_cancelled=False, result=[region]).label
        'cat'
        >>> len(Annotation(id=1, was_cancelled=False, result=[region] * 2).label)
        2
        """
        match self.result:
            case [{"value": dict(value)}] if len(value) == 1:
                (only,) = value.values()
                return only[0] if isinstance(only, list) and len(only) == 1 else only
        return self.result


class StudioTask(BaseModel):
    """A task in Label Studio."""

    id: int
    meta: Any = None
    annotations: list[Annotation]

    def key(self, client: str) -> str | None:
        """Return the key of the sample, if the task is one of the client's."""
        if not isinstance(self.meta, dict) or self.meta.get("client") != client:
            return None
        key = self.meta.get("key")
        return key if isinstance(key, str) else None


class TaskPage(BaseModel):
    """A page of tasks; `total` counts those of this and all later pages."""

    total: int
    tasks: list[StudioTask]


class Project(BaseModel):
    """A project, and how much is in it."""

    id: int
    title: str
    task_number: int | None = 0
    total_annotations_number: int | None = 0
    skipped_annotations_number: int | None = 0

    @property
    def counts(self) -> Counts:
        """How many tasks, labels and skips it says it has."""
        labels, skips = self.total_annotations_number, self.skipped_annotations_number
        return self.task_number or 0, labels or 0, skips or 0


class ProjectPage(BaseModel):
    """A page of projects; `count` is the number of all."""

    count: int
    results: list[Project]


class Hook(BaseModel):
    """A webhook."""

    id: int
    url: str


@dataclass
class Seen:
    """What was seen of a project."""

    rows: dict[int, StudioTask] = field(default_factory=dict)
    """all tasks by their numbers"""
    new: set[int] = field(default_factory=set)
    """tasks that the latest look read"""
    all_new: bool = True
    """whether all tasks were read since answers were taken"""
    since: str = ""
    """time of the last look whose answers were taken"""
    until: str = ""
    """time of the latest look"""

    def keys(self, client: str) -> dict[str, list[StudioTask]]:
        """Return the client's tasks by key, in the order in which they were made."""
        found = defaultdict(list)
        for _, row in sorted(self.rows.items()):
            key = row.key(client)
            if key is not None:
                found[key].append(row)
        return dict(found)

    def changed(self, tasks: Mapping[str, Sequence[StudioTask]]) -> list[str]:
        """Return the keys of tasks that the latest look read."""
        return [
            key
            for key, rows in tasks.items()
            if any(row.id in self.new for row in rows)
        ]

    def told(self) -> None:
        """The answers were taken: the next look begins where the latest one began."""
        self.since, self.all_new = self.until, False

    @property
    def counts(self) -> Counts:
        """How many tasks, labels and skips were seen."""
        rows = self.rows.values()
        skips = [each.was_cancelled for row in rows for each in row.annotations]
        return len(rows), len(skips) - sum(skips), sum(skips)


class Studio:
    """Label Studio at an address; `Calls` describes the parameters."""

    def __init__(
        self,
        url: str,
        timeout: float,
        prefix: str,
    ) -> None:
        self._prefix, self._begins = prefix, f"{prefix}: "
        self.calls = Calls("Label Studio", url, timeout, TOKEN)
        self._seen: dict[int, Seen] = {}
        self._hooked: set[int] = set()
        self._refreshes = self.calls.token.count(".") == 2
        if not self._refreshes:
            self.calls.authorization = f"Token {self.calls.token}"

    def close(self) -> None:
        """Close the connections."""
        self.calls.close()

    def call(
        self,
        kind: type[T],
        method: str,
        path: str,
        body: Any = None,
        **query: str | int,
    ) -> T:
        """Return the answer of one call. A personal access token is exchanged for one
        of some minutes, a token of the older kind is sent as it is.
        """
        try:
            return self.calls(kind, method, path, body, **query)
        except Unauthorized:
            if not self._refreshes:
                raise
        self.calls.authorization = ""
        token = {"refresh": self.calls.token}
        found = self.calls(dict[str, str], "POST", "/api/token/refresh", token)
        self.calls.authorization = f"Bearer {found.get('access')}"
        return self.calls(kind, method, path, body, **query)

    def projects(self) -> dict[str, Project]:
        """Return our projects by client; of several, the first that was made."""
        found: list[Project] = []
        page, count = 1, 1
        while len(found) < count:
            answer = self.call(
                ProjectPage,
                "GET",
                "/api/projects",
                title=self._prefix,
                include=STATED,
                page_size=PROJECTS,
                page=page,
            )
            page, count = page + 1, answer.count if answer.results else 0
            found += answer.results
        found.sort(key=lambda project: project.id, reverse=True)
        return {
            each.title.removeprefix(self._begins): each
            for each in found
            if each.title.startswith(self._begins)
        }

    def make(self, client: str, interface: str) -> Project:
        """Make a project in which a task needs one label and a skipped one stays so."""
        title = self._begins + client
        most = f"at most {LONGEST} characters, with prefix a project's name"
        require(len(title) <= LONGEST, "client", client, most)
        require(bool(interface), "interface", "", "the labelling interface's file")
        body = {
            "title": title,
            "label_config": read_text(Path(interface)),
            "maximum_annotations": 1,
            "skip_queue": "IGNORE_SKIPPED",
        }
        return self.call(Project, "POST", "/api/projects", body)

    def look(self, project: Project) -> Seen:
        """Read what changed in a project since its answers were taken; Later if there
        is less than the project says, so that nothing passes for deleted that is not.
        """
        seen = self._seen.setdefault(project.id, Seen())
        changed = self._read(project, seen.since)
        seen.new, seen.rows = set(changed), seen.rows | changed
        if not seen.since or _fewer(project.counts, seen.counts):
            seen.all_new = True
            seen.rows = self._read(project) if seen.since else changed
        if seen.all_new and _fewer(seen.counts, project.counts):
            raise Later(
                f"Label Studio gives {seen.counts} tasks, labels and skips of project"
                f" {project.id}, and counts {project.counts}"
            )
        return seen

    def _read(self, project: Project, since: str = "") -> dict[int, StudioTask]:
        """Return the tasks that changed since then. Pages follow the tasks' numbers: a
        task that is deleted meanwhile moves no other one to a page that was read.
        """
        found: dict[int, StudioTask] = {}
        last, more = 0, True
        while more:
            wanted = [_where("id", "greater", "Number", last)]
            if since:
                wanted.append(_where("updated_at", "greater", "Datetime", since))
            asked = {"filters": _all(wanted), "ordering": ["tasks:id"]}
            page = self.call(
                TaskPage,
                "GET",
                "/api/tasks",
                project=project.id,
                fields="all",
                resolve_uri="false",
                page_size=PAGE,
                query=json.dumps(asked),
            )
            if not last:
                self._seen[project.id].until = self._before()
            found |= {row.id: row for row in page.tasks}
            before, last = last, max(found, default=0)
            more = page.total > len(page.tasks) and last > before
        return found

    def _before(self) -> str:
        """Return the server's time, less the overlap; nothing if it tells none."""
        try:
            now = parsedate_to_datetime(self.calls.date or "").astimezone(UTC)
        except ValueError:
            return ""
        return (now - OVERLAP).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def put(self, project: Project, tasks: Sequence[dict[str, Any]]) -> None:
        """Import tasks."""
        path = f"/api/projects/{project.id}/import"
        for start in range(0, len(tasks), PAGE):
            self.call(Any, "POST", path, tasks[start : start + PAGE])

    def delete(self, project: Project, rows: Sequence[StudioTask]) -> None:
        """Delete those of the tasks that nobody has labelled or skipped by then."""
        tasks = sorted(row.id for row in rows if not row.annotations)
        if not tasks:
            return
        counts = ("total_annotations", "cancelled_annotations")
        body = {
            "selectedItems": {"all": False, "included": tasks},
            "filters": _all([_where(name, "equal", "Number", 0) for name in counts]),
        }
        action = f"/api/dm/actions?id=delete_tasks&project={project.id}"
        self.call(Any, "POST", action, body)
        for number in tasks:
            self._seen[project.id].rows.pop(number, None)

    def hook(self, project: Project, bell: Bell) -> None:
        """Have the bell rung when something changes in a project. Where Label Studio
        refuses that, one line says so, and polls go on as without a bell.
        """
        if project.id in self._hooked:
            return
        try:
            self._hang(project, bell)
        except DataError as error:
            logging.getLogger(__name__).warning(
                "no webhook, so that only polls tell of new labels: %s", error
            )
        self._hooked.add(project.id)

    def _hang(self, project: Project, bell: Bell) -> None:
        """Make the webhook of a project, or change the one that is there."""
        url = f"http://{HOST}:{bell.port}/"
        hooks = self.call(list[Hook], "GET", "/api/webhooks/", project=project.id)
        body = {
            "project": project.id,
            "url": url,
            "headers": {HEADER: bell.secret},
            "send_payload": False,
            "send_for_all_actions": False,
            "actions": EVENTS,
        }
        there = [hook.id for hook in hooks if hook.url == url]
        if there:
            self.call(Any, "PATCH", f"/api/webhooks/{there[0]}/", body)
        else:
            self.call(Any, "POST", "/api/webhooks/", body)


def _where(
    name: str,
    operator: str,
    kind: str,
    value: object,
) -> dict[str, object]:
    """Return a filter of tasks as Label Studio's data manager takes it."""
    return {
        "filter": f"filter:tasks:{name}",
        "operator": operator,
        "type": kind,
        "value": value,
    }


def _all(filters: Sequence[dict[str, object]]) -> dict[str, object]:
    return {"conjunction": "and", "items": filters}


def _fewer(there: Counts, wanted: Counts) -> bool:
    """Return whether there is less of anything than wanted."""
    return any(one < other for one, other in zip(there, wanted, strict=True))
