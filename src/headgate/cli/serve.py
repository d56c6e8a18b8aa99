"""The command of the page: serve."""

from pathlib import Path
from typing import Annotated

import typer

from headgate.cli.console import say
from headgate.errors import DataError, SettingError


def serve(
    runs_dir: Annotated[Path, typer.Argument(metavar="RUNS_DIR")] = Path("runs"),
    host: Annotated[
        str, typer.Option(help="Address to listen on. Other than this machine's own, it is only open to those with the token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 8040,
    token: Annotated[
        str | None,
        typer.Option(
            help="What the link must contain; made where it is needed and not given. Others on this machine can see it "
            "in the list of processes: --token-file, or HEADGATE_TOKEN, they cannot.",
            show_default=False,
        ),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file that holds the token.", show_default=False)
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Open a page to look at: live runs, comparisons, a planner, and the gate itself.

    RUNS_DIR holds run folders, or is one. The page shows what is in it as it is written, changes nothing there, and loads
    nothing from elsewhere. While it runs, start `headgate run` in another terminal and watch. Ctrl-C ends it.
    """
    try:
        from headgate.web.serving import SEEN, given_token, token_for
        from headgate.web.serving import serve as serve_page
    except ModuleNotFoundError as error:
        raise SettingError(f"serve: needs {error.name}, as in pip install 'headgate[web]'") from None
    if not runs_dir.is_dir():
        raise DataError(f"RUNS_DIR {runs_dir}: there is no such folder; headgate run makes runs, mkdir an empty one")

    def started(link: str) -> None:
        for line in (f"{runs_dir} is shown at", "", f"  {link}", "", "Ctrl-C ends it."):
            say(line)
        if open_:
            import webbrowser

            webbrowser.open(link)

    secret = token_for(host, given_token(token, token_file))
    if token is not None:
        say(SEEN, error=True)
    serve_page(runs_dir, host, port, secret, started)
