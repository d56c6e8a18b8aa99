"""The whole command on embedded data: every study, every page, every claim."""

import json
import re
import sys
from shutil import copytree

import pytest

from headgate.cli.commands import play
from studies.__main__ import app
from studies.paper.batches import NAMES
from studies.paper.claims import claims, finding_of
from studies.paper.theory_claims import theory_rows

pytestmark = (
    pytest.mark.long
)  # test_comparisons.py tries one study from the run to its page
VERDICTS = re.compile(
    r"holds(?: in direction, not in size)?(?:,? only with overspend of \d+ %|, both"
    r" over budget \(\d+ % and \d+ %\))?|"
    r"does not hold(?: in size, direction not decided)?|not decided|not testable(?: at"
    r" the paper's accuracy)?|"
    r"grows faster over these horizons|vacuous|not run here"
)


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """`python -m studies reproduce all --quick`, once for all tests of this module."""
    folder = tmp_path_factory.mktemp("reproduced")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            sys,
            "argv",
            ["studies", "reproduce", "all", "--quick", "--quiet", "--out", str(folder)],
        )
        with pytest.raises(SystemExit) as end:
            play(app)
    assert not end.value.code
    return folder


def test_every_page_is_written_and_marked_as_a_trial(out):
    for name in ("paper", "theory", "claims"):
        text = (out / f"{name}.md").read_text("utf-8")
        assert "A trial run" in text
        assert "nan" not in text
    assert all(
        (out / f"{name}.svg").stat().st_size > 5000 for name in ("paper", "theory")
    )
    for name in NAMES:
        curves = (
            (out / "results" / "paper" / f"{name}.csv").read_text("utf-8").splitlines()
        )
        assert curves[0].startswith("batch,policy,round,accuracy")
        assert len(curves) > 30


def test_every_claim_has_a_verdict_and_a_command_and_survives_json(out):
    together = json.loads(
        (out / "results" / "paper" / "claims.json").read_text("utf-8")
    )
    rows = {row["key"]: row for row in together["claims"]}
    wanted = {claim.key for claim in claims()} | {
        row.key for row in theory_rows({}, "")
    }
    assert rows.keys() == wanted
    for row in rows.values():
        assert row["command"] == f"python -m studies reproduce {row['study']} --quick"
        for flavour in ("written", "released"):
            found = finding_of(row[flavour])
            assert (found.value and list(found.value.three)) == row[flavour]["value"]
            assert VERDICTS.fullmatch(found.verdict), row
            assert found.verdict != "not run here", row
    assert {each["study"] for each in together["made_by"]} == {*NAMES, "theory"}


def test_finished_runs_are_used_as_they_are_and_trials_are_not_mixed_with_results(
    out, tmp_path, studies
):
    folder = copytree(out, tmp_path / "again")
    stamp = {path: path.stat().st_mtime_ns for path in folder.rglob("metrics*")}
    studies("reproduce", "imagenette", "--quick", "--quiet", "--out", folder)
    assert stamp
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("metrics*")} == stamp
    for name in NAMES:
        path = folder / "results" / "paper" / f"{name}.json"
        path.write_text(
            json.dumps(json.loads(path.read_text("utf-8")) | {"quick": False})
        )
    assert (
        "a trial run would be mixed"
        in studies("reproduce", "claims", "--quick", "--out", folder, code=4)[1]
    )
