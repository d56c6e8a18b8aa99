"""A private certificate authority and the server's certificate, made with `openssl`.

A deployment trusts only its own authority. nginx and the SuperLink behind it share one
certificate, which therefore always names loopback as well. Only their owner can read
private keys.
"""

import ipaddress
import re
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509

from headgate.errors import DataError, SettingError

FILES = ("ca.crt", "ca.key", "server.pem", "server.key")
"""files of a deployment: `ca.crt` goes to every machine, and `ca.key`, which signs, is
best kept off all of them
"""
LOOPBACK = ("localhost", "127.0.0.1")
AUTHORITY_DAYS, SERVER_DAYS = 3650, 825
REQUEST = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-384 -sha384 -nodes"
    " -config /dev/null"
)
SOON = timedelta(days=30)
"""a certificate that expires sooner is renewed, or causes a warning"""
AUTHORITY = (
    "basicConstraints=critical,CA:TRUE,pathlen:0",
    "keyUsage=critical,keyCertSign,cRLSign",
)
SERVER = (
    "basicConstraints=critical,CA:FALSE",
    "keyUsage=critical,digitalSignature",
    "extendedKeyUsage=serverAuth",
)


def ensure_certificates(folder: Path, hosts: Sequence[str] = ()) -> list[str]:
    """Make the certificates that are missing in a folder, and renew the server's if it
    expires within 30 days.

    It is also renewed if it lacks one of the `hosts`, which are names or addresses of
    the server. Return warnings about certificates that were renewed, or that expire
    within 30 days and could not be. A certificate that has expired is refused
    (`DataError`), and so is a folder that needs a new one and does not have the
    authority's key.
    """
    authority, signer, server, key = (folder / name for name in FILES)
    wanted = [_alternative_name(host) for host in (*hosts, *LOOPBACK)]
    now, warnings = datetime.now(UTC), list[str]()
    folder.mkdir(
        mode=0o700,
        parents=True,
        exist_ok=True,
    )
    if not authority.exists():
        _make("headgate authority", authority, signer, AUTHORITY_DAYS, AUTHORITY)

    known = _names_in(server) if server.exists() else []
    if not key.exists():
        known = []
    if known and signer.exists() and _end_of(server) - now < SOON:
        warnings.append(
            f"{server}: is renewed, it ends within 30 days; restart nginx and the"
            " SuperLink"
        )
    if warnings or not set(wanted) <= set(known):
        if not signer.exists():
            raise DataError(
                f"{signer}: is not there, and is needed to make {server.name}"
            )
        names = f"subjectAltName={','.join(dict.fromkeys([*known, *wanted]))}"
        signed = ("-CA", authority, "-CAkey", signer)
        uses = (*SERVER, names)
        _make("headgate SuperLink", server, key, SERVER_DAYS, uses, *signed)

    for path in (authority, server):
        end = _end_of(path)
        if end - now >= SOON:
            continue
        verb = "expires" if end > now else "expired"
        warning = (
            f"{path}: {verb} on {end:%Y-%m-%d}; headgate flower certificates renews"
            " server.pem by ca.key"
        )
        if end <= now:
            raise DataError(warning)
        warnings.append(warning)
    return warnings


def _make(
    name: str,
    path: Path,
    key: Path,
    days: int,
    uses: Sequence[str],
    *signer: str | Path,
) -> None:
    """Make a certificate and its key, signed by itself or by `signer`."""
    command: list[str | Path] = [*REQUEST.split(), *signer, "-subj", f"/CN={name}"]
    command += ["-days", str(days), "-keyout", key, "-out", path]
    for use in uses:
        command += ["-addext", use]
    try:
        subprocess.run(
            command,
            check=True,
            capture_output=True,
            text=True,
            umask=0o077,
        )
    except FileNotFoundError:
        raise SettingError(
            "openssl: is not installed; certificates are made by it"
        ) from None
    except subprocess.CalledProcessError as error:
        raise DataError(
            f"{path}: openssl cannot make it ({' '.join(error.stderr.split())[-200:]})"
        ) from None


def _names_in(path: Path) -> list[str]:
    """Return the names and addresses in a certificate, as openssl writes them."""
    extensions = _read(path).extensions
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [
        f"{'DNS' if isinstance(name, x509.DNSName) else 'IP'}:{name.value}"
        for name in names
    ]


def _end_of(path: Path) -> datetime:
    return _read(path).not_valid_after_utc


def _read(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "cannot be read"
        raise DataError(f"{path}: is no certificate ({why})") from None


def _alternative_name(host: str) -> str:
    try:
        return f"IP:{ipaddress.ip_address(host)}"
    except ValueError:
        if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", host):
            raise SettingError(
                f"--host {host!r}: must be a name such as fl.example.org or an IP"
                " address"
            ) from None
    return f"DNS:{host}"
