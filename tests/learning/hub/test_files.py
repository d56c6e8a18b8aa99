"""What the fetcher asks for, resumes, checks and gives up."""

import io
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from headgate.errors import DataError
from headgate.learning import hub
from headgate.learning.datasets import load_dataset
from headgate.learning.hub import fetch

from .here import CONTENT, TEST, TRAIN, TREE, Hub, asked_for_files, entry, files_in


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
