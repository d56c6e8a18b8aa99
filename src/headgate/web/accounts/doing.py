"""What a request makes accounts do, once for each key."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from headgate.analysis.formatting import jsonable
from headgate.books.beginning import Opening, create
from headgate.books.books import Books, deliver, journal_of
from headgate.books.journal import OtherRequestError
from headgate.books.state import to_text
from headgate.errors import LedgerError, SettingError
from headgate.registry import POLICY, PRICES, Search, make
from headgate.web.accounts import answers, requests
from headgate.web.accounts.keeper import Keeper
from headgate.web.api import Json
from headgate.web.planning import check_values

SHIPPED = Search(trusted=())
"""a request names no code that is imported"""
DECISIONS = 2_000_000
"""the most clients times rounds of a forecast; 100 paths are simulated"""
AGAIN = "Idempotency-Replayed"
"""header of an answer that was given before"""


@dataclass(frozen=True)
class KeyedRequest:
    """A request that writes: its key, who makes it, and the digest of its content."""

    key: str
    by: str
    digest: str

    @classmethod
    def of(
        cls,
        request: Request,
        key: str,
        body: BaseModel,
    ) -> "KeyedRequest":
        """Return a request as it is compared with those before it."""
        content = [request.method, request.url.path, body.model_dump(mode="json")]
        digest = sha256(to_text(content).encode("utf-8", "backslashreplace"))
        return cls(key, request.state.holder.name, digest.hexdigest())


async def once(
    keeper: Keeper,
    name: str,
    asked: KeyedRequest,
    do: Callable[[Books], Any],
) -> Response:
    """Answer a request that writes: do it, or give the answer that it had."""
    made = False

    def run(books: Books) -> str:
        def act() -> str:
            nonlocal made
            made = True
            return json.dumps(jsonable(do(books)), ensure_ascii=False, allow_nan=False)

        return journal_of(books).once(asked.key, asked.digest, act, asked.by)

    text = await keeper.call(name, run, writes=True)
    headers = {} if made else {AGAIN: "true"}
    content = text.encode("utf-8", "replace")
    return Response(content, 200, headers, media_type="application/json")


async def begin_account(
    keeper: Keeper,
    asked: KeyedRequest,
    new: requests.NewAccount,
) -> Response:
    """Begin accounts; the same request may be made again."""

    def run() -> bool:
        check_values("policy", new.policy)
        policy = make(POLICY, new.policy, "policy", SHIPPED)
        given = new.system.made(), policy, new.seed, new.offences
        opening = Opening.checked(*given)
        place = keeper.shelf.of(new.name)
        return create(place, opening, asked.by, asked.key, asked.digest)

    async with keeper.beginning:
        made = await run_in_threadpool(run)

    def told(books: Books) -> answers.NewAccountAnswer:
        first = next(journal_of(books).tables.entries())
        if json.loads(first.body).get("digest") != asked.digest:
            raise LedgerError(
                f"name = {new.name}: has accounts already; choose another name"
            )
        if first.request != f"key {asked.key}":
            raise OtherRequestError(
                f"key = {asked.key}: is not that with which these accounts began"
            )
        return answers.NewAccountAnswer(new.name, books.name, first.at)

    found = await keeper.call(new.name, told)
    return Json(found, 201, {} if made else {AGAIN: "true"})


def begin(books: Books, new: requests.NewRound) -> answers.RoundAnswer:
    """Begin the next round, or return the one that is open."""
    given = {
        name: requests.by_client(books.system, getattr(new, name))
        for name in requests.NewRound.model_fields
    }
    purchases = books.begin(**given)
    found = answers.purchase_answers(purchases)
    t = journal_of(books).state.begun
    return answers.RoundAnswer(t, found, books.why)


def settle(
    books: Books,
    t: int,
    body: requests.NewSettlement,
) -> answers.Done:
    """Settle a round."""
    reports = requests.reported(books.system, body.reports)
    refused = requests.by_client(books.system, body.refused)
    books.settle(reports, refused, round=t)
    return answers.done(books)


def arrive(books: Books, body: requests.Arrival) -> answers.Done:
    """Take deliveries on orders of any rounds, also while a round is open."""
    reports = requests.reported(books.system, body.reports)
    deliver(books, reports, key=body.key)
    return answers.done(books)


def amend(books: Books, body: requests.NewTerms, by: str) -> answers.Done:
    """Change the terms."""
    changes = body.changes()
    if "leave" in changes:
        changes["leave"] = requests.client_of(books.system, changes["leave"])
    books.amend(by, body.why, body.key, **changes)
    return answers.done(books)


def adjust(books: Books, body: requests.Adjustment, by: str) -> answers.Done:
    """Take an invoice or a refund."""
    client = requests.client_of(books.system, body.client)
    books.adjust(body.round, client, body.amount, by, body.why, body.key)
    return answers.done(books)


def check(books: Books, body: requests.Check) -> answers.Checked:
    """Check a report, and write nothing."""
    client = requests.client_of(books.system, body.client)
    return answers.Checked(books.check(client, requests.delivered(body.report)))


def forecast(books: Books, body: requests.Outlook) -> answers.Forecast:
    """Forecast the remaining rounds."""
    check_values("prices", body.prices)
    prices = make(PRICES, body.prices, "prices", SHIPPED)
    system, settled = books.system, books.balance().rounds
    rounds = body.rounds or (system.horizon or settled) - settled
    if rounds * system.clients > DECISIONS:
        raise SettingError(
            f"rounds = {rounds}: times {system.clients} clients are more than"
            f" {DECISIONS:,}"
        )
    found = books.rest(prices, body.rounds)
    return answers.Forecast(**{name: list(each) for name, each in found.items()})
