"""An hour of ten thousand clients on Flower: whether the server's memory stays as it
is, and its books agree in the end.

    python benchmarks/flower_soak.py [--clients 10000] [--minutes 60] [--seed 0] [--out
    FILE]

The server is the real one, with its ledger on disk. The clients are a grid in the same
process, at the level of messages: each keeps count of what it admitted and what it has
not been heard of. A round is a minute of a clock that nobody waits for. In every minute
some orders are lost on the way, some answers are lost on the way back, and a few
clients lie; five hundred are asked to train (logistic regression on 8x8 digits, 650
numbers). The memory of the process is read before every round; the slope is that of a
straight line through all but the first tenth.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from flower_grid import FIRST_NODE, experiment, grid_of, quiet_flower, zeros
from machine import (
    RESULTS,
    peak_memory_mib,
    resident_mib,
    rounded,
    say,
    target,
    way,
    write,
)

COHORT = 500
LOST, SILENT, LYING = 0.01, 0.02, 0.002
"""shares of the clients to whom an order does not come, whose answer does not come, and
who lie, in every round
"""
MOST_MIB = 32.0
"""growth in an hour that still counts as none"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS / "flower_soak.json")
    given = parser.parse_args()
    found = soak(given.clients, given.minutes, given.seed)
    minutes, held = np.arange(1, given.minutes + 1), np.array(found["mib"])
    settled = slice(given.minutes // 10, None)
    slope = (
        60 * float(np.polyfit(minutes[settled], held[settled], 1)[0])
        if given.minutes > 10
        else 0.0
    )
    one = way(
        f"{given.clients} clients",
        found["seconds"][1:],
        peak_memory_mib=rounded(peak_memory_mib()),
        mib_at_a_tenth=rounded(held[settled][0]),
        mib_at_the_end=rounded(held[-1]),
        mib_per_hour=rounded(slope),
        **found["books"],
    )
    case = {
        "name": "flower_soak",
        "title": (
            f"{given.minutes} minutes of {given.clients} clients, a round a minute"
        ),
        "columns": [
            "mib_at_a_tenth",
            "mib_at_the_end",
            "mib_per_hour",
            *found["books"],
        ],
        "ways": [one],
        "memory": {"minute": minutes.tolist(), "mib": [rounded(each) for each in held]},
    }
    asked = target(
        "memory gained in an hour of ten thousand clients",
        MOST_MIB,
        slope,
        unit="MiB",
        at_most=True,
    )
    shares = {"lost": LOST, "silent": SILENT, "lying": LYING, "cohort": COHORT}
    write(
        given.out,
        "flower_soak",
        {"policy": "headgate", "seed": given.seed, **shares},
        [case],
        [asked],
    )


def soak(clients: int, minutes: int, seed: int) -> dict[str, Any]:
    """Memory before and seconds since the last of each round, and what the books say in
    the end.
    """
    quiet_flower()
    from flwr.app import Array, ArrayRecord

    from headgate.flower.rounds import Discipline
    from headgate.flower.strategy import AdmissionStrategy

    model = zeros()
    grid = counting_grid(clients, minutes, seed, model)
    with tempfile.TemporaryDirectory() as folder:
        strategy = AdmissionStrategy(
            experiment(clients, minutes, training={"cohort": min(COHORT, clients)}),
            Path(folder) / "run",
            discipline=Discipline(gather=0.0),
        )
        strategy.start(
            grid, ArrayRecord({name: Array(array) for name, array in model.items()})
        )
        journal = strategy.accounts.journal
        admitted = strategy.ledger.admitted[0].tolist()
        events, unpaid = journal.events(), journal.state.beyond
        for one in journal.clients().values():
            if (
                not one.quarantined
                and one.heard == minutes
                and admitted[one.client] + unpaid.get(one.client, 0)
                != grid.position[one.client]
            ):
                sys.exit(
                    f"client {one.client} has admitted {grid.position[one.client]}"
                    f" samples, paid {admitted[one.client]}"
                )
        blamed = {
            event.client
            for event in events
            if event.kind in ("rejected", "quarantined")
        }
        if blamed - grid.liars:
            sys.exit(f"honest clients were blamed: {sorted(blamed - grid.liars)[:5]}")
        books = {
            "samples_paid": sum(admitted),
            "late_answers": sum(event.kind == "late" for event in events),
            "rejected_answers": sum(event.kind == "rejected" for event in events),
        }
        strategy.close()
    return {"mib": grid.mib, "seconds": grid.seconds, "books": books}


def counting_grid(clients: int, minutes: int, seed: int, model: dict[str, Any]) -> Any:
    """A grid whose clients keep count, and some of which are out of reach or lie."""
    from flwr.app import (
        Array,
        ArrayRecord,
        ConfigRecord,
        Message,
        MetricRecord,
        RecordDict,
    )

    from headgate.flower.messages import (
        RECORD,
        Identity,
        Order,
        Receipt,
        from_wire,
        to_wire,
    )

    trained = {name: Array(array + np.float32(1e-3)) for name, array in model.items()}

    class Counting(grid_of(clients)):
        def __init__(self) -> None:
            self.pick, self.liars = random.Random(seed), set[int]()
            self.position, self.first, self.uses = ([0] * clients for _ in range(3))
            self.unheard: list[list[tuple[int, int]]] = [[] for _ in range(clients)]
            self.mib: list[float] = []
            self.seconds: list[float] = []
            self.began = time.perf_counter()

        def get_node_ids(self) -> list[int]:
            self.minute_is_over()
            nodes: list[int] = super().get_node_ids()
            return nodes

        def minute_is_over(self) -> None:
            now = time.perf_counter()
            self.mib.append(resident_mib())
            self.seconds.append(now - self.began)
            self.began = now
            if len(self.mib) % 10 == 0:
                say(
                    f"minute {len(self.mib)}: {self.mib[-1]:.1f} MiB,"
                    f" {self.seconds[-1]:.2f} s a round"
                )

        def send_and_receive(
            self, messages: Any, *, timeout: float | None = None
        ) -> list[Message]:
            replies = []
            for message in messages:
                if message.metadata.message_type != "train":
                    content = RecordDict(
                        {
                            RECORD: ConfigRecord(
                                to_wire(
                                    Identity(message.metadata.dst_node_id - FIRST_NODE)
                                )
                            )
                        }
                    )
                    replies.append(Message(content, reply_to=message))
                elif (chance := self.pick.random()) >= LOST:
                    told = self.obey(
                        from_wire(Order, dict(message.content.config_records[RECORD]))
                    )
                    if chance >= LOST + SILENT:
                        replies.append(
                            Message(
                                self.reply(told, chance < LOST + SILENT + LYING),
                                reply_to=message,
                            )
                        )
            return replies

        def obey(self, order: Order) -> Receipt:
            m = order.client
            admitted = max(order.last - self.position[m], 0)
            self.unheard[m] = [
                one for one in self.unheard[m] if one[0] > order.acknowledged
            ] + [(order.round, admitted)]
            self.position[m] += admitted
            self.first[m] = max(
                self.first[m], order.kept_from, self.position[m] - order.limit
            )
            held = self.position[m] - self.first[m]
            rounds, counts = zip(*self.unheard[m], strict=True)
            trains = order.train and held > 0
            distinct = self.uses[m] = max(self.uses[m], held if trains else 0)
            return Receipt(
                order.experiment, order.round, m, rounds, counts, self.position[m],
                held, held, trains, 0, distinct, distinct, distinct, "",
            )  # fmt: skip

        def reply(self, told: Receipt, lies: bool) -> RecordDict:
            wire = to_wire(told)
            if lies:
                self.liars.add(told.client)
                wire["position"] += 1
            content = RecordDict({RECORD: ConfigRecord(wire)})
            if told.trained:
                content["arrays"], content["metrics"] = (
                    ArrayRecord(dict(trained)),
                    MetricRecord({"train_loss": 1.0}),
                )
            return content

    return Counting()


if __name__ == "__main__":
    main()
