"""What the server of a run on Flower takes as clients grow to ten thousand: time to order and to settle a round, and memory.

    python benchmarks/flower_server.py [--clients 100 1000 10000] [--rounds 6] [--repeat 3] [--out FILE]

Each size in a fresh process. The server is the real one, with its ledger on disk; the clients are a grid in the same process
that answers every order at once, without admitting or training anything, and is not timed. Ordering is from asking who is
there to the last message; settling is from the first answer to the round's being on disk, model included. In `updates` every
client answers with a model of its own (logistic regression on 8x8 digits, 650 numbers), which Flower hands over all at once;
in `no updates` nobody trains, so what is left is accounting. Times are of the processor, which others on the machine disturb
less; `clock` is that by the clock. The first round, in which every node is asked who it is, is shown by itself. Memory is the
peak less what was held before, answers included.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

from flower_grid import CLASSES, FEATURES, FIRST_NODE, experiment, grid_of, quiet_flower, zeros
from machine import RESULTS, command, peak_memory_mib, rounded, say, way, write

MODES = ("updates", "no updates")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS / "flower_server.json")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is not None:
        print(json.dumps(measured(int(given.child[0]), given.child[1], given.rounds)))
        return
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for turn in range(given.repeat):
        for mode in MODES:
            for clients in given.clients:
                say(f"{clients} clients, {mode}, turn {turn + 1} of {given.repeat}")
                found.setdefault((mode, clients), []).append(in_a_process_of_its_own(clients, mode, given.rounds))
    cases = [
        {
            "name": mode,
            "title": f"A round of the server, {mode}",
            "columns": ["order_ms", "settle_ms", "first_round_ms", "clock_ms"],
            "ways": [summed_up(clients, found[mode, clients]) for clients in given.clients],
        }
        for mode in MODES
    ]
    settings = {"policy": "headgate", "rounds": given.rounds, "repeat": given.repeat, "parameters": CLASSES * (FEATURES + 1)}
    write(given.out, "flower_server", settings, cases)


def in_a_process_of_its_own(clients: int, mode: str, rounds: int) -> dict[str, Any]:
    words = [sys.executable, __file__, "--child", str(clients), mode, "--rounds", str(rounds)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{command(words[1:])} failed:\n{done.stderr}")
    return dict(json.loads(done.stdout))


def summed_up(clients: int, results: list[dict[str, Any]]) -> dict[str, Any]:
    parts = {
        f"{name}_ms": rounded(1e3 * median(t for each in results for t in each[name])) for name in ("order", "settle", "clock")
    }
    return way(
        f"{clients} clients",
        [order + settle for each in results for order, settle in zip(each["order"], each["settle"], strict=True)],
        **parts,
        first_round_ms=rounded(1e3 * median(each["first"] for each in results)),
        peak_memory_mib=rounded(median(each["memory"] for each in results)),
    )


def measured(clients: int, mode: str, rounds: int) -> dict[str, Any]:
    """Seconds of ordering and settling every round after the first, and of the first, and the memory that it took."""
    quiet_flower()
    from flwr.app import Array, ArrayRecord

    from headgate.flower.rounds import Discipline
    from headgate.flower.strategy import AdmissionStrategy

    model = zeros()
    grid, before = answering_grid(clients, mode == "updates", model), peak_memory_mib()
    clock: dict[str, list[float]] = {"order": [], "settle": []}
    cpu: dict[str, list[float]] = {"order": [], "settle": []}

    def timed(name: str, function: Callable[..., Any], *args: Any) -> Any:
        start, began = time.perf_counter(), time.process_time()
        result = function(*args)
        clock[name].append(time.perf_counter() - start)
        cpu[name].append(time.process_time() - began)
        return result

    class Timed(AdmissionStrategy):
        def configure_train(self, *args: Any) -> Any:
            return timed("order", super().configure_train, *args)

        def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> Any:
            return timed("settle", super().aggregate_train, server_round, replies)

    with tempfile.TemporaryDirectory() as folder:
        strategy = Timed(experiment(clients, rounds), Path(folder) / "run", discipline=Discipline(gather=0.0))
        strategy.start(grid, ArrayRecord({name: Array(array) for name, array in model.items()}))
        if strategy.store.events() or strategy.store.outstanding():
            sys.exit(f"answers were refused: {strategy.store.events()[:3]}")
        strategy.close()
    both = [order + settle for order, settle in zip(clock["order"], clock["settle"], strict=True)]
    first = cpu["order"][0] + cpu["settle"][0]
    parts = {name: values[1:] for name, values in cpu.items()}
    return {"clock": both[1:], **parts, "first": first, "memory": peak_memory_mib() - before}


def answering_grid(clients: int, updates: bool, model: dict[str, Any]) -> Any:
    """A grid whose clients do as they are told, as far as the server can see."""
    import numpy as np
    from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

    from headgate.books.messages import RECORD, Identity, Order, Receipt, from_wire, to_wire

    class Answering(grid_of(clients)):
        def __init__(self) -> None:
            self.first = dict.fromkeys(range(clients), 0)

        def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> list[Message]:
            return [Message(self.answer(message), reply_to=message) for message in messages]

        def answer(self, message: Message) -> RecordDict:
            if message.metadata.message_type != "train":
                client = message.metadata.dst_node_id - FIRST_NODE
                return RecordDict({RECORD: ConfigRecord(to_wire(Identity(client)))})
            order = from_wire(Order, dict(message.content.config_records[RECORD]))
            self.first[order.client] = max(self.first[order.client], order.kept_from, order.last - order.limit)
            held = order.last - self.first[order.client]
            n = held if updates else 0
            told = Receipt(
                order.experiment, order.round, order.client, (order.round,), (order.last - order.known,), order.last,
                held, n, n > 0, 0, held, held, held, "",
            )  # fmt: skip
            content = RecordDict({RECORD: ConfigRecord(to_wire(told))})
            if n:
                arrays = {name: Array(array + np.float32(1e-3)) for name, array in model.items()}
                content["arrays"] = ArrayRecord(arrays)
                content["metrics"] = MetricRecord({"train_loss": 1.0})
            return content

    return Answering()


if __name__ == "__main__":
    main()
