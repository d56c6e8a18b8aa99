"""Which data clients have: a source, how it is dealt to the clients, and how their streams go on. Read when it is used."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.control.checks import checksum, inside_unit, whole, zero_or_more
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
    """A data set: a frozen value whose fields are its settings."""

    @property
    def kind(self) -> str:
        return shown_kind(DATA, self)

    @abstractmethod
    def load(self) -> "Dataset | Mapping[str, Any] | tuple[Any, ...]":
        """A `Dataset`, or its arrays: (train_images, train_labels, test_images, test_labels), or a dict with these keys."""


class Shipped(DataSource):
    """A data set known by name."""

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
    """A file with a row for each sample: .csv with a header, .parquet, or .npz, whose samples may be images.

    Classes are the labels in order. Each feature is brought to mean 0 and deviation 1 by the training rows. A column that is
    neither label nor feature may deal the rows to clients: `partition = { kind = "column", column = "site" }`.
    """

    file: str = field(metadata={"path": True})
    """relative to the recipe that names it"""
    label: str = "label"
    """the column of labels, whole numbers or text; of an .npz, the array of them"""
    features: tuple[str, ...] | None = None
    """columns of numbers to learn from; of an .npz, the one array, (N, d), or uint8 images. Left out: all but the label"""
    test: float | None = None
    """share of the rows of each class that is held for testing; left out: 0.2, or none where there is a `test_file`"""
    test_file: str | None = field(default=None, metadata={"path": True})
    """a second file with the rows for testing"""
    sha256: str | None = None
    """of the file, with `test_file` behind it; other content is refused"""

    def __post_init__(self) -> None:
        for name in ("file", "test_file"):
            if (said := getattr(self, name)) is not None:
                require(said.endswith(TABLES), name, said, f"a name that ends in {', '.join(TABLES)}")
        if self.test is not None:
            inside_unit("test", self.test)
        if self.test is not None and self.test_file is not None:
            raise SettingError(f"test = {self.test:g}: with a test_file no row of the other file is held for testing")
        if self.features is not None and not 0 < len(self.features) == len({*self.features} - {self.label}):
            raise SettingError(f"features = {shown(list(self.features))}: must name columns, each once, and not the label")
        self._contents()  # a file that is missing or was changed is refused before anything runs

    def _contents(self) -> list[tuple[Path, bytes]]:
        files = [Path(each) for each in (self.file, self.test_file) if each is not None]
        contents = [read_bytes(path, int(memory())) for path in files]
        named = " or ".join(map(str, files))
        object.__setattr__(self, "sha256", checksum(named, self.sha256, *contents))
        return list(zip(files, contents, strict=True))

    def load(self) -> dict[str, Any]:
        from headgate.learning.table import arrays_of

        return arrays_of(self._contents(), self.label, self.features, 0.2 if self.test is None else self.test)


TABLES = (".csv", ".parquet", ".npz")
BOUGHT = ("concepts", "window", "look", "keep", "late")
"""settings of [data] that are written down where they say something"""
KINDS = {"digits": Digits, "mnist": Mnist, "cifar10": Cifar10, "imagenette": Imagenette, "table": TableFile}
DATA = Slot("data set", DataSource, KINDS)


@dataclass(frozen=True)
class Data:
    """The section [data]: a source's own settings stand beside these."""

    source: DataSource = field(default_factory=Digits)
    partition: Partition = field(default_factory=Pairs)
    stream: Reshuffle = RESHUFFLE
    validation: float = 0.0
    """share of the training images of each class that no client gets; models are judged by them too, beside the test set"""
    concepts: tuple[Concept, ...] = ()
    """states of the world, known by their number; with `changes`, which says who is in which of them when"""
    changes: DriftKind | None = None
    window: int = 1
    """unlabelled samples that a client has before it for each label that it is ordered to buy; its policy's `selection` says
    which it buys. 1: there is nothing to choose"""
    look: float = 0.0
    """the price of a look at one of them, for rules that look"""
    keep: int = 0
    """unlabelled samples that a client may keep, the newest of those it did not buy; they are before it again next time"""
    late: int = 0
    """rounds from the order of a label to the first training with it"""

    def __post_init__(self) -> None:
        if bool(self.concepts) != (self.changes is not None):
            raise SettingError(
                "concepts, data.changes: one says what the world can be like and one when it is; both are needed"
            )
        if len(self.concepts) > CONCEPTS:
            raise SettingError(f"concepts: has {len(self.concepts)} of them; at most {CONCEPTS}")
        share = "a share of the training images, 0 or more and less than 1"
        require(0 <= self.validation < 1, "validation", self.validation, share)
        for name, least, most in (("window", 1, WINDOW), ("keep", 0, SAMPLES), ("late", 0, ROUNDS)):
            whole(name, getattr(self, name), least, most)
        zero_or_more("look", self.look)

    @property
    def kind(self) -> str:
        return self.source.kind

    def chooses(self, rule: Selection | None) -> bool:
        """Whether clients have a choice under this buying rule."""
        return self.window > 1 and rule is not None

    def price_of_looks(self, rule: Selection | None) -> float:
        """What is paid for looks with every label: a whole window of them, where the rule has a choice and looks."""
        return self.window * self.look if self.chooses(rule) and rule.looks else 0.0  # type: ignore[union-attr]

    def load(self) -> "Dataset":
        """All of it, before anything is held out."""
        if isinstance(self.source, Shipped):
            return self.source.load()
        from headgate.learning.datasets import dataset_of

        return dataset_of(self.kind, call_outside("data.kind", self.kind, self.source.load))

    def table(self) -> dict[str, Any]:
        said = settings_of(self)
        plain = {own.name: own.default for own in fields(self)}
        told = {name: value for name, value in said.items() if name not in BOUGHT or value not in (plain[name], [])}
        if len(said["stream"]) == 1:
            told["stream"] = said["stream"]["kind"]
        return {**told.pop("source"), **told}
