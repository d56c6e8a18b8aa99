"""`Books` at a service is `Books`: the same calls with the same results, and a request
that is sent again counts once.
"""

import json
import socket
import threading
import time
from contextlib import closing, contextmanager
from datetime import timedelta

import numpy as np
import pytest

from headgate import Books, Delivery, System
from headgate.books import remote
from headgate.books.statement import exported
from headgate.control.policies import Constant, Headgate
from headgate.control.prices import Uniform
from headgate.errors import DataError, LedgerError, SettingError

from ..served import Kept

NAMED = System({"a": 8, "b": 9, "c": 10}, budget=20.0, horizon=30, quantum=0.01)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    with Kept(tmp_path_factory.mktemp("remote") / "accounts") as one:
        yield one


def address(kept, name):
    return f"http://127.0.0.1:{kept.served.port}/accounts/{name}"


def at_service(kept, name, system=NAMED, policy=None):
    policy = policy or Headgate(fill=6.0)
    return Books(address(kept, name), system, policy, token=kept.token)


def played(books):
    """Play rounds with all that can happen, and return what the calls returned."""
    seen = [books.begin(3.0, when="2026-11-01")]
    books.settle({"a": 3, "b": Delivery(1, ["b1"], cancelled=1)})
    books.amend(money=12.5, why="more", key="order 2")
    books.amend(money=12.5, why="more", key="order 2")
    seen.append(
        books.begin(
            {"a": 2.0, "b": np.float64(2.5), "c": 3},
            present=["a", "b"],
            under_way=9,
            expires=timedelta(days=3),
            when="2026-11-02",
        )
    )
    seen.append(books.begin(9.0))
    seen.append(books.check("a", 1))
    books.settle({"a": [1, Delivery(2, round=1)], "b": 1}, {"c": "nothing"}, round=2)
    books.settle({"a": [1, Delivery(2, round=1)], "b": 1}, {"c": "nothing"}, round=2)
    books.settle({"c": Delivery(2, ["c1", "c2"], round=1)}, key="queue")
    books.settle({"c": Delivery(2, ["c1", "c2"], round=1)}, key="queue")
    books.settle({"b": Delivery(rejected={"b1": "blurred"}, round=1)})
    books.adjust(1, "c", -0.5, why="returned")
    seen.append(books.begin(np.array([1.0, 2.0, 1.5]), most=5, in_all=9, lot=2))
    seen += [books.why, books.balance(), books.under_way(), books.rounds_left]
    seen += [books.order(1, "c"), books.order(29, "c"), books.quarantined]
    seen.append(books.rest(Uniform(1.0, 10.0), 6))
    books.settle()
    seen += [books.ledger.t, books.ledger.spent.tolist(), books.system.horizon]
    return seen


def without_times(seen):
    return [each._replace(at="") if hasattr(each, "at") else each for each in seen]


def test_calls_and_statement_are_those_of_a_folder(kept, tmp_path):
    policy = Headgate(fill=6.0)
    with (
        Books(tmp_path, NAMED, policy) as local,
        at_service(kept, "same", policy=policy) as books,
    ):
        assert without_times(played(books)) == without_times(played(local))
        mine, theirs = local.audit(), books.audit()
        assert [line._replace(time="") for line in theirs.lines] == [
            line._replace(time="") for line in mine.lines
        ]
        assert theirs.sentence == mine.sentence
        assert theirs[3:7] == mine[3:7]
        assert len(books.statement(until="2026-11-02").lines) == 3
        assert len(exported(theirs, "csv").splitlines()) > 6
        assert str(books).splitlines()[0] == str(local).splitlines()[0]


def test_numbers_name_clients_that_have_no_names(kept):
    with at_service(kept, "numbers", System([4, 5, 6], budget=9.0)) as books:
        books.begin([1.0, 2.0, 1.5], present={0, 2})
        books.settle({0: 2, np.int64(2): 1})
        assert books.order(1, 0).delivered == 2
        assert books.under_way().keys() <= {0, 2}


def test_accounts_that_are_there_are_opened_by_their_address(kept, monkeypatch):
    monkeypatch.setenv("HEADGATE_TOKEN", kept.token)
    with at_service(kept, "there") as books:
        first = books.begin(3.0)
    with Books(address(kept, "there")) as again:
        assert again.begin(7.0) == first
    with pytest.raises(LedgerError, match=r"was opened with budget = 20\.0"):
        at_service(kept, "there", System({"a": 8, "b": 9, "c": 10}, budget=21.0))


def test_errors_are_those_of_a_folder(kept):
    with at_service(kept, "wrong") as books:
        with pytest.raises(SettingError, match="settle: no round was begun"):
            books.settle()
        books.begin(3.0)
        with pytest.raises(LedgerError, match="2 keys for 1 samples"):
            books.settle({"a": Delivery(1, ["x", "y"])})
        books.settle({"a": 1})
        with pytest.raises(SettingError, match=r"present\[0\] = .*: is no client"):
            books.begin(3.0, present=["nobody"])
        with pytest.raises(SettingError, match="amend: by = anna"):
            books.amend(by="anna", money=3.0)
        with pytest.raises(SettingError, match="on the machine of the service"):
            books.backup("copy.sqlite")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("https://host/other/clinic", "must be like https://host/accounts/name"),
        ("https://user:secret@host/accounts/clinic", "must be like"),
        ("http://example.org/accounts/clinic", "would send the token unencrypted"),
    ],
)
def test_addresses_that_are_none(given, says):
    with pytest.raises(SettingError, match=says):
        Books(given, token="hg_secret")


def test_a_token_is_needed_and_never_shown(kept, monkeypatch):
    monkeypatch.delenv("HEADGATE_TOKEN", raising=False)
    with pytest.raises(SettingError, match="pass it, or set HEADGATE_TOKEN"):
        Books(address(kept, "same"))
    with pytest.raises(DataError) as error:
        Books(address(kept, "same"), token="hg_not-a-token")
    assert "hg_not-a-token" not in str(error.value)
    with pytest.raises(SettingError, match="is for accounts at https://"):
        Books("folder", NAMED, Headgate(), token="hg_a")


def test_a_policy_of_ones_own_stays_at_home(kept):
    class Own(Constant):
        """A policy that no recipe can name."""

    with pytest.raises(SettingError, match="policies that a recipe can name"):
        at_service(kept, "own", policy=Own(K=2.0, rate=1.0))


class Cutting:
    """A server in between that passes requests on, and cuts answers off."""

    def __init__(self, port):
        self.port, self.cuts, self.seen = port, [], 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.own = self._listening.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                mine, _ = self._listening.accept()
            except OSError:
                return
            with closing(mine):
                self._pass_on(mine)

    def _pass_on(self, mine):
        mine.settimeout(20)
        asked = b""
        while b"\r\n\r\n" not in asked:
            asked += mine.recv(65536)
        head, _, body = asked.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        length = next(
            (int(x.split(":")[1]) for x in lines if x.lower().startswith("content-le")),
            0,
        )
        while len(body) < length:
            body += mine.recv(65536)
        kept_lines = [x for x in lines if not x.lower().startswith("connection")]
        head = "\r\n".join([*kept_lines, "Connection: close"]).encode()
        with socket.create_connection(("127.0.0.1", self.port)) as theirs:
            theirs.sendall(head + b"\r\n\r\n" + body)
            answer = b""
            while piece := theirs.recv(65536):
                answer += piece
        self.seen += 1
        if self.cuts:
            share = self.cuts.pop(0)
            mine.sendall(answer[: int(share * len(answer))])
            return
        mine.sendall(answer)


@contextmanager
def cutting(kept):
    between = Cutting(kept.served.port)
    yield between
    between._listening.close()


def test_an_answer_that_is_cut_off_is_asked_for_again_and_nothing_is_done_twice(kept):
    with cutting(kept) as between:
        where = f"http://127.0.0.1:{between.own}/accounts/cut"
        with Books(where, NAMED, Headgate(fill=6.0), token=kept.token) as books:
            between.cuts = [0.0, 0.3, 0.9, 0.99]
            bought = books.begin(3.0)
            assert between.cuts == []
            between.cuts = [0.5, 0.0]
            books.settle({"a": 2}, round=1)
            between.cuts = [0.97]
            books.amend(money=5.0)
            between.cuts = [0.4]
            books.adjust(1, "a", -1.0)
            found = books.audit()
    assert sum(each.samples for each in bought) == sum(x.asked for x in found.lines)
    assert [each.change.money for each in found.amendments] == [5.0, 0.0]
    assert sum(line.adjusted for line in found.lines) == -1


def test_a_service_that_is_away_is_waited_for(tmp_path):
    with Kept(tmp_path / "accounts") as kept:
        books = at_service(kept, "away")
        port, token = kept.served.port, kept.token
    done = []

    def begin():
        done.append(books.begin(3.0))

    waiting = threading.Thread(target=begin)
    waiting.start()
    time.sleep(0.4)
    assert done == []
    again = Kept(tmp_path / "accounts", port=port)
    assert again.token is None
    again.token = token
    with again:
        waiting.join(60)
        assert [each.client for each in done[0]] == ["a", "b", "c"]
        books.close()


def test_what_does_not_answer_is_said(monkeypatch):
    monkeypatch.setattr(remote, "PATIENCE", 0.3)
    with closing(socket.create_server(("127.0.0.1", 0))) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(DataError, match=r"does not answer \(ConnectError\)"):
        Books(f"http://127.0.0.1:{port}/accounts/none", token="hg_a")


def test_an_answer_that_is_not_ours_is_refused(monkeypatch):
    monkeypatch.setattr(remote, "PATIENCE", 0.3)
    with closing(socket.create_server(("127.0.0.1", 0))) as other:

        def answer():
            mine, _ = other.accept()
            mine.recv(65536)
            text = json.dumps([1])[:-1]
            mine.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{text}".encode())
            mine.close()

        threading.Thread(target=answer, daemon=True).start()
        port = other.getsockname()[1]
        with pytest.raises(DataError, match="is this a headgate service"):
            Books(f"http://127.0.0.1:{port}/accounts/none", token="hg_a")
