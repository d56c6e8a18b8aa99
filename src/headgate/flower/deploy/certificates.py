"""A private certificate authority, the SuperLink's certificate and the SuperNodes' keys.

Everything a deployment trusts comes from its own authority, so no name has to be known to anybody else. Private keys are
readable by their owner alone; what exists is never made anew, because every node that trusts it would be shut out.
"""

import ipaddress
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from headgate.errors import DataError, SettingError

LOOPBACK = ("localhost", "127.0.0.1")
AUTHORITY_DAYS, SERVER_DAYS = 3650, 825
EARLIER = timedelta(hours=1)
"""clocks of other machines may be behind"""
WARNED, RENEWED = timedelta(days=30), timedelta(days=365)
"""before its end an operator is warned of a certificate; a SuperLink renews its own at its start"""


@dataclass(frozen=True)
class Certificates:
    """Where the files of a deployment's authority and server are."""

    folder: Path

    @property
    def authority(self) -> Path:
        """what every SuperNode and every user of `flwr` needs, and the only file to hand out"""
        return self.folder / "ca.crt"

    @property
    def authority_key(self) -> Path:
        """signs servers: keep it off the machines of the deployment"""
        return self.folder / "ca.key"

    @property
    def server(self) -> Path:
        return self.folder / "server.pem"

    @property
    def server_key(self) -> Path:
        return self.folder / "server.key"


def make_certificates(folder: Path, hosts: Sequence[str] = LOOPBACK) -> Certificates:
    """The server's certificate for these names and addresses, signed by the folder's authority, which is made if need be."""
    made = Certificates(folder)
    names = [_general_name(host) for host in dict.fromkeys([*hosts])]
    if not names:
        raise SettingError("--host: at least one name or address of the SuperLink is needed")
    if made.server.exists():
        raise DataError(f"{made.server}: exists already; remove it and {made.server_key.name} to make another")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not made.authority.exists():
        _make_authority(made)
    authority = x509.load_pem_x509_certificate(made.authority.read_bytes())
    signer = load_pem_private_key(made.authority_key.read_bytes(), password=None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP384R1())
    certificate = (
        _certificate("headgate SuperLink", authority.subject, key.public_key(), SERVER_DAYS)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, SHA384())
    )
    write_private(made.server_key, _pem(key))
    made.server.write_bytes(certificate.public_bytes(Encoding.PEM))
    return made


def renew_certificates(folder: Path) -> None:
    """For loopback: make what is missing in the folder, and make again what ends soon."""
    made = Certificates(folder)
    left = [_ends(path) - datetime.now(UTC) if path.exists() else timedelta(0) for path in (made.authority, made.server)]
    if left[0] < RENEWED or not made.authority_key.exists():
        made.authority.unlink(missing_ok=True)
        made.authority_key.unlink(missing_ok=True)
    elif left[1] > RENEWED and made.server_key.exists():
        return
    made.server.unlink(missing_ok=True)
    made.server_key.unlink(missing_ok=True)
    make_certificates(folder)


def check_certificate(path: Path) -> str | None:
    """Refuse a certificate that has expired; a line of warning, if it ends within 30 days."""
    ends, now = _ends(path), datetime.now(UTC)
    if ends <= now:
        raise DataError(f"{path}: expired on {ends:%Y-%m-%d}; headgate flower certificates makes another")
    return f"{path}: expires on {ends:%Y-%m-%d}; headgate flower certificates makes another" if ends - now < WARNED else None


def _ends(path: Path) -> datetime:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no certificate"
        raise DataError(f"{path}: cannot be read ({reason})") from None


def make_node_key(path: Path) -> Path:
    """A SuperNode's private key at `path` and the public one beside it, whose path is returned: it is what gets registered."""
    public = path.with_name(f"{path.name}.pub")
    if path.exists():
        raise DataError(f"{path}: exists already; a key is a node's identity and is not replaced")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP384R1())
    write_private(path, key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b"\n")
    return public


def write_private(path: Path, content: bytes) -> None:
    """For its owner's eyes from the first byte on."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


def _make_authority(made: Certificates) -> None:
    key = ec.generate_private_key(ec.SECP384R1())
    name = _name("headgate authority")
    certificate = (
        _certificate("headgate authority", name, key.public_key(), AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, SHA384())
    )
    write_private(made.authority_key, _pem(key))
    made.authority.write_bytes(certificate.public_bytes(Encoding.PEM))


def _certificate(name: str, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLIER)
        .not_valid_after(now + timedelta(days=days))
    )


def _usage(signs: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", host):
        raise SettingError(f"--host {host!r}: must be a name such as fl.example.org or an IP address")
    return x509.DNSName(host)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
