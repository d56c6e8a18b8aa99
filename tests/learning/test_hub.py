"""Data sets from the hub, with a huggingface_hub of our own: which files are asked for,
and the error where it fails.
"""

import sys
from fnmatch import fnmatch
from types import SimpleNamespace

import pytest

from headgate.errors import DataError, SettingError
from headgate.learning.datasets import fetch

from .said import refused

FILES = [
    "README.md",
    "mnist/test.parquet",
    "mnist/train.parquet",
    "160px/train.parquet",
    "320px/train.parquet",
]


@pytest.fixture
def hub(monkeypatch):
    """`files` is what is there, or what is raised in its place; `asked` is what was
    asked for.
    """
    own = SimpleNamespace(files=FILES)

    def download(repo_id, allow_patterns, local_dir, **where):
        own.asked = {"repo_id": repo_id, **where}
        if isinstance(own.files, Exception):
            raise own.files
        for path in (
            local_dir / name for name in own.files if fnmatch(name, allow_patterns)
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"PAR1")

    monkeypatch.setitem(
        sys.modules, "huggingface_hub", SimpleNamespace(snapshot_download=download)
    )  # type: ignore[arg-type]
    return own


def test_only_parquet_files_are_fetched_and_of_imagenette_the_small_pictures(
    hub, tmp_path
):
    assert fetch("imagenette", tmp_path) == [
        tmp_path / "imagenette" / "160px" / "train.parquet"
    ]
    hub.files = FILES[:3]
    assert fetch("mnist", tmp_path) == [
        tmp_path / "mnist" / path for path in FILES[1:3]
    ]
    assert hub.asked == {
        "repo_id": "ylecun/mnist",
        "repo_type": "dataset",
        "token": False,
    }


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["README.md"], "ylecun/mnist: no parquet files on the hub"),
        (
            OSError("no route\nto host"),
            (
                "ylecun/mnist: cannot be fetched (no route to host); running the"
                " command again"
            ),
        ),
    ],
)
def test_a_failure_is_one_line(hub, tmp_path, files, message):
    hub.files = files
    refused(DataError, lambda: fetch("mnist", tmp_path), message)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("digits", "nothing to get"),
        ("mnist", r"needs huggingface_hub: pip install 'headgate\[hub\]'"),
    ],
)
def test_other_names_are_refused_and_without_the_library_the_extra_is_named(
    tmp_path, monkeypatch, name, message
):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(SettingError, match=message):
        fetch(name, tmp_path)
