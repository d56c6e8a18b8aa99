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

from headgate.control.randomness import Purpose, uniform
from headgate.control.types import Bools, Floats, Ints
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

    def __init__(
        self,
        dataset: Dataset,
        seeds: Ints,
        clients: int,
    ) -> None:
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
        self,
        t: int,
        weight: Floats,
        by_concept: Floats,
    ) -> dict[str, list[float]]:
        """Return the columns of the record about the concepts in round t."""
        return {}


class DriftingData(ConceptSchedule, World):
    """The concepts of an experiment over a data set, and the rounds in which each
    client is in each of them.
    """

    def __init__(
        self,
        data: Data,
        dataset: Dataset,
        seeds: Ints,
        clients: int,
    ) -> None:
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
        self.appearance = np.array([appearances.index(each) for each in of_each])
        """number of the appearance of each concept, (concepts,)"""

        judged = sum(images.nbytes for images, _ in dataset.judged)
        trained = self.appearances * dataset.train_images.nbytes
        check_memory(
            f"data.concepts: {dataset.name} in {self.appearances} appearances takes",
            2.0 * trained + self.concepts * judged,  # twice while joined
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

    def served(self, number: int, labels: Labels) -> Bools:
        """Return a mask of the images with these labels that occur in a concept; it is
        always the same.
        """
        shares = self.concept_list[number].shares(self._classes)
        there = np.ones(len(labels), dtype=bool)
        for c, share in enumerate(() if shares is None else shares.tolist()):
            own = np.flatnonzero(labels == c)
            order = np.argsort(uniform(c, Purpose.CONCEPT_SHARE, own), kind="stable")
            there[own[order[round(share * own.size) :]]] = False
        if not there.any():
            raise SettingError(
                f"data.concepts[{number}]: none of {len(labels)} images comes by"
            )
        return there

    @cached_property
    def filters(self) -> list[Bools | None]:
        """A mask of the rows of the training set that occur in each concept; None: all
        rows.
        """
        return [
            None
            if concept.shares(self._classes) is None
            else self.served(number, self._labels)
            for number, concept in enumerate(self.concept_list)
        ]

    def stream(self, stream: Stream, rounds: int) -> "DriftingStream":
        return DriftingStream(self, stream, rounds)


class DriftingStream:
    """The endless streams of all clients for one seed, in every concept.

    The sample at a position depends on the concept. Concepts that differ only in
    appearance show the same image there; a concept in which only some images occur has
    a stream of these alone. An image in another appearance is another sample.
    """

    def __init__(
        self,
        world: DriftingData,
        stream: Stream,
        rounds: int,
    ) -> None:
        self.world = world
        self.lengths = stream.lengths
        self.images = stream.samples
        self.samples = self.images * world.appearances
        self._whole = stream
        self._thinned = {
            number: self._without(number, there, rounds)
            for number, there in enumerate(world.filters)
            if there is not None
        }

    def at(
        self,
        clients: Ints,
        positions: Ints,
        concepts: Ints | None = None,
    ) -> StreamRows:
        """Return the sample at positions[i] of the stream of clients[i] in concepts[i],
        by default concept 0, for every i.
        """
        if concepts is None:
            concepts = np.zeros_like(positions)
        samples = np.empty_like(positions)
        rows = np.empty_like(positions)
        rest = np.ones(positions.shape, dtype=bool)
        for number, (stream, numbers) in self._thinned.items():
            own = np.flatnonzero(concepts == number)
            if own.size:
                rest[own] = False
                found = stream.at(clients[own], positions[own])
                samples[own] = numbers[found.samples]
                rows[own] = found.rows
        samples[rest], rows[rest] = self._whole.at(clients[rest], positions[rest])

        appearance = self.world.appearance[concepts]
        samples += self.images * appearance
        rows += self.world.rows * appearance
        return StreamRows(samples, rows)

    def _without(
        self,
        number: int,
        there: Bools,
        rounds: int,
    ) -> tuple[Stream, Ints]:
        """Return the stream of the images that occur in a concept, and the number of
        each of its samples among all samples.
        """
        where = f"data.concepts[{number}]: holds images back"
        whole = self._whole
        owners = whole.owners
        if not isinstance(owners, OwnerTable):
            raise SettingError(
                f"{where}; of so many clients it is not written down who owns which"
            )
        if whole.rule.ends:
            raise SettingError(
                f"{where}; a stream that stops would end at another place in every"
                " concept"
            )
        kept = [own[there[own]] for own in np.split(owners.table, owners.starts[1:])]
        self._check_data(number, kept, rounds)

        # Positions in the table of owners are the numbers of samples.
        found = np.flatnonzero(there[owners.table])
        numbers = np.split(found, np.cumsum([own.size for own in kept])[:-1])
        unused = np.zeros(1, np.int64)  # for a client that is never in the concept
        stream = Stream(
            [own if own.size else unused for own in kept],
            whole.seed,
            whole.rule,
            whole.labels,
        )
        return stream, np.concatenate([own if own.size else unused for own in numbers])

    def _check_data(
        self,
        number: int,
        kept: Sequence[Ints],
        rounds: int,
    ) -> None:
        """Refuse a concept in which a client would have no data in some round."""
        empty = np.flatnonzero([not own.size for own in kept])
        if not empty.size:
            return
        for t in range(1, rounds + 1):
            concepts = self.world.changes.at(self._whole.seed, t, empty)
            found = empty[concepts == number]
            if found.size:
                raise SettingError(
                    f"data.concepts[{number}]: client {found[0]} would have no data in"
                    f" round {t}"
                )


def _seen(
    concept: Concept,
    images: Pixels,
    labels: Labels,
) -> tuple[Pixels, Labels]:
    pixels = np.asarray(concept.images(images))
    called = np.asarray(concept.labels(images, labels))
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
    if not validation:
        return concepts
    return concepts + [shares.shape[1] + concept for concept in concepts]


def judgement(
    places: Sequence[int],
    scores: Sequence[Floats],
    shares: Floats,
) -> Judgement:
    """Combine the accuracy and the loss, (R,) each, on the sets at these places, by the
    `shares` (R, concepts).
    """
    runs, concepts = shares.shape
    # axes: test or validation, accuracy or loss, …
    found = np.full((2, 2, concepts, runs), np.nan)
    for nth, place in enumerate(places):
        of_set = scores[2 * nth : 2 * nth + 2]
        found[place // concepts, :, place % concepts] = of_set

    there = shares.T > 0
    means = np.where(there, shares.T * found, 0.0).sum(axis=2)
    (accuracy, loss), (validation, _) = means
    by_concept = np.where(there, found[0, 0], np.nan).T
    return Judgement(accuracy, loss, validation, by_concept)
