"""The price of a round: what is stated, what a file, a command or an address says, and
no price at all rather than a wrong one.
"""

import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from headgate.errors import HeadgateError, SettingError
from headgate.labels.nouns import Later
from headgate.labels.prices import MOST, check_price, price_of
from headgate.registry import Search

NAMES = ["north", "south"]


def asked(description, folder, t=1):
    search = Search(folder)
    check_price(description, search)
    return price_of(description, search, t, 0, NAMES)


def command(*words, **more):
    return {"kind": "command", "command": list(words), **more}


def python(code, **more):
    return command(sys.executable, "-c", code, **more)


def test_a_number_is_the_price_of_every_round(tmp_path):
    assert asked(0.08, tmp_path, 1) == asked(0.08, tmp_path, 7) == 0.08


def test_a_file_has_a_row_for_each_round_and_may_grow(tmp_path):
    (tmp_path / "prices.csv").write_text("price\n0.1\n0.2\n")
    trace = {"kind": "trace", "file": "prices.csv"}
    assert [asked(trace, tmp_path, t) for t in (1, 2)] == [0.1, 0.2]
    with pytest.raises(Later, match="ends after 2 rounds"):
        asked(trace, tmp_path, 3)
    (tmp_path / "prices.csv").write_text("price\n0.1\n0.2\n0.3\n")
    assert asked(trace, tmp_path, 3) == 0.3


def test_a_command_prints_the_price_in_the_folder_of_the_file(tmp_path):
    (tmp_path / "today").write_text("0.25")
    code = "print(open('today').read())"
    assert asked(python(code), tmp_path) == 0.25
    table = 'print(\'{"now": [{"north": 1, "south": 2.5, "other": 9}]}\')'
    assert asked(python(table, field="now.0"), tmp_path) == {"north": 1, "south": 2.5}


@pytest.mark.parametrize(
    ("description", "why"),
    [
        (command("no-such-program"), "cannot be run"),
        (python("raise SystemExit(3)"), "ended with code 3"),
        (python("print('soon')"), "answered soon"),
        (python("print(-1)"), "no price"),
        (python("print('NaN')"), "no price"),
        (python("print('true')"), "no price"),
        (python("print('{}')"), "no price"),
        (python("print('[1, 2]')", field="7"), "no price"),
        (python("print('{\"north\": 1}')"), "no price"),
        (python(f"print('x' * {2 * MOST})"), "more than 65536 bytes"),
        (python("import time; time.sleep(60)", timeout=0.3), "did not answer in 0.3"),
    ],
)
def test_what_is_no_price_is_for_later(description, why, tmp_path):
    with pytest.raises(Later, match=why):
        asked(description, tmp_path)


def test_a_command_ends_with_all_that_it_started(tmp_path):
    """A child that holds the output open would otherwise be waited for."""
    code = (
        "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time;"
        " time.sleep(60)']); print(1)"
    )
    began = time.monotonic()
    with pytest.raises(HeadgateError):
        asked(python(code, timeout=1.0, field="no"), tmp_path)
    assert time.monotonic() - began < 30


@pytest.fixture
def address():
    answers = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            code, body = answers.get(self.path, (404, b""))
            self.send_response(code)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *given):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    answers["at"] = f"http://127.0.0.1:{server.server_port}"
    yield answers
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_address_answers_json(address, tmp_path):
    pytest.importorskip("httpx", reason="the extra labels is not installed")
    address["/p?key=secret"] = 200, b'{"data": {"usd": 0.07}}'
    address["/moved"] = 302, b"0.07"
    address["/large"] = 200, b"1" * 10**6
    stated = {"kind": "url", "url": f"{address['at']}/p?key=secret"}
    assert asked({**stated, "field": "data.usd"}, tmp_path) == 0.07
    with pytest.raises(Later) as error:
        asked({**stated, "field": "data.eur"}, tmp_path)
    assert "secret" not in str(error.value), "a query may hold a key"
    for path, why in (
        ("/moved", "answered 302"),
        ("/none", "answered 404"),
        ("/large", "more than 65536 bytes"),
    ):
        with pytest.raises(Later, match=why):
            asked({"kind": "url", "url": address["at"] + path}, tmp_path)


def test_an_address_that_does_not_answer_is_for_later(tmp_path):
    pytest.importorskip("httpx", reason="the extra labels is not installed")
    with pytest.raises(Later, match="cannot be reached"):
        asked({"kind": "url", "url": "http://127.0.0.1:9/p"}, tmp_path)


@pytest.mark.parametrize(
    ("description", "message"),
    [
        (0, "value = 0"),
        (True, "price"),
        ("dear", "no such price process"),
        ({"kind": "command", "command": []}, "must be a program"),
        ({"kind": "url", "url": "ftp://host"}, "must be an address"),
        ({"kind": "url", "url": "http://a", "timeout": 0}, "timeout = 0"),
        ({"kind": "url", "url": "http://a", "filed": "x"}, "filed: unknown key"),
    ],
)
def test_a_setting_that_cannot_be_is_named_at_once(description, message, tmp_path):
    with pytest.raises(SettingError, match=message):
        check_price(description, Search(tmp_path))
