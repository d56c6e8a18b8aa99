"""What commands say, a line at a time. Paths and names are the user's or a stranger's, and no terminal obeys them."""

import sys

from headgate.escaping import printable


def say(text: object, error: bool = False) -> None:
    print(printable(str(text)), file=sys.stderr if error else sys.stdout, flush=True)
