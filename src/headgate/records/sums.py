"""Records prove themselves: checksums of parts and tables, of checkpoints, and of what a run says of itself.

They tell what was changed from what was written. They do not tell who wrote it: anybody who changes a folder can compute them
again.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

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


SCORED = "scored"
"""its name in a state"""


class Scored(NamedTuple):
    """Samples of which a model was asked something, counted as often as it was asked."""

    samples: int = 0
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return it for a state; nothing where no model was asked."""
        return {SCORED: {"samples": self.samples, "seconds": round(self.seconds, 3)}} if self.samples else {}


def read_scored(states: Iterable[Mapping[str, Any]]) -> Scored:
    """Of all these states together; what cannot be meant counts as nothing."""
    samples, seconds = 0, 0.0
    for state in states:
        said = state.get(SCORED)
        own = [said.get(key) if isinstance(said, dict) else None for key in Scored._fields]
        if all(isinstance(each, int | float) and math.isfinite(each) and 0 <= each < 2**63 for each in own):
            samples, seconds = samples + int(own[0] or 0), seconds + float(own[1] or 0.0)
    return Scored(samples, seconds)
