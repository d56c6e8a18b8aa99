"""Which key each client of a deployment has. An answer that its client's key did not sign is not that client's.

Flower tells a ServerApp who sent a message in words that the sender wrote. So who a node is, and what it answers, is signed by
the key that the operator registered for the client's number. Without a file of keys, as on Flower's simulation engine, nothing
is signed, and a node is believed.
"""

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_private_key,
    load_ssh_public_key,
)
from flwr.app import ConfigRecord, RecordDict

from headgate.errors import DataError, SettingError

PublicKey = ec.EllipticCurvePublicKey
PrivateKey = ec.EllipticCurvePrivateKey
FILE = "clients.keys"
"""lines of a client's number and its public key as `ssh-keygen` writes it; the last line of a number counts"""
VARIABLE = "HEADGATE_CLIENT_KEYS"
"""where a ServerApp finds the file"""
SIGNATURE = "headgate-signature"
"""the record of an answer that holds the signature over all others"""
NONCE = "headgate-nonce"
"""the record of a question that nobody but its receiver has seen"""


class ClientKeys:
    """The file of keys as it is now: keys may be registered while a run is played."""

    def __init__(self, path: Path) -> None:
        self.path, self._seen = path, (-1, -1)
        self._keys: dict[int, PublicKey] = {}

    def current(self) -> Mapping[int, PublicKey]:
        """Client → key."""
        try:
            found = self.path.stat()
            if (found.st_mtime_ns, found.st_size) != self._seen:
                self._keys = read_keys(self.path)
                self._seen = found.st_mtime_ns, found.st_size
        except OSError as error:
            raise DataError(f"{self.path}: cannot be read ({error.strerror})") from None
        return self._keys


def keys_of_the_deployment() -> ClientKeys | None:
    """The keys by which clients of this process' deployment are known; None: there are none, and nodes are believed."""
    named = os.environ.get(VARIABLE)
    return ClientKeys(Path(named)) if named else None


def read_keys(path: Path) -> dict[int, PublicKey]:
    """Client → key. Two clients with one key are refused."""
    keys: dict[int, PublicKey] = {}
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        said, _, key = line.partition(b" ")
        if not said.isdigit() or len(said) > 9:
            raise DataError(f"{path}: line {number} must begin with the number of a client")
        keys[int(said)] = _public(key, f"{path}: line {number}")
    if len({written(key) for key in keys.values()}) < len(keys):
        raise DataError(f"{path}: two clients have the same key")
    return keys


def bind_key(path: Path, client: int, public: Path, replace: bool = False) -> None:
    """Write down that the key in the file `public` is this client's, its only one; `replace`: instead of an earlier one."""
    import fcntl  # SuperLinks are not for Windows, clients may be

    key = read_public_key(public)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600), "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # two may come at once
        keys = read_keys(path)
        own = keys.get(client)
        for number, known in keys.items():
            if number != client and written(known) == written(key):
                raise DataError(f"{public}: client {number} has this key already ({path})")
        if own is not None and written(own) != written(key) and not replace:
            raise DataError(f"{public}: client {client} has another key already ({path}); --replace puts this in its place")
        if own is None or written(own) != written(key):
            file.write(b"%d %s\n" % (client, written(key)))


def make_key(path: Path) -> Path:
    """Make a SuperNode's private key at `path` and its public key, to be registered, at the path that is returned."""
    public = path.with_name(f"{path.name}.pub")
    if path.exists():
        raise DataError(f"{path}: exists already; a key is a node's identity and is not replaced")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP384R1())
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    public.write_bytes(written(key.public_key()) + b"\n")
    return public


def read_public_key(path: Path) -> PublicKey:
    try:
        return _public(path.read_bytes(), str(path))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None


def read_private_key(path: Path) -> PrivateKey:
    try:
        key = load_ssh_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise SettingError(f"{path}: is no private key made by headgate flower key ({error})") from None
    if not isinstance(key, PrivateKey):
        raise SettingError(f"{path}: must be an elliptic-curve key, as headgate flower key makes it")
    return key


def written(key: PublicKey) -> bytes:
    """As `ssh-keygen` writes it."""
    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)


def sign(content: RecordDict, node: int, key: PrivateKey) -> None:
    """Add the signature of what `node` answers."""
    content[SIGNATURE] = ConfigRecord({"signature": key.sign(_statement(content, node), ec.ECDSA(SHA384()))})


def take_signature(content: RecordDict, node: int, key: PublicKey | None) -> str | None:
    """Take the signature out of an answer; why it is not by `key`, or None."""
    record = content.pop(SIGNATURE, None)
    if key is None:
        return "no key is registered for this client"
    signature = record.get("signature") if isinstance(record, ConfigRecord) else None
    if not isinstance(signature, bytes):
        return "is not signed"
    try:
        key.verify(signature, _statement(content, node), ec.ECDSA(SHA384()))
    except InvalidSignature:
        return "is not signed by this client's key"
    except Exception as error:  # what a stranger sent may fail in any way while it is hashed
        return f"cannot be read ({type(error).__name__})"
    return None


def nonce() -> ConfigRecord:
    """Makes a question's id, its hash, one that nobody can guess: Flower takes one answer to an id, from any node."""
    return ConfigRecord({"nonce": secrets.token_hex(16)})


def _statement(content: RecordDict, node: int) -> bytes:
    """Who says what: the node, and the hash of every record by its name."""
    said = {name: record.object_id for name, record in content.items() if name != SIGNATURE}
    return json.dumps(["headgate answer", node, said], sort_keys=True).encode()


def _public(text: bytes, where: str) -> PublicKey:
    try:
        key = load_ssh_public_key(text)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise DataError(f"{where}: is no public key ({error})") from None
    if not isinstance(key, PublicKey):
        raise DataError(f"{where}: must be an elliptic-curve key, as headgate flower key makes it")
    return key
