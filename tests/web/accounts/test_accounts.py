"""Accounts over HTTP: what `Books` does, done once for each key, by whom a token
names.
"""

import csv
import io
import json
import secrets
import stat

import polars as pl
import pytest

from headgate import Books, Delivery, System
from headgate.books.exact import exact
from headgate.books.statement import exported
from headgate.control.policies import Headgate

from ..served import Kept

BEGIN = {"price": 3.0}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    with Kept(tmp_path_factory.mktemp("kept") / "accounts") as one:
        yield one


def statement_of(kept, name):
    """Return the statement on disk, which another process reads at any time."""
    from headgate.books.statement import opened, statement

    with opened(kept.folder / name.strip("/")) as accounts:
        return statement(accounts)


def test_a_round_over_http_is_that_of_books(kept, tmp_path):
    a = kept.began("plain")
    system = System([8, 9, 10], budget=20.0, horizon=50)
    with Books(tmp_path / "beside", system, Headgate()) as beside:
        for t, price in enumerate((3.0, 9.5, 1.2, 4.0), 1):
            wanted = beside.begin(price, under_way=12, expires=2)
            got = kept.all.post(
                f"{a}/rounds", {"price": price, "under_way": 12, "expires": 2}
            ).json
            assert got["round"] == t
            assert got["why"] == beside.why
            assert [(each["client"], each["samples"]) for each in got["purchases"]] == [
                (each.client, each.samples) for each in wanted
            ]
            half = {each.client: each.samples // 2 for each in wanted}
            keys = {
                client: [f"{t}-{n}" for n in range(k)] for client, k in half.items()
            }
            own = {m: Delivery(k, keys[m]) for m, k in half.items()}
            told = {str(m): {"delivered": k, "keys": keys[m]} for m, k in half.items()}
            beside.settle(own if t < 4 else None)
            answer = kept.all.settle(a, t, {"reports": told} if t < 4 else {})
            assert answer.status == 200, answer.body
        mine, theirs = beside.statement(), statement_of(kept, a)
        assert [line._replace(time="") for line in mine.lines] == [
            line._replace(time="") for line in theirs.lines
        ]
        assert mine[3:7] == theirs[3:7]
        balance = kept.all.get(f"{a}/balance").json
        assert balance["left"] == f"{beside.balance().left.normalize():f}"
    assert kept.all.get(f"{a}/audit").json["agrees"] is True


def test_a_request_that_is_repeated_is_done_once_and_has_the_same_answer(kept):
    a = kept.began("again")
    first = kept.all.post(f"{a}/rounds", BEGIN, "k1")
    again = kept.all.post(f"{a}/rounds", BEGIN, "k1")
    assert again.body == first.body
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    settled = kept.all.settle(a, 1, {}, "k2")
    kept.all.post(f"{a}/rounds", BEGIN, "k3")
    assert kept.all.settle(a, 1, {}, "k2").body == settled.body
    assert kept.all.post(f"{a}/rounds", BEGIN, "k1").body == first.body
    change = {"money": 7.5, "why": "more"}
    amended = kept.all.post(f"{a}/amendments", change, "k4")
    assert kept.all.post(f"{a}/amendments", change, "k4").body == amended.body
    refund = {"round": 1, "client": 1, "amount": -1.25}
    refunded = kept.all.post(f"{a}/adjustments", refund, "k5")
    assert kept.all.post(f"{a}/adjustments", refund, "k5").body == refunded.body
    found = statement_of(kept, a)
    assert [each.change.money for each in found.amendments] == [7.5, 0.0]
    assert sum(line.adjusted for line in found.lines) == exact(-1.25)


@pytest.mark.parametrize(
    "other",
    [
        ("POST", "/rounds", {"price": 3.5}),
        ("POST", "/amendments", {"money": 1.0}),
        ("PUT", "/rounds/1/settlement", {}),
    ],
    ids=str,
)
def test_a_key_belongs_to_one_request(kept, other):
    a = kept.began(f"key-{other[1].split('/')[-1]}")
    assert kept.all.post(f"{a}/rounds", BEGIN, "k1").status == 200
    way, path, body = other
    refused = kept.all.ask(way, f"{a}{path}", body, "k1")
    assert refused.status == 422
    assert refused.json["setting"] == "key"
    assert refused.json["value"] == "k1"
    assert kept.all.get(f"{a}/events").json["next"] == 2


def test_accounts_begin_once(kept):
    new = {"name": "once", "system": {"buffer": {"x": 4, "y": 5}, "budget": 9.0}}
    first = kept.all.post("", new, "first")
    assert (first.status, kept.all.post("", new, "first").body) == (201, first.body)
    assert kept.all.post("", new, "other").status == 422
    other = {**new, "seed": 1}
    assert kept.all.post("", other, "first").status == 409
    assert kept.all.get("/once").json["clients"] == ["x", "y"]


def test_who_did_what_stands_in_the_ledger(kept):
    a = kept.began("signed")
    trainer = kept.with_token("trainer", "signed", "run")
    board = kept.with_token("board", "signed", "amend")
    trainer.post(f"{a}/rounds", BEGIN)
    trainer.settle(a, 1)
    board.post(f"{a}/amendments", {"money": 5.0, "why": "second order"})
    events = board.get(f"{a}/events").json["events"]
    assert [(each["kind"], each["by"]) for each in events] == [
        ("opened", "first"),
        ("begun", "trainer"),
        ("settled", "trainer"),
        ("amended", "board"),
    ]
    (found,) = board.get(f"{a}/amendments").json["amendments"]
    assert (found["by"], found["why"], found["change"]) == (
        "board",
        "second order",
        {"money": 5.0},
    )


def test_deliveries_settle_nothing_and_are_taken_while_a_round_is_open(kept):
    a = kept.began("later")
    queue = kept.with_token("queue", "later", "deliver")
    kept.all.post(f"{a}/rounds", BEGIN)
    kept.all.settle(a, 1, {"reports": {"0": 3}})
    kept.all.post(f"{a}/rounds", {"price": 2.0})
    late = {"0": {"delivered": 2, "keys": ["a", "b"], "round": 1}}
    own = {"1": [{"delivered": 1, "round": 1}, {"delivered": 1, "round": 2}]}
    assert queue.post(f"{a}/deliveries", {"reports": late | own}).status == 200
    assert queue.get(a).json["open"] == 2
    (order,) = [
        each
        for each in queue.get(f"{a}/orders").json["orders"]
        if (each["round"], each["client"]) == (1, 0)
    ]
    assert (order["delivered"], order["under_way"]) == (5, 3)
    assert kept.all.settle(a, 2, {"reports": {}}).status == 200
    twice = queue.post(f"{a}/deliveries", {"reports": late})
    assert (twice.status, "was delivered in round 1" in twice.json["detail"]) == (
        409,
        True,
    )
    assert queue.get(f"{a}/audit").status == 200


def test_a_statement_comes_in_pages_and_as_files(kept):
    a = kept.began("paged")
    for t in range(1, 5):
        kept.all.post(f"{a}/rounds", BEGIN)
        kept.all.settle(a, t)
    lines, after = [], ""
    while after is not None:
        page = kept.all.get(f"{a}/statement?limit=2&after={after}").json
        assert len(page["lines"]) <= 2
        lines += page["lines"]
        after = page["next"]
    found = statement_of(kept, a)
    assert [(line["round"], line["client"], line["asked"]) for line in lines] == [
        (line.round, line.client, line.asked) for line in found.lines
    ]
    table = kept.all.get(f"{a}/statement/csv")
    assert table.body == exported(found, "csv")
    rows = list(csv.DictReader(io.StringIO(table.body.decode())))
    assert sum(float(row["paid"]) for row in rows) == float(found.spent)
    frame = pl.read_parquet(kept.all.get(f"{a}/statement/parquet").body)
    assert frame["paid"].sum() == float(found.spent)
    nothing = kept.all.get(f"{a}/statement/csv?until=2001-01-01")
    assert nothing.body.count(b"\n") == 1


def test_rounds_and_events_come_by_cursor(kept):
    a = kept.began("cursor")
    for t in range(1, 4):
        kept.all.post(f"{a}/rounds", {"price": float(t)})
        kept.all.settle(a, t)
    first = kept.all.get(f"{a}/rounds?limit=2").json
    second = kept.all.get(f"{a}/rounds?limit=2&after={first['next']}").json
    rounds = first["rounds"] + second["rounds"]
    assert [each["price"] for each in rounds] == [[1.0], [2.0], [3.0]]
    assert second["next"] is None
    page = kept.all.get(f"{a}/events?limit=3").json
    rest = kept.all.get(f"{a}/events?after={page['next']}").json
    numbers = [each["number"] for each in page["events"] + rest["events"]]
    assert numbers == list(range(1, 8))


def test_a_stream_sends_what_happens_and_goes_on_where_it_was(kept):
    import http.client

    a = kept.began("stream")
    connection = http.client.HTTPConnection("127.0.0.1", kept.served.port, timeout=60)
    sent = {"Authorization": f"Bearer {kept.token}", "Last-Event-ID": "0"}
    connection.request("GET", f"/api/accounts{a}/events/stream", headers=sent)
    answer = connection.getresponse()
    assert answer.headers["content-type"].startswith("text/event-stream")

    def event():
        line = next(line for line in answer if line.startswith(b"data: "))
        return json.loads(line[6:])["kind"]

    assert event() == "opened"
    kept.all.post(f"{a}/rounds", BEGIN)
    assert event() == "begun"
    kept.all.settle(a, 1)
    assert event() == "settled"
    connection.close()


def test_a_forecast_and_a_check_write_nothing(kept):
    a = kept.began("look")
    kept.all.post(f"{a}/rounds", BEGIN)
    prices = {"kind": "uniform", "low": 1.0, "high": 10.0}
    seen = kept.all.post(f"{a}/forecast", {"prices": prices, "rounds": 5}).json
    assert seen["spend"][1] <= seen["spend"][0] <= seen["spend"][2]
    assert kept.all.post(f"{a}/check", {"client": 0, "report": 8}).json == {"held": 8}
    refused = kept.all.post(
        f"{a}/check", {"client": 0, "report": {"delivered": 1, "keys": ["a", "b"]}}
    )
    assert refused.status == 409
    assert kept.all.get(f"{a}/events").json["next"] == 2


@pytest.mark.parametrize(
    ("path", "body", "status", "setting", "value"),
    [
        ("/rounds", {"price": -1.0}, 400, "price", "'-1.0'"),
        ("/rounds", {"price": [1.0, 2.0]}, 422, "begin: price", "[1.0, 2.0]"),
        ("/rounds", {"price": 1.0, "present": [7]}, 422, "begin: present[0]", "7"),
        ("/rounds", {"price": 1.0, "spare": 1}, 400, "spare", "'1'"),
        ("/rounds", {"price": True}, 400, "price", "'True'"),
        ("/amendments", {"leave": 9}, 422, "amend: leave", "9"),
        (
            "/forecast",
            {"prices": {"kind": "os:system"}},
            422,
            "prices.kind",
            "os:system",
        ),
        (
            "/forecast",
            {"prices": {"kind": "trace", "file": "/etc/passwd"}},
            422,
            None,
            None,
        ),
    ],
)
def test_a_refusal_names_the_setting_and_its_value(
    kept, path, body, status, setting, value
):
    a = "/refusing"
    if "refusing" not in kept.service.shelf.names():
        kept.began("refusing")
    answer = kept.all.post(f"{a}{path}", body)
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json
    assert (answer.status, told["status"]) == (status, status)
    assert (told["setting"], told["value"]) == (setting, value), told
    assert "\n" not in told["detail"]
    assert kept.all.get(f"{a}/events").json["next"] == 1


def test_accounts_that_books_made_are_served_and_go_on_in_books(kept):
    folder = kept.folder / "local"
    system = System([4, 5], budget=12.0, horizon=9)
    with Books(folder, system, Headgate(fill=2.0), seed=3) as books:
        books.begin(2.0)
        books.settle()
    kept.all.post("/local/rounds", {"price": 2.5})
    kept.all.settle("/local", 2)
    with Books(folder) as books:  # the service leads only while it writes
        assert books.balance().rounds == 2
        refused = kept.all.post("/local/rounds", {"price": 2.5})
        assert refused.status == 423
        assert "read only here" in refused.json["detail"]


def test_a_ledger_names_no_code_that_is_run(kept, tmp_path):
    folder = kept.folder / "foreign"
    system = System([4, 5], budget=12.0, horizon=9)
    from headgate.testing import check_policy  # a module with a policy of nobody

    assert check_policy
    from studies.zoo.released import Released

    with Books(folder, system, Released(K=3.0)) as books:
        books.begin(2.0)
    answer = kept.all.get("/foreign")
    assert answer.status == 422
    assert "is code from outside headgate that is not trusted" in answer.json["detail"]


def test_tokens_are_kept_as_hashes_for_their_owner_alone(kept):
    path = kept.folder / "tokens.json"
    assert kept.token not in path.read_text("utf-8")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_accounts_in_postgresql_are_served_like_those_in_a_folder(database, tmp_path):
    address = f"{database}"
    with Kept(tmp_path, address=address, tokens=tmp_path / "tokens.json") as kept:
        name = f"served-{secrets.token_hex(4)}"
        a = kept.began(name)
        first = kept.all.post(f"{a}/rounds", BEGIN, "k1")
        assert kept.all.post(f"{a}/rounds", BEGIN, "k1").body == first.body
        assert kept.all.settle(a, 1).status == 200
        assert name in kept.all.get("?limit=1000").json["accounts"]
        assert kept.all.get("/nobody").status == 404
        assert kept.all.get(f"{a}/audit").json["agrees"] is True
        lines = kept.all.get(f"{a}/statement").json["lines"]
    with Books(f"{address}/{name}") as books:
        assert len(books.statement().lines) == len(lines) == 3
