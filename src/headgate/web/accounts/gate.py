"""Who is let in where. This is decided before a request reaches its route, from the
path alone, so that no route can forget it.
"""

import re
import time
from collections import OrderedDict
from typing import Any

from starlette.requests import Request

from headgate.errors import HeadgateError
from headgate.escaping import shown
from headgate.web.accounts.tokens import EVERY, Holder

API = "/api/accounts"
OWN = re.compile(rf"{API}/([^/]+)(/.*)?", re.DOTALL)
"""the addresses of accounts"""
ANYBODY = re.compile(
    rf"{API}|/api/health|/api/openapi\.json|/|/accounts(/[^/]*)?|/static/.*", re.DOTALL
)
"""what every holder of a token may see: pages without content, and the own accounts in
the list of accounts
"""
WITHOUT = ("/healthz", "/readyz")
"""what is answered without a token: whether the service runs, and nothing else"""
ROLE = "x-role"
"""the key of a route's role in the document of the API"""
REMEMBERED = 10_000
"""holders whose rate is remembered"""


class Forbidden(HeadgateError):
    """The token does not allow this."""


def lets_in(holder: Holder, path: str) -> bool:
    """Return whether a holder may go to a path.

    What belongs to other accounts looks like what is not there.
    """
    own = OWN.fullmatch(path)
    if own is not None:
        return holder.enters(own[1])
    return holder.account == EVERY or ANYBODY.fullmatch(path) is not None


def not_there(path: str) -> str:
    """Return what is said about a path that is not there, or not for this holder."""
    own = OWN.fullmatch(path)
    return f"{path[:200]}: not found" if own is None else no_account(own[1])


def no_account(name: str) -> str:
    """Return what is said about accounts that are not there."""
    return f"account = {shown(name)}: there is none that this token is for"


def needs(role: str) -> dict[str, Any]:
    """Return what a route says about the role that it needs."""
    return {ROLE: role}


def check_role(request: Request) -> None:
    """Refuse a holder whose role is not that of the route; every route has one."""
    holder: Holder = request.state.holder
    role = request.scope["route"].openapi_extra[ROLE]
    if not holder.may(role):
        raise Forbidden(
            f"role = {holder.role}: this needs {role}; ask for a token with that role"
        )


class Rates:
    """How many requests each holder of a token makes.

    Parameters
    ----------
    most : float
        Requests a second; 0: any number. Twice as many may come at once.
    """

    def __init__(self, most: float) -> None:
        self.most = most
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, who: str) -> float:
        """Count a request; return the seconds to wait if it comes too early, or 0."""
        if not self.most:
            return 0.0
        now = time.monotonic()
        left, last = self._left.pop(who, (2 * self.most, now))
        left = min(left + (now - last) * self.most, 2 * self.most)
        early = left < 1
        self._left[who] = (left if early else left - 1, now)
        if len(self._left) > REMEMBERED:
            self._left.popitem(last=False)
        return (1 - left) / self.most if early else 0.0
