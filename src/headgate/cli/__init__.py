"""The command line. It writes results to stdout, and progress and errors to stderr."""

import io
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line.

    The commands are imported here, so that Ctrl-C during the import gives one line too.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # what a console cannot show becomes a question mark
            stream.reconfigure(errors="replace")
    try:
        from headgate.cli.commands import play
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        raise SystemExit(130) from None
    play()
