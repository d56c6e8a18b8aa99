"""The command that replays purchases that somebody made."""

from pathlib import Path
from typing import Annotated

import typer

import headgate
from headgate.cli.console import AsFormat, Format, print_json, status
from headgate.cli.saying import say


def replay(
    purchases: Annotated[Path, typer.Argument()],
    capacity: Annotated[
        int | None, typer.Option(help="The most samples a client can buy in a round; default: the most it ever bought in one.")
    ] = None,
    currency: Annotated[str, typer.Option(help="What the money is counted in, as $ or EUR; only for display.")] = "",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write one row per round: .parquet, .csv or .jsonl.")] = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw both answers, prices and purchases: .svg, .png or .pdf.")
    ] = None,
    format_: AsFormat = Format.table,
) -> None:
    """Compare purchases that you made with those that headgate would have made at the same prices.

    PURCHASES is a CSV file with the columns time (ISO dates or numbers), price (of one sample), samples (or bought) and
    perhaps client. It answers what headgate would have paid for as many samples, and how many it would have bought for as
    much money. Rows of one time are one round; a client without a row has no offer in it, a row with 0 samples is an offer.

    Columns of --out: time, price (mean of those offered), bought, paid, and with as_much_ and as_many_ before them those
    of headgate for as much money and for as many samples.
    """
    from headgate.analysis.display import show
    from headgate.analysis.rehearsal import check_out, write

    if out is not None:
        check_out(out)
    if figure is not None:
        from headgate.analysis.figures import check_figure

        check_figure(figure)
    with status(format_, "replaying"):
        done = headgate.replay(purchases, capacity, currency)
    if out is not None:
        write(done.frame, out)
    if figure is not None:
        done.figure(figure)
    if format_ is Format.json:
        print_json(done.numbers)
    else:
        show(*done.render())
    for path in filter(None, (out, figure)):
        say(f"wrote {path}", error=True)
