"""The list of errata is whole, every number on it has a test, and pages say its counts."""

import re

import pytest

from headgate.analysis.pages import words
from studies.paper.errata import SHOWN
from studies.paper.errata.page import LISTED, ROOT, counted, numbered_tests


def test_every_erratum_has_its_numbers_and_a_test_and_is_sorted_by_weight_with_labels_of_the_paper():
    numbers = [each["number"] for each in LISTED["erratum"]]
    assert sorted(numbers) == sorted(SHOWN) == sorted(numbered_tests()) == list(range(1, len(numbers) + 1))
    weights = [list(LISTED["weights"]).index(each["weight"]) for each in LISTED["erratum"]]
    assert weights == sorted(weights)
    labels = words(str(ROOT / "studies" / "paper" / "x"), "labels.toml")["labels"]
    assert {label for each in LISTED["erratum"] for label in each["labels"]} <= set(labels)


@pytest.mark.parametrize("name", ["README.md", "studies/paper/README.md", "paper/paper.md"])
def test_pages_say_the_counts_of_the_list(name):
    said = " ".join((ROOT / name).read_text("utf-8").split())
    assert counted() in said


def test_the_letter_names_every_error_and_no_other_with_a_number_that_shows_it():
    text = (ROOT / "studies" / "paper" / "letter.md").read_text("utf-8")
    entries = {int(entry[1]): entry[0] for entry in re.finditer(r"^- \*\*Erratum (\d+),.*?(?=^- |^## )", text, re.M | re.S)}
    assert list(entries) == [each["number"] for each in LISTED["erratum"] if each["weight"] == "error"]
    assert len(text.split()) <= 1200
    for number, entry in entries.items():
        shown = {f"{value:.{digits}f}".replace("-", "−") for value in SHOWN[number]().values() for digits in (2, 3, 4)}
        assert any(re.search(rf"(?<![\d.]){each}(?!\d)", entry) for each in shown), number
        assert "Repair:" in entry
