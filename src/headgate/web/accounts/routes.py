"""The routes of accounts. Each says which role it needs; what writes needs a key."""

from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Path, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from headgate.books.books import Books, journal_of
from headgate.books.statement import exported
from headgate.errors import SettingError
from headgate.web.accounts import answers, doing, requests
from headgate.web.accounts.doing import KeyedRequest, once
from headgate.web.accounts.events import MOST_STREAMS, stream
from headgate.web.accounts.gate import API, Forbidden, check_role, needs
from headgate.web.accounts.keeper import Busy, Keeper, UnknownAccount
from headgate.web.accounts.tokens import EVERY, NAME, Holder
from headgate.web.api import Json, refusals

MOST_EXPORTED = 200_000
"""the most orders of accounts whose statement is sent as one file"""
KINDS = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet"}
Name = Annotated[
    str,
    Path(
        description="name of the accounts",
        pattern=f"^{NAME.pattern}$",
        examples=["clinic"],
    ),
]
RoundPath = Annotated[
    int,
    Path(
        description="the round",
        ge=1,
        le=requests.ROUNDS,
        examples=[1],
    ),
]
Key = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        description=(
            "a name of your own for this request; with the same key and the same"
            " content it is done once, and gets the same answer"
        ),
        min_length=1,
        max_length=requests.TEXT,
        pattern="^[!-~]+$",
        examples=["6f1c2a"],
    ),
]
Limit = Annotated[int, Query(ge=1, le=1000, description="most rows of a page")]
After = Annotated[
    str, Query(max_length=64, description="`next` of the page before; empty: the first")
]
Since = Annotated[
    int,
    Query(
        ge=0,
        le=2**53,
        description="only what comes after this entry of the ledger",
    ),
]
Date = Annotated[str | None, Query(max_length=40, description="ISO date, or time")]
MEANINGS: dict[int, str] = {
    400: "the request has no meaning",
    401: "the token is missing or wrong",
    403: "the role of the token does not allow this",
    404: "there are no such accounts, or the token is for others",
    409: "this contradicts the ledger; nothing was written",
    413: "the body is too large, or does not say how long it is",
    422: "what was asked cannot be met; nothing was written",
    423: "another process runs rounds of these accounts, which are read only here",
    429: "too many requests; Retry-After says when to come again",
    503: "the accounts cannot be reached now; the same request may be made again",
}


def account_routes(keeper: Keeper) -> APIRouter:
    """Return the routes for the accounts of a keeper."""
    router = APIRouter(
        prefix=API,
        tags=["accounts"],
        responses=refusals(MEANINGS),
        dependencies=[Depends(check_role)],
    )
    _add_list(router, keeper)
    _add_rounds(router, keeper)
    _add_terms(router, keeper)
    _add_views(router, keeper)
    _add_events(router, keeper)
    return router


def _add_list(router: APIRouter, keeper: Keeper) -> None:
    @router.get("", response_model=answers.AccountList, openapi_extra=needs("read"))
    async def accounts(
        request: Request,
        after: After = "",
        limit: Limit = 100,
    ) -> Response:
        """Return the names of the accounts that the token is for."""
        holder: Holder = request.state.holder
        names = await run_in_threadpool(keeper.shelf.names)
        own = [name for name in names if name > after and holder.enters(name)]
        more = own[limit - 1] if len(own) > limit else None
        return Json(answers.AccountList(own[:limit], more))

    @router.post(
        "",
        response_model=answers.NewAccountAnswer,
        status_code=201,
        openapi_extra=needs("amend"),
    )
    async def create(
        request: Request,
        key: Key,
        new: requests.NewAccount,
    ) -> Response:
        """Begin accounts. This needs a token for all accounts."""
        if request.state.holder.account != EVERY:
            raise Forbidden("account = *: a token for all accounts begins new ones")
        return await doing.begin_account(
            keeper, KeyedRequest.of(request, key, new), new
        )

    @router.get(
        "/{name}", response_model=answers.AccountDetail, openapi_extra=needs("read")
    )
    async def account(request: Request, name: Name) -> Response:
        """Return the terms of the accounts, and how far they have come."""
        found = await keeper.call(name, lambda books: answers.detail(name, books))
        return Json(replace(found, role=request.state.holder.role))


def _add_rounds(router: APIRouter, keeper: Keeper) -> None:
    @router.post(
        "/{name}/rounds", response_model=answers.RoundAnswer, openapi_extra=needs("run")
    )
    async def begin(
        request: Request,
        name: Name,
        key: Key,
        new: requests.NewRound,
    ) -> Response:
        """Begin the next round, and return who buys how much. A round that was begun
        and not settled is repeated with its recorded price and purchases.
        """
        asked = KeyedRequest.of(request, key, new)
        return await once(keeper, name, asked, lambda books: doing.begin(books, new))

    @router.get(
        "/{name}/rounds", response_model=answers.OfferList, openapi_extra=needs("read")
    )
    async def rounds(
        name: Name,
        after: Since = 0,
        limit: Limit = 100,
    ) -> Response:
        """Return the prices and the supply of the rounds that were begun."""

        def told(books: Books) -> answers.OfferList:
            return answers.offers(journal_of(books), after, limit)

        return Json(await keeper.call(name, told))

    @router.put(
        "/{name}/rounds/{round}/settlement",
        response_model=answers.Done,
        openapi_extra=needs("run"),
    )
    async def settle(
        request: Request,
        name: Name,
        round: RoundPath,
        key: Key,
        body: requests.NewSettlement,
    ) -> Response:
        """Settle a round with what arrived. What is reported neither as delivered nor
        as cancelled stays under way.
        """
        asked = KeyedRequest.of(request, key, body)
        return await once(
            keeper, name, asked, lambda books: doing.settle(books, round, body)
        )

    @router.post(
        "/{name}/deliveries",
        response_model=answers.Done,
        openapi_extra=needs("deliver"),
    )
    async def deliver(
        request: Request,
        name: Name,
        key: Key,
        body: requests.Arrival,
    ) -> Response:
        """Report what arrived on orders of any rounds, without settling one."""
        asked = KeyedRequest.of(request, key, body)
        return await once(keeper, name, asked, lambda books: doing.arrive(books, body))

    @router.post(
        "/{name}/check", response_model=answers.Checked, openapi_extra=needs("deliver")
    )
    async def check(name: Name, body: requests.Check) -> Response:
        """Check a report in the open round. Nothing is written."""
        return Json(await keeper.call(name, lambda books: doing.check(books, body)))


def _add_terms(router: APIRouter, keeper: Keeper) -> None:
    @router.post(
        "/{name}/amendments", response_model=answers.Done, openapi_extra=needs("amend")
    )
    async def amend(
        request: Request,
        name: Name,
        key: Key,
        body: requests.NewTerms,
    ) -> Response:
        """Change the terms from the next round on: money, horizon, clients."""
        asked = KeyedRequest.of(request, key, body)
        return await once(
            keeper, name, asked, lambda books: doing.amend(books, body, asked.by)
        )

    @router.get(
        "/{name}/amendments",
        response_model=answers.AmendmentList,
        openapi_extra=needs("read"),
    )
    async def amendments(name: Name) -> Response:
        """Return all amendments and adjustments, with who made them and why."""
        return Json(await keeper.call(name, answers.amendment_list))

    @router.post(
        "/{name}/adjustments", response_model=answers.Done, openapi_extra=needs("amend")
    )
    async def adjust(
        request: Request,
        name: Name,
        key: Key,
        body: requests.Adjustment,
    ) -> Response:
        """Adjust the cost of an order to its invoice; below 0 it is a refund."""
        asked = KeyedRequest.of(request, key, body)
        return await once(
            keeper, name, asked, lambda books: doing.adjust(books, body, asked.by)
        )

    @router.post(
        "/{name}/forecast", response_model=answers.Forecast, openapi_extra=needs("read")
    )
    async def forecast(name: Name, body: requests.Outlook) -> Response:
        """Forecast the remaining rounds: money spent, samples, money left."""
        return Json(await keeper.call(name, lambda books: doing.forecast(books, body)))


def _add_views(router: APIRouter, keeper: Keeper) -> None:
    @router.get(
        "/{name}/balance",
        response_model=answers.BalanceAnswer,
        openapi_extra=needs("read"),
    )
    async def balance(name: Name) -> Response:
        """Return the money approved, spent, reserved and left."""
        found = await keeper.call(name, lambda books: books.balance())
        return Json(answers.balance_answer(found))

    @router.get(
        "/{name}/orders", response_model=answers.OrderList, openapi_extra=needs("read")
    )
    async def orders(
        name: Name,
        after: After = "",
        limit: Limit = 100,
    ) -> Response:
        """Return the orders with samples under way, by round and client."""

        def told(books: Books) -> answers.OrderList:
            return answers.under_way(books, after, limit)

        return Json(await keeper.call(name, told))

    @router.get(
        "/{name}/orders/{round}/{client}",
        response_model=answers.OrderAnswer,
        openapi_extra=needs("read"),
    )
    async def order(
        name: Name,
        round: RoundPath,
        client: Annotated[str, Path(max_length=requests.TEXT, examples=["0"])],
    ) -> Response:
        """Return one order with the states of its samples."""

        def told(books: Books) -> answers.OrderAnswer:
            found = books.order(round, requests.client_of(books.system, client))
            if found is None:
                raise UnknownAccount(f"order = round {round}, {client}: there is none")
            return answers.order_answer(found, books.system)

        return Json(await keeper.call(name, told))

    @router.get(
        "/{name}/statement",
        response_model=answers.StatementPage,
        openapi_extra=needs("read"),
    )
    async def statement(
        name: Name,
        after: After = "",
        limit: Limit = 100,
    ) -> Response:
        """Return a page of the statement: one line for each order."""

        def told(books: Books) -> answers.StatementPage:
            return answers.statement_page(books, after, limit)

        return Json(await keeper.call(name, told))

    @router.get(
        "/{name}/statement/{format}",
        response_class=Response,
        responses={200: {"content": {kind: {} for kind in KINDS.values()}}},
        openapi_extra=needs("read"),
    )
    async def export(
        name: Name,
        format: Literal["csv", "parquet"],
        since: Date = None,
        until: Date = None,
    ) -> Response:
        """Return the statement of a period as a file."""

        def told(books: Books) -> bytes:
            most, _ = journal_of(books).tables.counts()
            if most > MOST_EXPORTED:
                raise SettingError(
                    f"statement: has {most:,} orders, as a file at most"
                    f" {MOST_EXPORTED:,}; take its pages"
                )
            return exported(books.statement(since, until), format)

        content = await keeper.call(name, told)
        file = f'attachment; filename="{name}.{format}"'
        sent = {"Content-Disposition": file}
        return Response(content, 200, sent, KINDS[format])

    @router.get(
        "/{name}/history",
        response_model=answers.RoundHistory,
        openapi_extra=needs("read"),
    )
    async def history(name: Name) -> Response:
        """Return what the latest rounds cost, up to 1,000 of them."""
        return Json(await keeper.call(name, answers.history))

    @router.get(
        "/{name}/audit", response_model=answers.Audited, openapi_extra=needs("read")
    )
    async def audit(name: Name) -> Response:
        """Replay the whole ledger and compare; 409 names the first difference."""
        return Json(await keeper.call(name, answers.audited))

    @router.get(
        "/{name}/ledger", response_model=dict[str, Any], openapi_extra=needs("read")
    )
    async def ledger(name: Name) -> Response:
        """Return the policy's ledger after the last settled round."""
        text = await keeper.call(name, answers.course_text)
        return Response(text, media_type="application/json")


def _add_events(router: APIRouter, keeper: Keeper) -> None:
    @router.get(
        "/{name}/events", response_model=answers.EventList, openapi_extra=needs("read")
    )
    async def events(
        name: Name,
        after: Since = 0,
        limit: Limit = 100,
    ) -> Response:
        """Return what happened after an entry of the ledger, the oldest first."""

        def told(books: Books) -> answers.EventList:
            return answers.events(journal_of(books), after, limit)

        return Json(await keeper.call(name, told))

    @router.get(
        "/{name}/events/stream",
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {}}}},
        openapi_extra=needs("read"),
    )
    async def events_stream(
        name: Name,
        after: Since = 0,
        last: Annotated[
            str, Header(alias="Last-Event-ID", max_length=20, pattern="^[0-9]*$")
        ] = "",
    ) -> Response:
        """Send what happens after an entry as it happens (server-sent events)."""
        if keeper.streams >= MOST_STREAMS:
            raise Busy(f"streams: there are {MOST_STREAMS}; try again")
        first = await keeper.call(
            name,
            lambda books: answers.events(journal_of(books), int(last or after), 1000),
        )
        return StreamingResponse(
            stream(keeper, name, first), media_type="text/event-stream"
        )
