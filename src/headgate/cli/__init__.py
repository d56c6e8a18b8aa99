"""The command line. It writes results to stdout, and progress and errors to stderr."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line.

    The commands are imported here, so that Ctrl-C during the import gives one line too.
    """
    try:
        from headgate.cli.commands import play
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        raise SystemExit(130) from None
    play()
