"""Writes a new gate with example data, and files by which systemd or cron run it."""

import csv
import getpass
import io
import json
import sys
from importlib.resources import files
from pathlib import Path
from string import Template

import numpy as np

from headgate.control.prices import Uniform
from headgate.errors import DataError, SettingError
from headgate.escaping import shown
from headgate.labels.settings import load

TEMPLATE = files("headgate.labels") / "template"
GATE = "gate.toml"
UNITS = {
    "headgate-labels.service": "run.service",
    "headgate-labels-once.service": "once.service",
    "headgate-labels-once.timer": "once.timer",
}
CRON = "headgate-labels.cron"
HARMFUL = "\"'\\$%`\n"
"""characters that paths may not contain, because systemd, cron or the shell interprets
them
"""
SAMPLES = 300
ABOUT = ("An invoice", "A parcel", "A password", "A refund", "A visit", "An address")
ASKED = ("is late", "is wrong", "must change", "was lost", "came twice")
WHEN = ("today", "since Monday", "for weeks", "again", "and I am angry about it")


def write_new(folder: Path) -> Path:
    """Write a gate's file, unlabelled samples and prices into a new folder.

    Parameters
    ----------
    folder : Path
        The folder, which must be new or empty.

    Returns
    -------
    Path
        The gate's file.

    Raises
    ------
    DataError
        If there is something in the folder.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder}: exists already; choose another folder")
    (folder / "unlabelled").mkdir(parents=True)
    samples = folder / "unlabelled" / "team.jsonl"
    samples.write_text("".join(map(_sample, range(SAMPLES))), "utf-8")
    (folder / "prices.csv").write_text(_prices(), "utf-8")
    gate = folder / GATE
    gate.write_bytes((TEMPLATE / GATE).read_bytes())
    return gate


def _sample(number: int) -> str:
    """Return a line of a made-up text to be labelled."""
    tens, ones = divmod(number, len(ABOUT))
    block = number // (len(ABOUT) * len(ASKED))
    asked, when = ASKED[tens % len(ASKED)], WHEN[(block + number) % len(WHEN)]
    sample = {
        "key": f"ticket-{number + 1:03}",
        "text": f"{ABOUT[ones]} {asked} {when}",
    }
    return json.dumps(sample) + "\n"


def _prices() -> str:
    """Return made-up prices of a label on thirty days."""
    path = Uniform(0.05, 0.15).path(np.array([1]), 1, 31)[0]
    content = io.StringIO()
    writer = csv.writer(content, lineterminator="\n")
    writer.writerow(["round", "price"])
    writer.writerows((t, f"{price:.3f}") for t, price in enumerate(path, 1))
    return content.getvalue()


def write_units(file: Path, folder: Path) -> list[Path]:
    """Write systemd units and a line for cron that run a gate.

    Parameters
    ----------
    file : Path
        The gate's file.
    folder : Path
        Folder for the units, made if it does not exist.

    Returns
    -------
    list of Path
        The files: a service that keeps going; or a service with a timer, or a line for
        cron, of which each run is one step.
    """
    settings, _ = load(file)
    own = file.resolve()
    seconds = settings.schedule.poll_seconds
    values = {
        "file": str(own),
        "folder": str(own.parent),
        "python": sys.executable,
        "poll": f"{seconds}s",
        "user": getpass.getuser(),
    }
    for value in values.values():
        if any(each in value for each in HARMFUL):
            raise SettingError(
                f"{shown(value)}: has a character that systemd or cron interprets;"
                " choose another path"
            )
    folder.mkdir(parents=True, exist_ok=True)
    for name, template in UNITS.items():
        text = (TEMPLATE / template).read_text("utf-8")
        (folder / name).write_text(Template(text).substitute(values), "utf-8")
    command = f"'{sys.executable}' -m headgate labels run '{own}' --once"
    (folder / CRON).write_text(f"{_cron(seconds)} {command}\n", "utf-8")
    return [folder / name for name in (*UNITS, CRON)]


def _cron(seconds: int) -> str:
    """Return the five fields of cron for a step every so many seconds.

    >>> _cron(300), _cron(7200), _cron(86400)
    ('*/5 * * * *', '0 */2 * * *', '0 0 * * *')
    """
    minutes = max(seconds // 60, 1)
    if minutes < 60:
        return f"*/{minutes} * * * *"
    hours = minutes // 60
    return f"0 */{hours} * * *" if hours < 24 else "0 0 * * *"
