"""A client's count of its admissions, on disk."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headgate.books.border import checked
from headgate.books.nouns import Purchase
from headgate.control.checks import amount, text, whole_number
from headgate.errors import DataError, SettingError
from headgate.escaping import shown
from headgate.limits import LARGEST, LINE, LISTED
from headgate.nvflare.settings import plain_folder
from headgate.reading import read_object
from headgate.writing import json_bytes, replace_file, sync

META = "headgate"
"""key of purchases and reports in the meta data of an FLModel"""
SENT = f"admit: model.meta.{META}"
COUNTS = ("client", "round", "samples", "keep", "last")
SENT_FIELDS = (*COUNTS, "price")
"""the fields of a purchase that are sent"""


class Admissions:
    """The admissions of one client in one run, on disk. `report` goes into the meta
    data of the client's reply.

    Parameters
    ----------
    folder : str or Path
        Folder of the count, created if it does not exist. It must be outside the job's
        workspace, which NVFlare empties.

    Examples
    --------
    >>> import tempfile
    >>> admissions = Admissions(tempfile.mkdtemp())
    >>> admissions.report  # what the client's next reply says; nothing was admitted yet
    {}
    """

    def __init__(self, folder: Path | str) -> None:
        self._path = (
            Path(plain_folder("Admissions: folder", folder)) / "admissions.json"
        )
        self.report: dict[str, Any] = {}

    def admit(
        self,
        model: Any,
        most: int | None = None,
        erased: int = 0,
    ) -> range:
        """Admit the purchase of this round, once. If the round is repeated, report what
        was admitted the first time.

        If a value or the count on disk is refused, nothing is admitted and nothing is
        written.

        Parameters
        ----------
        model : FLModel
            The model as it was received.
        most : int, optional
            Number of new samples that are available in this round, by default all.
            Missing samples are not charged.
        erased : int, optional
            Number of samples that the client should hold now, but that were erased.

        Returns
        -------
        range
            The samples to hold and to train on, as positions among all samples that the
            client ever admits, counted from 0.

        Raises
        ------
        SettingError
            If an argument or the purchase in the model's meta data is not what it must
            be.
        DataError
            If the count on disk is damaged, of another run, or an old copy.
        """
        run, order = _purchase(model)
        available = LARGEST if most is None else whole_number("admit: most", most)
        gone = whole_number("admit: erased", erased)
        count = _read(self._path) or _Count(run, 0, {})
        self._check(count, run, order)

        if order.round not in count.rounds:
            left = max(order.last - count.position, 0)
            count.add(order.round, min(left, available))
        held = order.held(count.position)
        if gone > len(held):
            raise SettingError(
                f"admit: erased = {gone}: must be at most {len(held)}, the number of"
                " samples to hold"
            )
        count.forget(known=order.last - order.samples)

        self._path.parent.mkdir(
            parents=True,
            exist_ok=True,
        )
        replace_file(self._path, json_bytes(asdict(count)))
        sync(self._path.parent)
        rounds = sorted(count.rounds)
        admitted = [count.rounds[t] for t in rounds]
        self.report = {META: {"rounds": rounds, "admitted": admitted, "erased": gone}}
        return held

    def _check(
        self,
        count: "_Count",
        run: str,
        order: Purchase,
    ) -> None:
        """Refuse a count that is another run's, or older or newer than what the server
        knows.
        """
        if count.run != run:
            raise DataError(
                f"{self._path}: belongs to another run; give this one a folder of"
                " its own"
            )
        known = order.last - order.samples
        newest = max(count.rounds, default=0)
        if not count.reported <= known <= count.position or order.round < newest:
            raise DataError(
                f"{self._path}: counts {count.position} samples, the server {known}:"
                " one of both is an old copy"
            )


@dataclass
class _Count:
    """What the file holds."""

    run: str
    position: int
    """samples ever admitted"""
    rounds: dict[int, int]
    """samples admitted in each round of which the server may not know yet"""

    @property
    def reported(self) -> int:
        """Samples of which the server certainly knows."""
        return self.position - sum(self.rounds.values())

    def add(self, t: int, admitted: int) -> None:
        self.rounds[t] = admitted
        self.position += admitted

    def forget(self, known: int) -> None:
        """Remove the rounds whose report the server has received, but keep the last
        one.
        """
        while len(self.rounds) > 1:
            oldest = min(self.rounds)
            if self.reported + self.rounds[oldest] > known:
                break
            del self.rounds[oldest]


def _purchase(model: Any) -> tuple[str, Purchase]:
    """Return the run and the purchase in a model's meta data."""
    meta = getattr(model, "meta", None)
    sent = meta.get(META) if isinstance(meta, dict) else None
    if not isinstance(sent, dict):
        raise SettingError(
            f"{SENT} = {shown(sent)}: is no purchase; the model is not as"
            " AdmissionController has sent it"
        )
    run = text(f"{SENT}.run", sent.get("run"), LINE)
    fields = {
        name: whole_number(
            f"{SENT}.{name}", sent.get(name), int(name == "round"), LARGEST
        )
        for name in COUNTS
    }
    if fields["samples"] > fields["last"]:
        raise SettingError(
            f"{SENT}.samples = {fields['samples']}: must be at most last ="
            f" {fields['last']}"
        )
    price = amount(f"{SENT}.price", sent.get("price"))
    client, t, samples, keep, last = fields.values()
    return run, Purchase(client, t, samples, price, keep, last)


def _read(path: Path) -> _Count | None:
    """Return the count in a file, or None if there is no file. Whatever else the file
    may be is refused in one line.
    """
    if not os.path.lexists(path):
        return None
    found = read_object(path)
    try:
        return _counted(found)
    except DataError as error:
        raise DataError(f"{path}: is damaged: {error}") from None


def _counted(found: dict[str, Any]) -> _Count:
    run = checked("run", str, found.get("run"))
    position = checked("position", int, found.get("position"))
    stated = found.get("rounds")
    if not isinstance(stated, dict) or len(stated) > LISTED:
        raise DataError(
            f"rounds = {shown(stated)}: must be numbers of samples by round, at most"
            f" {LISTED}"
        )
    rounds: dict[int, int] = {}
    for name, admitted in stated.items():
        rounds[_round(name)] = checked(f"rounds.{shown(name)}", int, admitted)
    count = _Count(run, position, rounds)
    if count.reported < 0:
        raise DataError(
            f"position = {position}: must be at least the {sum(rounds.values())}"
            " samples of the rounds"
        )
    return count


def _round(name: str) -> int:
    """Return the number of a round from its name in JSON, which must be as we write
    it.
    """
    digits = name.isascii() and name.isdecimal() and len(name) <= len(str(LARGEST))
    if not digits or name.startswith("0"):
        raise DataError(f"rounds.{shown(name)}: must be the number of a round")
    return int(name)
