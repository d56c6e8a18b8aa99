"""A hub of our own on this machine, with the faults a test asks for."""

import hashlib
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np

CONTENT = np.random.default_rng(3).integers(0, 256, 1_000_000, dtype=np.uint8).tobytes()
TREE = "/api/datasets/ylecun/mnist/tree/main?recursive=true"
RESOLVE = "/datasets/ylecun/mnist/resolve/main/"
TRAIN = Path("mnist", "mnist", "train-00000-of-00001.parquet")
TEST = Path("mnist", "mnist", "test-00000-of-00001.parquet")


class Hub(ThreadingHTTPServer):
    """A hub with one repository and the faults a test asks for."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.repository = "ylecun/mnist"
        self.files: dict[str, bytes] = {}
        self.listing: list[dict[str, Any]] | None = None  # instead of the one made from `files`
        self.raw_listing: bytes | None = None
        self.page = 1000
        self.next_link: str | None = None
        self.cuts: list[int] = []  # of the next file answers, send only so many bytes
        self.failures: list[int] = []  # statuses for the next requests
        self.ranges = True
        self.redirect = False
        self.content_range: str | None = None
        self.asked: list[tuple[str, str | None]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def entries(self) -> list[dict[str, Any]]:
        if self.listing is not None:
            return self.listing
        folders = [
            {"type": "directory", "oid": "0", "size": 0, "path": path.split("/")[0]} for path in self.files if "/" in path
        ]
        return folders + [entry(path, content) for path, content in self.files.items()]


def entry(path: str, content: bytes, **changes: Any) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    lfs = {"oid": digest, "size": len(content), "pointerSize": 132}
    return {"type": "file", "oid": "1" * 40, "size": len(content), "lfs": lfs, "path": path} | changes


class Answer(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *_: object) -> None:
        """Silence."""

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers.get("Range")))
        path = urlsplit(self.path).path
        repository = self.server.repository
        if self.server.failures:
            self.reply(self.server.failures.pop(0), b"not now")
        elif path == f"/api/datasets/{repository}/tree/main":
            self.list()
        elif path.startswith(f"/datasets/{repository}/resolve/main/"):
            self.file(unquote(path.split("/resolve/main/")[1]))
        elif path.startswith("/cdn/"):
            self.send(unquote(path.removeprefix("/cdn/")))
        else:
            self.reply(401, b'{"error": "Repository not found"}')

    def reply(self, status: int, content: bytes, headers: dict[str, str] | None = None, cut: int | None = None) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(content))} | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content[:cut])
        self.close_connection = True

    def list(self) -> None:
        assert "recursive=true" in self.path
        if self.server.raw_listing is not None:
            self.reply(200, self.server.raw_listing)
            return
        entries = self.server.entries()
        start = int(self.path.partition("cursor=")[2] or 0)
        following = start + self.server.page
        link = self.server.next_link or f"{self.server.address}{TREE}&cursor={following}"
        headers = {"Link": f'<{link}>; rel="next"'} if following < len(entries) else {}
        self.reply(200, json.dumps(entries[start:following]).encode(), headers)

    def file(self, path: str) -> None:
        if path not in self.server.files:
            self.reply(404, b"Entry not found")
        elif self.server.redirect:
            self.reply(302, b"", {"Location": f"/cdn/{path}"})
        else:
            self.send(path)

    def send(self, path: str) -> None:
        content = self.server.files[path]
        cut = self.server.cuts.pop(0) if self.server.cuts else None
        wanted = self.headers.get("Range")
        if wanted is None or not self.server.ranges:
            self.reply(200, content, cut=cut)
            return
        start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        if start >= len(content):
            self.reply(416, b"")
            return
        said = self.server.content_range or f"bytes {start}-{len(content) - 1}/{len(content)}"
        self.reply(206, content[start:], {"Content-Range": said}, cut)


def files_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def asked_for_files(server: Hub) -> list[tuple[str, str | None]]:
    return [(path.removeprefix(RESOLVE), header) for path, header in server.asked if path.startswith(RESOLVE)]
