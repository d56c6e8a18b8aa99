"""Data sets from classes of the user."""

import sys
import textwrap

import numpy as np
import pytest

from headgate.errors import DataError, SettingError
from headgate.learning.data import DATA, Data
from headgate.learning.datasets import channel_statistics
from headgate.registry import make

from .said import refused

HEAD = (
    "import numpy as np\n"
    "from headgate.learning.data import DataSource\n"
    "class Make(DataSource):\n"
    "    def load(self):\n"
)


@pytest.fixture
def own(own_module):
    """What is read by a class `Make` of the user, in a module of the working folder,
    that loads by this body.
    """

    def read(body):
        name = own_module(HEAD + textwrap.indent(body, " " * 8))
        return Data(make(DATA, f"{name}:Make", "data")).load()

    return read


FOUR = (
    "i = np.arange({n}, dtype=np.uint8).reshape({shape})\n"
    "l = np.array([0, 2], np.{kind})\n"
)


@pytest.mark.parametrize(
    ("shape", "order", "kind"),
    [
        ((2, 4, 5), lambda array: array[:, None], "uint8"),
        ((2, 4, 5, 3), lambda array: array.transpose(0, 3, 1, 2), "int32"),
        ((2, 4, 5, 1), lambda array: array.transpose(0, 3, 1, 2), "int64"),
        ((2, 3, 4, 5), lambda array: array, "uint8"),
        ((2, 1, 4, 5), lambda array: array, "int32"),
    ],
)
def test_a_source_may_return_the_usual_shapes(own, tmp_path, shape, order, kind):
    array = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    for returned in (
        "return i, l, i, l",
        "return dict(train_images=i, train_labels=l, test_images=i, test_labels=l)",
    ):
        data = own(FOUR.format(n=array.size, shape=shape, kind=kind) + returned)
        np.testing.assert_array_equal(data.train_images, order(array))
        np.testing.assert_array_equal(data.test_images, order(array))
        assert data.train_images.flags.c_contiguous
        assert data.train_labels.tolist() == [0, 2]
        assert data.classes == ("0", "1", "2")
        assert (data.mean, data.std) == channel_statistics(order(array))
    assert str(tmp_path) not in sys.path


def test_a_source_may_return_a_data_set_or_name_the_rest(own):
    body = FOUR.format(n=8, shape=(2, 2, 2), kind="int64")
    extra = (
        "classes=['a', 'b', 'c'], mean=[0.25], std=[0.5], columns={'writer': [7, 8]}"
    )
    four = "dict(train_images=i, train_labels=l, test_images=i, test_labels=l"
    data = own(body + f"return {four}, {extra})")
    assert (data.classes, data.mean, data.std) == (("a", "b", "c"), (0.25,), (0.5,))
    assert data.columns["writer"].tolist() == [7, 8]
    made = (
        "from headgate.learning.datasets import dataset_of\n"
        "return dataset_of('own', (i, l, i, l))"
    )
    assert own(body + made).name == "own"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "return 7",
            (
                "must return a Dataset, a dict or a tuple (train_images, train_labels,"
                " test_images, test_labels)"
            ),
        ),
        ("return dict(train_images=1)", "lacks train_labels, test_images, test_labels"),
        (
            (
                "return dict(train_images=1, train_labels=1, test_images=1,"
                " test_labels=1, color=1)"
            ),
            "has color, which means nothing here",
        ),
        ("return 1 / 0", "failed (ZeroDivisionError: division by zero)"),
        (
            (
                "from headgate.errors import DataError\n"
                "raise DataError('the disk of Make is not there')"
            ),
            "the disk of Make is not",
        ),
    ],
)
def test_what_a_source_returns_is_checked(own, body, message):
    refused((DataError, SettingError), lambda: own(body), "Make", message)
