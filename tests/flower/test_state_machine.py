"""A federation in which anything happens keeps its books: a few seconds of what `make
fuzz` does for as long as one likes.
"""

from federation import ACCIDENTS, COUNTS, Federation, main, several
from hypothesis import settings

TestFederation = Federation.TestCase
TestFederation.settings = settings(several(8), derandomize=True)


def test_every_kind_of_step_is_taken():
    found = main(steps=400, seed=7)
    assert found["failures"] == []
    wanted = [
        "forged",
        "leave",
        "come",
        "come as another node",
        "lose memory",
        "erase a sample",
        "change price",
        "restart",
    ]
    wanted += ["lift", "crash"]
    assert found["cases"].keys() == {*ACCIDENTS, *wanted, "round"}
    assert COUNTS.total() >= 400
