"""Getting a data set from the Hugging Face hub: its parquet files, by huggingface_hub, which resumes what is unfinished."""

import re
from pathlib import Path
from typing import Any

from headgate.errors import DataError, SettingError
from headgate.learning.formats.types import reason

REPOSITORIES = {"mnist": "ylecun/mnist", "cifar10": "uoft-cs/cifar10", "imagenette": "frgfm/imagenette"}
REVISION = "main"
_PREFERRED = {"imagenette": "160px"}  # of several configurations the smallest: images are brought to 64 pixels anyway


def fetch(name: str, folder: Path) -> list[Path]:
    """Download the parquet files of data set `name` into folder/name and return them.

    Files that are there and whole are left alone; unfinished ones are resumed. The hub's address is that of
    huggingface_hub, $HF_ENDPOINT where it is set.
    """
    if name not in REPOSITORIES:
        embedded = " (digits comes with headgate, there is nothing to get)" if name == "digits" else ""
        raise SettingError(f"data = {name!r}: must be {', '.join(REPOSITORIES)}{embedded}")
    hub, repository = _library(), REPOSITORIES[name]
    where = {"repo_id": repository, "repo_type": "dataset", "revision": REVISION, "token": False}  # no token of the user's
    try:
        files = _choose(name, hub.HfApi().list_repo_files(**where))
        return [Path(hub.hf_hub_download(**where, filename=file, local_dir=folder / name)) for file in files]
    except DataError:
        raise
    except Exception as error:  # those of the library, of its HTTP client, whichever that is, and of the disk
        again = "running the command again resumes the download"
        raise DataError(f"{repository}: cannot be fetched ({reason(error)}); {again}") from None


def _library() -> Any:
    """huggingface_hub, where it is installed."""
    try:
        import huggingface_hub
    except ImportError:
        raise SettingError("data get: needs huggingface_hub: pip install 'headgate[hub]'") from None
    return huggingface_hub


def _choose(name: str, listing: list[str]) -> list[str]:
    """The parquet files of the smallest configuration, unless a path is unsafe: paths become file names here."""
    for path in listing:
        # Backslash and colon lead out of the folder on Windows.
        if any(part in ("", ".", "..") for part in path.split("/")) or re.search(r"[\\:\x00-\x1f]", path):
            raise DataError(f"{REPOSITORIES[name]}: the hub's listing names the unsafe path {path!r}, nothing was fetched")
    files = [path for path in listing if path.endswith(".parquet")]
    if not files:
        raise DataError(f"{REPOSITORIES[name]}: no parquet files on the hub")
    return [path for path in files if _PREFERRED.get(name) in path.split("/")] or files
