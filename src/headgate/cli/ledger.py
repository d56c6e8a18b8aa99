"""The commands for the accounts of a folder: orders and payments, amendments, invoices,
and a file for finance.
"""

import getpass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headgate.cli.console import AsFormat, CommandGroup, Format, print_json, say
from headgate.errors import SettingError
from headgate.escaping import shown

if TYPE_CHECKING:
    from headgate.books.ledger_store import AmendmentRow
    from headgate.books.statement import Statement

commands = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    help="""Accounts: orders, payments and amendments.

    DIR is a folder of `headgate.Books` or a run folder of a run on Flower. It may be in use: an amendment holds from the next
    round that begins, and earlier approvals, orders and payments stay as they are.
    """,
)
Folder = Annotated[Path, typer.Argument(metavar="DIR")]
By = Annotated[
    str | None,
    typer.Option(
        help="Name of the author; default: the user's name.", show_default=False
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


@commands.command()
def show(folder: Folder, format_: AsFormat = Format.table) -> None:
    """Show the money, the amendments and the latest orders of the accounts in DIR."""
    from headgate.books.statement import opened, statement

    with opened(folder) as store:
        _show(statement(store), format_)


@commands.command()
def amend(
    folder: Folder,
    money: Annotated[
        float, typer.Option(help="Money approved in addition; below 0: taken back.")
    ] = 0.0,
    budget: Annotated[
        float | None, typer.Option(help="Open end: the budget of a round from now on.")
    ] = None,
    horizon: Annotated[
        str | None, typer.Option(metavar="ROUND", help="The last round, or open.")
    ] = None,
    month: Annotated[
        float | None,
        typer.Option(help="The most money for a calendar month; 0: no such limit."),
    ] = None,
    join: Annotated[
        int | None,
        typer.Option(
            metavar="PLACES", help="A client joins with this number of places."
        ),
    ] = None,
    weight: Annotated[
        float | None,
        typer.Option(
            help="With --join: the client's weight; default: the others' mean."
        ),
    ] = None,
    leave: Annotated[
        int | None,
        typer.Option(metavar="N", help="Client N leaves; its samples are erased."),
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
    from headgate.control.amendments import Amendment

    if (
        horizon is not None
        and horizon != "open"
        and not (horizon.isdecimal() and len(horizon) < 20)
    ):
        raise SettingError(f"horizon = {shown(horizon)}: must be a round, or open")
    last = int(horizon) if horizon is not None and horizon != "open" else horizon
    # checked above
    change = Amendment(money, budget, last, join, weight, leave, suspend, month)  # type: ignore[arg-type]
    _show(amend_folder(folder, change, by or getpass.getuser(), why, key=key), format_)


@commands.command()
def adjust(
    folder: Folder,
    round_: Annotated[int, typer.Option("--round", help="Round of the order.")],
    client: Annotated[int, typer.Option(help="Client of the order.")],
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
    from headgate.control.amendments import Amendment

    change = Amendment(adjust=refund("amount", amount))
    _show(
        amend_folder(
            folder, change, by or getpass.getuser(), why, (round_, client), key
        ),
        format_,
    )


@commands.command()
def export(
    folder: Folder,
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
) -> None:
    """Write one line for each order in DIR. The sum of the column `paid` is exactly the
    money spent.

    The file is written whole or not at all. Column `keys` of a csv file is a JSON list.
    """
    from headgate.books import statement as books

    with books.opened(folder) as store:
        found = books.statement(store)
    path = out or Path(f"orders.{kind}")
    if str(path) == "-":
        books.export(found, None, kind)
        return
    books.export(found, path, kind)
    say(
        f"{path}: {len(found.lines)} orders, spent {found.spent:.2f}, reserved"
        f" {found.reserved:.2f}"
    )


@commands.command()
def backup(
    folder: Folder,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="The copy; a file that is there is replaced."
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
    say(
        f"{file}: round {found.rounds}, {len(found.lines)} orders, spent"
        f" {found.spent:.2f}, reserved {found.reserved:.2f}"
    )


@commands.command()
def void(
    folder: Folder,
    id_: Annotated[
        int,
        typer.Argument(
            metavar="ID", help="Number of the amendment, as `show` and errors name it."
        ),
    ],
    by: By = None,
    why: Why = "",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="NEW",
            help="Folder of the copy; default: DIR-without-ID.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Take amendment ID out of a copy of the accounts in DIR, which stay as they are.

    This is for accounts that cannot be opened because of an amendment. The amendment
    stays in the copy, signed and without effect. Open the copy in place of DIR if it
    replays.
    """
    from headgate.books import statement as books

    whole = folder.resolve()
    path = out or whole.with_name(f"{whole.name or 'accounts'}-without-{id_}")
    found, after = books.void(folder, id_, by or getpass.getuser(), why, path)
    say(f"{path}: without {found.named()}")
    if after is None:
        say(
            "Another amendment cannot be applied either: `headgate ledger show` on the"
            " copy names it."
        )
    else:
        say(
            f"round {after.rounds}, spent {after.spent:.2f}, approved"
            f" {after.approved:.2f}"
        )
        say(f"Opening it replays it; if it opens, use it in place of {folder}.")


def _show(found: "Statement", format_: Format) -> None:
    from headgate.analysis.display import StackedTable, show

    system, listed = found.system, found.lines[-20:]
    money = {
        name: f"{getattr(found, name):.2f}"
        for name in ("approved", "spent", "reserved", "left")
    }
    changes = [_change(each) for each in found.amendments]
    if format_ is Format.json:
        lines = [
            {
                name: list(value) if isinstance(value, tuple) else str(value)
                for name, value in line._asdict().items()
            }
            for line in found.lines
        ]
        end = {
            "rounds": found.rounds,
            "horizon": system.horizon,
            "clients": system.clients,
            "currency": system.currency,
        }
        print_json({**money, **end, "amendments": changes, "orders": lines})
        return
    until = "open" if system.horizon is None else str(system.horizon)
    say(
        f"round {found.rounds} of {until}, {system.clients} clients; money"
        f" {system.currency}".rstrip()
    )
    say(", ".join(f"{name} {value}" for name, value in money.items()))
    if found.left < 0:
        say("Nothing more is bought: more is spent than is approved.")
    if changes:
        columns = ("id", "round", "made", "by", "change", "why")
        show(
            StackedTable(
                "Amendments",
                columns,
                [[str(each[name]) for name in columns] for each in changes],
            )
        )
    if listed:
        names = (
            "round",
            "client",
            "price",
            "asked",
            "delivered",
            "adjusted",
            "paid",
            "answered",
        )
        title = (
            "Orders"
            if len(listed) == len(found.lines)
            else f"Orders, the last {len(listed)} of {len(found.lines)}"
        )
        rows = [
            [
                "-" if getattr(line, name) is None else str(getattr(line, name))
                for name in names
            ]
            for line in listed
        ]
        show(StackedTable(title, names, rows))


def _change(each: "AmendmentRow") -> dict[str, str | int]:
    """Return an amendment as it is shown; one that was taken out says so."""
    change, made = each.stated(), each.made[:16].replace("T", " ")
    why = each.why if each.key is None else f"{each.why} [{each.key}]".strip()
    if each.voided:
        change, why = f"void: {change}", f"{why}; taken out {each.voided}"
    return {
        "id": each.id,
        "round": each.round,
        "made": made,
        "by": each.by,
        "why": why,
        "change": change,
    }
