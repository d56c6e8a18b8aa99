"""Exact sums of money. A price is the decimal number that it is printed as, so 0.1 is
exactly one tenth.
"""

from collections.abc import Iterable
from decimal import (
    ROUND_HALF_EVEN,
    Context,
    Decimal,
    DivisionByZero,
    Inexact,
    InvalidOperation,
    Overflow,
    localcontext,
)

EXACT = Context(
    prec=1_000,
    traps=[Inexact, InvalidOperation, DivisionByZero, Overflow],
)
"""more digits than any sum of amounts has, so nothing is ever rounded"""
ROUNDING = Context(prec=1_000)
"""as many digits, for what is rounded on purpose"""
NOTHING = Decimal(0)


def exact(amount: float) -> Decimal:
    """Return the decimal number that an amount is printed as.

    >>> exact(0.1), exact(4.45)
    (Decimal('0.1'), Decimal('4.45'))
    """
    return Decimal(repr(float(amount)))


def total(amounts: Iterable[Decimal]) -> Decimal:
    """Return the exact sum.

    >>> total([exact(1e13), exact(0.1), exact(-1e13)])
    Decimal('0.1')
    """
    with localcontext(EXACT):
        return sum(amounts, NOTHING)


def plainly(amount: Decimal) -> str:
    """Return an amount as text, without an exponent and without zeros at the end.

    >>> plainly(exact(40.0)), plainly(exact(4.45))
    ('40', '4.45')
    """
    return f"{amount.normalize(EXACT):f}"


def charged(
    price: Decimal,
    samples: int,
    quantum: Decimal = NOTHING,
) -> Decimal:
    """Return the charge for some samples of one order, rounded to `quantum`, half a
    quantum to the even one; 0: not rounded.

    >>> charged(Decimal("0.333"), 4), charged(Decimal("0.333"), 4, Decimal("0.01"))
    (Decimal('1.332'), Decimal('1.33'))
    """
    cost = EXACT.multiply(price, Decimal(samples))
    if not quantum:
        return cost
    return cost.quantize(quantum, ROUND_HALF_EVEN, ROUNDING)
