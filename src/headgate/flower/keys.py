"""The public keys of the clients of a deployment.

Flower admits a node by its key, and gives a ServerApp the key of every node. The node
with the key that the operator registered for a client is that client. Without a file of
keys, as on Flower's simulation engine, a node states its client.
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

from headgate.control.checks import true_or_false, whole_number
from headgate.errors import DataError
from headgate.limits import CLIENTS

FILE = "clients.keys"
"""file of lines with a client's number and its public key as `ssh-keygen` writes it;
the last line of a client counts
"""
VARIABLE = "HEADGATE_CLIENT_KEYS"
"""environment variable with the path of that file, for ServerApps"""


def read_keys(path: Path) -> dict[int, bytes]:
    """Return the key of each client, in Flower's format. Two clients with the same key
    are refused.
    """
    keys: dict[int, bytes] = {}
    for number, line in enumerate(_content(path).splitlines(), 1):
        client, _, key = line.partition(b" ")
        if not client.isdigit() or len(client) > 9:
            raise DataError(
                f"{path}: line {number} must begin with the number of a client"
            )
        keys[int(client)] = _in_flower_format(key, f"{path}: line {number}")
    if len(set(keys.values())) < len(keys):
        raise DataError(f"{path}: two clients have the same key")
    return keys


def bind_key(
    path: Path,
    client: int,
    public: Path,
    replace: bool = False,
) -> None:
    """Record the key in the file `public` as the only key of a client. If `replace`, it
    may replace an earlier key.
    """
    import fcntl  # missing on Windows, where clients run but no SuperLink

    client = whole_number("bind_key: client", client, most=CLIENTS - 1)
    replace = true_or_false("bind_key: replace", replace)
    text = b" ".join(_content(public).split()[:2])
    key = _in_flower_format(text, str(public))
    path.parent.mkdir(
        mode=0o700,
        parents=True,
        exist_ok=True,
    )
    with os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600),
        "ab",
    ) as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # two processes may write at once
        keys = read_keys(path)
        for number, known in keys.items():
            if number != client and known == key:
                raise DataError(
                    f"{public}: client {number} has this key already ({path})"
                )
        if keys.get(client, key) != key and not replace:
            raise DataError(
                f"{public}: client {client} has another key already ({path}); --replace"
                " puts this in its place"
            )
        if keys.get(client) != key:
            file.write(b"%d %s\n" % (client, text))


def make_key(path: Path) -> Path:
    """Write a new private key for a SuperNode to `path`; return the path of its public
    key, which must be registered.
    """
    public = path.with_name(f"{path.name}.pub")
    if path.exists():
        raise DataError(
            f"{path}: exists already; a key is a node's identity and is not replaced"
        )
    path.parent.mkdir(
        mode=0o700,
        parents=True,
        exist_ok=True,
    )
    key = ec.generate_private_key(ec.SECP384R1())
    with os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"
    ) as file:
        file.write(
            key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
        )
    public.write_bytes(
        key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b"\n"
    )
    return public


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None


def _in_flower_format(text: bytes, where: str) -> bytes:
    try:
        key = load_ssh_public_key(text)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise DataError(f"{where}: is no public key ({error})") from None
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise DataError(
            f"{where}: must be an elliptic-curve key, as headgate flower key makes it"
        )
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
