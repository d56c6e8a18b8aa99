"""The nouns of a label queue: task, answer, and the queue itself."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from threading import Event
from typing import Any, Literal, NamedTuple

from headgate.errors import HeadgateError

Keys = Mapping[str, Collection[str]]
"""keys of tasks by client"""
Fate = Literal["labelled", "skipped", "rejected"]
"""what became of a task: it has a label; the labellers will not label it; or it had a
label, which is given back
"""
LABELLED: Fate = "labelled"
SKIPPED: Fate = "skipped"
REJECTED: Fate = "rejected"
WAITING = "waiting"
"""the state of a task that has no answer yet"""


class Later(HeadgateError):
    """The error of a queue that does not answer now, as a server that is down. What was
    asked is asked again later, and nothing is lost by it.
    """

    exit_code = 4


class LabelTask(NamedTuple):
    """A sample that is to be labelled.

    Parameters
    ----------
    client : str
        Name of the client that buys the label.
    key : str
        Key of the sample, unique among all samples of the client. No other task ever
        has the same client and key.
    round : int
        Round of the order that pays for the label.
    data : mapping of str to JSON
        What the people who label see, such as a text or the address of an image.

    Examples
    --------
    >>> task = LabelTask("clinic-a", "scan-17", 3, {"text": "shadow, left lung"})
    >>> task.place
    ('clinic-a', 'scan-17')
    """

    client: str
    key: str
    round: int
    data: Mapping[str, Any]

    @property
    def place(self) -> tuple[str, str]:
        """Client and key, which identify the task in every queue."""
        return self.client, self.key


class LabelAnswer(NamedTuple):
    """What the queue knows about a task that was released.

    Parameters
    ----------
    client, key : str
        The task.
    state : str
        "labelled", "skipped" (nobody will label it; its money is free again) or
        "rejected" (it was labelled, and the label is given back and refunded).
    label : JSON, optional
        The label, if the state is "labelled": any value that JSON can hold.
    why : str
        Reason for which it was skipped or rejected, in one line.
    extra : int
        Number of labels that the queue has for this task beyond the first one. They
        are counted and not paid for.

    Examples
    --------
    >>> LabelAnswer("clinic-a", "scan-17", "labelled", "tumour").label
    'tumour'
    """

    client: str
    key: str
    state: Fate
    label: Any = None
    why: str = ""
    extra: int = 0


class Queue(ABC):
    """A place where people label tasks. Three methods make one: `release`, `collect`
    and `withdraw`.

    A queue is a data class: its fields are the settings in section `[queue]` of the
    gate's file. Each of the three methods may be called again with the same arguments
    after a kill, and then changes nothing more. Each raises `Later` if the queue cannot
    be reached; what it did until then holds.

    Examples
    --------
    A queue in which everything is labelled at once:

    >>> from dataclasses import dataclass, field
    >>> @dataclass
    ... class AtOnce(Queue):
    ...     label: str = "cat"
    ...     tasks: dict = field(default_factory=dict, metadata={"setting": False})
    ...
    ...     def release(self, tasks):
    ...         self.tasks |= {task.place: task for task in tasks}
    ...
    ...     def collect(self, known):
    ...         return [
    ...             LabelAnswer(*place, "labelled", self.label) for place in self.tasks
    ...         ]
    ...
    ...     def withdraw(self, keys):
    ...         for client, own in keys.items():
    ...             for key in own:
    ...                 self.tasks.pop((client, key), None)
    >>> queue = AtOnce()
    >>> queue.release([LabelTask("clinic-a", "scan-17", 1, {"text": "shadow"})])
    >>> [(answer.key, answer.label) for answer in queue.collect({})]
    [('scan-17', 'cat')]
    """

    @abstractmethod
    def release(self, tasks: Sequence[LabelTask]) -> None:
        """Offer tasks to the people who label. A task that was released already, by its
        client and key, is not released a second time.

        Parameters
        ----------
        tasks : sequence of LabelTask
            The tasks: those of one order, of several, or of several clients.

        Raises
        ------
        Later
            If the queue cannot be reached. Some of the tasks may be released already;
            all of them are released again later.
        """

    @abstractmethod
    def collect(self, known: Mapping[str, Mapping[str, str]]) -> Iterable[LabelAnswer]:
        """Return what became of the tasks that were released.

        The first call after the start returns the whole truth; later ones may leave out
        what they returned already. An answer that is returned again does no harm, nor
        does one on a task that is not known. A task without an answer is waiting.

        Parameters
        ----------
        known : mapping of str to mapping of str to str
            State of every task that was released and whose state may still change, by
            client and by key: "waiting", "labelled", "skipped" or "withdrawn". A queue
            in which labels can vanish finds with it that a label was rejected: the task
            is "labelled" here and has no label there. It may leave out answers that say
            only what is known.

        Returns
        -------
        iterable of LabelAnswer
            The answers, read one by one.

        Raises
        ------
        Later
            If the queue cannot be reached; the answers before it count.
        """

    @abstractmethod
    def withdraw(self, keys: Keys) -> None:
        """Take back tasks whose order has expired or was cancelled, if nobody has
        labelled them; a label that comes for one of them nevertheless is an answer like
        all others, and is not paid for.

        Parameters
        ----------
        keys : mapping of str to collection of str
            Keys of the tasks by client. What the queue does not have is left out.

        Raises
        ------
        Later
            If the queue cannot be reached.
        """

    def wait(self, seconds: float, stop: Event) -> None:
        """Return after so many seconds, or earlier if there may be new answers, as a
        webhook says, or if `stop` is set. By default only `stop` ends it early.

        Parameters
        ----------
        seconds : float
            The longest time to wait.
        stop : threading.Event
            Set when the gate is to end.
        """
        stop.wait(seconds)

    def close(self) -> None:  # noqa: B027  # most queues hold nothing open
        """Close what the queue holds open, such as connections; by default nothing."""
