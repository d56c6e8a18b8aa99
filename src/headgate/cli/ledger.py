"""The commands for the accounts of a folder: orders and payments, amendments, invoices,
and a file for finance.
"""

import getpass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headgate.cli.console import (
    AsFormat,
    CommandGroup,
    Format,
    print_json_rows,
    say,
)
from headgate.errors import SettingError
from headgate.escaping import shown

if TYPE_CHECKING:
    from headgate.books.statement import OrderLine, Statement

commands = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    help="""Accounts: orders, payments and amendments.

    DIR is a folder of `headgate.Books`, a run folder of a run on Flower, or accounts in
    PostgreSQL, as postgresql://host/database/account. It may be in use: an amendment
    holds from the next round that begins, and earlier approvals, orders and payments
    stay as they are.
    """,
)
Accounts = Annotated[str, typer.Argument(metavar="DIR")]
By = Annotated[
    str | None,
    typer.Option(
        help="Name of the author; default: the user's name.",
        show_default=False,
    ),
]
Why = Annotated[str, typer.Option(help="Reason in one line, for the record.")]
Key = Annotated[
    str | None,
    typer.Option(
        help=(
            "Name, as the number of an invoice; repeated with the same key it counts"
            " once."
        ),
        show_default=False,
    ),
]


class Kind(StrEnum):
    csv = "csv"
    parquet = "parquet"
    json = "json"


Since = Annotated[str | None, typer.Option(help="Only orders from this ISO date on.")]
Until = Annotated[str | None, typer.Option(help="Only orders before this ISO date.")]


@commands.command()
def show(
    folder: Accounts,
    since: Since = None,
    until: Until = None,
    page: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Page of 100 orders, 1: the oldest; default: the latest ones.",
            show_default=False,
        ),
    ] = None,
    format_: AsFormat = Format.table,
) -> None:
    """Show the money, what was saved, the amendments and the latest orders of the
    accounts in DIR, or a page of them. Without a page, JSON has all orders.

    Two buyers who spread their purchases evenly over the same rounds are compared: one
    buys the same labels, one spends the same money within the same limits.
    """
    from headgate.books.statement import PAGE, opened, statement

    with opened(folder) as store, store.snapshot():
        found = statement(store, since, until)
        shown = None
        if page is not None:
            shown = slice((page - 1) * PAGE, page * PAGE)
        _show(found, format_, shown)


@commands.command()
def amend(
    folder: Accounts,
    money: Annotated[
        float, typer.Option(help="Money approved in addition; below 0: taken back.")
    ] = 0.0,
    budget: Annotated[
        float | None, typer.Option(help="Open end: the budget of a round from now on.")
    ] = None,
    horizon: Annotated[
        str | None,
        typer.Option(
            metavar="ROUND",
            help="The last round, or open.",
        ),
    ] = None,
    month: Annotated[
        float | None,
        typer.Option(help="The most money for a calendar month; 0: no such limit."),
    ] = None,
    join: Annotated[
        int | None,
        typer.Option(
            metavar="PLACES",
            help="A client joins with this number of places.",
        ),
    ] = None,
    weight: Annotated[
        float | None,
        typer.Option(
            help="With --join: the client's weight; default: the others' mean."
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="With --join: the client's name, if the clients have names."),
    ] = None,
    leave: Annotated[
        str | None,
        typer.Option(
            metavar="CLIENT",
            help="This client, a number or a name, leaves; its samples are erased.",
        ),
    ] = None,
    suspend: Annotated[
        bool | None,
        typer.Option("--suspend/--resume", help="Buy nothing until resumed."),
    ] = None,
    by: By = None,
    why: Why = "",
    key: Key = None,
    format_: AsFormat = Format.table,
) -> None:
    """Change the terms of the accounts in DIR from the next round on.

    If less is approved than was spent, purchases stop; nothing is reclaimed.
    docs/do/books.md has the rules.
    """
    from headgate.books.statement import amend as amend_folder
    from headgate.books.statement import client_in
    from headgate.control.amendments import Amendment

    last = _horizon(horizon)
    leaver = None if leave is None else client_in(folder, "leave", leave)
    change = Amendment(
        money, budget, last, join, weight, leaver, suspend, month, name=name
    )
    amend_folder(folder, change, by or getpass.getuser(), why, key=key)
    show(folder, format_=format_)


def _horizon(stated: str | None) -> int | Literal["open"] | None:
    """Return the last round as a number; it may also be open, or left as it is."""
    if stated is None:
        return None
    if stated == "open":
        return "open"
    if not stated.isdecimal() or len(stated) >= 20:
        raise SettingError(f"horizon = {shown(stated)}: must be a round, or open")
    return int(stated)


@commands.command()
def adjust(
    folder: Accounts,
    round_: Annotated[int, typer.Option("--round", help="Round of the order.")],
    client: Annotated[
        str, typer.Option(help="Client of the order, a number or a name.")
    ],
    amount: Annotated[
        float,
        typer.Option(
            help="Amount of the invoice less the amount charged; below 0: a refund."
        ),
    ],
    by: By = None,
    why: Why = "",
    key: Key = None,
    format_: AsFormat = Format.table,
) -> None:
    """Correct the cost of an order in DIR to its invoice, which may be more, less or
    nothing; also after the last round.
    """
    from headgate.books.border import refund
    from headgate.books.statement import amend as amend_folder
    from headgate.books.statement import client_in
    from headgate.control.amendments import Amendment

    change = Amendment(adjust=refund("amount", amount))
    order = (round_, client_in(folder, "client", client))
    amend_folder(folder, change, by or getpass.getuser(), why, order, key)
    show(folder, format_=format_)


@commands.command()
def export(
    folder: Accounts,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Default: orders.csv and so on; -: standard output.",
            show_default=False,
        ),
    ] = None,
    kind: Annotated[
        Kind, typer.Option("--format", help="Format of the file.")
    ] = Kind.csv,
    since: Since = None,
    until: Until = None,
) -> None:
    """Write one line for each order in DIR, and one for each round without an order.
    The sum of the column `paid` is exactly the money spent.

    The file is written whole or not at all. Column `keys` of a csv file is a JSON list.
    """
    from headgate.books import statement as books

    path = out or Path(f"orders.{kind}")
    file = None if str(path) == "-" else path
    with books.opened(folder) as store, store.snapshot():
        found = books.statement(store, since, until)
        books.export(found, file, kind)
    if file is None:
        return
    say(
        f"{path}: {len(found.lines)} orders, spent {found.spent:.2f}, reserved"
        f" {found.reserved:.2f}"
    )


@commands.command()
def backup(
    folder: Accounts,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="The copy; a file that is there is replaced.",
        ),
    ],
) -> None:
    """Copy the accounts in DIR, as they are now, into one FILE. They may be in use.

    A plain copy lacks what SQLite holds in its log, at times all rounds. To go on from
    FILE, put it as ledger.sqlite into a folder of its own.
    """
    from headgate.books import statement as books

    with books.opened(folder) as store:
        found = books.backup(store, file)
    _say_sums(file, found)


@commands.command()
def copy(
    source: Annotated[str, typer.Argument(metavar="FROM")],
    target: Annotated[str, typer.Argument(metavar="TO")],
) -> None:
    """Copy the accounts FROM a folder or PostgreSQL TO the other, or to the same kind.

    The copy has the same entries and is audited before it is there. It is the same
    account: let only one of the two go on.
    """
    from headgate.books.copying import copy as copy_accounts

    found = copy_accounts(source, target)
    _say_sums(target, found)


@commands.command()
def upgrade(folder: Accounts) -> None:
    """Write the accounts in DIR, of an older version, in the format of this one.

    DIR is a folder of accounts or of a run on Flower, which nobody may have open. The
    old file stays beside the new one, as ledger-3.sqlite.
    """
    from headgate.books.addresses import place_of
    from headgate.books.upgrade import KEPT
    from headgate.books.upgrade import upgrade as upgrade_folder

    found = upgrade_folder(folder)
    if found is None:
        say(f"{place_of('DIR', folder)}: is in today's format already")
        return
    say(
        f"{folder}: round {found.rounds}, {len(found.lines)} orders, spent"
        f" {found.spent:.2f}, reserved {found.reserved:.2f}; as it was: {KEPT}"
    )


def _say_sums(place: Path | str, found: "Statement") -> None:
    """Say what the accounts in a place come to."""
    from headgate.books.addresses import place_of

    say(
        f"{place_of('FILE', place)}: round {found.rounds}, {len(found.lines)} orders,"
        f" spent {found.spent:.2f}, reserved {found.reserved:.2f}"
    )


def _show(
    found: "Statement",
    format_: Format,
    shown: slice | None = None,
) -> None:
    """Show the money, what was saved, the amendments and the orders of accounts."""
    if format_ is Format.table:
        for line in found.text(shown).splitlines():
            say(line)
        return
    from headgate.books.statement import shown_change

    names = ("approved", "spent", "reserved", "left")
    saved = found.saved
    head = {
        **{name: f"{getattr(found, name):f}" for name in names},
        "rounds": found.rounds,
        "horizon": found.system.horizon,
        "clients": found.system.clients,
        "currency": found.system.currency,
        "saved": {**saved._asdict(), "money": saved.money},
        "sentence": found.sentence,
        "amendments": [shown_change(each) for each in found.amendments],
    }
    orders = map(_order, found.lines if shown is None else found.lines[shown])
    print_json_rows(head, "orders", orders)


def _order(line: "OrderLine") -> dict[str, str | list[str]]:
    """Return an order as JSON holds it: amounts are texts, which round nothing."""
    return {
        name: list(value) if isinstance(value, tuple) else str(value)
        for name, value in line._asdict().items()
    }
