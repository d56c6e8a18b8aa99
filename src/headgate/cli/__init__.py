"""The command line. Results go to stdout; progress and errors to stderr."""

import sys


def main() -> None:
    """The way in. The commands are imported here, so that Ctrl-C is one line from the first moment on."""
    try:
        from headgate.cli.commands import play
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        raise SystemExit(130) from None
    play()
