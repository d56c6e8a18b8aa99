"""Tables of features become data sets: scaled by their training rows, refused where they are no numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from headgate.errors import DataError
from headgate.learning.datasets import dataset_of, hold_out

from .said import one_line

SOME = np.array([[1.0, 5.0], [3.0, 5.0], [8.0, 5.0]])
LABELS = np.array([0, 1, 1])


def made(train, test=None, labels=LABELS, **more):
    test = train if test is None else test
    given = {"train_images": train, "train_labels": labels, "test_images": test, "test_labels": labels[: len(test)]}
    return dataset_of("shop", {**given, **more})


@given(arrays(np.float64, (3, 4), elements=st.floats(-1e6, 1e6, width=32)), st.floats(-1e9, 1e9))
def test_every_feature_has_mean_0_and_deviation_1_or_does_not_vary(table, far):
    data = made(table + far)
    columns = data.train_images.reshape(3, 4).astype(np.float64)
    assert data.train_images.dtype == np.float32
    assert (data.shape, data.mean, data.std, data.unit) == ((1, 1, 4), (0.0,), (1.0,), 1.0)
    for own, said in zip(columns.T, (table + far).T, strict=True):
        if np.ptp(said) > 1e-3 * (1 + abs(far) * 1e-9):
            assert own.mean() == pytest.approx(0, abs=1e-3)
            assert own.std() == pytest.approx(1, abs=1e-3)


def test_the_test_rows_are_scaled_by_the_training_rows():
    data = made(SOME, SOME[:2] + 100)
    middle, spread = SOME[:, 0].mean(), SOME[:, 0].std()
    np.testing.assert_allclose(data.test_images.reshape(2, 2)[:, 0], (SOME[:2, 0] + 100 - middle) / spread, rtol=1e-6)
    np.testing.assert_allclose(data.test_images.reshape(2, 2)[:, 1], 100)  # did not vary: only its middle is taken away


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.float32, bool])
def test_numbers_of_any_kind_are_features(kind):
    table = SOME.astype(kind)
    np.testing.assert_array_equal(made(table).train_images, made(table.astype(float)).train_images)


def test_features_are_held_out_as_images_are():
    data = hold_out(made(np.arange(40.0).reshape(20, 2), labels=np.arange(20) % 2), 0.2)
    assert data.validation_images.shape == (4, 1, 1, 2)
    assert len(data.train_images) == 16


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        ([[1.0, np.nan], [2.0, 1.0], [np.inf, 0.0]], None, "train_features must be finite numbers (N, d)"),
        (SOME, [[1.0, 2.0], [np.nan, 1.0]], "test_features must be finite numbers"),
        ([["1", "x"], ["2", "y"], ["3", "z"]], None, "train_features must be finite numbers (N, d), a row for each"),
        (np.array([[1, None], [2, 3], [4, 5]], dtype=object), None, "is (3, 2) of object"),
        (SOME, SOME[:, :1], "train_features have 2 columns, test_features 1"),
        (SOME, np.zeros(3), "a row for each sample, is (3,) of float64"),
        (np.zeros((3, 0)), None, "a row for each sample, is (3, 0)"),
        (SOME[:2], None, "train_labels must be (2,)"),
        (np.array([[1e300], [-1e300], [0.0]]), None, "column 0 of train_features has values that are too large"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(train, test, message):
    with pytest.raises(DataError) as refusal:
        made(train, test)
    one_line(refusal, "data set shop: ", message)


def test_the_scale_of_features_is_not_given():
    with pytest.raises(DataError, match="the dict returned has mean, which means nothing here"):
        made(SOME, mean=[1.0, 5.0])
