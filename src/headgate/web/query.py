"""The query of a request: known keys, each checked, refused in one line."""

from starlette.requests import Request

from headgate.experiment.parse import nearest
from headgate.web.uploads import Refused


class Query:
    """What was asked after the question mark."""

    def __init__(self, request: Request, *known: str) -> None:
        self._given = request.query_params
        for key in self._given:
            if key not in known and key != "token":
                hint = nearest(key[:100], known) if known else "; there are none"
                raise Refused(400, f"{key[:100]}: unknown key of the query{hint}")

    def maybe_text(self, key: str) -> str | None:
        values = self._given.getlist(key)
        if len(values) > 1:
            raise Refused(400, f"{key}: is given {len(values)} times")
        return values[0] if values else None

    def text(self, key: str, otherwise: str) -> str:
        value = self.maybe_text(key)
        return otherwise if value is None else value

    def texts(self, key: str) -> list[str]:
        return self._given.getlist(key)

    def maybe_whole(self, key: str, least: int, most: int) -> int | None:
        value = self.maybe_text(key)
        if value is None:
            return None
        if not (value.isascii() and value.isdigit() and len(value) < 20 and least <= int(value) <= most):
            raise Refused(400, f"{key} = {value[:100]!r}: must be a whole number from {least} to {most}")
        return int(value)

    def whole(self, key: str, otherwise: int, least: int, most: int) -> int:
        value = self.maybe_whole(key, least, most)
        return otherwise if value is None else value
