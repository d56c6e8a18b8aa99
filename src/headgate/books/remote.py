"""Accounts at a service, with the interface of `Books`.

Every write has a key, so it may be sent again until its answer arrives: it is done
once.
"""

import json
import os
import random
import re
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, Self
from urllib.parse import quote, urlsplit

import numpy as np
from numpy.typing import ArrayLike

from headgate.books.addresses import Place
from headgate.books.beginning import Opening
from headgate.books.course import Course
from headgate.books.journal import Journal
from headgate.books.moments import moment
from headgate.books.nouns import Balance, Client, Delivery, OrderState, Purchase
from headgate.books.recorded import AmendmentRow, Offered
from headgate.books.state import system_of, system_table
from headgate.control.amendments import Amendment
from headgate.control.policy import AdmissionPolicy
from headgate.control.types import Ledger, System, Terms
from headgate.errors import DataError, HeadgateError, LedgerError, SettingError
from headgate.escaping import one_line, shown

if TYPE_CHECKING:
    import httpx

    from headgate.books.statement import Statement
    from headgate.control.prices import PriceProcess

TOKEN = "HEADGATE_TOKEN"
ADDRESS = re.compile(r"(.*)/accounts/([a-z0-9][a-z0-9-]{0,62})/?")
"""address of the service, and name of the accounts"""
LOOPBACK = ("127.0.0.1", "localhost", "::1")
PATIENCE = 120.0
"""seconds for which a request is sent again"""
ANSWER = 60.0
"""seconds to wait for an answer"""
LONGEST_PAUSE = 5.0
LARGEST = 64 * 2**20
"""the most bytes of an answer"""
AGAIN = (429, 502, 503, 504)
"""statuses after which the same request may be made again"""
PAGE = 1_000
CHANGING = 10
"""how often a statement is read again because the accounts change meanwhile"""


class NotThereError(DataError):
    """The service has nothing at this address."""


class Connection:
    """A service that is asked until it answers.

    Parameters
    ----------
    address : str
        Address of the accounts.
    token : str or None
        The token; None: that in HEADGATE_TOKEN.
    """

    def __init__(self, address: str, token: str | None) -> None:
        try:
            import httpx
        except ModuleNotFoundError:
            raise SettingError(
                "Books: accounts at a service need httpx, as in pip install"
                " 'headgate[http]'"
            ) from None
        parts = urlsplit(address)
        found = ADDRESS.fullmatch(parts.path)
        if found is None or parts.query or parts.fragment or parts.username:
            raise SettingError(
                f"Books: folder = {shown(address)}: must be like"
                " https://host/accounts/name"
            )
        if parts.scheme == "http" and parts.hostname not in LOOPBACK:
            raise SettingError(
                f"Books: folder = {shown(address)}: would send the token unencrypted;"
                " use https://"
            )
        given = token or os.environ.get(TOKEN)
        if not given or not re.fullmatch("[!-~]{1,500}", given):
            raise SettingError(
                f"Books: token: is missing or no token; pass it, or set {TOKEN}"
            )
        self.address, self.name = address, found[2]
        self.base = f"{parts.scheme}://{parts.netloc}{found[1]}/api/accounts"
        self._client = httpx.Client(
            timeout=httpx.Timeout(ANSWER, connect=10.0),
            headers={"Authorization": f"Bearer {given}"},
            trust_env=True,
        )

    def get(self, path: str, **query: object) -> Any:
        """Return what the service says about these accounts."""
        return self.ask("GET", f"/{self.name}{path}", query)

    def send(
        self,
        path: str,
        body: Mapping[str, Any],
        method: str = "POST",
    ) -> Any:
        """Make a request that writes, and return the answer."""
        return self.ask(method, f"/{self.name}{path}", {}, body)

    def ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] = MappingProxyType({}),
        body: Mapping[str, Any] | None = None,
    ) -> Any:
        """Make a request until it is answered; raise the error that it was refused
        with.
        """
        import httpx

        headers, content = {}, None
        if body is not None:
            headers["Idempotency-Key"] = secrets.token_hex(16)
            headers["Content-Type"] = "application/json"
            content = json.dumps(plain(body), allow_nan=False).encode()
        request = self._client.build_request(
            method,
            f"{self.base}{path}",
            params={name: str(value) for name, value in query.items()},
            headers=headers,
            content=content,
        )
        until, pause = time.monotonic() + PATIENCE, 0.1
        while True:
            try:
                status, answer, wait = self._once(request)
            except httpx.TransportError as error:
                status, answer, wait = 0, {"detail": type(error).__name__}, 0.0
            if status in range(200, 300):
                return answer
            if status and status not in AGAIN:
                self._refuse(status, answer)
            pause = min(2 * pause, LONGEST_PAUSE)
            pause_now = max(wait, pause * random.uniform(0.5, 1.0))
            if time.monotonic() + pause_now > until:
                why = one_line(answer.get("detail", status), 200)
                raise DataError(f"{self.address}: does not answer ({why})")
            time.sleep(pause_now)

    def _once(self, request: "httpx.Request") -> tuple[int, Any, float]:
        """Return the status, the content and the seconds to wait of one answer."""
        response = self._client.send(request, stream=True)
        try:
            content = bytearray()
            for piece in response.iter_bytes():
                content += piece
                if len(content) > LARGEST:
                    raise DataError(f"{self.address}: answers more than is read of it")
        finally:
            response.close()
        try:
            found = json.loads(content)
        except ValueError:
            found = {"detail": "the answer is no JSON; is this a headgate service?"}
            if response.status_code < 400:
                raise DataError(f"{self.address}: {found['detail']}") from None
        wait = response.headers.get("retry-after", "0")
        seconds = float(wait) if wait.isdecimal() else 0.0
        return response.status_code, found, min(seconds, LONGEST_PAUSE)

    def _refuse(self, status: int, answer: Any) -> NoReturn:
        """Raise the error that the same call on a folder would raise."""
        problem = answer if isinstance(answer, dict) else {}
        detail = one_line(problem.get("detail", status))
        if status == 409 or (status == 422 and problem.get("setting") == "key"):
            raise LedgerError(detail)
        if status in (400, 422):
            raise SettingError(detail)
        if status == 404:
            raise NotThereError(f"{self.address}: {detail}")
        raise DataError(f"{self.address}: {detail}")

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


class RemoteBooks:
    """Accounts at a service: what `Books(address)` returns. Its methods are those of
    `Books`.
    """

    def __init__(
        self,
        folder: Place | str,
        system: System | None = None,
        policy: AdmissionPolicy | None = None,
        seed: int = 0,
        offences: int | None = None,
        wait: float = 0.0,
        token: str | None = None,
    ) -> None:
        opening = None
        if system is not None or policy is not None:
            opening = Opening.checked(system, policy, seed, offences)
        self._service = Connection(str(folder), token)
        self._why = ""
        try:
            self._detail = self._opened(opening)
        except BaseException:
            self.close()
            raise

    def _opened(self, opening: Opening | None) -> dict[str, Any]:
        """Return what the service says of the accounts, which begin if there are none
        and `opening` says with what.
        """
        try:
            found = self._newest()
        except NotThereError:
            if opening is None:
                raise
            self._service.ask("POST", "", body=self._new(opening))
            found = self._newest()
        if opening is not None:
            known = Terms(**found["terms"])
            known.check(opening.controller().terms, self._service.address)
        return found

    def _new(self, opening: Opening) -> dict[str, Any]:
        described = opening.described()
        if "policy" not in described:
            raise SettingError(
                f"Books: policy = {type(opening.policy).__name__}: the service knows"
                " policies that a recipe can name"
            )
        table = system_table(opening.system)
        names = table.pop("names", None)
        if names is not None:
            table["buffer"] = dict(zip(names, table["buffer"], strict=True))
        new = {"name": self._service.name, "system": table, "seed": opening.seed}
        return {**new, **described}

    def _newest(self) -> dict[str, Any]:
        found: dict[str, Any] = self._service.get("")
        return found

    @property
    def name(self) -> str:
        return str(self._detail["accounts"])

    @property
    def system(self) -> System:
        return system_of(self._newest()["system"])

    @property
    def why(self) -> str:
        return self._why

    @property
    def quarantined(self) -> set[Client]:
        return set(self._newest()["quarantined"])

    @property
    def rounds_left(self) -> int | None:
        left: int | None = self._newest()["rounds_left"]
        return left

    @property
    def ledger(self) -> Ledger:
        from headgate.registry import POLICY, Search, make

        detail = self._newest()
        nothing = Search(trusted=())
        policy = make(POLICY, detail["policy"], "policy", nothing)
        opening = Opening(system_of(detail["system"]), policy, detail["seed"])
        text = json.dumps(self._service.get("/ledger"))
        return Course.of_json(text, opening.controller()).ledger

    @property
    def _journal(self) -> Journal:
        raise self._elsewhere("journal_of")

    def _elsewhere(self, call: str) -> HeadgateError:
        return SettingError(
            f"{call}: {self._service.address}: is done where the accounts are, on the"
            " machine of the service"
        )

    def begin(
        self,
        price: ArrayLike | Mapping[str, float],
        present: Collection[int] | Collection[bool] | Collection[str] | None = None,
        most: ArrayLike | Mapping[str, int] | None = None,
        in_all: int | None = None,
        lot: int = 1,
        when: str | date | None = None,
        under_way: ArrayLike | Mapping[str, int] | None = None,
        expires: int | timedelta | None = None,
    ) -> list[Purchase]:
        asked = {
            "price": price,
            "present": present,
            "most": most,
            "in_all": in_all,
            "lot": lot,
            "when": when,
            "under_way": under_way,
            "expires": expires,
        }
        given = {name: value for name, value in asked.items() if value is not None}
        found = self._service.send("/rounds", given)
        self._why = found["why"]
        return [
            Purchase(**{**each, "drop": tuple(each["drop"])})
            for each in found["purchases"]
        ]

    def settle(
        self,
        reports: Mapping[Any, int | Delivery | list[Delivery]] | None = None,
        refused: Mapping[Any, str] = MappingProxyType({}),
        round: int | None = None,
        key: str | None = None,
    ) -> None:
        t = self._newest()["open"] if round is None else round
        if t is None:
            if reports is None or refused:
                raise SettingError("settle: no round was begun")
            self._deliver(reports, key)
            return
        body = {"reports": reports, "refused": refused}
        path = f"/rounds/{plain(t)}/settlement"
        self._service.send(path, body, "PUT")

    def _deliver(self, reports: Mapping[Any, Any], key: str | None) -> None:
        self._service.send("/deliveries", {"reports": reports, "key": key})

    def check(self, client: Client, report: int | Delivery | list[Delivery]) -> int:
        body = {"client": client, "report": report}
        return int(self._service.send("/check", body)["held"])

    def order(self, round: int, client: Client) -> OrderState | None:
        path = f"/orders/{plain(round)}/{quote(str(client), safe='')}"
        try:
            found = self._service.get(path)
        except NotThereError:
            return None
        own = {name: found[name] for name in OrderState._fields}
        own["client"] = _number(self.system, own["client"])
        return OrderState.of_row(own.values())

    def under_way(self) -> dict[Client, dict[int, int]]:
        found = dict[Client, dict[int, int]]()
        for order in self._pages("/orders", "orders"):
            own = found.setdefault(order["client"], {})
            own[order["round"]] = order["under_way"]
        return found

    def _pages(
        self,
        path: str,
        rows: str,
        first: object = "",
        seen: Callable[[Any], object] = lambda page: None,
    ) -> Iterator[Any]:
        """Yield the rows of all pages; `seen` is told of each page."""
        after: object = first
        while after is not None:
            page = self._service.get(path, after=after, limit=PAGE)
            seen(page)
            yield from page[rows]
            after = page["next"]

    def amend(
        self,
        by: str | None = None,
        why: str = "",
        key: str | None = None,
        **changes: Any,
    ) -> None:
        self._check_by("amend", by)
        self._service.send("/amendments", {**changes, "why": why, "key": key})

    def adjust(
        self,
        round: int,
        client: Client,
        amount: float,
        by: str | None = None,
        why: str = "",
        key: str | None = None,
    ) -> None:
        self._check_by("adjust", by)
        body = {"round": round, "client": client, "amount": amount}
        self._service.send("/adjustments", {**body, "why": why, "key": key})

    def _check_by(self, call: str, by: str | None) -> None:
        if by is not None:
            raise SettingError(
                f"{call}: by = {shown(by)}: is the holder of the token; say who else in"
                " `why`"
            )

    def rest(
        self, prices: "PriceProcess", rounds: int | None = None
    ) -> dict[str, tuple[float, float, float]]:
        from headgate.registry import PRICES, table_of

        body = {"prices": table_of(PRICES, prices), "rounds": rounds}
        found = self._service.send("/forecast", body)
        return {name: tuple(each) for name, each in found.items()}

    def balance(self) -> Balance:
        found = self._service.get("/balance")
        money = (Decimal(found[name]) for name in ("approved", "spent", "reserved"))
        return Balance(found["rounds"], *money)

    def statement(
        self,
        since: str | date | None = None,
        until: str | date | None = None,
    ) -> "Statement":
        from headgate.books.statement import is_within

        for _ in range(CHANGING):
            found = self._statement()
            if found is not None:
                break
        else:
            raise DataError(
                f"{self._service.address}: changes while its statement is read; try"
                " again"
            )
        first = None if since is None else moment("since", since)
        last = None if until is None else moment("until", until)
        return found._replace(
            lines=[each for each in found.lines if is_within(each.time, first, last)],
            offers=[
                each for each in found.offers if is_within(each.begun, first, last)
            ],
        )

    def _statement(self) -> "Statement | None":
        """Return the statement; None: the accounts changed while it was read."""
        from headgate.books.statement import OrderLine, Statement

        pages = list[Any]()
        lines = [
            OrderLine(
                **{
                    **row,
                    "keys": tuple(row["keys"]),
                    **{name: Decimal(row[name]) for name in MONEY},
                }
            )
            for row in self._pages("/statement", "lines", seen=pages.append)
        ]
        rows = self._service.get("/amendments")["amendments"]
        rounds = list(self._pages("/rounds", "rounds", first=0))
        detail = self._newest()
        if {page["entry"] for page in pages} != {detail["entry"]}:
            return None
        settled = detail["settled"]
        offers = [_offered(each) for each in rounds if each["round"] <= settled]
        return Statement(
            lines=lines,
            amendments=[_amendment(row) for row in rows],
            system=system_of(detail["ahead"] or detail["system"]),
            rounds=settled,
            approved=Decimal(pages[0]["approved"]),
            spent=Decimal(pages[0]["spent"]),
            reserved=Decimal(pages[0]["reserved"]),
            offers=offers,
            short={},
        )

    def audit(self) -> "Statement":
        self._service.get("/audit")
        return self.statement()

    def backup(self, file: Path | str) -> "Statement":
        raise self._elsewhere("backup")

    def __str__(self) -> str:
        return str(self.statement())

    def close(self) -> None:
        self._service.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


MONEY = ("price", "charged", "adjusted", "paid")
"""the amounts of a line"""


def plain(value: Any) -> Any:
    """Return a value as JSON holds it."""
    if isinstance(value, Delivery):
        own = {name: each for name, each in value._asdict().items() if each is not None}
        return plain(own)
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"P{value.days}DT{value.seconds}S"
    if isinstance(value, str) or not isinstance(value, Collection):
        return value
    return [plain(each) for each in value]


def _number(system: System, client: Client) -> int:
    return int(client) if system.names is None else system.names.index(str(client))


def _offered(row: Mapping[str, Any]) -> Offered:
    return Offered(row["round"], row["at"], tuple(row["price"]), row["supply"])


def _amendment(row: Mapping[str, Any]) -> AmendmentRow:
    order = None if row["order"] is None else tuple(row["order"])
    signed = row["id"], row["round"], row["made"], row["by"], row["why"]
    return AmendmentRow(*signed, Amendment(**row["change"]), order, row["key"])
