"""The commands for a service for accounts: its tokens, and the files that run it."""

from pathlib import Path
from typing import Annotated

import typer

from headgate.cli.console import (
    AsFormat,
    CommandGroup,
    Folder,
    Format,
    print_json,
    say,
)
from headgate.errors import DataError

commands = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    help="""Tokens of a service: who may do what in which accounts.

    DIR is the folder of `headgate serve --accounts DIR`, or the file of `--tokens`. A
    change holds at once, also while the service runs. Only the hash of a token is kept.
    """,
)
Where = Annotated[Path, typer.Argument(metavar="DIR")]


@commands.command()
def new(
    where: Where,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Whose token it is. What is done with it has this name in the ledger.",
        ),
    ],
    account: Annotated[
        str, typer.Option(help="Name of the accounts; *: all, and new ones.")
    ],
    role: Annotated[
        str,
        typer.Option(
            help=(
                "read: look; deliver: and report deliveries; run: and begin and settle"
                " rounds; amend: and change terms and costs."
            )
        ),
    ] = "read",
) -> None:
    """Make a token for NAME in DIR, and print it once."""
    from headgate.web.accounts.tokens import Tokens

    if not where.is_dir() and not where.parent.is_dir():
        raise DataError(f"{where}: there is no such folder")
    say(Tokens(where).make(name, account, role))


@commands.command("list")
def list_(where: Where, format_: AsFormat = Format.table) -> None:
    """List the tokens in DIR: name, accounts, role, and when they were made."""
    from headgate.web.accounts.tokens import Tokens

    holders = Tokens(where).holders().values()
    rows = [[each.name, each.account, each.role, each.made] for each in holders]
    names = ["name", "account", "role", "made"]
    if format_ is Format.json:
        print_json([dict(zip(names, row, strict=True)) for row in rows])
        return
    for row in (names, *rows):
        say(f"{row[0]:20} {row[1]:20} {row[2]:8} {row[3]}".rstrip())


@commands.command()
def revoke(
    where: Where,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose token it is.")],
) -> None:
    """Make the token of NAME in DIR worthless, at once."""
    from headgate.web.accounts.tokens import Tokens

    Tokens(where).revoke(name)
    say(f"{name}: has no token any more")


def service(
    folder: Folder,
    accounts: Annotated[
        str,
        typer.Option(
            metavar="DIR",
            help="Where the accounts are: a folder, or postgresql://HOST/DATABASE.",
        ),
    ],
    certificate: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="Certificate of this server, with those of its authorities.",
        ),
    ],
    key: Annotated[
        Path, typer.Option(metavar="FILE", help="The key of the certificate.")
    ],
    listen: Annotated[
        str, typer.Option(metavar="ADDRESS:PORT", help="Where callers connect.")
    ] = "0.0.0.0:443",
    inside: Annotated[
        int, typer.Option(help="The port of the service on 127.0.0.1.")
    ] = 8040,
) -> None:
    """Write the files of a service for accounts into DIR: scripts, systemd units,
    nginx.conf with TLS, and compose.yaml with PostgreSQL.

    docs/do/service.md says how they are used.
    """
    from headgate.web.accounts.deployment import write_service

    for each in (certificate, key):
        if not each.is_file():
            raise DataError(f"{each}: there is no such file")
    made = write_service(
        folder.resolve(),
        accounts,
        certificate.resolve(),
        key.resolve(),
        listen,
        inside,
    )
    for path in made:
        say(path)
