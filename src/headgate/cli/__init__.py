"""The command line. Results go to stdout; progress and errors to stderr."""

import os
import signal


def main() -> None:
    """The way in. The commands are imported here, so that Ctrl-C is one line from the first moment on."""
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is ignored, or answered by somebody
    if usual:
        signal.signal(signal.SIGINT, _leave)
    from headgate.cli.commands import play

    if usual:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    play()


def _leave(signum: int, frame: object) -> None:
    """Nothing was begun yet: what an exception may break off within an import need not be tidied up."""
    os.write(2, b"interrupted\n")
    os._exit(130)
