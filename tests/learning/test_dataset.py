"""What a Dataset refuses, its statistics, what is held out of it, and tables of
features.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from headgate.errors import DataError, SettingError
from headgate.learning.data import Data
from headgate.learning.datasets import Dataset, channel_statistics, dataset_of, hold_out

from .said import refused


def arguments(**changes):
    images = np.zeros((4, 1, 2, 2), np.uint8)
    return {
        "name": "mine",
        "train_images": images,
        "train_labels": np.array([0, 1, 0, 1]),
        "test_images": images[:2],
        "test_labels": np.array([0, 1]),
        "classes": ("a", "b"),
        "mean": (0.5,),
        "std": (0.5,),
    } | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"train_images": np.zeros((4, 1, 2, 2))},
            "train_images must be a numpy array of uint8 or float32, is float64",
        ),
        (
            {"test_images": [[1]]},
            "test_images must be a numpy array of uint8 or float32, is list",
        ),
        (
            {"train_labels": np.zeros(4, np.int32)},
            "train_labels must be a numpy array of int64, is int32",
        ),
        (
            {"train_images": np.zeros((4, 2, 2), np.uint8)},
            "train_images must be (N, 1 or 3, height, width), is (4, 2, 2)",
        ),
        (
            {"train_images": np.zeros((4, 2, 2, 2), np.uint8)},
            "train_images must be (N, 1 or 3, height, width)",
        ),
        (
            {"train_images": np.zeros((4, 1, 0, 2), np.uint8)},
            "train_images must be (N, 1 or 3, height, width)",
        ),
        (
            {"test_labels": np.zeros((2, 1), np.int64)},
            "test_labels must be (2,), one for each of test_images, is (2, 1)",
        ),
        (
            {"train_labels": np.zeros(3, np.int64)},
            "train_labels must be (4,), one for each of train_images, is (3,)",
        ),
        (
            {
                "test_images": np.zeros((0, 1, 2, 2), np.uint8),
                "test_labels": np.zeros(0, np.int64),
            },
            "test_images is empty",
        ),
        ({"test_labels": np.array([0, 2])}, "test_labels holds 0 to 2, outside 0..1"),
        (
            {"train_labels": np.array([0, -1, 0, 0])},
            "train_labels holds -1 to 0, outside 0..1",
        ),
        (
            {"test_images": np.zeros((2, 1, 2, 2), np.float32)},
            "'uint8'), test_images ((1, 2, 2), 'float32')",
        ),
        (
            {"train_images": np.full((4, 1, 2, 2), np.nan, np.float32)},
            "train_images holds values that are not finite",
        ),
        ({"classes": ()}, "has no classes"),
        (
            {"mean": (0.5, 0.5)},
            "mean = (0.5, 0.5) must be a finite number for each channel",
        ),
        (
            {"std": (0.0,)},
            "std = (0.0,) must be a finite number for each channel, and std above zero",
        ),
        ({"mean": (float("nan"),)}, "mean = (nan,) must be a finite number"),
        (
            {"columns": {"writer": np.arange(3)}},
            "column writer must be an array with one entry for each training image",
        ),
    ],
)
def test_an_unsound_data_set_is_refused(changes, message):
    refused(
        DataError, lambda: Dataset(**arguments(**changes)), "data set mine: ", message
    )


@given(
    arrays(
        np.uint8,
        st.tuples(
            st.integers(1, 5),
            st.sampled_from([1, 3]),
            st.integers(1, 4),
            st.integers(1, 4),
        ),
    )
)
def test_channel_statistics_are_those_of_the_floats(images):
    mean, std = channel_statistics(images)
    scaled = images / 255
    assert mean == pytest.approx(scaled.mean(axis=(0, 2, 3)), abs=1e-12)
    expected = scaled.std(axis=(0, 2, 3))
    for mine, other in zip(std, expected, strict=True):
        assert mine == pytest.approx(other, abs=1e-9) or (
            other < 1e-12 and mine == pytest.approx(1.0)
        )


def test_arrays_are_copied_only_in_form():
    images = np.zeros((2, 1, 2, 2), np.uint8)
    data = dataset_of("mine", (images, np.array([0, 1]), images, np.array([0, 1])))
    assert data.train_images is images
    assert (data.mean, data.std) == ((0.0,), (1.0,))


def numbered(counts):
    """Images that carry their row, `counts` of each class, and their row as a
    column.
    """
    labels = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    images = np.arange(len(labels), dtype=np.uint8).reshape(-1, 1, 1, 1)
    return Dataset(
        "numbered",
        images,
        labels,
        images[:1],
        labels[:1],
        tuple(map(str, counts)),
        (0.5,),
        (0.5,),
        {"row": images[:, 0, 0, 0]},
    )


@given(st.lists(st.integers(1, 25), min_size=1, max_size=8), st.floats(0.01, 0.95))
def test_what_is_held_out_is_missing_from_training(counts, fraction):
    whole = numbered(counts)
    if not any(int(fraction * count) for count in counts):
        with pytest.raises(
            SettingError, match=r"data.validation = .*: holds out no image"
        ):
            hold_out(whole, fraction)
        return
    made = hold_out(whole, fraction)
    kept, held = made.train_images.ravel(), made.validation_images.ravel()
    assert sorted([*kept, *held]) == list(range(sum(counts)))
    assert np.bincount(made.validation_labels, minlength=len(counts)).tolist() == [
        int(fraction * count) for count in counts
    ]
    assert np.array_equal(made.columns["row"], kept)
    assert np.array_equal(whole.train_labels[kept], made.train_labels)
    assert np.array_equal(whole.train_labels[held], made.validation_labels)
    assert made.test_images is whole.test_images
    assert len(made.judged) == 2
    again = hold_out(whole, fraction)
    assert np.array_equal(again.validation_images, made.validation_images)


def test_nothing_held_out_leaves_the_data_set_as_it_is():
    whole = numbered([3, 3])
    assert hold_out(whole, 0.0) is whole
    assert len(whole.judged) == 1
    for fraction in (-0.1, 1.0):
        with pytest.raises(SettingError, match=r"validation = .*: must be a share"):
            Data(validation=fraction)


# tables of features: scaled by their training rows, refused where they are no numbers


SOME = np.array([[1.0, 5.0], [3.0, 5.0], [8.0, 5.0]])
LABELS = np.array([0, 1, 1])


def made(train, test=None, labels=LABELS, **more):
    test = train if test is None else test
    given = {
        "train_images": train,
        "train_labels": labels,
        "test_images": test,
        "test_labels": labels[: len(test)],
    }
    return dataset_of("shop", {**given, **more})


@given(
    arrays(np.float64, (3, 4), elements=st.floats(-1e6, 1e6, width=32)),
    st.floats(-1e9, 1e9),
)
def test_every_feature_has_mean_0_and_deviation_1_or_does_not_vary(table, far):
    data = made(table + far)
    columns = data.train_images.reshape(3, 4).astype(np.float64)
    assert data.train_images.dtype == np.float32
    assert (data.shape, data.mean, data.std, data.unit) == (
        (1, 1, 4),
        (0.0,),
        (1.0,),
        1.0,
    )
    for own, said in zip(columns.T, (table + far).T, strict=True):
        if np.ptp(said) > 1e-3 * (1 + abs(far) * 1e-9):
            assert own.mean() == pytest.approx(0, abs=1e-3)
            assert own.std() == pytest.approx(1, abs=1e-3)


def test_the_test_rows_are_scaled_by_the_training_rows():
    data = made(SOME, SOME[:2] + 100)
    middle, spread = SOME[:, 0].mean(), SOME[:, 0].std()
    np.testing.assert_allclose(
        data.test_images.reshape(2, 2)[:, 0],
        (SOME[:2, 0] + 100 - middle) / spread,
        rtol=1e-6,
    )
    np.testing.assert_allclose(
        data.test_images.reshape(2, 2)[:, 1], 100
    )  # did not vary: only its middle is taken away


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.float32, bool])
def test_numbers_of_any_kind_are_features(kind):
    table = SOME.astype(kind)
    np.testing.assert_array_equal(
        made(table).train_images, made(table.astype(float)).train_images
    )


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        (
            [[1.0, np.nan], [2.0, 1.0], [np.inf, 0.0]],
            None,
            "train_features must be finite numbers (N, d)",
        ),
        (SOME, [[1.0, 2.0], [np.nan, 1.0]], "test_features must be finite numbers"),
        (
            np.array([[1, None], [2, 3], [4, 5]], dtype=object),
            None,
            "is (3, 2) of object",
        ),
        (SOME, SOME[:, :1], "train_features have 2 columns, test_features 1"),
        (SOME, np.zeros(3), "a row for each sample, is (3,) of float64"),
        (np.zeros((3, 0)), None, "a row for each sample, is (3, 0)"),
        (SOME[:2], None, "train_labels must be (2,)"),
        (
            np.array([[1e300], [-1e300], [0.0]]),
            None,
            "column 0 of train_features has values that are too large",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(train, test, message):
    refused(DataError, lambda: made(train, test), "data set shop: ", message)


def test_the_scale_of_features_is_not_given():
    with pytest.raises(
        DataError, match="the dict returned has mean, which means nothing here"
    ):
        made(SOME, mean=[1.0, 5.0])
