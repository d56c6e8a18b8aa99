"""Every executor says in a sentence why it is there; its numbers are those of the benchmarks."""

import ast
import json
import re
from pathlib import Path

import pytest

from headgate.simulation.executors import names

ROOT = Path(__file__).parents[3]
FOLDER, RESULTS = ROOT / "src" / "headgate" / "simulation" / "executors", ROOT / "benchmarks" / "results"
MODULES = [name for name in names() if name != "auto"]
SENTENCE = re.compile(r"It is here .*?\(benchmarks/results/(\w+)\.json at (\w+)\)", re.DOTALL)
NUMBER = re.compile(r"(?<![\w-])\d[\d,]*(?:\.\d+)?(?!\w|-)")


def milliseconds(found):
    """All that was measured of a round, by whichever way."""
    if "times" in found:
        return [each[key] for each in found["times"] for key in ("ms_round", "ms_run")]
    return [each["median_ms"] for case in found["cases"] for each in case["ways"]]


def says(number, measured):
    """Whether it is what was measured, rounded to as many digits as it has; zeros in the end may be rounding."""
    digits = number.replace(",", "")
    _, _, behind = digits.partition(".")
    units = {10.0 ** -len(behind), *(10.0**n for n in range(1, len(digits) - len(digits.rstrip("0")) + 1) if not behind)}
    return any(abs(measured - float(digits)) <= 0.5 * unit * (1 + 1e-9) for unit in units)


@pytest.mark.parametrize("name", MODULES)
def test_it_says_why_it_is_there_with_what_was_measured(name):
    said = ast.get_docstring(ast.parse((FOLDER / f"{name}.py").read_text("utf-8")))
    (sentence,) = SENTENCE.finditer(" ".join(said.split()))
    found = json.loads((RESULTS / f"{sentence[1]}.json").read_text("utf-8"))
    assert found["commit"].startswith(sentence[2]), "measured again since: renew the sentence"
    numbers = NUMBER.findall(sentence[0].replace("H200", "").replace("ResNet-9", ""))
    assert numbers
    for number in numbers:
        assert any(says(number, measured) for measured in milliseconds(found)), number


def test_a_number_that_nobody_measured_is_noticed():
    assert says("0.98", 0.9823)
    assert says("1,380", 1381.0)
    assert says("7,560", 7564.9)
    assert not says("0.98", 0.9901)
    assert not says("1,380", 1386.0)
    assert not says("62", 63.0)
