"""Records prove themselves: checksums of parts and tables, of checkpoints, and of what a run says of itself.

They tell what was changed from what was written. They do not tell who wrote it: anybody who changes a folder can compute them
again.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headgate.errors import DataError
from headgate.limits import JSON
from headgate.reading import opened, read_object

SEAL = "seal"
"""in a file of JSON: the checksum of all the rest"""


def checksum(content: bytes) -> str:
    """Return the checksum of some bytes."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def file_checksum(path: Path) -> str:
    """Return the checksum of a file of any size."""
    with opened(path) as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def sealed(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same with a seal."""
    unsealed = {key: facts[key] for key in facts if key != SEAL}
    return {**facts, SEAL: checksum(json.dumps(unsealed, sort_keys=True).encode())}


def read_sealed(path: Path, most: int = JSON) -> dict[str, Any]:
    """Read a JSON object without its seal, which is checked where there is one."""
    facts = read_object(path, most)
    if facts.pop(SEAL, None) not in (None, sealed(facts)[SEAL]):
        raise DataError(f"{path}: is not what was written, its checksum differs")
    return facts
