"""Which listings and addresses are followed, and which are refused."""

from pathlib import Path

import pytest

from headgate.errors import DataError, SettingError
from headgate.learning.hub import fetch

from .here import TREE, Hub, asked_for_files, entry, files_in


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
