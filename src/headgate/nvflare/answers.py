"""The answers of clients: what is read of them, and what is refused."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.books.books import Books
from headgate.books.border import checked
from headgate.books.nouns import Delivery
from headgate.books.receipts import deliveries
from headgate.books.updates import NamedArrays, check_update, in_type_of
from headgate.errors import DataError, HeadgateError, LedgerError
from headgate.escaping import one_line, shown

Model = dict[str, NDArray[Any]]


@contextmanager
def refused_if_unreadable() -> Iterator[None]:
    """Refuse what cannot be read for any reason, because untrusted values can fail in
    many ways.
    """
    try:
        yield
    except HeadgateError:
        raise
    except Exception as error:
        raise DataError(
            f"its answer cannot be read ({type(error).__name__}:"
            f" {one_line(error, 200)})"
        ) from None


class Reported(NamedTuple):
    """A client's report.

    Parameters
    ----------
    admitted : dict of int to int
        Samples admitted in each of some rounds, up to the present one.
    erased : int
        Samples that the client should hold now but that were erased.
    """

    admitted: dict[int, int]
    erased: int

    def deliveries(self, books: Books, client: int) -> list[Delivery]:
        """Return what the report says about each order to the client.

        Raises
        ------
        LedgerError
            If it reports more than was ordered, or less than it did before.
        """
        rounds = books.under_way().get(client, {}).keys() | self.admitted.keys()
        known = {t: books.order(t, client) for t in rounds}
        orders = {t: order for t, order in known.items() if order is not None}
        try:
            found = deliveries(self.admitted, orders)
        except LedgerError as error:
            raise LedgerError(
                f"round {max(rounds)}: client {client}: {error}"
            ) from None
        now = max(rounds)
        if not found or found[-1].round != now:
            found.append(Delivery(round=now))
        found[-1] = found[-1]._replace(erased=self.erased)
        return found


@refused_if_unreadable()
def read_report(sent: Any, t: int) -> Reported:
    """Return a client's report on round t. A malformed report is refused; the accounts
    check whether it can be true.
    """
    report = sent if isinstance(sent, dict) else {}
    rounds = checked("rounds", tuple[int, ...], report.get("rounds"))
    admitted = checked("admitted", tuple[int, ...], report.get("admitted"))
    if len(rounds) != len(admitted) or max(rounds, default=0) != t:
        raise DataError(
            f"rounds = {shown(rounds)}: must go up to {t}, with as many numbers as in"
            " admitted"
        )
    done = dict(zip(rounds, admitted, strict=True))
    erased = checked("erased", int, report.get("erased"))
    return Reported(done, erased)


@refused_if_unreadable()
def read_update(
    params: Any,
    is_change: bool,
    model: NamedArrays,
    longest: float | None = None,
) -> Model:
    """Return a client's model in the dtypes of `model`, or refuse it.

    Numbers are checked as they are after the cast: a number that is finite in the
    client's dtype may not be in the model's.
    """
    arrays = same_shapes(params, model)
    if is_change:
        arrays = {
            name: own.astype(np.float64) + arrays[name].astype(np.float64)
            for name, own in model.items()
        }
    update = cast(arrays, model)
    check_update(update, model, longest)
    return update


def same_shapes(params: Any, model: NamedArrays) -> Model:
    """Return the arrays in `params`. Names, shapes or types that do not fit the model
    are refused.
    """
    if not isinstance(params, Mapping) or params.keys() != model.keys():
        raise DataError(
            f"params = {shown(params)}: must have the names {shown(list(model))}"
        )
    arrays = {name: params[name] for name in model}
    for name, found in arrays.items():
        shape = model[name].shape
        is_array = isinstance(found, np.ndarray | np.generic)
        if not is_array or found.shape != shape or found.dtype.kind not in "fiub":
            raise DataError(f"params.{name}: must be numbers of shape {shape}")
    return {name: np.asarray(found) for name, found in arrays.items()}


def cast(arrays: Model, model: NamedArrays) -> Model:
    """Return the arrays in the dtypes of the model. A real number that is too large
    becomes infinite, others are refused.
    """
    moved: Model = {}
    for name, own in model.items():
        found = arrays[name]
        if own.dtype.kind in "iu" and found.dtype != own.dtype:
            _check_range(name, found, np.iinfo(own.dtype))
        with np.errstate(
            over="ignore",
            invalid="ignore",
        ):
            moved[name] = in_type_of(own, found)
    return moved


def _check_range(
    name: str,
    found: NDArray[Any],
    range_: "np.iinfo[Any]",
) -> None:
    """Refuse numbers that a dtype of whole numbers cannot hold, because their cast
    could be any number.
    """
    if not found.size:
        return
    least, most = float(np.rint(found.min())), float(np.rint(found.max()))
    if not range_.min <= least <= most < float(range_.max) + 1.0:
        raise DataError(
            f"params.{name}: must be whole numbers from {range_.min} to {range_.max}"
        )
