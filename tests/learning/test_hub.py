"""The fetcher against a hub of our own on this machine: what it asks, what it resumes, what it refuses."""

import hashlib
import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import polars as pl
import pytest

from headgate.errors import DataError, SettingError
from headgate.learning import hub
from headgate.learning.datasets import load_dataset
from headgate.learning.hub import fetch

CONTENT = np.random.default_rng(3).integers(0, 256, 1_000_000, dtype=np.uint8).tobytes()
TREE = "/api/datasets/ylecun/mnist/tree/main?recursive=true"
RESOLVE = "/datasets/ylecun/mnist/resolve/main/"


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


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr(hub, "PAUSE", 0.0)
    monkeypatch.setattr(hub, "TIMEOUT", 5.0)
    monkeypatch.setenv("no_proxy", "*")
    with Hub() as server:
        server.files = {
            "mnist/train-00000-of-00001.parquet": CONTENT,
            "mnist/test-00000-of-00001.parquet": CONTENT[:1000],
            "README.md": b"# not a parquet file",
            ".gitattributes": b"*.parquet filter=lfs",
        }
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


TRAIN = Path("mnist", "mnist", "train-00000-of-00001.parquet")
TEST = Path("mnist", "mnist", "test-00000-of-00001.parquet")


def files_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def asked_for_files(server: Hub) -> list[tuple[str, str | None]]:
    return [(path.removeprefix(RESOLVE), header) for path, header in server.asked if path.startswith(RESOLVE)]


def test_only_the_parquet_files_are_fetched(server: Hub, tmp_path: Path) -> None:
    ticks: list[tuple[int, int]] = []
    paths = fetch("mnist", tmp_path, server.address, tick=lambda done, total: ticks.append((done, total)))
    assert paths == [tmp_path / TRAIN, tmp_path / TEST]
    assert (tmp_path / TRAIN).read_bytes() == CONTENT
    assert (tmp_path / TEST).read_bytes() == CONTENT[:1000]
    assert files_in(tmp_path) == {TRAIN.as_posix(), TEST.as_posix()}
    assert server.asked[0] == (TREE, None)
    total = len(CONTENT) + 1000
    assert ticks[-1] == (total, total)
    assert ticks == sorted(ticks)
    assert len(ticks) > 4


def test_what_is_whole_is_not_fetched_again(server: Hub, tmp_path: Path) -> None:
    fetch("mnist", tmp_path, server.address)
    (tmp_path / TEST).write_bytes(b"x" * 1000)  # right size, wrong content
    server.asked.clear()
    ticks: list[tuple[int, int]] = []
    fetch("mnist", tmp_path, server.address, tick=lambda done, total: ticks.append((done, total)))
    assert asked_for_files(server) == [("mnist/test-00000-of-00001.parquet", None)]
    assert (tmp_path / TEST).read_bytes() == CONTENT[:1000]
    assert ticks[0] == (len(CONTENT), len(CONTENT) + 1000)


def test_a_cut_connection_is_resumed_at_once(server: Hub, tmp_path: Path) -> None:
    server.cuts = [300_000, 200_000]
    fetch("mnist", tmp_path, server.address)
    assert (tmp_path / TRAIN).read_bytes() == CONTENT
    assert [header for path, header in asked_for_files(server) if "train" in path] == [None, "bytes=300000-", "bytes=500000-"]


def test_a_download_given_up_is_resumed_by_the_next_run(server: Hub, tmp_path: Path) -> None:
    server.cuts = [100_000, 0, 0, 0]
    with pytest.raises(DataError) as error:
        fetch("mnist", tmp_path, server.address)
    message = str(error.value)
    assert "running the command again resumes" in message
    assert "100000 of 1000000 bytes" in message
    assert "\n" not in message
    assert files_in(tmp_path) == {TRAIN.as_posix() + ".part"}
    assert len(asked_for_files(server)) == 1 + hub.RETRIES
    server.asked.clear()
    fetch("mnist", tmp_path, server.address)
    assert asked_for_files(server)[0][1] == "bytes=100000-"
    assert (tmp_path / TRAIN).read_bytes() == CONTENT
    assert files_in(tmp_path) == {TRAIN.as_posix(), TEST.as_posix()}


def test_a_server_which_ignores_ranges_is_read_from_the_start(server: Hub, tmp_path: Path) -> None:
    server.ranges = False
    server.cuts = [700_000]
    fetch("mnist", tmp_path, server.address)
    assert [header for path, header in asked_for_files(server) if "train" in path] == [None, "bytes=700000-"]
    assert (tmp_path / TRAIN).read_bytes() == CONTENT


def test_an_answer_for_another_range_is_not_appended(server: Hub, tmp_path: Path) -> None:
    part = tmp_path / (TRAIN.as_posix() + ".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(CONTENT[:400_000])
    server.content_range = "bytes 5-999999/1000000"
    fetch("mnist", tmp_path, server.address)
    assert [header for path, header in asked_for_files(server) if "train" in path] == ["bytes=400000-", None]
    assert (tmp_path / TRAIN).read_bytes() == CONTENT


@pytest.mark.parametrize("left", [CONTENT, CONTENT + b"more", b""])
def test_what_an_earlier_run_left_is_used_or_dropped(server: Hub, tmp_path: Path, left: bytes) -> None:
    part = tmp_path / (TRAIN.as_posix() + ".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(left)
    fetch("mnist", tmp_path, server.address)
    assert (tmp_path / TRAIN).read_bytes() == CONTENT
    assert not part.exists()
    assert [header for path, header in asked_for_files(server) if "train" in path] == ([] if left == CONTENT else [None])


def test_a_wrong_checksum_leaves_nothing_behind(server: Hub, tmp_path: Path) -> None:
    wrong = entry("mnist/train-00000-of-00001.parquet", CONTENT) | {"lfs": {"oid": "0" * 64}}
    server.listing = [wrong]
    with pytest.raises(DataError, match="another sha256 than the hub says and was deleted") as error:
        fetch("mnist", tmp_path, server.address)
    assert "\n" not in str(error.value)
    assert files_in(tmp_path) == set()
    assert len(asked_for_files(server)) == 1


def test_a_spoiled_part_is_found_out(server: Hub, tmp_path: Path) -> None:
    part = tmp_path / (TRAIN.as_posix() + ".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(bytes(400_000))
    with pytest.raises(DataError, match="sha256"):
        fetch("mnist", tmp_path, server.address)
    assert not part.exists()
    fetch("mnist", tmp_path, server.address)
    assert (tmp_path / TRAIN).read_bytes() == CONTENT


def test_without_a_checksum_the_size_decides(server: Hub, tmp_path: Path) -> None:
    path = "mnist/test-00000-of-00001.parquet"
    server.listing = [{"type": "file", "size": 1000, "path": path}]
    fetch("mnist", tmp_path, server.address)
    assert (tmp_path / TEST).read_bytes() == CONTENT[:1000]
    (tmp_path / TEST).unlink()
    server.listing = [{"type": "file", "size": 999, "path": path}]
    with pytest.raises(DataError, match="more than the 999 bytes"):
        fetch("mnist", tmp_path, server.address)
    assert files_in(tmp_path) == set()


def test_a_file_shorter_than_listed_is_not_taken(server: Hub, tmp_path: Path) -> None:
    path = "mnist/test-00000-of-00001.parquet"
    server.listing = [{"type": "file", "size": 1001, "path": path}]
    with pytest.raises(DataError, match="1000 of 1001 bytes; running the command again resumes"):
        fetch("mnist", tmp_path, server.address)
    assert not (tmp_path / TEST).exists()


def test_a_redirect_is_followed_with_its_range(server: Hub, tmp_path: Path) -> None:
    server.redirect = True
    server.cuts = [300_000]
    fetch("mnist", tmp_path, server.address)
    assert (tmp_path / TRAIN).read_bytes() == CONTENT
    assert ("/cdn/mnist/train-00000-of-00001.parquet", "bytes=300000-") in server.asked


def test_a_missing_repository_is_said_at_once(server: Hub, tmp_path: Path) -> None:
    server.repository = "someone/else"
    with pytest.raises(DataError) as error:
        fetch("mnist", tmp_path, server.address)
    assert str(error.value) == f"{server.address}{TREE}: not on the hub, or not public (HTTP 401)"
    assert len(server.asked) == 1
    assert files_in(tmp_path) == set()


def test_a_missing_file_is_said_at_once(server: Hub, tmp_path: Path) -> None:
    server.listing = [entry("mnist/train.parquet", b"gone")]
    with pytest.raises(DataError, match=r"resolve/main/mnist/train\.parquet: not on the hub, or not public \(HTTP 404\)"):
        fetch("mnist", tmp_path, server.address)
    assert len(server.asked) == 2


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_asked_again(server: Hub, tmp_path: Path, status: int) -> None:
    server.failures = [status] * hub.RETRIES
    fetch("mnist", tmp_path, server.address)
    assert (tmp_path / TRAIN).read_bytes() == CONTENT
    server.failures = [status] * (hub.RETRIES + 1)
    with pytest.raises(DataError, match=f"HTTP {status}; running the command again resumes"):
        fetch("mnist", tmp_path, server.address)


def test_other_refusals_are_final(server: Hub, tmp_path: Path) -> None:
    server.failures = [400]
    with pytest.raises(DataError, match=r"refused \(HTTP 400\)"):
        fetch("mnist", tmp_path, server.address)
    assert len(server.asked) == 1


def test_pauses_grow_between_tries(server: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(hub, "PAUSE", 1.0)
    monkeypatch.setattr("headgate.learning.hub.time.sleep", pauses.append)
    server.failures = [500] * 4
    with pytest.raises(DataError):
        fetch("mnist", tmp_path, server.address)
    assert pauses == [1.0, 2.0, 4.0]


def test_nobody_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "PAUSE", 0.0)
    monkeypatch.setenv("no_proxy", "*")
    with Hub() as closed:
        address = closed.address
    with pytest.raises(DataError, match="running the command again resumes") as error:
        fetch("mnist", tmp_path, address)
    assert "\n" not in str(error.value)
    assert address in str(error.value)


@pytest.mark.parametrize(
    "path",
    [
        "../outside.parquet",
        "mnist/../../outside.parquet",
        "/etc/outside.parquet",
        "mnist//outside.parquet",
        "./outside.parquet",
        "..\\outside.parquet",
        "C:outside.parquet",
        "a\nb.parquet",
        "",
        "../README.md",
    ],
)
def test_a_listing_which_leads_elsewhere_is_refused(server: Hub, tmp_path: Path, path: str) -> None:
    server.listing = [*server.entries(), entry(path, b"evil")]
    server.files[path] = b"evil"
    folder = tmp_path / "data"
    with pytest.raises(DataError, match="unsafe path") as error:
        fetch("mnist", folder, server.address)
    assert "\n" not in str(error.value)
    assert files_in(tmp_path) == set()
    assert asked_for_files(server) == []


@pytest.mark.parametrize(
    ("listing", "message"),
    [
        (b"<html>", "not JSON"),
        (b'{"error": "x"}', "not a list of files"),
        (b"[7]", "entry without a path"),
        (b'[{"path": "a.parquet", "type": "file"}]', "no proper size and sha256 for a.parquet"),
        (b'[{"path": "a.parquet", "size": 3, "lfs": {"oid": "../x"}}]', "no proper size and sha256 for a.parquet"),
        (b'[{"path": "README.md", "size": 3}]', "no parquet files on the hub"),
        (b"[]", "no parquet files on the hub"),
    ],
)
def test_a_listing_of_another_make_is_refused(server: Hub, tmp_path: Path, listing: bytes, message: str) -> None:
    server.raw_listing = listing
    with pytest.raises(DataError, match=message) as error:
        fetch("mnist", tmp_path, server.address)
    assert "\n" not in str(error.value)
    assert asked_for_files(server) == []


def test_a_long_listing_comes_in_pages(server: Hub, tmp_path: Path) -> None:
    server.page = 2
    assert len(fetch("mnist", tmp_path, server.address)) == 2
    assert [path for path, _ in server.asked[:3]] == [TREE, TREE + "&cursor=2", TREE + "&cursor=4"]


def test_a_listing_is_not_followed_to_another_host(server: Hub, tmp_path: Path) -> None:
    server.page, server.next_link = 2, "http://elsewhere.invalid/next"
    with pytest.raises(DataError, match=r"goes on at another host, http://elsewhere\.invalid/next"):
        fetch("mnist", tmp_path, server.address)
    server.next_link = f"{server.address}{TREE}"
    with pytest.raises(DataError, match="does not end after 50 pages"):
        fetch("mnist", tmp_path, server.address)


@pytest.mark.parametrize("configurations", [("160px", "320px", "full_size"), ("320px",)])
def test_of_imagenette_the_small_pictures_are_taken(server: Hub, tmp_path: Path, configurations: tuple[str, ...]) -> None:
    server.repository = "frgfm/imagenette"
    server.files = {
        f"{size}/{split}-00000-of-00001.parquet": f"{size} {split}".encode()
        for size in configurations
        for split in ("train", "validation")
    }
    paths = fetch("imagenette", tmp_path, server.address)
    assert [path.relative_to(tmp_path).as_posix() for path in paths] == [
        f"imagenette/{configurations[0]}/{split}-00000-of-00001.parquet" for split in ("train", "validation")
    ]


@pytest.mark.parametrize(("name", "repository"), [("cifar10", "uoft-cs/cifar10"), ("imagenette", "frgfm/imagenette")])
def test_the_address_comes_from_the_environment(
    server: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, repository: str
) -> None:
    server.repository = repository
    server.files = {"odd name %#.parquet": b"content"}
    monkeypatch.setenv("HF_ENDPOINT", server.address + "/")
    assert fetch(name, tmp_path) == [tmp_path / name / "odd name %#.parquet"]
    assert (tmp_path / name / "odd name %#.parquet").read_bytes() == b"content"


@pytest.mark.parametrize("address", ["file:///etc", "huggingface.co", "http://", "http://[x"])
def test_an_address_must_be_one_of_the_web(tmp_path: Path, address: str) -> None:
    with pytest.raises(SettingError) as error:
        fetch("mnist", tmp_path, address)
    assert repr(address.rstrip("/")) in str(error.value)


@pytest.mark.parametrize(("name", "message"), [("digits", "nothing to get"), ("emnist", "must be mnist, cifar10, imagenette")])
def test_other_names_are_refused(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        fetch(name, tmp_path)


def test_a_folder_that_cannot_be_written_is_one_line(server: Hub, tmp_path: Path) -> None:
    (tmp_path / "mnist").write_text("a file where the folder should be")
    with pytest.raises(DataError, match="cannot be written") as error:
        fetch("mnist", tmp_path, server.address)
    assert "\n" not in str(error.value)


def test_what_is_fetched_can_be_loaded(server: Hub, tmp_path: Path) -> None:
    image_module = pytest.importorskip("PIL.Image")
    images = np.random.default_rng(1).integers(0, 256, (10, 28, 28), dtype=np.uint8)
    rows = []
    for image in images:
        out = io.BytesIO()
        image_module.fromarray(image).save(out, "PNG")
        rows.append({"bytes": out.getvalue(), "path": None})
    packed = io.BytesIO()
    pl.DataFrame({"image": rows, "label": range(10)}).write_parquet(packed)
    server.files = {f"mnist/{split}-00000-of-00001.parquet": packed.getvalue() for split in ("train", "test")}
    fetch("mnist", tmp_path, server.address)
    data = load_dataset("mnist", tmp_path)
    np.testing.assert_array_equal(data.train_images[:, 0], images)
    assert data.test_labels.tolist() == list(range(10))
