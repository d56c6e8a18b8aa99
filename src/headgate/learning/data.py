"""The settings of the data: a source, its partition among the clients, and their
streams. Files are read when they are used.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from headgate.control.checks import checksum, inside_unit, whole, zero_or_more
from headgate.control.delays import Delays
from headgate.control.selection import Selection
from headgate.errors import SettingError, require
from headgate.escaping import shown
from headgate.learning.concepts import Concept, DriftKind
from headgate.learning.partition import Pairs, Partition
from headgate.learning.streams import RESHUFFLE, Reshuffle
from headgate.limits import CONCEPTS, ROUNDS, SAMPLES, WINDOW, memory
from headgate.reading import read_bytes
from headgate.registry import Slot, call_outside, kind_of, settings_of, shown_kind

if TYPE_CHECKING:
    from headgate.learning.datasets import Dataset


class DataSource(ABC):
    """Base class of data sources: each makes a data set. The fields are the
    settings.
    """

    @property
    def kind(self) -> str:
        return shown_kind(DATA, self)

    @abstractmethod
    def load(self) -> "Dataset | Mapping[str, Any] | tuple[Any, ...]":
        """Return a `Dataset`, a tuple (train_images, train_labels, test_images,
        test_labels), or a dict with these keys.
        """


class Shipped(DataSource):
    """A data set that headgate knows by name."""

    def load(self) -> "Dataset":
        from headgate.learning.datasets import load_dataset

        return load_dataset(kind_of(DATA, self))


@dataclass(frozen=True)
class Digits(Shipped):
    """1,797 images of 8x8 pixels."""


@dataclass(frozen=True)
class Mnist(Shipped):
    """70,000 digits of 28x28 pixels."""


@dataclass(frozen=True)
class Cifar10(Shipped):
    """60,000 colour images of 32x32 pixels."""


@dataclass(frozen=True)
class Imagenette(Shipped):
    """Ten easy classes of ImageNet."""


@dataclass(frozen=True)
class TableFile(DataSource):
    """A file with one row for each sample: .csv with a header, .parquet, or .npz, whose
    samples may be images.

    Classes are the distinct labels in ascending order. Each feature is scaled to mean 0
    and deviation 1 over the training rows. A column that is neither can assign the rows
    to clients: `partition = { kind = "column", column = "site" }`.
    """

    file: str = field(metadata={"path": True})
    """path of the file, relative to the recipe"""
    label: str = "label"
    """name of the column (in an .npz, of the array) of labels, whole numbers or text"""
    features: tuple[str, ...] | None = None
    """columns of numbers to learn from; in an .npz, the one array, (N, d) or uint8
    images. Left out: all but the label
    """
    test: float | None = None
    """share of the rows of each class that is held for testing; left out: 0.2, or none
    if `test_file` is set
    """
    test_file: str | None = field(
        default=None,
        metadata={"path": True},
    )
    """path of a second file with the rows for testing, relative to the recipe"""
    sha256: str | None = None
    """SHA-256 of the content of `file`, followed by that of `test_file`; other content
    is refused
    """
    missing: Literal["drop"] | None = None
    """drop: rows with an empty label or feature are left out; by default they are
    refused
    """

    def __post_init__(self) -> None:
        for name in ("file", "test_file"):
            if (name_of_file := getattr(self, name)) is not None:
                require(
                    name_of_file.endswith(TABLES),
                    name,
                    name_of_file,
                    f"a name that ends in {', '.join(TABLES)}",
                )
        if self.test is not None:
            inside_unit("test", self.test)
        if self.test is not None and self.test_file is not None:
            raise SettingError(
                f"test = {self.test:g}: with a test_file no row of the other file is"
                " held for testing"
            )
        if self.features is not None and not 0 < len(self.features) == len(
            {*self.features} - {self.label}
        ):
            raise SettingError(
                f"features = {shown(list(self.features))}: must name columns, each"
                " once, and not the label"
            )
        self._contents()  # refuse a missing or changed file before anything runs

    def _contents(self) -> list[tuple[Path, bytes]]:
        files = [Path(each) for each in (self.file, self.test_file) if each is not None]
        contents = [read_bytes(path, int(memory())) for path in files]
        named = " or ".join(map(str, files))
        object.__setattr__(self, "sha256", checksum(named, self.sha256, *contents))
        return list(zip(files, contents, strict=True))

    def load(self) -> dict[str, Any]:
        from headgate.learning.table import arrays_of

        return arrays_of(
            self._contents(),
            self.label,
            self.features,
            0.2 if self.test is None else self.test,
            drops=self.missing == "drop",
        )


TABLES = (".csv", ".parquet", ".npz")
BOUGHT = ("concepts", "window", "look", "keep", "late", "delay")
"""settings of [data] that are written only if they differ from their defaults"""
KINDS = {
    "digits": Digits,
    "mnist": Mnist,
    "cifar10": Cifar10,
    "imagenette": Imagenette,
    "table": TableFile,
}
DATA = Slot("data set", DataSource, KINDS)


@dataclass(frozen=True)
class Data:
    """The section [data]; in a recipe, the settings of the source stand in the same
    section.
    """

    source: DataSource = field(default_factory=Digits)
    partition: Partition = field(default_factory=Pairs)
    stream: Reshuffle = RESHUFFLE
    validation: float = 0.0
    """share of the training images of each class that no client trains on; models are
    evaluated on them and on the test set
    """
    concepts: tuple[Concept, ...] = ()
    """states of the world, numbered from 0; `changes` decides which client is in which
    of them in each round
    """
    changes: DriftKind | None = None
    window: int = 1
    """unlabelled samples that a client is offered for each label that it is ordered to
    buy; the `selection` of its policy chooses among them. 1: the client has no choice
    """
    look: float = 0.0
    """price of one look at an offered sample, for buying rules that look"""
    keep: int = 0
    """the most unlabelled samples that a client keeps, the newest that it did not buy;
    they are offered again next time
    """
    late: int = 0
    """rounds from the order of a label to the first training with it; the sample takes
    a place, and is paid for, from its order on
    """
    delay: int | dict[str, float] = 0
    """rounds from the order of a sample to its arrival: a number; the weight of each
    number, as in { 1 = 3, 10 = 1 }; or the mean of a geometric distribution, as in {
    geometric = 5 }. Until then a sample is under way: it takes no place, its money is
    reserved, and it is paid for when it arrives
    """

    def __post_init__(self) -> None:
        if bool(self.concepts) != (self.changes is not None):
            raise SettingError(
                "concepts, data.changes: one says what the world can be like and one"
                " when it is; both are needed"
            )
        if len(self.concepts) > CONCEPTS:
            raise SettingError(
                f"concepts: has {len(self.concepts)} of them; at most {CONCEPTS}"
            )
        share = "a share of the training images, 0 or more and less than 1"
        require(0 <= self.validation < 1, "validation", self.validation, share)
        for name, least, most in (
            ("window", 1, WINDOW),
            ("keep", 0, SAMPLES),
            ("late", 0, ROUNDS),
        ):
            whole(name, getattr(self, name), least, most)
        zero_or_more("look", self.look)
        if self.delays is not None and (self.late or self.look):
            other = f"late = {self.late}" if self.late else f"look = {self.look:g}"
            raise SettingError(
                f"delay = {shown(self.delay)}: not with {other}; only one of them may"
                " be set"
            )

    @property
    def kind(self) -> str:
        return self.source.kind

    @cached_property
    def delays(self) -> Delays | None:
        """How many rounds samples take to arrive; None: they are there at once."""
        found = Delays.of(self.delay)
        return found if found.longest else None

    def chooses(self, rule: Selection | None) -> bool:
        """Return whether clients have a choice under this buying rule."""
        return self.window > 1 and rule is not None

    def price_of_looks(self, rule: Selection | None) -> float:
        """Return the price of the looks for one label: a whole window of looks if the
        rule looks, else 0.
        """
        if rule is None or not self.chooses(rule) or not rule.looks:
            return 0.0
        return self.window * self.look

    def load(self) -> "Dataset":
        """Return the whole data set, before images are held out for validation."""
        if isinstance(self.source, Shipped):
            return self.source.load()
        from headgate.learning.datasets import dataset_of

        return dataset_of(
            self.kind, call_outside("data.kind", self.kind, self.source.load)
        )

    def table(self) -> dict[str, Any]:
        settings = settings_of(self)
        plain = {own.name: own.default for own in fields(self)}
        written = {
            name: value
            for name, value in settings.items()
            if name not in BOUGHT or value not in (plain[name], [])
        }
        if len(settings["stream"]) == 1:
            written["stream"] = settings["stream"]["kind"]
        return {**written.pop("source"), **written}
