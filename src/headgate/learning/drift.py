"""A world that changes: the data set as it looks in each concept, and streams that
follow the concepts.

A sample keeps the concept of the round in which it was admitted; models are evaluated
on the concepts of the current round. The training sets of all appearances are joined,
so that a row identifies both the image and its appearance.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.control.randomness import Purpose, uniform
from headgate.control.types import Floats, Ints
from headgate.errors import SettingError
from headgate.learning.concepts import Concept, ConceptSchedule, Same
from headgate.learning.data import Data
from headgate.learning.datasets import Dataset
from headgate.learning.formats import Labels, Pixels
from headgate.learning.partition import OwnerTable
from headgate.learning.streams import Stream, StreamRows
from headgate.limits import check_memory


class World:
    """A world that does not change: a data set with one concept, in which every client
    always is.
    """

    def __init__(self, dataset: Dataset, seeds: Ints, clients: int) -> None:
        self.dataset, self._shape = dataset, (len(seeds), clients)

    def stream(self, stream: Stream, rounds: int) -> "Stream | DriftingStream":
        """Return the stream with the samples of every concept, for a run of so many
        rounds.
        """
        return stream

    def at(self, t: int) -> Ints:
        """Return the concept of every client in round t, for every seed, (S, M)."""
        return np.broadcast_to(np.zeros((), np.int64), self._shape)

    def shares(self, t: int, weight: Floats) -> Floats:
        """Return the share of the total client weight that is in each concept in round
        t, (S, concepts).
        """
        return np.ones((self._shape[0], 1))

    def columns(
        self, t: int, weight: Floats, by_concept: Floats
    ) -> dict[str, list[float]]:
        """Return the columns of the record about the concepts in round t."""
        return {}


class DriftingData(ConceptSchedule, World):
    """The concepts of an experiment over a data set, and the rounds in which each
    client is in each of them.
    """

    def __init__(self, data: Data, dataset: Dataset, seeds: Ints, clients: int) -> None:
        assert data.changes is not None
        super().__init__(data.changes, len(data.concepts), seeds, clients)
        self.concept_list = data.concepts
        self.rows = len(dataset.train_labels)
        """rows of the training set in each appearance"""
        of_each = [
            Same() if concept.untouched else concept for concept in self.concept_list
        ]
        appearances = list(dict.fromkeys(of_each))
        self.appearances = len(appearances)
        """number of distinct appearances (images and labels) that the concepts have"""
        self.appearance = np.array(
            [appearances.index(appearance) for appearance in of_each]
        )
        """number of the appearance of each concept, (concepts,)"""
        judged = sum(images.nbytes for images, _ in dataset.judged)
        wanted = (
            2.0 * self.appearances * dataset.train_images.nbytes
            + len(self.concept_list) * judged
        )  # twice while joined
        check_memory(
            f"data.concepts: {dataset.name} in {self.appearances} appearances takes",
            wanted,
        )
        self._labels, self._classes = dataset.train_labels, len(dataset.classes)
        self.dataset = self._in_all_appearances(dataset, appearances)

    def _in_all_appearances(
        self, dataset: Dataset, appearances: list[Concept]
    ) -> Dataset:
        """Return a data set with the training sets of all appearances joined, and the
        evaluation sets of every concept.
        """
        seen = [
            _seen(appearance, dataset.train_images, dataset.train_labels)
            for appearance in appearances
        ]
        judged = []
        for images, labels in dataset.judged:
            for number, concept in enumerate(self.concept_list):
                there = self.served(number, labels)
                judged.append(_seen(concept, images[there], labels[there]))
        images, labels = (np.concatenate(each) for each in zip(*seen, strict=True))
        return replace(
            dataset,
            train_images=images,
            train_labels=labels,
            columns={},
            by_concept=tuple(judged),
        )

    def served(self, number: int, labels: Labels) -> NDArray[np.bool_]:
        """Return a mask of the images with these labels that occur in a concept; it is
        always the same.
        """
        shares = self.concept_list[number].shares(self._classes)
        there = np.ones(len(labels), dtype=bool)
        for c in range(0 if shares is None else len(shares)):
            own = np.flatnonzero(labels == c)
            order = np.argsort(uniform(c, Purpose.CONCEPT_SHARE, own), kind="stable")
            there[own[order[round(float(shares[c]) * own.size) :]]] = False  # type: ignore[index]
        if not there.any():
            raise SettingError(
                f"data.concepts[{number}]: none of {len(labels)} images comes by"
            )
        return there

    @cached_property
    def filters(self) -> list[NDArray[np.bool_] | None]:
        """A mask of the rows of the training set that occur in each concept; None: all
        rows.
        """
        whole = [concept.shares(self._classes) is None for concept in self.concept_list]
        return [
            None if all_of_it else self.served(number, self._labels)
            for number, all_of_it in enumerate(whole)
        ]

    def stream(self, stream: Stream, rounds: int) -> "DriftingStream":
        return DriftingStream(self, stream, rounds)


class DriftingStream:
    """The endless streams of all clients for one seed, in every concept.

    The sample at a position depends on the concept. Concepts that differ only in
    appearance show the same image there; a concept in which only some images occur has
    a stream of these alone. An image in another appearance is another sample.
    """

    def __init__(self, world: DriftingData, stream: Stream, rounds: int) -> None:
        self.world, self.lengths, self.images = world, stream.lengths, stream.samples
        self.samples = self.images * world.appearances
        self._whole, self._thinned = stream, dict[int, tuple[Stream, Ints]]()
        for number, there in enumerate(world.filters):
            if there is not None:
                self._thinned[number] = self._without(number, there, rounds)

    def at(
        self, clients: Ints, positions: Ints, concepts: Ints | None = None
    ) -> StreamRows:
        """Return the sample at positions[i] of the stream of clients[i] in concepts[i],
        by default concept 0, for every i.
        """
        concepts = np.zeros_like(positions) if concepts is None else concepts
        samples, rows = np.empty_like(positions), np.empty_like(positions)
        rest = np.ones(positions.shape, dtype=bool)
        for number, (stream, numbers) in self._thinned.items():
            own = np.flatnonzero(concepts == number)
            if own.size:
                rest[own] = False
                found = stream.at(clients[own], positions[own])
                samples[own], rows[own] = numbers[found.samples], found.rows
        samples[rest], rows[rest] = self._whole.at(clients[rest], positions[rest])
        appearance = self.world.appearance[concepts]
        return StreamRows(
            samples + self.images * appearance, rows + self.world.rows * appearance
        )

    def _without(
        self, number: int, there: NDArray[np.bool_], rounds: int
    ) -> tuple[Stream, Ints]:
        """Return the stream of the images that occur in a concept, and the number of
        each of its samples among all samples.
        """
        where, owners = f"data.concepts[{number}]", self._whole.owners
        if not isinstance(owners, OwnerTable):
            raise SettingError(
                f"{where}: holds images back; of so many clients it is not written down"
                " who owns which"
            )
        if self._whole.rule.ends:
            raise SettingError(
                f"{where}: holds images back; a stream that stops would end at another"
                " place in every concept"
            )
        kept = [own[there[own]] for own in np.split(owners.table, owners.starts[1:])]
        empty = np.flatnonzero([not own.size for own in kept])
        for t in range(1, rounds + 1 if empty.size else 0):
            found = empty[self.world.changes.at(self._whole.seed, t, empty) == number]
            if found.size:
                raise SettingError(
                    f"{where}: client {found[0]} would have no data in round {t}"
                )
        unused = np.zeros(1, np.int64)  # for a client that is never in the concept
        each = np.split(
            np.flatnonzero(there[owners.table]),
            np.cumsum([own.size for own in kept])[:-1],
        )
        numbers = np.concatenate([own if own.size else unused for own in each])
        rule, labels = self._whole.rule, self._whole.labels
        return (
            Stream(
                [own if own.size else unused for own in kept],
                self._whole.seed,
                rule,
                labels,
            ),
            numbers,
        )


def _seen(concept: Concept, images: Pixels, labels: Labels) -> tuple[Pixels, Labels]:
    pixels, called = (
        np.asarray(concept.images(images)),
        np.asarray(concept.labels(images, labels)),
    )
    same = pixels.shape == images.shape and pixels.dtype == images.dtype
    if not same or called.shape != labels.shape or called.dtype.kind not in "iu":
        raise SettingError(
            f"data.concepts: {type(concept).__name__} must leave shape and kind of"
            " images and labels unchanged"
        )
    return pixels, called.astype(np.int64)


class Judgement(NamedTuple):
    """The evaluation of the models of all runs; NaN where a model was not evaluated."""

    accuracy: Floats
    """accuracy on the test set, (R,)"""
    loss: Floats
    """mean cross-entropy on the test set, (R,)"""
    validation: Floats
    """accuracy on the validation set, (R,)"""
    by_concept: Floats
    """accuracy on the test set of each concept, (R, concepts); NaN if no client is in
    the concept
    """


def sets_to_judge_by(shares: Floats, validation: bool) -> list[int]:
    """Return the places in `Dataset.judged` of the test, then validation sets of
    concepts with `shares` (S, concepts) > 0.
    """
    concepts = np.flatnonzero(shares.any(axis=0)).tolist()
    return [
        *concepts,
        *(shares.shape[1] + concept for concept in concepts if validation),
    ]


def judgement(
    places: Sequence[int], scores: Sequence[Floats], shares: Floats
) -> Judgement:
    """Combine the accuracy and the loss, (R,) each, on the sets at these places, by the
    `shares` (R, concepts).
    """
    runs, concepts = shares.shape
    found = np.full(
        (2, 2, concepts, runs), np.nan
    )  # axes: test or validation, accuracy or loss, …
    for nth, place in enumerate(places):
        found[place // concepts, :, place % concepts] = scores[2 * nth : 2 * nth + 2]
    there = shares.T > 0
    (accuracy, loss), (validation, _) = np.where(there, shares.T * found, 0.0).sum(
        axis=2
    )
    return Judgement(accuracy, loss, validation, np.where(there, found[0, 0], np.nan).T)
