"""The files of a service for accounts on a machine of its own: scripts, systemd units,
nginx with TLS in front, and compose with PostgreSQL.
"""

import getpass
import json
import os
import secrets
import sys
from importlib.resources import files
from pathlib import Path
from string import Template

from headgate.errors import SettingError
from headgate.escaping import shown

TEMPLATE = files("headgate.web.accounts") / "template"
UNIT = files("headgate.flower.deploy") / "template" / "unit.service"
"""the unit of every service of headgate"""
SERVICES = ("accounts", "nginx")
HARMFUL = "\"'\\$%`\n"
"""characters that paths and addresses may not contain, because the shell, nginx or
systemd interprets them
"""
PASSWORD = "database.password"


def write_service(
    folder: Path,
    accounts: str,
    certificate: Path,
    key: Path,
    listen: str,
    inside: int,
) -> list[Path]:
    """Write the files of a service into a folder, and return their paths.

    Parameters
    ----------
    folder : Path
        The folder, made if it does not exist; tokens lie there, too.
    accounts : str
        Where the accounts are.
    certificate, key : Path
        Certificate of the server with those of its authorities, and its key.
    listen : str
        ADDRESS:PORT of nginx.
    inside : int
        Port of the service on 127.0.0.1.
    """
    port = listen.rpartition(":")[2]
    shared = sorted({str(each) for each in (folder, certificate.parent, key.parent)})
    if "://" not in accounts:
        accounts = str(Path(accounts).resolve())
        shared.append(accounts)
    stated = {
        "folder": str(folder),
        "accounts": accounts,
        "certificate": str(certificate),
        "key": str(key),
        "listen": listen,
        "user": getpass.getuser(),
        "path": str(Path(sys.executable).parent),
    }
    for name, value in stated.items():
        if any(each in value for each in HARMFUL):
            raise SettingError(
                f"{name} = {shown(value)}: has a character that the shell, nginx or"
                " systemd interprets"
            )
    values = {
        **stated,
        "inside": str(inside),
        "ids": f"{os.getuid()}:{os.getgid()}",
        "volumes": json.dumps([f"{each}:{each}" for each in shared]),
        "ports": json.dumps([f"{port}:{port}"]),
    }
    for each in (folder, folder / "temporary"):
        each.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write_password(folder / PASSWORD)
    wanted = {name: TEMPLATE / name for name in ("nginx.conf", "compose.yaml")}
    for name in SERVICES:
        wanted[f"{name}.sh"] = TEMPLATE / f"{name}.sh"
        wanted[f"headgate-{name}.service"] = UNIT
    for name, template in wanted.items():
        service = name.removeprefix("headgate-").removesuffix(".service")
        text = Template(template.read_text("utf-8"))
        filled = text.substitute(values, service=service)
        (folder / name).write_text(filled, "utf-8")
    return [folder / name for name in wanted]


def _write_password(path: Path) -> None:
    """Write a password for the database of compose, which stays as it is."""
    if not path.exists():
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(secrets.token_urlsafe(32))
