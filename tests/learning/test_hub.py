"""Data sets from the hub, with a huggingface_hub of our own: which files are asked for, and the error where it fails."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.errors import DataError, SettingError
from headgate.learning.datasets import fetch

MNIST = ["README.md", ".gitattributes", "mnist/test-00000-of-00001.parquet", "mnist/train-00000-of-00001.parquet"]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """`files` is the listing, or what is raised in its place; `asked` is what was downloaded."""
    own = SimpleNamespace(files=MNIST, asked=[])

    def listed(**where: Any) -> list[str]:
        if isinstance(own.files, Exception):
            raise own.files
        own.where = where
        return list(own.files)

    def download(filename: str, local_dir: Path, **where: Any) -> str:
        own.asked.append((filename, where))
        path = local_dir / filename
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"PAR1")
        return str(path)

    module = SimpleNamespace(HfApi=lambda: SimpleNamespace(list_repo_files=listed), hf_hub_download=download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)  # type: ignore[arg-type]
    return own


def test_only_the_parquet_files_are_fetched(hub: SimpleNamespace, tmp_path: Path) -> None:
    assert fetch("mnist", tmp_path) == [tmp_path / "mnist" / path for path in MNIST[2:]]
    assert all(path.is_file() for path in (tmp_path / "mnist" / name for name in MNIST[2:]))
    assert hub.where == {"repo_id": "ylecun/mnist", "repo_type": "dataset", "revision": "main", "token": False}
    assert hub.asked == [(path, hub.where) for path in MNIST[2:]]


@pytest.mark.parametrize("sizes", [("full_size", "160px", "320px"), ("320px",)])
def test_of_imagenette_the_small_pictures_are_taken(hub: SimpleNamespace, tmp_path: Path, sizes: tuple[str, ...]) -> None:
    hub.files = [f"{size}/train.parquet" for size in sizes]
    wanted = "160px" if "160px" in sizes else sizes[0]
    assert fetch("imagenette", tmp_path) == [tmp_path / "imagenette" / wanted / "train.parquet"]


@pytest.mark.parametrize("path", ["../x.parquet", "/x.parquet", "a//x.parquet", "a/./b.parquet", "c:x", "a\\b", "a\nb", ""])
def test_a_listing_which_leads_elsewhere_is_refused(hub: SimpleNamespace, tmp_path: Path, path: str) -> None:
    hub.files = [*MNIST, path]
    with pytest.raises(DataError, match="unsafe path") as error:
        fetch("mnist", tmp_path)
    assert "\n" not in str(error.value)
    assert hub.asked == []


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["README.md"], "ylecun/mnist: no parquet files on the hub"),
        (OSError("no route\nto host"), r"ylecun/mnist: cannot be fetched \(no route\); running the command again resumes"),
    ],
)
def test_a_failure_is_one_line(hub: SimpleNamespace, tmp_path: Path, files: Any, message: str) -> None:
    hub.files = files
    with pytest.raises(DataError, match=message) as error:
        fetch("mnist", tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("name", "message"), [("digits", "nothing to get"), ("emnist", "must be mnist, cifar10, imagenette")])
def test_other_names_are_refused(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        fetch(name, tmp_path)


def test_without_the_library_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(SettingError, match=r"needs huggingface_hub: pip install 'headgate\[hub\]'"):
        fetch("mnist", tmp_path)
