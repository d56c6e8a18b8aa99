"""The list of errata is whole, every number on it has a test, and pages say its counts."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headgate.errors import SettingError
from studies.__main__ import app
from studies.paper.errata.listing import counted, listed
from studies.paper.errata.page import numbered_tests
from studies.paper.errata.shown import SHOWN

ROOT = Path(__file__).parents[3]


def test_every_erratum_has_its_numbers_and_a_test_and_there_are_no_others():
    numbers = [each.number for each in listed().errata]
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
    assert sorted(SHOWN) == sorted(numbers)
    assert sorted(numbered_tests()) == sorted(numbers)


def test_it_is_sorted_by_weight_and_every_label_is_one_of_the_papers():
    errata, order = listed(), list(listed().weights)
    weights = [order.index(each.weight) for each in errata.errata]
    assert weights == sorted(weights)
    labels = set(tomllib.loads((ROOT / "studies" / "paper" / "labels.toml").read_text("utf-8"))["labels"])
    assert {label for each in errata.errata for label in each.labels} <= labels


@pytest.mark.parametrize("name", ["README.md", "studies/paper/README.md", "paper/paper.md"])
def test_pages_say_the_counts_of_the_list(name):
    said = " ".join((ROOT / name).read_text("utf-8").split())
    assert counted() in said


def test_the_command_prints_the_list_or_some_of_it():
    done = CliRunner().invoke(app, ["theory", "errata", "1", "7"])
    assert done.exit_code == 0, done.output
    assert "0.9419" in done.output
    assert "61.11" in done.output
    shown = json.loads(CliRunner().invoke(app, ["theory", "errata", "24", "--format", "json"]).output)
    assert shown[0]["number"] == 24
    assert shown[0]["numbers"]["‖θ(2) − θ*‖²"] == pytest.approx(2.5e-5)


def test_a_number_that_is_none_is_refused():
    with pytest.raises(SettingError, match="erratum 99"):
        listed().numbered(99)


def test_the_letter_names_every_error_and_no_other_with_a_number_that_shows_it():
    text = (ROOT / "studies" / "paper" / "letter.md").read_text("utf-8")
    entries = {int(entry[1]): entry[0] for entry in re.finditer(r"^- \*\*Erratum (\d+),.*?(?=^- |^## )", text, re.M | re.S)}
    assert list(entries) == [each.number for each in listed().of("error")]
    assert len(text.split()) <= 1200
    for number, entry in entries.items():
        shown = {f"{value:.{digits}f}".replace("-", "−") for value in SHOWN[number]().values() for digits in (2, 3, 4)}
        assert any(re.search(rf"(?<![\d.]){each}(?!\d)", entry) for each in shown), number
        assert "Repair:" in entry
