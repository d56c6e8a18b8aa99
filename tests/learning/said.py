"""What is said of data sets, and how."""

from headgate.learning.datasets import available

CIFAR_CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def found(name, folder):
    return next(entry for entry in available(folder) if entry.name == name)


def one_line(error, *parts):
    message = str(error.value)
    assert "\n" not in message
    for part in parts:
        assert str(part) in message
