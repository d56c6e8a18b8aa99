"""Clients on Flower that choose what they buy: what orders may say, what the store
remembers, and what never leaves it.
"""

import json
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pytest

from headgate.control.policies import Headgate
from headgate.control.scores import Scores
from headgate.control.selection import Selection
from headgate.errors import DataError, HeadgateError, SettingError
from headgate.experiment import load
from headgate.flower.buffer_store import BufferStore
from headgate.flower.messages import Order
from headgate.flower.playable import check_playable
from headgate.flower.rules import choice_of
from headgate.flower.sources import CallableSource, Sample


def an_order(t=1, known=0, last=2, rule="entropy", window=3, keep=2, **more):
    choice = json.dumps({"rule": {"kind": rule}, "window": window, "keep": keep})
    return Order(
        "one",
        t,
        0,
        known,
        last,
        kept_from=0,
        limit=4,
        acknowledged=t - 1,
        train=True,
        choice=choice,
        **more,
    )


def numbered(end=None):
    """Sample i is the byte i; its label is a secret that no rule may see."""
    return CallableSource(
        lambda i: (
            None if end is not None and i >= end else Sample(f"s{i}", bytes([i]), 7)
        )
    )


class Looking:
    """Of samples it says that their bytes are their entropy, and remembers what it was
    shown.
    """

    def __init__(self):
        self.shown = []

    def __call__(self, samples, asked):
        self.shown.append(list(samples))
        return Scores(
            **{
                name: np.array([float(sample.payload[0] % 5) for sample in samples])
                for name in asked
            }
        )


def opened(tmp_path, **more):
    return closing(BufferStore(tmp_path / "client.sqlite", 0, **more))


def test_the_most_unsure_are_bought_and_the_newest_others_kept(
    tmp_path,
):
    look = Looking()
    with opened(tmp_path) as store:
        assert store.admit(an_order(), numbered(), look)  # 0 1 2 3 4 0: 3 and 4
        assert [sample.key for sample in store.held("one")] == ["s3", "s4"]
        assert [(sample.position, sample.key) for sample in store.spare("one")] == [
            (2, "s2"),
            (5, "s5"),
        ]
        assert store.looked("one") == 6
        assert store.admit(
            an_order(), numbered(), look
        )  # said twice it buys nothing twice
        assert store.looked("one") == 6
        assert len(look.shown) == 1
    with opened(tmp_path) as store:  # another process
        assert store.admit(
            an_order(t=2, known=2, last=3), numbered(), look
        )  # kept 2 and 0; new 1 2 3
        assert [sample.key for sample in store.held("one")] == ["s3", "s4", "s8"]
        assert [sample.key for sample in store.spare("one")] == ["s6", "s7"]
        assert [sample.key for sample in look.shown[1]] == [
            "s2",
            "s5",
            "s6",
            "s7",
            "s8",
        ]
        assert store.admit(
            an_order(t=3, known=3, last=3), numbered(), look
        )  # nothing ordered, nothing looked at
        assert store.looked("one") == 9
        assert len(look.shown) == 2
        told = store.receipt(an_order(t=3, known=3, last=3), 3)
        assert (told.position, told.admitted, told.occupancy) == (3, (0,), 3)
        store.forget("one")
        assert (store.held("one"), store.spare("one")) == ([], [])
    assert {sample.label for shown in look.shown for sample in shown} == {None}


def test_a_source_with_too_few_is_bought_empty(tmp_path):
    with opened(tmp_path) as store:
        assert store.admit(an_order(last=4), numbered(end=3), Looking())
        assert [sample.key for sample in store.held("one")] == ["s0", "s1", "s2"]
        assert (
            store.receipt(an_order(last=4), 3).note == "the source had 3 of 4 samples"
        )
        assert store.admit(an_order(t=2, known=3, last=4), numbered(end=3), Looking())
        assert store.state("one").position == 3


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("[", "must be a JSON object"),
        ("[]", "must be a JSON object"),
        ('{"window": 2, "keep": 0}', "must be a JSON object"),
        ('{"rule": "entropy", "window": 2, "keep": 0}', "must be a JSON object"),
        (
            '{"rule": {"kind": "entropy"}, "window": 2, "keep": 0, "more": 1}',
            "must be a JSON object",
        ),
        (
            '{"rule": {"kind": "entropy"}, "window": 0, "keep": 0}',
            "window must be a whole number, 1 to 1,000",
        ),
        (
            '{"rule": {"kind": "entropy"}, "window": true, "keep": 0}',
            "window must be a whole number",
        ),
        (
            '{"rule": {"kind": "entropy"}, "window": 2, "keep": -1}',
            "keep must be a whole number",
        ),
        (
            '{"rule": {"kind": "os:system"}, "window": 2, "keep": 0}',
            "rule = os:system: this client does not know it",
        ),
        ('{"rule": {}, "window": 2, "keep": 0}', "this client does not know it"),
        (
            '{"rule": {"kind": "margin", "ridge": -1}, "window": 2, "keep": 0}',
            r"order\.choice\.rule\.ridge: unknown key",
        ),
    ],
)
def test_what_an_order_may_not_say(choice, message):
    with pytest.raises(HeadgateError, match=message):
        choice_of(Order("one", 1, 0, 0, 2, 0, 4, 0, True, choice=choice))


@dataclass(frozen=True, eq=False)
class NewestFirst(Selection):
    def rank(self, candidates):
        return -candidates.position


def test_a_buying_rule_that_no_recipe_can_name_is_refused():
    class Nameless(NewestFirst):
        pass

    small = ["run.seeds=1", "data.window=2", "run.policies=['headgate']"]
    with pytest.raises(
        SettingError,
        match=(
            r"policies\.own: clients on Flower must know its buying rule by name:"
            r" .*Nameless"
        ),
    ):
        check_playable(
            load("digits", small)
            .with_policy("own", Headgate(selection=Nameless()))
            .only(["own"])
        )


def test_a_client_knows_its_own_rules_and_says_when_it_cannot_look(tmp_path):
    own = f"{NewestFirst.__module__}:{NewestFirst.__qualname__}"
    with opened(tmp_path, rules=[NewestFirst]) as store:
        store.admit(an_order(rule=own), numbered())
        assert [sample.key for sample in store.held("one")] == ["s4", "s5"]
        with pytest.raises(
            DataError,
            match=r"ByEntropy looks at samples, which this client was not told to do",
        ):
            store.admit(an_order(t=2, known=2, last=4), numbered())
        assert store.state("one").position == 2  # nothing of it was done
        assert store.looked("one") == 6
