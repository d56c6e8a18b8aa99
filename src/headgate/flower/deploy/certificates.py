"""A private certificate authority and the server's certificate, made by `openssl`.

A deployment trusts its own authority alone. nginx and the SuperLink behind it share one certificate, so it always names
loopback as well. Only their owner can read private keys.
"""

import ipaddress
import re
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509

from headgate.errors import DataError, SettingError

LOOPBACK = ("localhost", "127.0.0.1")
AUTHORITY_DAYS, SERVER_DAYS = 3650, 825
SOON = timedelta(days=30)
"""a certificate that ends sooner is renewed, or warned of"""


class Certificates(NamedTuple):
    """Paths: `authority` goes to every machine; `authority_key` signs and is best kept off the machines of a deployment."""

    authority: Path
    authority_key: Path
    server: Path
    server_key: Path


def certificates_in(folder: Path) -> Certificates:
    """Return the paths of the certificates and keys in a folder, whether they are there or not."""
    return Certificates(*(folder.resolve() / name for name in ("ca.crt", "ca.key", "server.pem", "server.key")))


def ensure_certificates(folder: Path, hosts: Sequence[str] = ()) -> list[str]:
    """Make the certificates that are missing in a folder and renew the server's where it ends within 30 days.

    It is also renewed where it lacks one of the `hosts`, names or addresses of the server. Returns warnings: what was renewed,
    and what ends within 30 days and cannot be. A certificate that has expired is refused (`DataError`), and so is a folder
    that needs a new one and does not hold the authority's key.
    """
    paths, now, warnings = certificates_in(folder), datetime.now(UTC), []
    names = [_alternative_name(host) for host in dict.fromkeys([*hosts, *LOOPBACK])]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not paths.authority.exists():
        use = [
            "basicConstraints=critical,CA:TRUE,pathlen:0",
            "keyUsage=critical,keyCertSign,cRLSign",
            "subjectKeyIdentifier=hash",
        ]
        _make("headgate authority", paths.authority, paths.authority_key, AUTHORITY_DAYS, use)
    known = _names(paths.server) if paths.server.exists() and paths.server_key.exists() else []
    soon = bool(known) and _read(paths.server).not_valid_after_utc - now < SOON and paths.authority_key.exists()
    if soon:
        warnings.append(f"{paths.server}: is renewed, it ends within 30 days; restart nginx and the SuperLink")
    if soon or not set(names) <= set(known):
        if not paths.authority_key.exists():
            raise DataError(f"{paths.authority_key}: is not there, and is needed to make {paths.server.name}")
        use = ["basicConstraints=critical,CA:FALSE", "keyUsage=critical,digitalSignature", "extendedKeyUsage=serverAuth"]
        use += ["authorityKeyIdentifier=keyid", f"subjectAltName={','.join(dict.fromkeys([*known, *names]))}"]
        signer = ["-CA", str(paths.authority), "-CAkey", str(paths.authority_key)]
        _make("headgate SuperLink", paths.server, paths.server_key, SERVER_DAYS, use, signer)
    for path in (paths.authority, paths.server):
        if (end := _read(path).not_valid_after_utc) <= now:
            raise DataError(f"{path}: expired on {end:%Y-%m-%d}; headgate flower certificates renews server.pem by ca.key")
        if end - now < SOON:
            warnings.append(f"{path}: expires on {end:%Y-%m-%d}; headgate flower certificates renews server.pem by ca.key")
    return warnings


def _make(name: str, path: Path, key: Path, days: int, extensions: Sequence[str], signer: Sequence[str] = ()) -> None:
    config = "\n".join(["[req]", "distinguished_name = name", "x509_extensions = own", "[name]", "[own]", *extensions, ""])
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384", "-sha384", "-nodes"]
    command += ["-subj", f"/CN={name}", "-days", str(days), "-keyout", str(key), "-out", str(path), *signer]
    command += ["-config", "/dev/stdin"]
    try:
        subprocess.run(command, input=config, check=True, capture_output=True, text=True, umask=0o077)
    except FileNotFoundError:
        raise SettingError("openssl: is not installed; certificates are made by it") from None
    except subprocess.CalledProcessError as error:
        raise DataError(f"{path}: openssl cannot make it ({' '.join(error.stderr.split())[-200:]})") from None


def _names(path: Path) -> list[str]:
    names = _read(path).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = [f"IP:{address}" for address in names.get_values_for_type(x509.IPAddress)]
    return [*(f"DNS:{name}" for name in names.get_values_for_type(x509.DNSName)), *addresses]


def _read(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: is no certificate ({getattr(error, 'strerror', None) or 'cannot be read'})") from None


def _alternative_name(host: str) -> str:
    try:
        return f"IP:{ipaddress.ip_address(host)}"
    except ValueError:
        if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", host):
            raise SettingError(f"--host {host!r}: must be a name such as fl.example.org or an IP address") from None
    return f"DNS:{host}"
