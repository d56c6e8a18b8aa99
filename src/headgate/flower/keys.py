"""Which key each client of a deployment has.

Flower lets a node in by its key, and tells a ServerApp the key of every node. The node with the key that the operator
registered for a client's number is that client. Without a file of keys, as on Flower's simulation engine, a node is believed.
"""

import os
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_public_key,
)

from headgate.errors import DataError

FILE = "clients.keys"
"""lines of a client's number and its public key as `ssh-keygen` writes it; the last line of a number counts"""
VARIABLE = "HEADGATE_CLIENT_KEYS"
"""where a ServerApp finds the file"""


def read_keys(path: Path) -> dict[int, bytes]:
    """Client → key, as Flower tells it. Two clients with one key are refused."""
    keys: dict[int, bytes] = {}
    for number, line in enumerate(_content(path).splitlines(), 1):
        said, _, key = line.partition(b" ")
        if not said.isdigit() or len(said) > 9:
            raise DataError(f"{path}: line {number} must begin with the number of a client")
        keys[int(said)] = _as_flower_tells(key, f"{path}: line {number}")
    if len(set(keys.values())) < len(keys):
        raise DataError(f"{path}: two clients have the same key")
    return keys


def bind_key(path: Path, client: int, public: Path, replace: bool = False) -> None:
    """Write down that the key in the file `public` is this client's, its only one; `replace`: instead of an earlier one."""
    import fcntl  # SuperLinks are not for Windows, clients may be

    text = b" ".join(_content(public).split()[:2])
    key = _as_flower_tells(text, str(public))
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600), "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # two may come at once
        keys = read_keys(path)
        for number, known in keys.items():
            if number != client and known == key:
                raise DataError(f"{public}: client {number} has this key already ({path})")
        if keys.get(client, key) != key and not replace:
            raise DataError(f"{public}: client {client} has another key already ({path}); --replace puts this in its place")
        if keys.get(client) != key:
            file.write(b"%d %s\n" % (client, text))


def make_key(path: Path) -> Path:
    """Make a SuperNode's private key at `path` and its public key, to be registered, at the path that is returned."""
    public = path.with_name(f"{path.name}.pub")
    if path.exists():
        raise DataError(f"{path}: exists already; a key is a node's identity and is not replaced")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP384R1())
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b"\n")
    return public


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None


def _as_flower_tells(text: bytes, where: str) -> bytes:
    try:
        key = load_ssh_public_key(text)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise DataError(f"{where}: is no public key ({error})") from None
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise DataError(f"{where}: must be an elliptic-curve key, as headgate flower key makes it")
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
