"""The fork server: a process that has read the data once and forks a child for each chunk.

Started as `python -m headgate.simulation.forkserver FD`.

The command's own process has threads (the progress bar, polars) and cannot be forked safely; a fresh process for each
chunk would import torch, read the data and compile again. This one does that once, has one thread of its own, and its children
share its memory.

It is asked by lines of JSON on stdin and answers by lines on the descriptor it is given. At SIGINT, and at the end of its
parent, all children finish their round.
"""

import json
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from headgate.experiment import Experiment, build, load
from headgate.learning.datasets import Dataset
from headgate.records.reader import CONFIG
from headgate.records.writer import Checkpoint
from headgate.simulation.engine import Simulation
from headgate.simulation.run import examine, play_folder
from headgate.simulation.workers import Datasets, error_message, stop_requested

SIGNALS = {signal.SIGCHLD, signal.SIGINT}
LOOK = 0.5
"""seconds between looks whether the parent is still there"""


class ForkServer:
    """Answers its parent, and forks."""

    def __init__(self, answers: int) -> None:
        self.answers, self.parent = answers, os.getppid()
        self.datasets = Datasets()

    def serve(self) -> None:
        """Answer until nobody asks any more."""
        for line in sys.stdin:
            self.answer(**self.reply(json.loads(line)))

    def reply(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """SIGINT, which waits from the beginning, is heard while something is done: what it stops is always answered."""
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            try:
                if asked["do"] == "examine":
                    experiment = build("", asked["settings"])
                    dataset = self.datasets.of(experiment.data)
                    return {"facts": examine(experiment, dataset, asked["device"], asked["executor"])[0]}
                self.play([Path(folder) for folder in asked["folders"]], asked["device"], asked["processes"])
                return {"done": True}
            finally:
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        except (Exception, KeyboardInterrupt) as error:
            return {"error": error_message(error)}

    def answer(self, **content: Any) -> None:
        with suppress(BrokenPipeError):  # the parent may have been killed
            os.write(self.answers, json.dumps(content).encode() + b"\n")  # short, so that children's lines never mix

    def play(self, folders: Sequence[Path], device: str, processes: int) -> None:
        experiments = {folder: load(str(folder / CONFIG)) for folder in folders}
        chunks = [(folder, self.datasets.of(each.data)) for folder, each in experiments.items()]
        executors = {folder: Checkpoint(folder).fact("executor", str) for folder in folders}
        if set(executors.values()) - {"gram"}:
            import_module("headgate.simulation.nets")  # and with it torch, once for all children
        compiled = [each for folder, each in experiments.items() if executors[folder] == "compiled"]
        for each in {each.model.kind: each for each in compiled}.values():
            _compile(each, self.datasets.of(each.data))
        self.fork(chunks, device, processes)

    def fork(self, chunks: Sequence[tuple[Path, Dataset]], device: str, processes: int) -> None:
        """As many children at a time as asked for, until all chunks are played or one of them cannot be."""
        waiting, children, stopping = list(chunks), dict[int, Path](), False
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            while children or (waiting and not stopping):
                while waiting and not stopping and len(children) < processes:
                    folder, dataset = waiting.pop(0)
                    children[self.child(folder, dataset, device)] = folder
                woken = signal.sigtimedwait(SIGNALS, LOOK)
                ended, lost = _ended(children), os.getppid() != self.parent
                for pid, status in ended.items():
                    folder = children.pop(pid)
                    if not lost:
                        self.answer(folder=str(folder), status=status)
                asked_to = woken is not None and woken.si_signo == signal.SIGINT
                if not stopping and (lost or asked_to or any(ended.values())):
                    stopping = True
                    for pid in children:
                        os.kill(pid, signal.SIGINT)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def child(self, folder: Path, dataset: Dataset, device: str) -> int:
        pool = os.getpid()
        with warnings.catch_warnings():  # polars and its allocator have threads of their own: Python 3.12 and newer count them
            warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
            pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            with stop_requested() as stop:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
                code = self.played(folder, dataset, device, pool, stop)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)  # a child must never return into its parent's code

    def played(self, folder: Path, dataset: Dataset, device: str, parent: int, stop: Callable[[], bool]) -> int:
        """0 when played to the end, 1 when not; why not is answered."""
        try:
            play_folder(folder, None, dataset, device, tick=lambda done: None, stop=lambda: stop() or os.getppid() != parent)
            return 0
        except (Exception, KeyboardInterrupt) as error:
            self.answer(folder=str(folder), error=error_message(error))
            return 1


def _ended(children: Iterable[int]) -> dict[int, int]:
    """The exit code of each child that ended; of one that was killed, less than 0: the signal's number."""
    found = ((os.waitpid(pid, os.WNOHANG)) for pid in children)
    return {pid: os.waitstatus_to_exitcode(status) for pid, status in found if pid}


def _compile(experiment: Experiment, dataset: Dataset) -> None:
    """Have numba compile before the children do, each for itself: one step of one run, whose result nobody needs."""
    one = experiment.only(list(experiment.policies)[:1], experiment.seeds[:1])
    Simulation(one, dataset, "cpu", "compiled").step()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # its parent's word, also where Ctrl-C is ignored
    ForkServer(int(sys.argv[1])).serve()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # all is written and sent: taking torch and CUDA apart first would keep the parent waiting
