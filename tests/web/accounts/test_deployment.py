"""The service as it runs on a machine of its own: the files that a command writes are
started as they are, nginx with TLS in front.
"""

import json
import os
import re
import shutil
import signal
import ssl
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

from headgate import Books, System
from headgate.control.policies import Headgate
from headgate.flower.deploy.certificates import ensure_certificates
from headgate.flower.deploy.deployment import free_port
from headgate.web.accounts.tokens import Tokens

NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")


@pytest.fixture
def files(tmp_path, headgate):
    """The folder of a service, its address, and the certificates."""
    certificates = tmp_path / "certificates"
    ensure_certificates(certificates)
    port, folder = free_port(), tmp_path / "service"
    headgate(
        *("service", folder, "--accounts", tmp_path / "accounts"),
        *("--certificate", certificates / "server.pem"),
        *("--key", certificates / "server.key"),
        *("--listen", f"127.0.0.1:{port}", "--inside", free_port()),
    )
    return folder, f"https://localhost:{port}", certificates / "ca.crt"


@contextmanager
def started(folder, *names):
    processes = []
    try:
        for name in names:
            words = ["-g", "master_process off;"] if name == "nginx" else []
            command = ["/bin/bash", str(folder / f"{name}.sh"), *words]
            with (folder / f"{name}.log").open("wb") as log:
                processes.append(
                    subprocess.Popen(command, stdout=log, stderr=log, process_group=0)
                )
        yield processes
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            process.wait(60)


def answered(address, authority):
    """Return what an address answers, as soon as something does."""
    context = ssl.create_default_context(cafile=str(authority))
    until = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(address, context=context, timeout=20) as answer:
                return answer.read()
        except (urllib.error.HTTPError, OSError) as error:
            if getattr(error, "code", 502) != 502 or time.monotonic() > until:
                raise
            time.sleep(0.2)


@pytest.mark.deploy
@pytest.mark.skipif(NGINX is None, reason="needs nginx: apt-get install nginx")
def test_rounds_are_played_through_nginx_and_the_service_ends_when_it_is_told(
    files, monkeypatch
):
    folder, address, authority = files
    token = Tokens(folder).make("trainer", "*", "amend")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    with started(folder, "accounts", "nginx") as (accounts, _):
        assert answered(f"{address}/healthz", authority) == b"ok\n"
        assert answered(f"{address}/readyz", authority) == b"ready\n"
        with pytest.raises(urllib.error.HTTPError, match="404"):
            answered(f"{address}/metrics", authority)
        system = System({"a": 4, "b": 5}, budget=9.0, horizon=20)
        where = f"{address}/accounts/clinic"
        with Books(where, system, Headgate(), token=token) as books:
            for price in (2.0, 3.5, 1.0):
                books.begin(price)
                books.settle()
            assert len(books.audit().lines) > 0
        log_of_database = folder.parent / "accounts" / "clinic" / "ledger.sqlite-wal"
        assert log_of_database.exists()
        accounts.send_signal(signal.SIGTERM)
        assert accounts.wait(60) in (0, -signal.SIGTERM)
        assert not log_of_database.exists()  # it was closed, not cut off
    log = (folder / "accounts.log").read_text("utf-8")
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    assert {"at", "method", "path", "status", "ms", "by", "key"} == lines[0].keys()
    began = next(each for each in lines if each["path"].endswith("/rounds"))
    assert began["by"] == "trainer"
    assert token not in log


def test_the_files_are_for_their_owner_and_hold_no_token(files):
    folder, _, _ = files
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "database.password").stat().st_mode) == 0o600
    units = [(folder / f"headgate-{name}.service") for name in ("accounts", "nginx")]
    for unit in units:
        text = unit.read_text("utf-8")
        script = re.search(r'ExecStart=/bin/bash "(.*)"', text)[1]
        subprocess.run(["/bin/bash", "-n", script], check=True)
    compose = (folder / "compose.yaml").read_text("utf-8")
    assert (folder / "database.password").read_text("utf-8") not in compose
    assert "$" not in re.sub(r"\$\{HEADGATE_IMAGE:-headgate\}", "", compose)


def test_a_new_service_prints_its_token_once(tmp_path):
    words = [sys.executable, "-m", "headgate.cli", "serve", "--accounts", "accounts"]
    found = []
    for _ in range(2):
        process = subprocess.Popen(
            [*words, "--port", "0"], stdout=subprocess.PIPE, cwd=tmp_path, text=True
        )
        text = ""
        for line in process.stdout:
            text += line
            if "Ctrl-C" in line:
                break
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        found.append(re.findall(r"hg_[\w-]+", text))
    first, second = found
    assert len(set(first)) == 1
    assert second == []
    assert Tokens(tmp_path / "accounts").holder(first[0]).account == "*"


def test_tokens_are_made_listed_and_revoked_by_command(tmp_path, headgate):
    out, _ = headgate(
        "tokens", "new", tmp_path, "anna", "--account", "clinic", "--role", "deliver"
    )
    token = out.strip()
    assert Tokens(tmp_path).holder(token).role == "deliver"
    listed, _ = headgate("tokens", "list", tmp_path)
    assert "anna" in listed
    assert token not in listed
    _, wrong = headgate("tokens", "new", tmp_path, "anna", "--account", "x", code=2)
    assert "name = anna: has a token already" in wrong
    headgate("tokens", "revoke", tmp_path, "anna")
    assert Tokens(tmp_path).holder(token) is None
    for words in (("Anna", "--account", "x"), ("b", "--account", "../x")):
        _, wrong = headgate("tokens", "new", tmp_path, *words, code=2)
        assert "must be 1 to 63 small letters" in wrong
    _, wrong = headgate(
        "tokens", "new", tmp_path, "b", "--account", "x", "--role", "all", code=2
    )
    assert "role = all: must be one of read, deliver, run, amend" in wrong
