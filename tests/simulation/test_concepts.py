"""A world that changes, in the engine: what is trained on, what models are judged by,
what the record and the page say.
"""

import json
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

import headgate
from headgate.experiment import load
from headgate.records.tables import METRICS

from .digits import DATA, TWO, played, simulate

SWAP = np.array([1, 0, 3, 2, 5, 4, 7, 6, 9, 8])
THREE = f"data.concepts=['same', 'rotated', {{kind='swapped', to={SWAP.tolist()}}}]"
CHANGES = {
    "sudden": "data.changes={kind='sudden', rounds=[4, 8], stagger=1}",
    "gradual": "data.changes={kind='gradual', start=2, stop=10, order=[2, 1]}",
    "recurring": (
        "data.changes={kind='recurring', every=3, order=[0, 2, 1], clients=[0, 1, 2, 3,"
        " 4, 5]}"
    ),
}
SMALL = [*TWO, "run.rounds=12", "training.steps=2"]
POLICIES = [
    "run.policies=['headgate', 'constant', 'hybrid', 'acdpp', 'balanced', 'listening']",
    "policies.listening.kind=studies.zoo.listening:Listening",
    "policies.balanced={kind='studies.zoo.plain:Pacing', rule='class-balanced'}",
]


def rows_of(*settings):
    return [row for done in played(*SMALL, *settings)[1] for row in done.metrics]


@pytest.mark.parametrize("changes", CHANGES)
def test_a_sample_stays_as_it_was_when_it_was_admitted(changes):
    """Under every kind of rule, by plain bookkeeping of the round in which each
    position was admitted.
    """
    simulation = simulate(*SMALL, THREE, CHANGES[changes], *POLICIES)
    given, n = simulation.experiment.data, len(DATA.train_labels)
    born, clients, several = {}, np.arange(10), 0
    looks = {
        0: DATA.train_images,
        1: np.rot90(DATA.train_images, 1, axes=(2, 3)),
        2: DATA.train_images,
    }
    for t in range(1, 13):
        before = simulation.ledgers
        now = simulation._prepare(t, before, simulation.purchases)
        simulation.step()
        positions = []
        for name in simulation.names:
            old, new = before[name], simulation.ledgers[name]
            for s, m in np.ndindex(2, 10):
                born |= {
                    (name, s, m, i): t
                    for i in range(old.admitted[s, m], new.admitted[s, m])
                }
                held = (
                    np.arange(new.dropped[s, m], new.admitted[s, m])
                    if new.places is None
                    else new.places[s, m]
                )
                positions += [(name, s, m, i) for i in held.tolist() if i >= 0]
        concepts = [
            given.changes.at(s, born[name, s, m, i], clients)[m]
            for name, s, m, i in positions
        ]
        assert len(concepts) == len(now.batch.rows)
        several = max(several, len(set(concepts)))
        pixels, labels = (
            simulation.learner.dataset.train_images,
            simulation.learner.dataset.train_labels,
        )
        for row, concept, (_, s, m, i) in zip(
            now.batch.rows.tolist(), concepts, positions, strict=True
        ):
            plain = (
                simulation.streams[s]
                ._whole.at(np.array([m]), np.array([i]))
                .rows.item()
            )
            assert row % n == plain
            assert np.array_equal(pixels[row], looks[concept][plain])
            assert labels[row] == (
                SWAP[DATA.train_labels[plain]]
                if concept == 2
                else DATA.train_labels[plain]
            )
    assert several > 1


def test_a_rule_that_looks_at_classes_sees_them_as_they_were_called():
    simulation, _ = played(
        *SMALL,
        THREE,
        "data.changes={kind='sudden', rounds=[3], order=[0, 2]}",
        *POLICIES,
    )
    contents, places = (
        simulation.ledgers["balanced"].contents,
        simulation.ledgers["balanced"].places,
    )
    s, m, nth = np.nonzero(places >= 0)
    late = contents.born[s, m, nth] >= 3
    assert late.any()
    assert not late.all()
    for seed, client, position, new, label in zip(
        s, m, places[s, m, nth], late, contents.labels[s, m, nth], strict=True
    ):
        row = (
            simulation.streams[seed]
            ._whole.at(np.array([client]), np.array([position]))
            .rows.item()
        )
        assert label == (
            SWAP[DATA.train_labels[row]] if new else DATA.train_labels[row]
        )


@pytest.mark.parametrize("executor", ["auto", "reference", "flat"])
@pytest.mark.parametrize("validation", [0.0, 0.2])
def test_models_are_judged_by_the_concepts_of_today(executor, validation):
    """By hand: the share of right answers on each concept's test set, averaged with the
    clients' weights.
    """
    weights = [0.05, 0.05, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]
    more = [
        f"system.weights={weights}",
        f"data.validation={validation}",
        "run.policies=['headgate']",
        "run.rounds=6",
    ]
    changes = "data.changes={kind='sudden', rounds=[3, 6], stagger=1}"
    simulation = simulate(*SMALL, THREE, changes, *more, executor=executor)
    for t in range(1, 7):
        rows = simulation.step().metrics
        concept = np.array([int(t >= 3 + m) + int(t >= 6 + m) for m in range(10)])
        assert rows[0]["changed"] == pytest.approx(
            sum(w for m, w in enumerate(weights) if t in (3 + m, 6 + m))
        )
        for row, theta in zip(rows, simulation.theta, strict=True):
            right = [
                answers(theta, images) == labels
                for images, labels in by_hand(DATA.test_images, DATA.test_labels)
            ]
            expected = sum(
                w * right[c].mean() for w, c in zip(weights, concept, strict=True)
            )
            assert row["test_accuracy"] == pytest.approx(expected, abs=1e-12)
            for c in range(3):
                share = sum(
                    w for w, own in zip(weights, concept, strict=True) if own == c
                )
                assert row[f"share_{c}"] == pytest.approx(share)
                assert row[f"accuracy_{c}"] == pytest.approx(
                    right[c].mean() if share else np.nan, nan_ok=True, abs=1e-12
                )
            assert (row["validation_accuracy"] is None) == (not validation)
            if validation:
                images, labels = simulation.learner.dataset.judged[
                    3
                ]  # concept 0, which client 9 is in throughout
                held = [
                    (answers(theta, i) == own).mean()
                    for i, own in by_hand(images, labels)
                ]
                assert row["validation_accuracy"] == pytest.approx(
                    np.dot(weights, np.array(held)[concept]), abs=1e-12
                )


def by_hand(images, labels):
    return [
        (images, labels),
        (np.rot90(images, 1, axes=(2, 3)), labels),
        (images, SWAP[labels]),
    ]


def answers(theta, images):
    x = (images.reshape(len(images), -1) / 255 - DATA.mean[0]) / DATA.std[0]
    weight, bias = theta[:640].reshape(10, 64), theta[640:]
    return (x @ weight.T + bias).argmax(axis=1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_world_that_stands_still_is_the_same_with_concepts_and_without(dtype):
    more = [
        *POLICIES,
        f"training.dtype={dtype}",
        "data.validation=0.1",
        "training.evaluate_every=5",
    ]
    plain = rows_of(*more)
    still = rows_of(
        *more,
        "data.concepts=['same', 'rotated']",
        "data.changes={kind='sudden', rounds=[99]}",
    )
    for mine, other in zip(still, plain, strict=True):
        assert list(other) == list(METRICS)
        assert list(mine) == [
            *METRICS,
            "changed",
            "share_0",
            "accuracy_0",
            "share_1",
            "accuracy_1",
        ]
        np.testing.assert_equal({name: mine[name] for name in other}, other)
        assert (mine["changed"], mine["share_0"], mine["share_1"]) == (0, 1, 0)
        np.testing.assert_equal(mine["accuracy_0"], other["test_accuracy"])
    assert "concepts" not in simulate(*more).experiment.tables()["data"]


def test_an_image_in_another_look_is_a_new_sample():
    small = [
        "run.policies=['oracle']",
        "data.partition.per_class=10",
        "training.steps=1",
    ]
    swapped = rows_of(
        *small, THREE, "data.changes={kind='sudden', rounds=[6], order=[0, 2]}"
    )
    assert (swapped[8]["N"], swapped[-1]["N"]) == (
        200,
        400,
    )  # two seeds a round; 200 images in two looks
    thinned = f"data.concepts=['same', {{kind='prior', weights={[0.5] * 10}}}]"
    later = rows_of(*small, thinned, "data.changes={kind='sudden', rounds=[6]}")
    assert later[-1]["N"] == 200


def test_a_cohort_of_many_clients_in_a_world_that_changes():
    more = [
        "system.clients=1500",
        "training.cohort=20",
        "run.policies=['constant']",
        "run.rounds=4",
        "system.budget=9000",
    ]
    rows = rows_of(THREE, "data.changes={kind='sudden', rounds=[3]}", *more)
    assert [row["changed"] for row in rows[::2]] == pytest.approx([0, 0, 1, 0])
    assert rows[-1]["accuracy_1"] == rows[-1]["test_accuracy"]


def test_the_recipe_on_the_page_is_the_one_that_is_shipped():
    page = (Path(__file__).parents[2] / "docs" / "do" / "samples.md").read_text("utf-8")
    blocks = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (block,) = [each for each in blocks if "changes =" in each]
    assert (
        load({"base": "digits", **tomllib.loads(block)}).data == load("drifting").data
    )


def test_the_recipe_tells_of_its_dips_in_summary_and_report(tmp_path):
    e = headgate.load(
        "drifting",
        "data.kind=digits",
        "run.seeds=2",
        'run.policies=["oracle", "constant"]',
    )
    run = headgate.run(e, tmp_path / "moved", quiet=True)
    frame = run.frame
    assert frame.filter(frame["changed"] > 0)["t"].unique().sort().to_list() == [41, 81]
    told = {
        row["policy"]: row
        for row in json.loads((tmp_path / "moved" / "summary.json").read_text())
    }
    for row in told.values():
        assert row["dips"] == 4  # two changes, two seeds
        assert 0.2 < row["dip_depth"]["mean"] < 0.9
        assert row["dip_length"]["mean"] >= 1
    assert (
        told["oracle"]["daily_accuracy"]["mean"]
        > told["constant"]["daily_accuracy"]["mean"]
    )  # who renews all is back first
    report = (tmp_path / "moved" / "report.html").read_text("utf-8")
    assert "Dip lasts" in report
    assert '"changes":[41,81]' in report
