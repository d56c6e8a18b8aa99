"""A client in TypeScript, generated from the document of the API by tools that are not
ours, plays ten rounds.
"""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from headgate.books.statement import opened, statement

from ..served import Kept

CLIENT = Path(__file__).parent / "client"
COMPILER = ["--strict", "--target", "es2022", "--module", "nodenext", "--outDir", "out"]


def called(folder, *words, skip=""):
    """Return what a program prints; skip the test if one that fetches fails."""
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )
    if done.returncode and skip:
        pytest.skip(f"{skip}: {done.stderr.strip()[-200:]}")
    assert done.returncode == 0, f"{words}: {done.stdout} {done.stderr}"
    return done.stdout


@pytest.mark.long
def test_a_generated_client_plays_ten_rounds(tmp_path):
    if shutil.which("npm") is None:
        pytest.skip("needs npm: apt-get install npm")
    folder = tmp_path / "client"
    shutil.copytree(CLIENT, folder)
    quiet = ["--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
    called(folder, "npm", "install", *quiet, skip="npm cannot install packages")
    with Kept(tmp_path / "accounts") as kept:
        document = kept.served.app.openapi()
        (folder / "openapi.json").write_text(json.dumps(document), "utf-8")
        called(folder, "npx", "openapi-typescript", "openapi.json", "-o", "schema.ts")
        called(folder, "npx", "tsc", *COMPILER, "play.ts")
        address = f"http://127.0.0.1:{kept.served.port}"
        said = json.loads(called(folder, "node", "out/play.js", address, kept.token))
        with opened(tmp_path / "accounts" / "generated") as accounts:
            found = statement(accounts)
    assert said["agrees"] is True
    assert float(said["spent"]) == float(found.spent) > 0
    assert found.rounds == 10
