"""All that is kept is computed again: ledgers, tables and parameters, the wire, what
commands say and refuse.
"""

from importlib.util import find_spec

import pytest

from . import make

SIM, FLOWER = (
    pytest.mark.skipif(find_spec(name) is None, reason=f"needs {name}")
    for name in ("torch", "flwr")
)
MARKS = {"frames": SIM, "parameters": SIM, "wire": FLOWER}
EACH = [
    (golden, case, {})
    for golden in ("ledgers", "frames", "wire", "refusals")
    for case in make.GOLDENS[golden][0]
]
EACH += [
    ("parameters", network, {"executor": name})
    for network, fit in make.NETWORKS.items()
    for name in fit
]
TOLERANCES = {
    # what is learned is computed in other ways by other executors and processors; money
    # and counts are not
    "frames": lambda path: 1e-6 if "accuracy" in path or "loss" in path else 1e-11,
    "parameters": lambda path: 1e-9,
}


@pytest.mark.parametrize(
    ("golden", "case", "how"),
    [
        pytest.param(
            *each,
            marks=MARKS.get(each[0], ()),
            id="-".join([*each[:2], *each[2].values()]),
        )
        for each in EACH
    ],
)
def test_everything_is_as_it_was(golden, case, how):
    computed = make.GOLDENS[golden][1](case, **how)
    assert (
        make.differing(
            computed, make.kept(golden)[case], TOLERANCES.get(golden, lambda path: 0.0)
        )
        == {}
    )


@FLOWER
def test_tables_of_stores_and_fields_of_messages_are_as_they_were():
    assert make.differing(make.formats(), make.kept("formats")) == {}


def test_commands_and_their_options_are_as_they_were():
    assert make.differing(make.commands(), make.kept("commands")) == {}


@pytest.mark.parametrize("command", make.kept("commands"), ids=lambda name: name or "-")
def test_the_help_of_a_command_names_its_options_and_fits(command):
    code, said, _, left = make.typed([*command.split(), "--help"])
    assert (code, left) == (0, [])
    assert max(map(len, said.splitlines())) <= 100
    for name in make.kept("commands")[command].split():
        assert name in said or not name.startswith("-"), name


def test_commands_print_what_they_printed():
    assert make.differing(make.answers(), make.kept_answers()) == {}


def test_all_that_is_kept_is_compared():
    for golden, (cases, _) in make.GOLDENS.items():
        assert set(make.kept(golden)) == set(cases)
    assert {each["code"] for each in make.kept("refusals").values()} == {2, 3, 4}
