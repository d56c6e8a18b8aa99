"""Concepts over a data set: how it looks, what comes by, and who saw which sample in
which concept.
"""

from dataclasses import dataclass

import numpy as np
import pytest

from headgate.errors import SettingError
from headgate.experiment import load
from headgate.learning.concepts import Concept, OfClasses, Prior, Rotated, Swapped
from headgate.learning.datasets import hold_out, load_dataset
from headgate.learning.drift import DriftingData
from headgate.learning.streams import RESHUFFLE, Stop, Stream

DIGITS = load_dataset("digits")
SWAP = (1, 0, 3, 2, 5, 4, 7, 6, 9, 8)
CHANGES = "data.changes={kind='recurring', every=3}"


def moving(concepts, *more, dataset=DIGITS):
    e = load("digits", [f"data.concepts={concepts}", CHANGES, "run.seeds=10", *more])
    return DriftingData(e.data, dataset, e.seeds[:2], e.system.clients)


def stream_of(made, seed=3, rule=RESHUFFLE, dataset=DIGITS):
    owners = load("digits").data.partition.split(dataset.train_labels, 10, seed, {})
    stream = Stream(owners, seed, rule, dataset.train_labels)
    return stream, made.stream(stream, 20)


def test_a_quarter_to_the_left_is_exact():
    image = np.arange(4, dtype=np.uint8).reshape(1, 1, 2, 2)
    assert Rotated(1).images(image).tolist() == [[[[1, 3], [0, 2]]]]
    assert np.array_equal(Rotated(1).images(Rotated(3).images(image)), image)
    wide = np.zeros((1, 1, 2, 3), np.uint8)
    assert Rotated(2).images(wide).shape == wide.shape
    with pytest.raises(
        SettingError, match="images of 2 x 3 pixels can only be turned by 2"
    ):
        Rotated(1).images(wide)


def test_classes_that_are_called_otherwise_or_are_not_there():
    labels = np.array([0, 1, 2])
    assert Swapped((2, 0, 1)).labels(DIGITS.train_images[:3], labels).tolist() == [
        2,
        0,
        1,
    ]
    with pytest.raises(SettingError, match="names 2 classes, the data set has class 2"):
        Swapped((1, 0)).labels(DIGITS.train_images[:3], labels)
    with pytest.raises(SettingError, match="there is no class 9"):
        OfClasses((9,)).shares(3)
    with pytest.raises(SettingError, match="has 2 shares, the data set has 3 classes"):
        Prior((0.5, 1.0)).shares(3)


def test_one_data_set_holds_every_appearance_once():
    made = moving(
        "['same', 'rotated', {kind='classes', classes=[0, 1]}, 'rotated',"
        f" {{kind='swapped', to={list(SWAP)}}}]"
    )
    n = len(DIGITS.train_labels)
    assert made.appearance.tolist() == [0, 1, 0, 1, 2]
    assert len(made.dataset.train_labels) == 3 * n
    assert np.array_equal(
        made.dataset.train_images[n : 2 * n],
        np.rot90(DIGITS.train_images, 1, axes=(2, 3)),
    )
    assert np.array_equal(made.dataset.train_images[2 * n :], DIGITS.train_images)
    assert np.array_equal(
        made.dataset.train_labels[2 * n :], np.array(SWAP)[DIGITS.train_labels]
    )
    judged = made.dataset.judged
    assert len(judged) == 5
    assert sorted(set(judged[2][1].tolist())) == [0, 1]
    assert np.array_equal(judged[4][1], np.array(SWAP)[DIGITS.test_labels])


def test_what_was_held_out_is_judged_in_every_concept_too():
    held = hold_out(DIGITS, 0.2)
    made = moving('["same", "rotated"]', dataset=held)
    assert len(made.dataset.judged) == 4
    assert np.array_equal(
        made.dataset.judged[3][0], np.rot90(held.validation_images, 1, axes=(2, 3))
    )


def test_in_another_appearance_the_same_image_comes_and_is_another_sample():
    made = moving('["same", "rotated"]')
    plain, stream = stream_of(made)
    clients, positions = np.repeat(np.arange(10), 50), np.tile(np.arange(50), 10)
    base, n = plain.at(clients, positions), len(DIGITS.train_labels)
    concepts = (clients + positions) % 2
    found = stream.at(clients, positions, concepts)
    assert np.array_equal(found.rows, base.rows + n * concepts)
    assert np.array_equal(found.samples, base.samples + plain.samples * concepts)
    assert found.samples.max() < stream.samples


def test_what_comes_by_is_a_stream_of_its_own_under_the_same_numbers():
    weights = [1.0, 0.25] * 5
    made = moving(f"['same', {{kind='prior', weights={weights}}}]")
    plain, stream = stream_of(made)
    everything = plain.at(
        np.repeat(np.arange(10), plain.lengths),
        np.concatenate([np.arange(n) for n in plain.lengths]),
    )
    row_of = dict(
        zip(everything.samples.tolist(), everything.rows.tolist(), strict=True)
    )
    for client in range(10):
        positions = np.arange(60)
        found = stream.at(np.full(60, client), positions, np.ones(60, np.int64))
        assert [
            row_of[sample] for sample in found.samples.tolist()
        ] == found.rows.tolist()
        passed = np.unique(found.samples).size
        again = stream.at(np.full(400, client), np.arange(400), np.ones(400, np.int64))
        assert (
            60 >= passed >= min(60, np.unique(again.samples).size)
        )  # a pass serves everything before it begins anew
    labels = DIGITS.train_labels[made.filters[1]]
    for c in range(10):
        assert (labels == c).sum() == round(
            weights[c] * (DIGITS.train_labels == c).sum()
        )


def test_a_client_who_would_have_nothing_is_refused():
    two = "['same', {kind='classes', classes=[0, 1, 2]}]"
    with pytest.raises(
        SettingError,
        match=r"data\.concepts\[1\]: client 3 would have no data in round 4",
    ):
        stream_of(moving(two))
    first = moving(two, "data.changes.clients=[0, 1, 9]")
    _, stream = stream_of(first)
    served = stream.at(
        np.repeat([0, 1, 9], 100), np.tile(np.arange(100), 3), np.ones(300, np.int64)
    )
    assert sorted(set(DIGITS.train_labels[served.rows[200:]].tolist())) == [
        0
    ]  # client 9 has classes 9 and 0
    assert sorted(set(DIGITS.train_labels[served.rows].tolist())) == [0, 1, 2]


def test_holding_images_back_is_refused_where_streams_end():
    made = moving(
        "['same', {kind='prior', weights=[0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5,"
        " 0.5]}]"
    )
    with pytest.raises(SettingError, match="a stream that stops"):
        stream_of(made, rule=Stop())
    lazy = Stream(
        load("digits").data.partition.owners(DIGITS.train_labels, 10, 0, {}), 0
    )
    with pytest.raises(SettingError, match="not written down"):
        made.stream(lazy, 5)


def test_too_many_appearances_for_memory_are_refused_before_they_are_made(monkeypatch):
    monkeypatch.setenv("HEADGATE_MEMORY", "0.0001")
    with pytest.raises(
        SettingError, match=r"data\.concepts: digits in 2 appearances takes about"
    ):
        moving('["same", "rotated"]')


@dataclass(frozen=True)
class Darker(Concept):
    """A concept of a user's own."""

    by: int = 2

    def images(self, images):
        return images // self.by


@dataclass(frozen=True)
class Broken(Concept):
    def images(self, images):
        return images[:, :, 1:]


def test_a_concept_of_ones_own():
    made = moving(f'["same", {{kind="{__name__}:Darker", by=4}}]')
    assert np.array_equal(
        made.dataset.train_images[len(DIGITS.train_labels) :], DIGITS.train_images // 4
    )
    with pytest.raises(SettingError, match="Broken must leave shape and kind"):
        moving(f'["same", "{__name__}:Broken"]')
