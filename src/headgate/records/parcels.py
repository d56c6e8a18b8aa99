"""Parcels: files of a run as bytes, by which a chunk is played on another machine.

What a chunk is continued from goes out, and what is new comes back: the parts that its
new checkpoint lists, and the checkpoint. A parcel is an uncompressed zip archive, so it
holds no more than its own size. Its names are compared with those that a run can have,
and its contents with the checksums in the checkpoint.
"""

import io
import json
import re
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from headgate.errors import DataError
from headgate.limits import memory
from headgate.reading import read_bytes
from headgate.records.chunks import Checkpoint, Chunk
from headgate.records.reader import CHECKPOINTS, CONFIG, ENVIRONMENT, HEAD, read_head
from headgate.records.tables import STATE, TABLES, changed, file_checksum, prefix_of
from headgate.records.writer import move_checkpoint
from headgate.writing import check_no_link, json_bytes, partial_of, sync

FACTS = "facts.json"
"""the name of what a parcel states, beside its files"""
KNOWN = re.compile(
    rf"{FACTS}|{re.escape(CONFIG)}|{re.escape(ENVIRONMENT)}|{re.escape(STATE)}"
    rf"|({'|'.join(TABLES)})/(c\d{{3,6}}-)?part-\d{{5,9}}\.parquet"
    rf"|{CHECKPOINTS}/(c\d{{3,6}}-)?\d{{8,10}}/"
    r"(checkpoint\.json|tensors\.safetensors|ledger-\d{1,6}\.npz)"
    r"|code/(\w+/)*\w+\.py|data/\d{1,6}\.(csv|parquet|npz)",
    re.ASCII,
)
"""the names that a parcel may hold"""
Files = Mapping[str, bytes]
"""contents of files, by their names in the run folder"""


def pack(facts: Mapping[str, Any], files: Files) -> bytes:
    """Return a parcel with these facts and files."""
    parcel = io.BytesIO()
    with zipfile.ZipFile(parcel, "w") as archive:
        for name, content in {FACTS: json_bytes(facts), **files}.items():
            archive.writestr(name, content)
    return parcel.getvalue()


def unpack(parcel: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the facts and the files of a parcel; raise DataError if it is damaged or
    holds other names than a run has.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(parcel)) as archive:
            sizes = {each.filename: each.file_size for each in archive.infolist()}
            if sum(sizes.values()) > len(parcel):
                raise DataError("a parcel: holds more than its own size")
            for name in sizes:
                if not KNOWN.fullmatch(name):
                    raise DataError(f"a parcel: holds {name!r:.100}, which no run has")
            files = {name: archive.read(name) for name in sizes}
        facts = dict(json.loads(files.pop(FACTS)))
    except (
        zipfile.BadZipFile,
        OSError,
        LookupError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        raise DataError(f"a parcel: is damaged ({error})") from None
    return facts, files


def write_files(folder: Path, files: Files) -> None:
    """Write the files of a parcel into a new folder of this process."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def outgoing(chunk: Chunk) -> dict[str, bytes]:
    """Return the files from which a chunk is continued; the parts stay at home."""
    names = [CONFIG, ENVIRONMENT, STATE]
    return _read(chunk.folder, [*names, *_names(Checkpoint(chunk))])


def coming_back(chunk: Chunk, known: Mapping[str, str]) -> dict[str, bytes]:
    """Return the newest checkpoint of a chunk, and the parts that it lists beside the
    `known` ones; nothing if it has no checkpoint.
    """
    checkpoint = Checkpoint(chunk)
    new = [name for name in checkpoint.parts if name not in known]
    return _read(chunk.folder, [*new, *_names(checkpoint)])


def _names(checkpoint: Checkpoint) -> list[str]:
    if checkpoint.path is None:
        return []
    own = [HEAD, *read_head(checkpoint.path)["files"]]
    return [f"{CHECKPOINTS}/{checkpoint.path.name}/{name}" for name in own]


def _read(folder: Path, names: list[str]) -> dict[str, bytes]:
    return {name: read_bytes(folder / name, int(memory())) for name in names}


def put_back(chunk: Chunk, files: Files) -> None:
    """Put new parts and a new checkpoint into the run folder: first the parts, then the
    checkpoint, in one step.

    Parameters
    ----------
    chunk : Chunk
        The chunk.
    files : mapping of str to bytes
        What `coming_back` returned on the machine that played the chunk.

    Raises
    ------
    DataError
        If a file is missing, or is not the one that the checkpoint lists.
    OSError
        If the disk is full.
    """
    check_no_link(*(chunk.folder / name for name in (CHECKPOINTS, *TABLES)))
    stage = partial_of(chunk.folder / CHECKPOINTS / "parcel")
    try:
        write_files(stage, files)
        came = Checkpoint(replace(chunk, run=replace(chunk.run, path=stage)))
        before = Checkpoint(chunk)
        if came.path is None or came.t <= before.t:
            return
        if before.parts.items() - came.parts.items():
            raise DataError(f"{chunk}: what came back does not continue it")
        new = came.parts.keys() - before.parts.keys()
        for name in sorted(new):
            _check_part(chunk, stage, name, came.parts[name])
        for name in sorted(new):
            (chunk.folder / name).parent.mkdir(exist_ok=True)
            sync(stage / name)
            (stage / name).replace(chunk.folder / name)
        move_checkpoint(came.path, chunk.folder / CHECKPOINTS / came.path.name)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _check_part(
    chunk: Chunk,
    stage: Path,
    name: str,
    digest: str,
) -> None:
    """Refuse a part of another chunk, and one that is not what was written."""
    own = tuple(f"{table}/{prefix_of(chunk.number)}part-" for table in TABLES)
    known = KNOWN.fullmatch(name) and name.startswith(own)
    if not known or file_checksum(stage / name) != digest:
        raise changed(chunk.folder / name)
