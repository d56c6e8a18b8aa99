"""A federation in which anything happens, as a state machine: what is done to it, and
what is true afterwards.

Steps set what goes wrong with a client's next message, let clients leave, come back and
lose their memory, change the price, kill the server, lift quarantines, and play rounds.
The books must agree with the clients' own files after every round, to the last unit:
prices are whole numbers here, so sums are exact.
"""

import logging
import shutil
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import mkdtemp
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parent))

from grids import Node, ServerDied
from hostile import WRONG_REPORTS, WRONG_UPDATES, says_it_did_nothing, without
from hypothesis import HealthCheck, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from worlds import POLICIES, World, an_experiment, counting_app, same_ledgers, start

from headgate.flower.rounds import Discipline

ROUNDS, STEPS = 14, 40
CLIENTS = st.integers(0, 2)
ACCIDENTS = [
    "message lost",
    "message delayed",
    "message overtaken",
    "message twice",
    "reply lost",
    "reply twice",
    "broken",
]
LIES = {**WRONG_REPORTS, **WRONG_UPDATES}
NOTHING = "says it did nothing"
COUNTS: Counter[str] = Counter()
"""steps by kind, of all machines of this process"""


class Federation(RuleBasedStateMachine):
    """Three clients and a server."""

    @initialize(
        policy=st.sampled_from(sorted(POLICIES)),
        there=st.sets(CLIENTS, min_size=1),
        short=st.booleans(),
    )
    def begin(self, policy, there, short):
        self.policy, self.folder = policy, Path(mkdtemp())
        self.price = 2.0
        self.lies: dict[int, str] = {}
        self.liars, self.behind, self.forgetful = set(), set(), set()
        self.lied: dict[int, dict[int, str]] = {}
        self.gone: dict[int, Counter[int]] = {m: Counter() for m in range(3)}
        self.world = World(
            self.folder,
            an_experiment(policy, ROUNDS, budget=8.0),
            Discipline(gather=0.0, offences=2, norm_cap=1e6),
            limit=9 if short else None,
            prices=lambda t: self.price,
        )
        self.world.grid.tamper = self.tamper
        self.app = counting_app(
            self.folder / "stores", self.world.broken, 9 if short else None
        )
        self.everybody = dict(enumerate(self.world.grid.nodes.items()))
        self.world.grid.nodes = {
            node: one for m, (node, one) in self.everybody.items() if m in there
        }
        self.next_node, self.server = 200, None
        self.t = 0

    def teardown(self):
        if hasattr(self, "world"):
            try:
                self.settle_up()
            finally:
                self.stop()
                shutil.rmtree(self.folder)

    # what happens

    @rule(client=CLIENTS, kind=st.sampled_from(ACCIDENTS))
    def accident(self, client, kind):
        COUNTS[kind] += 1
        if kind == "broken":
            self.world.broken.add((self.t + 1, client))
        else:
            self.world.grid.faults[self.t + 1, client] = kind

    @rule(client=CLIENTS, kind=st.sampled_from([*LIES, NOTHING, NOTHING, NOTHING]))
    def forge(self, client, kind):
        COUNTS["forged"] += 1
        self.world.grid.faults[self.t + 1, client], self.lies[client] = (
            "reply changed",
            kind,
        )

    @rule(
        client=CLIENTS,
        how=st.sampled_from(
            ["leave", "come", "come as another node", "lose memory", "erase a sample"]
        ),
    )
    def move(self, client, how):
        COUNTS[how] += 1
        node, one = self.everybody[client]
        if how == "lose memory":
            self.lose_memory(client)
        elif how == "erase a sample":
            self.erase_a_sample(client)
        elif how == "come":
            self.world.grid.nodes[node] = one
        else:
            self.world.grid.nodes.pop(node, None)
        if how == "come as another node":
            self.next_node += 1
            self.everybody[client] = (self.next_node, Node(self.app, client))
            self.world.grid.nodes[self.next_node] = self.everybody[client][1]

    def lose_memory(self, client):
        store = self.world.store_of(client)
        if store.exists() and self.server is not None:
            with self.world.buffer(client) as buffer:
                self.gone[client].update(
                    {
                        one.round: one.admitted
                        for one in buffer.admissions(self.world.name())
                    }
                )
            for path in store.parent.glob(f"{store.name}*"):
                path.unlink()
            self.forgetful.add(client)

    def erase_a_sample(self, client):
        if self.server is not None:
            with self.world.buffer(client) as buffer:
                for sample in buffer.held(self.world.name())[:1]:
                    buffer.erase([sample.key])

    @rule(price=st.integers(1, 6))
    def change_price(self, price):
        COUNTS["change price"] += 1
        self.price = float(price)

    @rule(client=st.none() | CLIENTS)
    def restart(self, client):
        """The server starts anew, or goes on while somebody lifts a quarantine."""
        COUNTS["restart" if client is None else "lift"] += 1
        if client is None:
            self.stop()
        else:
            self.serve().accounts.journal.lift(client)

    @precondition(lambda self: self.t < ROUNDS)
    @rule(
        moment=st.sampled_from(["before sending", "after sending", "before settling"])
    )
    def crash(self, moment):
        COUNTS["crash"] += 1
        self.world.grid.server_dies = moment
        try:
            self.round()
        except ServerDied:
            self.stop()
        self.world.grid.server_dies = ""
        self.check()

    @precondition(lambda self: self.t < ROUNDS)
    @rule(rounds=st.integers(1, 3))
    def play(self, rounds):
        for _ in range(min(rounds, ROUNDS - self.t)):
            COUNTS["round"] += 1
            self.round()
            self.check()

    # how

    def serve(self):
        if self.server is None:
            self.server = self.world.strategy()
        return self.server

    def stop(self):
        if self.server is not None:
            self.server.close()
            self.server = None

    def round(self):
        def dies(t, arrays):
            if self.world.grid.server_dies == "before settling":
                raise ServerDied

        server = self.serve()
        self.lied[server.accounts.t + 1] = {}
        server.start(
            self.world.grid, start(), num_rounds=server.accounts.t + 1, evaluate_fn=dies
        )

    def tamper(self, reply):
        if reply.has_error():
            return reply
        client = reply.content["headgate"]["client"]
        kind = self.lies[client]
        self.liars.add(client)
        self.lied[self.server._now.t][client] = kind
        if kind == NOTHING:
            return says_it_did_nothing(
                self.server._now.known(client), self.server._now.expected(client, 0)
            )(reply)
        bare = kind in WRONG_UPDATES and "arrays" not in reply.content
        return without("headgate")(reply) if bare else LIES[kind][0](reply)

    # what is true

    def check(self):
        self.serve()
        with self.world.store() as store:
            rows, self.t = store.clients(), store.t
            self.behind |= store.state.quarantined
        lied = self.lied.get(self.t, {})
        for client, row in rows.items():
            assert client in self.liars or (row.offences, row.quarantined) == (
                0,
                False,
            ), "an honest client was blamed"
            if row.heard == self.t and client not in lied:
                self.behind.discard(client)
        self.behind |= {client for client, kind in lied.items() if kind == NOTHING}
        honest = not self.liars and not self.forgetful
        replayed = self.world.audit(
            self.behind, self.forgetful, self.gone, within_budget=honest
        )
        same_ledgers(self.server.ledger, replayed)

    def settle_up(self):
        """Everybody comes back, tells the truth and is forgiven: after one more round
        nothing is open, hidden or unpaid.
        """
        if self.t == ROUNDS:
            return
        self.world.grid.faults = {
            at: kind for at, kind in self.world.grid.faults.items() if at[0] <= self.t
        }
        self.world.broken -= {at for at in self.world.broken if at[0] > self.t}
        self.world.grid.server_dies = ""
        self.serve()
        for client in self.world.clients:
            self.move(client, "come")
            self.server.accounts.journal.lift(client)
        self.round()
        self.check()
        with self.world.store() as store:
            assert store.outstanding() == []
        assert not self.behind, "an honest answer was not believed"


def main(seconds=None, seed=0, steps=None):
    """Machines until the time or the steps are over; the numbers of steps by kind, and
    the seeds of those that failed.
    """
    COUNTS.clear()
    failures, machines, began = [], 0, time.monotonic()
    log = logging.getLogger("flwr")
    no_fsync = (
        patch("headgate.books.durable.SYNCHRONOUS", "OFF"),
        patch("os.fsync", lambda descriptor: None),
    )
    with (
        no_fsync[0],
        no_fsync[1],
        patch.object(log, "disabled", True),
    ):  # processes end here, machines do not
        while (seconds is None or time.monotonic() - began < seconds) and (
            steps is None or COUNTS.total() < steps
        ):
            one = seed + machines
            machines += 1
            try:
                run_state_machine_as_test(seeded(one)(Federation), settings=several(10))
            except Exception as error:
                failures.append(
                    {"seed": one, "error": f"{type(error).__name__}: {error}"[:2_000]}
                )
                if len(failures) == 5:
                    break
    return {"cases": dict(COUNTS), "failures": failures}


def several(examples):
    return settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


if __name__ == "__main__":
    found = main(float(sys.argv[1]))
    print(found)
    sys.exit(bool(found["failures"]))
