"""Folders of pictures, one for each class."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headgate.errors import DataError
from headgate.learning.formats.images import Encoded, decode_all
from headgate.learning.formats.types import SIZE, TEST_NAMES, TRAIN_NAMES, Labels, Pictures, Tick

_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp"})


@dataclass(frozen=True)
class ImageFolder:
    """train/CLASS/picture and val/CLASS/picture (or test); classes are the folder names in alphabetical order."""

    train: Path
    test: Path
    format = "image folder"

    def counts(self) -> tuple[int, int]:
        classes = self._classes()
        return len(self._list(self.train, classes)[0]), len(self._list(self.test, classes)[0])

    def read(self, channels: int, classes: int, size: int = SIZE, tick: Tick | None = None) -> Pictures:
        names = self._classes()
        train, train_labels = self._list(self.train, names)
        test, test_labels = self._list(self.test, names)
        train_images, test_images = decode_all(train, test, channels, size, tick)
        return Pictures(train_images, train_labels, test_images, test_labels, classes=names)

    def _classes(self) -> tuple[str, ...]:
        return tuple(folder.name for folder in _class_folders(self.train))

    def _list(self, split: Path, classes: tuple[str, ...]) -> tuple[list[Encoded], Labels]:
        pictures: list[Encoded] = []
        labels: list[int] = []
        for folder in _class_folders(split):
            if folder.name not in classes:
                raise DataError(f"{folder}: this class has no folder in {self.train}")
            files = _picture_files(folder)
            pictures += [Encoded(str(path), path) for path in files]
            labels += [classes.index(folder.name)] * len(files)
        return pictures, np.array(labels, np.int64)


def find_image_folder(folder: Path) -> ImageFolder | None:
    """In `folder` itself or, as archives unpack, one level below."""
    for root in (folder, *sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))):
        train = next((root / name for name in TRAIN_NAMES if _class_folders(root / name)), None)
        if train is None:
            continue
        test = next((root / name for name in TEST_NAMES if _class_folders(root / name)), None)
        if test is None:
            raise DataError(f"{root}: class folders in {train.name}, but none in test, val or validation")
        return ImageFolder(train, test)
    return None


def _class_folders(split: Path) -> list[Path]:
    if not split.is_dir():
        return []
    return sorted(path for path in split.iterdir() if path.is_dir() and _picture_files(path))


def _picture_files(folder: Path) -> list[Path]:
    named = (path for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES and not path.name.startswith("."))
    return sorted(path for path in named if path.is_file())
