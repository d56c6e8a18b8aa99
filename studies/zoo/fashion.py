"""Fashion-MNIST: a data set that no setting of headgate was ever chosen on."""

from dataclasses import dataclass

from headgate.errors import DataError
from headgate.learning.data import DataSource
from headgate.learning.datasets import (
    Dataset,
    channel_statistics,
    data_folder,
    recognise,
)

FOLDER = "fashion-mnist"
CLASSES = (
    "T-shirt/top", "trouser", "pullover", "dress", "coat",
    "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip


@dataclass(frozen=True)
class Fashion(DataSource):
    """The four idx files in the folder `fashion-mnist` beside the other data sets."""

    def load(self) -> Dataset:
        path = data_folder() / FOLDER
        files = recognise(path) if path.is_dir() else None
        if files is None:
            raise DataError(
                f"{path}: no idx files of Fashion-MNIST; put its four files there"
            )
        train, test = files.read(1, len(CLASSES))
        return Dataset(
            FOLDER,
            train.images,
            train.labels,
            test.images,
            test.labels,
            CLASSES,
            *channel_statistics(train.images),
        )
