"""A tape of calls: a server that passes them on to another one and writes down what it
answers, or that answers as it is written.
"""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

import httpx

KEPT = ("content-type", "date")
"""headers of answers that are written down"""


class Tape:
    """Calls with their answers, in their order.

    `names` are texts that differ from time to time, such as tokens: by the words that
    stand for them on the tape.
    """

    def __init__(self, calls=(), passed_to=None, names=None):
        self.calls = list(calls)
        self.passed_to = passed_to
        self.names = dict(names or {})
        self.answered = 0
        self.wrong = []
        """calls that are not on the tape at their place, each beside the one there"""

    def written(self, text):
        for word, value in self.names.items():
            text = text.replace(value, word)
        return text

    def read(self, text):
        for word, value in self.names.items():
            text = text.replace(word, value)
        return text

    def answer(self, method, path, headers, body):
        """The status, headers and content of the answer of a call."""
        asked = {
            "method": method,
            "path": urlsplit(path).path,
            "query": dict(parse_qsl(urlsplit(path).query)),
            "authorization": self.written(headers.get("Authorization", "")),
            "body": json.loads(self.written(body.decode())) if body else None,
        }
        if self.passed_to:
            return self._pass_on(asked, method, path, headers, body)
        there = self.calls[self.answered] if self.answered < len(self.calls) else {}
        self.answered += 1
        if there.get("asked") != asked:
            self.wrong.append((asked, there.get("asked")))
            return 418, {}, b'{"detail": "this call is not on the tape"}'
        content = there["content"]
        if content is None:
            return there["status"], there["headers"], b""
        return there["status"], there["headers"], self.read(content).encode()

    def _pass_on(self, asked, method, path, headers, body):
        kept = {
            name: value
            for name, value in headers.items()
            if name.lower() in ("authorization", "content-type")
        }
        answer = httpx.request(
            method,
            self.passed_to + path,
            content=body,
            headers=kept,
            timeout=120,
        )
        if asked["path"] == "/api/token/refresh" and answer.is_success:
            self.names["ACCESS"] = answer.json()["access"]
        found = {name: answer.headers[name] for name in KEPT if name in answer.headers}
        self.calls.append(
            {
                "asked": asked,
                "status": answer.status_code,
                "headers": found,
                "content": self.written(answer.text) if answer.content else None,
            }
        )
        return answer.status_code, found, answer.content

    @contextmanager
    def played(self):
        """The address at which it answers."""
        tape = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, headers, content = tape.answer(
                    self.command, self.path, self.headers, body
                )
                self.send_response_only(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if status != 204:
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_PATCH = do_DELETE = do_GET

            def log_message(self, *_):
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            server.block_on_close = False
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_port}"
            finally:
                server.shutdown()
                thread.join()
