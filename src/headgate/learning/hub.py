"""Getting a data set from the Hugging Face hub over plain HTTP: its parquet files, resumed and verified.

A file grows as NAME.part, is compared with the hub's size and sha256, and only then gets its name:
what lies in the data folder under its own name is whole.
"""

import hashlib
import http.client
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar
from urllib.error import HTTPError
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import Request, urlopen

from headgate.errors import DataError, SettingError
from headgate.learning.formats import Tick

REPOSITORIES = {"mnist": "ylecun/mnist", "cifar10": "uoft-cs/cifar10", "imagenette": "frgfm/imagenette"}
HUB = "https://huggingface.co"
RETRIES = 3
PAUSE = 1.0  # seconds before the first retry; doubled each time
TIMEOUT = 30.0  # seconds without a byte after which a connection counts as lost
_PREFERRED = {"imagenette": "160px"}  # of several configurations the smallest: images are brought to 64 pixels anyway
_CHUNK = 1 << 18
_LISTING_LIMIT = 1 << 24
_PAGES = 50
T = TypeVar("T")


class _LostError(Exception):
    """The connection failed in a way that another try may mend."""


@dataclass(frozen=True)
class _Remote:
    """A file of the hub: where it lies in the repository and what it must turn out to be."""

    path: str
    size: int
    sha256: str | None


def fetch(name: str, folder: Path, base_url: str | None = None, tick: Tick | None = None) -> list[Path]:
    """Download the parquet files of data set `name` into folder/name and return them.

    Files that are there and whole are left alone; unfinished ones are resumed. `base_url` is the hub's
    address, by default $HF_ENDPOINT or https://huggingface.co. `tick` is told bytes done and in total.
    """
    if name not in REPOSITORIES:
        embedded = " (digits comes with headgate, there is nothing to get)" if name == "digits" else ""
        raise SettingError(f"data = {name!r}: must be {', '.join(REPOSITORIES)}{embedded}")
    base = _base(base_url)
    files = _choose(name, _listing(base, REPOSITORIES[name]))
    total, done = sum(file.size for file in files), 0
    paths = []
    for file in files:
        path = folder / name / PurePosixPath(file.path)
        url = f"{base}/datasets/{REPOSITORIES[name]}/resolve/main/{quote(file.path)}"
        try:
            _get(url, file, path, _shifted(tick, done, total))
        except OSError as error:
            raise DataError(f"{path}: cannot be written ({error.strerror or error})") from None
        done += file.size
        paths.append(path)
    return paths


def _base(base_url: str | None) -> str:
    base = (base_url or os.environ.get("HF_ENDPOINT") or HUB).rstrip("/")
    try:
        address = urlsplit(base)
        usable = address.scheme in ("http", "https") and bool(address.netloc)
    except ValueError:
        usable = False
    if not usable:
        raise SettingError(f"hub address = {base!r}: must start with http:// or https:// and name a host")
    return base


def _shifted(tick: Tick | None, before: int, total: int) -> Callable[[int], None]:
    """Progress within one file as progress of all of them."""
    return (lambda done: tick(before + done, total)) if tick is not None else (lambda done: None)


# what there is


def _listing(base: str, repository: str) -> list[_Remote]:
    """All files of the repository's main branch; long listings come in pages."""
    url: str | None = f"{base}/api/datasets/{repository}/tree/main?recursive=true"
    entries: list[Any] = []
    for _ in range(_PAGES):
        if url is None:
            return [_remote(repository, entry) for entry in _safe(repository, entries) if entry.get("type", "file") == "file"]
        page, url = _with_retries(url, partial(_page, url))
        if urlsplit(url or base)[:2] != urlsplit(base)[:2]:
            raise DataError(f"{repository}: the hub's listing goes on at another host, {url}")
        entries += page
    raise DataError(f"{repository}: the hub's listing does not end after {_PAGES} pages")


def _page(url: str) -> tuple[list[Any], str | None]:
    """One page of the listing and the address of the next."""
    with _open(url) as response:
        content = b"".join(_pieces(response, _LISTING_LIMIT))
        if response.length:
            raise _LostError("the listing broke off")
        following = re.search(r'<([^>]*)>\s*;\s*rel="?next"?', response.headers.get("Link", ""))
    try:
        page = json.loads(content)
    except (ValueError, RecursionError):
        raise DataError(f"{url}: the answer is not JSON") from None
    if not isinstance(page, list):
        raise DataError(f"{url}: the answer is not a list of files")
    return page, urljoin(url, following[1]) if following else None


def _safe(repository: str, entries: list[Any]) -> list[dict[str, Any]]:
    """The entries of the listing, unless one has an unsafe path: paths become file names here, and none may lead elsewhere."""
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
            raise DataError(f"{repository}: the hub's listing has an entry without a path")
        path = entry["path"]
        # Backslash and colon lead out of the folder on Windows.
        if any(part in ("", ".", "..") for part in path.split("/")) or re.search(r"[\\:\x00-\x1f]", path):
            raise DataError(f"{repository}: the hub's listing names the unsafe path {path!r}, nothing was fetched")
    return entries


def _remote(repository: str, entry: dict[str, Any]) -> _Remote:
    lfs = entry.get("lfs") or {}
    size, oid = entry.get("size"), lfs.get("oid") if isinstance(lfs, dict) else None
    if type(size) is not int or size < 0 or not (oid is None or (isinstance(oid, str) and re.fullmatch(r"[0-9a-f]{64}", oid))):
        raise DataError(f"{repository}: the hub's listing gives no proper size and sha256 for {entry['path']}")
    return _Remote(entry["path"], size, oid)


def _choose(name: str, listing: list[_Remote]) -> list[_Remote]:
    files = [file for file in listing if file.path.endswith(".parquet")]
    if not files:
        raise DataError(f"{REPOSITORIES[name]}: no parquet files on the hub")
    preferred = [file for file in files if _PREFERRED.get(name) in file.path.split("/")]
    return preferred or files


# one file


def _get(url: str, file: _Remote, path: Path, tick: Callable[[int], None]) -> None:
    """Bring `path` into the state the hub describes."""
    if path.is_file() and path.stat().st_size == file.size and _sha256_fits(path, file):
        tick(file.size)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    _with_retries(url, lambda: _continue(url, file, part, tick))
    if not _sha256_fits(part, file):
        part.unlink()
        raise DataError(f"{url}: what arrived has another sha256 than the hub says and was deleted; try again")
    os.replace(part, path)


def _sha256_fits(path: Path, file: _Remote) -> bool:
    if file.sha256 is None:
        return True
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest() == file.sha256


def _continue(url: str, file: _Remote, part: Path, tick: Callable[[int], None]) -> None:
    """Add to `part` what is missing; a server which does not continue is read from the start."""
    have = part.stat().st_size if part.exists() else 0
    if have > file.size:
        have = 0  # left over from something else
    elif have == file.size and part.exists():
        return
    with _open(url, have) as response:
        if response.status != 206:
            have = 0  # the range was ignored: everything comes
        elif not str(response.headers.get("Content-Range", "")).startswith(f"bytes {have}-"):
            part.unlink()  # so that the next try asks for the whole file
            raise _LostError("the server answered with another range")
        with part.open("r+b" if have else "wb") as out:
            out.seek(have)
            tick(have)
            # One byte more than promised is enough to know that the file is another one.
            for piece in _pieces(response, file.size - have + 1):
                out.write(piece)
                have += len(piece)
                tick(min(have, file.size))
            out.flush()
            os.fsync(out.fileno())
    if have > file.size:
        part.unlink()
        raise DataError(f"{url}: more than the {file.size} bytes the hub's listing says; what arrived was deleted")
    if have < file.size:
        raise _LostError(f"the connection ended after {have} of {file.size} bytes")


# the connection


def _open(url: str, start: int = 0) -> Any:
    """The opened answer. Refusals are final, except those of a server which is busy or broken."""
    headers = {"User-Agent": "headgate"} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        return urlopen(Request(url, headers=headers), timeout=TIMEOUT)
    except HTTPError as error:
        error.close()
        if error.code == 416 and start:
            return _open(url)  # the server has no such range: from the beginning
        if error.code in (408, 429) or error.code >= 500:
            raise _LostError(f"HTTP {error.code}") from None
        if error.code in (401, 403, 404):  # the hub answers 401 for what does not exist
            raise DataError(f"{url}: not on the hub, or not public (HTTP {error.code})") from None
        raise DataError(f"{url}: refused (HTTP {error.code})") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _LostError(str(getattr(error, "reason", error)) or type(error).__name__) from None


def _pieces(response: Any, limit: int) -> Iterator[bytes]:
    """At most `limit` bytes of an answer, with failures of the network told apart from failures of the disk."""
    while limit > 0:
        try:
            piece = response.read(min(_CHUNK, limit))
        except (OSError, http.client.HTTPException) as error:
            raise _LostError(str(error) or type(error).__name__) from None
        if not piece:
            return
        limit -= len(piece)
        yield piece


def _with_retries(url: str, attempt: Callable[[], T]) -> T:
    for retry in range(RETRIES + 1):
        try:
            return attempt()
        except _LostError as error:
            problem = " ".join(str(error).split())
        if retry < RETRIES:
            time.sleep(PAUSE * 2**retry)
    raise DataError(f"{url}: {problem}; running the command again resumes the download")
