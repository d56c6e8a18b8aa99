"""A second process that amends accounts: for each line of JSON it writes one amendment,
and prints what it was told.
"""

import json
import sys

from headgate.books.statement import amend
from headgate.control import Amendment
from headgate.errors import HeadgateError


def answer(folder, change, by):
    try:
        amend(folder, Amendment(**change), by, "")
    except HeadgateError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(**json.loads(line))), flush=True)
