"""The whole command on embedded data: every study, every page, every claim."""

import json
import re
import sys
from shutil import copytree

import pytest

from headgate.cli.commands import play
from studies.__main__ import app
from studies.paper.batches import NAMES
from studies.paper.claims import claims, row_from_json, row_to_json
from studies.paper.theory_claims import theory_rows

VERDICTS = re.compile(
    r"holds(?: in direction, not in size)?(?:,? only with overspend of \d+ %|, both over budget \(\d+ % and \d+ %\))?|"
    r"does not hold(?: in size, direction not decided)?|not decided|not testable(?: at the paper's accuracy)?|"
    r"grows faster over these horizons|vacuous|not run here"
)


def headgate(monkeypatch, capsys, *words, code=0):
    monkeypatch.setattr(sys, "argv", ["studies", "reproduce", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        play(app)
    out, err = capsys.readouterr()
    assert (end.value.code or 0) == code, err
    return out, err


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """`python -m studies reproduce all --quick`, once for all tests of this module."""
    folder = tmp_path_factory.mktemp("reproduced")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["studies", "reproduce", "all", "--quick", "--quiet", "--out", str(folder)])
        with pytest.raises(SystemExit) as end:
            play(app)
    assert not end.value.code
    return folder


def test_every_page_is_written_and_marked_as_a_trial(out):
    for name in (*NAMES, "theory", "claims"):
        text = (out / f"{name}.md").read_text("utf-8")
        assert "A trial run" in text
        assert "nan" not in text
        for link in re.findall(r"\]\(([^)#]+)\)", text):
            assert link == "../understand/paper.md" or (out / link).is_file(), link
    for name in NAMES:
        kinds = ("accuracy", "money", "resources", "memory", "summary")
        assert all((out / "figures" / f"{name}-{kind}.svg").stat().st_size > 5000 for kind in kinds)
        curves = (out / f"{name}.csv").read_text("utf-8").splitlines()
        assert curves[0].startswith("kind,batch,policy,round,accuracy")
        assert len(curves) > 30


def test_every_claim_has_a_verdict_and_a_command(out):
    together = json.loads((out / "claims.json").read_text("utf-8"))
    rows = {row["key"]: row for row in together["claims"]}
    wanted = {claim.key for claim in claims()} | {row.key for row in theory_rows(None, None, None, "")}
    assert rows.keys() == wanted
    for row in rows.values():
        assert row["command"] == f"python -m studies reproduce {row['study']} --quick"
        for flavour in ("written", "released"):
            assert VERDICTS.fullmatch(row[flavour]["verdict"]), row
            assert row[flavour]["verdict"] != "not run here", row
    assert {each["study"] for each in together["made_by"]} == {*NAMES, "theory"}


def test_claims_survive_json(out):
    raw = json.loads((out / "claims.json").read_text("utf-8"))["claims"]
    assert [json.loads(json.dumps(row_to_json(row_from_json(each)))) for each in raw] == raw


def test_the_decomposition_adds_up(out):
    ways = json.loads((out / "mnist.json").read_text("utf-8"))["decomposition"]
    assert len(ways) == 2
    for way in ways:
        assert sum(step["gain"][0] for step in way["steps"]) == pytest.approx(way["whole"][0], abs=1e-3)


def test_finished_runs_are_used_as_they_are(out, monkeypatch, capsys):
    before = {path: path.stat().st_mtime_ns for path in out.glob("runs/mnist/*/metrics.parquet")}
    assert len(before) > 5
    page = (out / "mnist.md").read_bytes()
    headgate(monkeypatch, capsys, "mnist", "--quick", "--quiet", "--out", out)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert (out / "mnist.md").read_bytes() == page


def test_the_page_of_all_claims_is_made_from_results_alone(out, monkeypatch, capsys):
    page, known = (out / "claims.md").read_bytes(), (out / "control.json").stat().st_size
    (out / "claims.md").unlink()
    headgate(monkeypatch, capsys, "claims", "--quick", "--quiet", "--out", out)
    assert (out / "claims.md").read_bytes() == page
    assert (out / "control.json").stat().st_size == known


def test_runs_with_other_settings_are_refused(out, tmp_path, monkeypatch, capsys):
    copytree(out / "runs" / "mnist" / "released", tmp_path / "runs" / "mnist" / "written")
    _, err = headgate(monkeypatch, capsys, "mnist", "--quick", "--quiet", "--out", tmp_path, code=4)
    assert "written: was begun with other settings" in err


def test_a_trial_never_takes_the_place_of_results(out, tmp_path, monkeypatch, capsys):
    real = json.loads((out / "mnist.json").read_text("utf-8")) | {"quick": False}
    (tmp_path / "mnist.json").write_text(json.dumps(real))
    _, err = headgate(monkeypatch, capsys, "theory", "--quick", "--quiet", "--out", out, "--pages", tmp_path, code=4)
    assert "holds real results" in err
    assert "a trial run would be mixed" in err


def test_missing_data_name_the_command_that_gets_them(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HEADGATE_DATA", str(tmp_path))
    _, err = headgate(monkeypatch, capsys, "mnist", "--quiet", "--out", tmp_path / "out", "--processes", 1, code=4)
    assert "headgate data get mnist" in err
    assert not list((tmp_path / "out").glob("*.md"))


def test_what_would_run_can_be_listed(monkeypatch, capsys):
    said, _ = headgate(monkeypatch, capsys, "cifar10", "--list")
    assert "cifar10/written" in said
    assert re.search(r"cifar10: about \d+ s of H200 in all", said)
