"""What Prometheus reads is what the run folders hold, in its own text format."""

import json
import re

import pytest

from headgate.records.reader import RunFolder
from headgate.records.tables import read_sealed
from headgate.writing import replace_file

from .folders import MadeUp, change_state
from .served import Served

SAMPLE = re.compile(
    r'headgate_(\w+)\{run="((?:[^"\\\n]|\\.)*)",policy="((?:[^"\\\n]|\\.)*)"\} (\S+)'
)


@pytest.fixture
def runs(tmp_path):
    folder = tmp_path
    MadeUp(folder / "done", seeds=3).finish()
    change_state(folder / "done", refused="many\nheadgate_spent 1", quarantined=True)
    MadeUp(folder / 'a "b" \\', policies=("headgate",)).play(5).say(
        "running", refused=2, quarantined=1
    )
    MadeUp(folder / "begun")
    MadeUp(folder / "broken").finish()
    (folder / "broken" / "metrics.parquet").write_bytes(b"nothing")
    return folder


def read(text):
    """As Prometheus reads it: every line is a comment or a sample, and no sample comes
    twice.
    """
    found = {}
    for line in text.splitlines():
        if not line.startswith(("# HELP headgate_", "# TYPE headgate_")):
            name, run, policy, value = SAMPLE.fullmatch(line).groups()
            assert (name, run, policy) not in found
            found[name, run, policy] = float(value)
    return found


def test_the_numbers_are_those_of_the_folders(runs):
    with Served(runs) as page:
        answer = page.get("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = read(answer.body.decode())
    assert {run for _, run, _ in found} == {"done", 'a \\"b\\" \\\\'}
    rows = RunFolder.open(runs / "done").metrics().filter(policy="constant")
    spent = rows["spend"].sum() / 3
    last = rows.filter(t=12)
    expected = {
        "rounds": 12,
        "spent": spent,
        "left": 240 - spent,
        "warning": float(spent >= 192),
        "price": last["price"].mean(),
        "admitted": rows["admitted"].sum() / 3,
        "held": last["n"].mean(),
        "accuracy": last["test_accuracy"].mean(),
    }
    own = {
        name: value
        for (name, run, policy), value in found.items()
        if (run, policy) == ("done", "constant")
    }
    assert own.pop("mean_age") >= 0
    assert own.pop("quarantined") == 1  # and "many" is no count of what was refused
    assert own == pytest.approx(expected)
    other = {
        name: value
        for (name, _, policy), value in found.items()
        if policy == "headgate"
    }
    assert (other["rounds"], other["refused"], other["quarantined"]) == (5, 2, 1)


def test_the_page_warns_where_the_money_of_real_clients_comes_to_its_end(tmp_path):
    made = MadeUp(tmp_path / "real", policies=("headgate",), seeds=1)
    folder = made.play(12).say("running").folder
    facts = read_sealed(folder / "environment.json")
    replace_file(
        folder / "environment.json", json.dumps(facts | {"executor": "flower"}).encode()
    )
    share = RunFolder.open(folder).metrics()["spend"].sum() / 240
    assert share > 0.8
    with Served(tmp_path) as page:
        assert (
            page.get("/api/runs/real").json["warning"]
            == f"{share:.0%} of the money is spent."
        )
    made.finish()
    with Served(tmp_path) as page:
        assert page.get("/api/runs/real").json["warning"] == ""
