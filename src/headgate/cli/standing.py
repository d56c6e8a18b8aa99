"""How the clients of a run on Flower stand: what each was ordered and told, its offences, and the end of a quarantine."""

from pathlib import Path
from typing import Annotated, Any

import typer

from headgate.cli.console import AsFormat, Format, print_json

LISTED = 20
"""offences that the table shows; JSON has them all"""


def clients(
    folder: Annotated[Path, typer.Argument(metavar="DIR")],
    lift: Annotated[
        list[int] | None,
        typer.Option("--lift", metavar="N", help="End the quarantine of client N; may be given again.", show_default=False),
    ] = None,
    format_: AsFormat = Format.table,
) -> None:
    """Show how the clients of a run stand, or end a quarantine.

    DIR is a run folder of a run on Flower, which may be being played. Of all samples ordered, those paid were admitted as the
    client told, those reserved are on orders without an answer, whose money is kept, and the others are released. When a
    client comes into quarantine its open orders are settled: what it validly told of is paid, the rest released. With --lift
    it gets orders again from the next round on, and what it had admitted on released orders is paid when it tells of it.
    """
    from rich.text import Text

    from headgate.analysis.display import StackedTable, show
    from headgate.books.messages import one_line
    from headgate.books.standing import lift as end_quarantine
    from headgate.books.standing import nodes, offences, standings

    for client in lift or ():
        end_quarantine(folder, client)
    found, said, there = standings(folder), offences(folder), nodes(folder)
    rows: list[dict[str, Any]] = [{"node": there.get(each.client), **each._asdict()} for each in found]
    if format_ is Format.json:
        print_json({"clients": rows, "offences": [event._asdict() for event in said]})
        return
    columns = ("client", "node", "heard", "offences", "quarantined", "ordered", "paid", "reserved", "released", "money")
    show(StackedTable("Clients", columns, [[_cell(row[name]) for name in columns] for row in rows]))
    for event in said[-LISTED:]:
        show(Text(one_line(f"round {event.round}, client {event.client}: {event.kind}: {event.reason}")))


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
